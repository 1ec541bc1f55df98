_base_ = ['plain.yaml', 'other.yaml']
c = dict(d=_base_.c.d + '!', extra=(1, 2))
other = dict(k=_base_.other.k + ['c'])
