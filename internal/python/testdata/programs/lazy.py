# A value of a generator is made when it is asked for, and not before: it may
# be the answer of an agent.
def ask(x):
    print("asked", x)
    return x

g = (ask(x) for x in [1, 2, 3])
print(next(g))
print(next(g), "and no more for now")
for x in g:
    print("left", x)
print(next(g, "none"))
print(next((r for r in (ask(n) for n in range(5)) if r > 1), None))
m = map(ask, "ab")
print(next(m))
print(next(filter(lambda x: x > 1, map(ask, [1, 2, 3]))))
print(any(ask(x) for x in [0, 1, 2]), all(ask(x) for x in [1, 0, 1]), 2 in (ask(x) for x in [1, 2, 3]))
e = enumerate(ask(x) for x in "xy")
print(next(e))
z = zip((ask(x) for x in "ab"), (ask(x) for x in [1]))
print(next(z))
print(list(z))

# What a loop leaves is still there.
it = iter([1, 2, 3, 4])
for x in it:
    if x == 2:
        break
print(list(it), list(it))
it = iter("abcdef")
for a in it:
    print(a, next(it))
it = iter([1, 2, 3, 4, 5])
print(list(zip(it, it)))
print([(a, b) for a in range(3) for b in range(a) if a + b != 2])
try:
    (x for x in 5)
except TypeError as err:
    print(err)
try:
    1 in (len(x) for x in [5])
except TypeError as err:
    print(err)
try:
    list(zip([1], [2, 3], strict=True))
except ValueError as err:
    print(err)
try:
    list(zip([1, 2], [3, 4], [5], strict=True))
except ValueError as err:
    print(err)
g = (1 // x for x in [1, 0, 1])
print(next(g))
try:
    next(g)
except ZeroDivisionError as err:
    print("divided by zero", list(g))
g = (next(g) for x in [1, 2])
try:
    next(g)
except ValueError as err:
    print(err)
