from mmengine.config import read_base
with read_base():
    from .child import *
model.backbone.depth = 18
optimizer.lr = 5
added = dict(m=model.backbone.depth, o=optimizer['lr'])
