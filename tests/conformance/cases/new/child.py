from mmengine.config import read_base
with read_base():
    from .base import *
    from .base import plain as renamed
    from .sub.deep import deep_value, deep_dict
from torch.optim import AdamW
import torch.nn.functional as F
import mmdet.models as models
from mmdet.models.layers import (ConvModule,
                                 DropPath)
optimizer.merge(dict(_delete_=True, type=AdamW, lr=1e-4))
model.backbone.update(dict(depth=101, extra=dict(t=ConvModule)))
model.update(dict(backbone=dict(norm=dict(type='BN'))))
model.neck[0].out = 256
model.neck.append(dict(type=DropPath, f=F.relu, m=models.Foo.bar))
renamed.append('r')
deep_dict.update(b=2)
n = value * 2 + deep_value
types = dict(a=ConvModule, b=[AdamW, F.gelu], c=models)
del plain
s = [dict(type=t) for t in (ConvModule, DropPath)]
