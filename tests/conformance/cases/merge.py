_base_ = './_base_/model.py'
model = dict(
    _delete_=False,
    backbone=dict(depth=18, out_indices=(3,)),
    neck=dict(_delete_=True, type='PAFPN', inner=dict(_delete_=True, x=1)),
    roi_head=dict(bbox_head=[dict(type='Only')]),
    train_cfg=5)
data = None
norm = 'text'
img_scale = [1, 2]
new = dict(a=dict(b=dict(c=1)))
_private = 4
__hidden = 5
