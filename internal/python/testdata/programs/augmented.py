n = 10
n += 5; print(n)
n -= 3; print(n)
n *= 2; print(n)
n //= 5; print(n)
n **= 3; print(n)
n %= 50; print(n)
n /= 2; print(n)
b = 0b1100
b &= 0b0110; print(b)
b |= 1; print(b)
b ^= 7; print(b)
b <<= 4; print(b)
b >>= 2; print(b)
s = "a"
s += "b" * 2
s *= 2
print(s)
xs = ys = [1]
xs += (2, 3)
print(ys, xs is ys)
xs = xs + [4]
print(ys, xs)
xs *= 2
print(xs)
d = {"n": 1, "l": []}
d["n"] += 1
d["l"] += ["x"]
d |= {"m": 0}
print(d)
t = (1,)
t += (2,)
print(t)
st = {1, 2}
st |= {3}; st -= {1}; st &= {2, 3, 4}; st ^= {2}
print(st)
calls = []
def at():
    calls.append(1)
    return 0
row = [1, 2]
row[at()] += 5
print(row, calls)
try:
    xs += 5
except TypeError as e:
    print(e)
try:
    s -= "b"
except TypeError as e:
    print(e)
try:
    d["none"] += 1
except KeyError as e:
    print("missing", e)
def local():
    try:
        n += 1
    except UnboundLocalError as e:
        print(e)
local()
total = 0.0
for c in (0.1, 0.2, 0.3):
    total += c
print(total, f"{total:.2f}")
