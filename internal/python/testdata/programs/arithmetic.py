print(7 // 2, -7 // 2, 7 % 3, -7 % 3, 7 % -3, 2 ** 10, 2 ** -1, 7 / 2, 1 / 3)
print(10 ** 30, -(10 ** 20) // 7, (10 ** 20) % 7, 2 ** 100 - 2 ** 100)
print(0.1 + 0.2, 1e16, 1e15, 123456789.123, 1e-5, 0.0001, -0.0, 1e100, 100000000.0, 5e-324)
print(7.5 // 2, -7.5 // 2, 7.5 % 2, -7.5 % 2, 1.0 * 3, 3 - 0.5)
print(round(2.5), round(3.5), round(2.675, 2), round(1.005, 2), round(1234.5678, -2), round(15, -1), round(25, -1), round(-2.5))
print(abs(-3), abs(-3.5), divmod(7, 2), divmod(-7.5, 2), pow(2, 8))
print(1 == 1.0, True == 1, True + True, 1 < 2 < 3, 1 < 2 > 3, 3 > 2 >= 2)
print(5 & 3, 5 | 3, 5 ^ 3, ~5, 1 << 10, 1024 >> 3)
print(int("42"), int(" -7 "), int(3.99), int(-3.99), int("ff", 16), float("1.5"), float("inf"), float("-1e3"), int(True))
print(sum([0.1] * 10), sum(range(101)), min(3, 1, 2), max([1, 5, 2]), min("b", "a"))
print(1_000_000, 0xff, 0o17, 0b101, 1.5e3, .5)
x = 5
x += 2
x *= 3
x -= 1
x //= 4
x **= 2
print(x)
a = b = 3
print(a, b)
print(not 0, not [], bool(""), bool("x"), bool(0.0), None is None, 1 is not None)
print(3 if x > 1 else 4, x and "yes" or "no", [] or "empty", 0 and 1)
