_base_ = ['./a.py']
root = 'data/{{fileBasenameNoExtension}}/'
pipe = [dict(type='A', scale=(1333, 800)), dict(type='B', **_base_.model)]
x = {{_base_.root}}
for i, (a, b) in enumerate(zip(range(3), [1, 2, 3])):
    pipe.append(dict(n=i * a // b))
y = [f'{v:02d}' for v in range(3) if v != 1][::-1]
_base_.model.update(dict(a=[1], lr=2e-3))
def f(a, b=2): return a if b else -a
z = f(1, b=None) ** 2 + len(y) % 3
del pipe[0]
