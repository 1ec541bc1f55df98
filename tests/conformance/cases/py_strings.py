a = 'a,b,c'.rsplit(',', 1)
b = 'aXbXc'.replace('X', '-', 1)
c = 'abcabc'.find('c', 3)
d = 'x'.center(5, '*') + 'y'.ljust(3, '.') + 'z'.rjust(3)
e = 'l1\nl2\r\nl3'.splitlines()
f = 'prefix_name'.removeprefix('prefix_').removesuffix('me')
g = '%(a)s-%(b)03d' % dict(a='x', b=7)
h = '{0[k]}-{1}'.format(dict(k='v'), 3)
i = '{:>8}|{:<8}|{:^8}|{:+.3e}|{:08.3f}|{:x}|{:#x}|{:b}|{:%}'.format('a', 'b', 'c', 12345.678, 3.14159, 255, 255, 5, 0.25)
j = 'Hello World'.swapcase(), 'hello world'.title(), 'aBC'.capitalize()
k = 'a-b_c'.partition('-'), 'a-b-c'.rpartition('-')
l = 'abc'.isalpha(), 'a1'.isalnum(), '12'.isdecimal(), 'ab c'.isidentifier(), ' '.isspace(), 'AB'.isupper(), 'ab'.islower()
m = 'caf\u00e9'[3], 'caf\u00e9'[::-1], len('caf\u00e9')
n = 'a' 'b' f'{1 + 1}' r'\d' "q'q"
o = f'{"x":>4}|{3.14159:.2f}|{[1, 2][0]}|{dict(a=1)["a"]}|{1 if True else 2}|{{}}'
p = f'{1.0!r} {"s"!r:>6} {None} {True} {(1,)} {1e-7}'
q = 'tab\there \x41 \101  \u4e2d'
r = """multi
line \
joined"""
s = 'abc'.index('c'), 'abcb'.rfind('b'), 'abcb'.rindex('b'), 'aaa'.count('a')
t = ''.join(sorted('hello')), '-'.join(str(x) for x in (1, 2.5, None, True))
u = 'a b  c'.split(), ' a '.split(' '), 'a,b'.split(',', 1), '1.2.3'.split('.', maxsplit=1)
v = 'x'.zfill(3), '-5'.zfill(4), 'abc'.startswith(('x', 'ab')), 'abc'.endswith('bc')
w = 'a'.join('xyz'), 'abc' < 'abd', 'a' in 'abc', 'z' not in 'abc'
x = '{x} {y:>{w}}'.format(x=1, y='q', w=4), '{}{}'.format(*[1, 2]), '{a}'.format(**dict(a=1))
y = "%s %r %5.2f %-5d| %05d %x %o %e %g %%" % ('a', 'b', 3.14159, 42, 42, 255, 8, 12345.678, 0.0001)
z = chr(65), ord('a'), hex(255), oct(8), bin(5), repr('it\'s')
