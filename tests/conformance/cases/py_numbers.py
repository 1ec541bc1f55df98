a = [0x1F, 0o17, 0b101, 1_000_000, 1e3, 1E-3, .5, 5., 1_0.0_1e1_0]
b = [7 // 2, -7 // 2, 7 % -3, -7 % 3, 7.5 // 2, -7.5 % 2, 2 ** 10, 2 ** -1, (-2) ** 3, -2 ** 2]
c = [1 / 3, 10 / 5, 1e16, 1e15, 123456789012345680.0, 1e-4, 1e-5, 0.1 + 0.2, 1e22, 1e300 * 1e10]
d = [round(2.5), round(-0.5), round(1.005, 2), round(12345, -2), round(2.675, 2)]
e = [int('12'), int(' -3 '), int('ff', 16), int(3.99), int(-3.99), float('1e-3'), float('inf'), float('-inf')]
f = [abs(-3), abs(-2.5), max(1, 2.5), min([3, 1]), max('a', 'b'), sum([0.1] * 10), sum([[1], [2]], []), divmod(17, 5), divmod(-7, 2), pow(2, 10)]
g = [1 << 10, 1024 >> 3, 6 & 3, 6 | 3, 6 ^ 3, ~5, not 5, True + True, True * 3, False == 0]
h = [1 < 2 < 3, 1 < 3 < 2, 1 == 1.0, 1 is None, None is None, 3 != 4, [1] == [1], (1, 2) < (1, 3), [] or 'd', 0 and 1, 5 and 6]
i = [10 ** 15, 10 ** 18, 9223372036854775807, -9223372036854775808, 18446744073709551615]
j = 1 if a else 2
k = bool([]), bool('0'), bool(0.0), bool([0])
l = float(3), int(True)
m = -0.0, +5, --5, - -5.5
n = 3 if 0 else 4 if 1 else 5
o = 1e400, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308
p = 0.1 + 0.7, 4.35 * 100, 1.1 * 3, 1 - 0.9
q = isinstance(1, int), isinstance(True, int), isinstance(1.0, (int, float)), isinstance('a', str), isinstance([], (list, tuple)), isinstance(dict(), dict), type(1) == int
