print(sum([]), sum([1, 2.5]), sum([[1], [2]], []), sum((True, True)), sum(range(101)), sum([1], 10), sum([1, 2], start=5))
print(round(2.5), round(3.5), round(-2.5), round(2.675, 2), round(1234.5678, -2), round(1234, -2), round(5), round(0.5), round(1.25, 1), round(1e16, 2), round(-0.04, 1))
print(type(round(2.0)) is int, type(round(2.0, 0)) is float, round(12.0), round(True), round(1.005, 2), round(99.995, 2))
print(min(3, 1, 2), max([4, 9, 2]), min("b", "a"), max("abc"), min([[2], [1, 5]]), max(1, 2.0), max(2, 2.0), min(2.0, 2), max([1, 5, 3], key=lambda v: -v), min([], default=0))
for bad in (lambda: max(1, "a"), lambda: sum(["a"]), lambda: round("a"), lambda: sorted([1, "a"]), lambda: int("1.5"), lambda: float("x"), lambda: abs("a"), lambda: min(1)):
    try:
        print(bad())
    except Exception as e:
        print(e)
print(abs(-3), abs(-2.5), divmod(17, 5), divmod(-17, 5), -17 // 5, -17 % 5, 17 % -5, 7.5 // 2, -7.5 % 2, 2 ** 10, 2 ** -1, 2 ** 0.5, pow(3, 4), pow(3, 4, 5))
print(int("42"), int(" -7 "), int(3.99), int(-3.99), int("ff", 16), int(True), float("1e3"), float(" 2.5 "), float("inf"), -float("inf"), bool("0"), bool(0.0))
print(1e16, 1e15, 123456789012345678, 1.0, 100000000.0, 1e-5, 0.0001, 1e22, 1.5e300, -0.0, 3.0e-10, 0.1 + 0.2, 1 / 3, 2 / 1, 10 ** 20, 7 / 2)
print(1_000_000, 0x1F, 0b101, 0o17, 5 & 3, 5 | 3, 5 ^ 3, ~5, 1 << 10, 1024 >> 3, -1 >> 1, True + True, 3 * True)
print(isinstance(1, int), isinstance(True, int), isinstance(1, bool), isinstance(1.0, (int, float)), isinstance("a", str), isinstance([], list), isinstance({}, dict), isinstance((), (list, tuple)), isinstance(None, str), isinstance({1}, set), isinstance(1, float))
print(len("é😀"), ord("a"), chr(233), hex(255), bin(5), oct(8), str(1.0), repr(1.5), str(None), str(True), repr("it's"), repr('a"b\'c'))
