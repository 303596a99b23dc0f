a, b = 1, 2
a, b = b, a
(c, d), e = (3, 4), 5
[f, g] = [6, 7]
print(a, b, c, d, e, f, g)
first, *rest = [1, 2, 3]
*init, last = "abc"
head, *mid, tail = range(5)
print(first, rest, init, last, head, mid, tail)
only, *none = [1]
print(only, none)
for i, (k, v) in enumerate({"x": 1, "y": 2}.items()):
    print(i, k, v)
for n, *more in [(1, 2, 3), (4,)]:
    print(n, more)
x = y = [0]
x.append(1)
print(y, x is y)
def pair():
    return 1, "two"
p, q = pair()
print(p, q, pair(), type(pair()) is tuple, (1,), ())
for bad in ([1], [1, 2, 3], 5):
    try:
        m, n = bad
    except (ValueError, TypeError) as e:
        print(e)
try:
    m, *n, o = [1]
except ValueError as e:
    print(e)
s = {"k": [1, 2]}
s["k"][0], s["new"] = 9, 8
print(s, [a + b for a, b in [(1, 2), (3, 4)]], {k: v for k, v in zip("ab", (1, 2))})
print(*(1, 2), *[3], sep=",")
def opt(a, b=2, *c, d=4, **e):
    return a, b, c, d, e
print(opt(1), opt(*[1, 2, 3], **{"d": 5, "z": 6}), opt(b=1, a=0))
t = 1, 2, 3
print(t + (4,), t * 2, t[0], len(t), t.index(2), t.count(3), 2 in t)
