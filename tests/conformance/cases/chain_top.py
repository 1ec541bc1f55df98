_base_ = 'chain_mid.py'
a = _base_.a + 1
b = dict(x=_base_.b.y, z=dict(_delete_=True, only=1))
lst = _base_.lst + [3]
