_base_ = ['_base_/model.py']
a = 1
b = dict(y=2, z=dict(k=1))
lst = [_base_.img_scale[0], 2]
data_root = 'other/'
