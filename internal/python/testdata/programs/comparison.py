a, b, c = 1, 2, 3
calls = []
def mid():
    calls.append("mid")
    return 2
print(a < b < c, a < b > c, a < mid() < c, a > mid() > c, calls)
print(1 == 1.0 == True, 0 == False is False, 1 < 2 < 3 < 4 < 3, "a" < "b" <= "b" != "c")
print([1, 2] < [1, 3], (1,) < (1, 0), [] == (), {"a": 1} == {"a": 1.0}, {1, 2} == {2, 1}, {1} < {1, 2}, {1, 2} >= {2})
print(None is None, None is not None, x is y if (x := []) is (y := x) else "differs", [] is [])
z = x
z.append(1)
print(x is z, x == [1], x is not [1], True is True, (1 == 1) is True)
print("a" in "cat", "x" not in ["x"], 1 in {1: 2}, 2 in {1: 2}, (1, 2) in [(1, 2)], "" in "abc", 3 not in range(5), 2.0 in [1, 2])
for left, right in ((1, "a"), ([], {}), (None, 0), ({}, {})):
    try:
        print(left < right)
    except TypeError as e:
        print(e)
print(not 1 == 2, not (a < b) == True, -1 < 0 < 1, 0.1 + 0.2 == 0.3, float("inf") > 10 ** 100, float("nan") == float("nan"))
print(1 < 3 in [3, 4], "a" == "a" in ["a"])
