from torch.optim import SGD
from torch import nn
import numpy as np
from mmengine.config import read_base
from mmdet.models import ResNet, FPN
optimizer = dict(type=SGD, lr=0.1, paramwise=dict(custom=dict(a=dict(lr_mult=0.1))))
model = dict(type='Det', backbone=dict(type=ResNet, depth=50, act=nn.ReLU), neck=[dict(type=FPN), dict(type=nn.Identity)])
plain = [1, 2, dict(a=1)]
_under = 1
value = 3
