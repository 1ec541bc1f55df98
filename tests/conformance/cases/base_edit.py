_base_ = ['./_base_/model.py', './_base_/schedule.py']
head = _base_.model.roi_head.bbox_head
head[0].num_classes = 5
head[1].update(dict(num_classes=6, extra=dict(a=1)))
_base_.model.roi_head.bbox_head[-1]['num_classes'] = 7
_base_.model.backbone.depth = 101
_base_.model.neck.in_channels[0] = 64
_base_.train_pipeline.insert(1, dict(type='Inserted'))
_base_.train_pipeline[2].scale = (640, 640)
_base_.optimizer.pop('momentum')
del _base_.lr_config.policy
model = dict(neck=dict(num_outs=_base_.model.neck.num_outs + 1), backbone=dict(init_cfg=dict(_delete_=True, type='None')))
data = dict(train=dict(pipeline=_base_.train_pipeline[1:], root=_base_.data_root))
total = _base_.max_epochs * 2
ph = {{_base_.model.backbone.depth}}
ph3 = [{{_base_.img_scale}}, {{ _base_.optimizer.lr }}]
ph4 = dict(a={{_base_.train_pipeline}}, b=_base_.data_root + 'y')
