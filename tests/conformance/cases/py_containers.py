a = [x * y for x in range(4) if x % 2 for y in (1, 2)]
b = {k: v for k, v in zip('abc', range(3))}
c = {**b, 'd': 4, **dict(e=5)}
d = [*range(3), *(4, 5), *'ab']
e, *f = [1, 2, 3]
*g, h = 'xyz'
(i, (j, k)) = 1, (2, 3)
l = list(range(10))[2:8:2], list(range(10))[::-3], (1, 2, 3)[-2:], [1, 2, 3][5:], [1, 2, 3][-100:2]
m = [1, 2, 3, 4, 5]
m[1:3] = ['x']
m[::2] = [7, 8]
del m[0]
n = list(range(6)); del n[::2]
o = dict(a=1); o |= dict(b=2); o2 = o | {'c': 3}
p = sorted({3, 1, 2}), sorted(dict(b=1, a=2)), sorted(['b', 'A'], key=str.lower), sorted([(2, 'a'), (1, 'b')], key=lambda t: t[0], reverse=True)
q = list(map(str, [1, 2])), list(filter(None, [0, 1, '', 'a'])), list(zip([1, 2], 'ab')), list(enumerate('ab', start=1)), list(reversed([1, 2]))
r = sorted({1, 2, 3} & {2, 3, 4}), sorted({1, 2} | {3}), sorted({1, 2, 3} - {2}), sorted({1, 2} ^ {2, 3}), {1} <= {1, 2}
s = dict([('a', 1), ('b', 2)]), dict(zip(['x', 'y'], [1, 2])), dict(dict(a=1), b=2), dict.fromkeys(['a', 'b'], 0)
t = [[0] * 3 for _ in range(2)]; t[0][1] = 5
u = [[0] * 2] * 2; u[0][0] = 9
v = dict(a=[1, 2]); w = v; w['a'].append(3); w['b'] = v['a']
x = {1: 'int', 2.5: 'float', True: 'bool', None: 'none', (1, 2): 'tuple'}
y = dict(a=1, b=2); y.pop('a'); y.setdefault('c', []).append(1); y.update(d=4); y.update([('e', 5)]); z = list(y.items()), list(y.keys()), list(y.values()), y.get('zz', 'def'), 'd' in y
aa = [1, 2, 3]; aa.insert(0, 0); aa.extend((4, 5)); aa.remove(3); bb = aa.pop(), aa.pop(0), aa.index(2), aa.count(1), aa.copy(); aa.reverse(); aa += [9]; aa *= 2
cc = any(x > 2 for x in [1, 2, 3]), all([]), sum(x for x in range(5)), max((1, 5, 3), key=lambda q: -q), min([], default=None), len({1, 1, 2})
dd = [i for i in range(3)], {i % 2 for i in range(5)} == {0, 1}, tuple(i for i in range(2)), [[j for j in range(i)] for i in range(3)], {i: {j: i * j for j in range(2)} for i in range(2)}
ee = [a for a in [1, 2]] + [b for b in ('x',)]
ff = (1,) + (2, 3), [1] * 0, () == tuple(), (1) == 1
gg = 'yes' if 'a' in dict(a=1) and 1 not in [2, 3] else 'no'
hh = [dict(type=t, **kw) for t, kw in [('A', dict(x=1)), ('B', dict(y=2))]]
