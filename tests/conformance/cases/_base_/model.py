data_root = 'data/coco/'
img_scale = (1333, 800)
norm = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True)
model = dict(
    type='FasterRCNN',
    backbone=dict(type='ResNet', depth=50, out_indices=(0, 1, 2, 3), init_cfg=dict(type='Pretrained', checkpoint='torchvision://resnet50')),
    neck=dict(type='FPN', in_channels=[256, 512, 1024, 2048], out_channels=256, num_outs=5),
    roi_head=dict(bbox_head=[dict(type='H', num_classes=80, reg=[0.1, 0.2]), dict(type='H', num_classes=80), dict(type='H', num_classes=80)]),
    train_cfg=None)
train_pipeline = [dict(type='Load'), dict(type='Resize', scale=img_scale, keep_ratio=True), dict(type='Flip', prob=0.5), dict(type='Norm', **norm)]
data = dict(train=dict(ann=data_root + 'annotations/train.json', pipeline=train_pipeline), workers=2)
_private = 3
