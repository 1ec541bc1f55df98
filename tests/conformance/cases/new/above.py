from mmengine.config import read_base

# What the base sets is there before the first statement: this wins.
lr = 5

with read_base():
    from .base import *
