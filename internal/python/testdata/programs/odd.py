# Small differences that are easy to miss.
def tell(f):
    try:
        print(repr(f()))
    except Exception as err:
        print(repr(err))

for f in [
    lambda: [int("1_000"), int("0x_f", 16), float("1_0.5")],
    lambda: int("1__0"), lambda: int("_1"), lambda: int("1_"), lambda: float("1_"), lambda: float("1__0"), lambda: float("_1"),
    lambda: int(12, 8), lambda: float("0x10"), lambda: float("1p4"),
    lambda: [format(1.0, ".1"), format(10.0, ".2"), format(0.0, ".1"), format(0.0, ".3"), format(0.0, "#g"), format(12.5, ".3")],
    lambda: format("x", "+"), lambda: format("x", ","),
    lambda: "%.3d|%5.3d|%-6.2d|%+.3d|%05.3d|%#.4x" % (5, 5, -3, 7, 9, 255),
    lambda: "%a %c%3c" % ("é", 65, "b"), lambda: "%c" % "ab", lambda: "abc" % [], lambda: "abc" % 1,
    lambda: "{} {0}".format(1), lambda: "{0} {}".format(1), lambda: "{0!x}".format(1),
    lambda: ["abc".startswith("b", 1), "abc".endswith("b", 0, 2), "abc".startswith("", 4), "abc".find("", 4), "abc".find("", 3), "abc".count("", 4)],
    lambda: ([1, 2, 3, 2].index(2, 2), (1, 2, 1).index(1, -1)), lambda: [1, 2].index(1, 1),
    lambda: (1e300).is_integer(), lambda: 10.0**400, lambda: float("-inf") ** 0.5,
    lambda: "abc"["a"], lambda: [1].pop("a"), lambda: set().pop(), lambda: {5}.pop(),
    lambda: [isinstance(1, int | str), isinstance(None, int | None), isinstance("a", int | float), int | None], lambda: int | 1,
    lambda: "straße".casefold(),
]:
    tell(f)

import math
for f in [
    lambda: math.isclose(1, 1.1, rel_tol=0.2), lambda: math.isclose(0, 1e-10), lambda: math.isclose(0, 1e-10, abs_tol=1e-9),
    lambda: math.exp(1000), lambda: math.pow(10, 400), lambda: math.pow(0, -1), lambda: math.pow(-1, 0.5), lambda: math.log(10, 1), lambda: math.log(2, -1),
    lambda: math.sqrt(math.nan), lambda: math.sqrt(-1), lambda: math.nope,
]:
    try:  # the words differ between versions
        print(f())
    except (ValueError, OverflowError, ZeroDivisionError, AttributeError) as err:
        print([kind for kind in (ValueError, OverflowError, ZeroDivisionError, AttributeError) if isinstance(err, kind)])
