from mmengine.config import read_base
with read_base():
    from ..base import value
deep_value = value + 1
deep_dict = dict(a=1)
