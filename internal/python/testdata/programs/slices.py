xs = list(range(10))
print(xs[2:5], xs[:3], xs[7:], xs[::3], xs[::-1], xs[-3:], xs[:-7], xs[8:2:-2], xs[100:], xs[-100:2])
s = "workflow"
print(s[1:4], s[::-1], s[-1], s[:0] == "", s[3:][:2])
t = (1, 2, 3, 4)
print(t[1:], t[::-2], t[5:], t[:1])
ys = xs[:]
ys[2:5] = ["a", "b"]
print(ys, len(xs))
ys[:0] = [-1]
ys[len(ys):] = [99]
print(ys)
del ys[1:4]
print(ys)
ys[::2] = [0] * len(ys[::2])
print(ys)
try:
    ys[::2] = [1]
except ValueError as e:
    print(e)
i, j = 2, None
print(xs[i:j], xs[None:None:4], xs[slice(1, 8, 3)] if False else xs[1:8:3])
try:
    xs[::0]
except ValueError as e:
    print(e)
try:
    xs["a"]
except TypeError as e:
    print(e)
matrix = [[r * 3 + c for c in range(3)] for r in range(3)]
print([row[::-1] for row in matrix[::-1]], matrix[1][1:], matrix[-1][-1])
