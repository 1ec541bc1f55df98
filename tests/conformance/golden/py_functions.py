import copy
import math
import os.path as osp
from math import sqrt, pi
from copy import deepcopy as dc


def block(name, *args, width=64, **kwargs):
    """Doc."""
    out = dict(name=name, args=list(args), width=width)
    out.update(kwargs)
    return out


def fact(n):
    return 1 if n <= 1 else n * fact(n - 1)


def outer(k):
    total = []
    def inner(v):
        total.append(v * k)
        return total
    inner(1)
    return inner(2)


def early(x):
    for i in range(10):
        if i == x:
            return i
    else:
        return None


a = block('a', 1, 2, depth=3)
b = block(*['b'], **dict(width=1))
c = fact(10)
d = outer(5)
e = early(3), early(30)
f = (lambda x, y=2, *z: [x, y, list(z)])(1, 5, 6)
g = math.ceil(2.1), math.floor(-2.1), sqrt(16), math.log(8, 2), math.log10(1000), math.pow(2, 3), round(pi, 4), math.prod([2, 3]), math.gcd(12, 18), math.inf > 1, math.hypot(3, 4), math.fabs(-2), math.trunc(2.7), math.isnan(math.nan), round(math.e, 3), round(math.tan(1), 6), round(math.atan2(1, 2), 6), math.factorial(5), math.radians(180) == pi
h = osp.join('a', 'b', '/c', 'd'), osp.basename('x/y.z'), osp.splitext('a/b.tar.gz'), osp.dirname('/a/b'), osp.normpath('a/../b/./c'), osp.isabs('/a')
m1 = dict(a=[1]); m2 = copy.copy(m1); m3 = dc(m1); m1['a'].append(2)
i = hasattr('x', 'upper'), hasattr(dict(), 'nothing'), getattr('x', 'nothing', 5), getattr('x', 'upper')(), callable(len)
n = 0
while True:
    n += 3
    if n > 10:
        break
    if n % 2:
        continue
x: int = 5
y = z = []
z.append(1)
if x > 3 and not n < 0: w = 'one line'
elif x: w = 'two'
else: w = 'three'
assert x == 5, 'never'
q = [fn(2) for fn in [lambda v, k=k: v * k for k in range(3)]]
r = [fn() for fn in [lambda: k2 for k2 in range(3)]]
counter = 0
def bump():
    global counter
    counter += 1
    return counter
s = bump(), bump()
if (t := len('abc')) > 2: u = t
pass; v = 1; pass
del n, x
