def fact(n):
    return 1 if n <= 1 else n * fact(n - 1)

def greet(name, greeting="Hello", *rest, punct="!", **more):
    """Docstring."""
    return f"{greeting}, {name}{punct} {rest} {sorted(more.items())}"

print(fact(20), fact(30))
print(greet("a"), greet("b", "Hi", 1, 2, punct="?", z=1, y=2), greet(*["c"], **{"greeting": "Yo"}))
total = 0
for i in range(10):
    if i == 3:
        continue
    if i == 7:
        break
    total += i
else:
    print("never")
for i in []:
    pass
else:
    print("else ran", total)
n = 0
while n < 5:
    n += 1
    if n == 4:
        break
else:
    print("no")
print(n)

def counter():
    count = 0
    def inc(by=1):
        nonlocal count
        count += by
        return count
    return inc

c = counter()
print(c(), c(5), c())
fns = [lambda x, k=k: x * k for k in range(3)]
print([f(10) for f in fns])
seen = []
def rec(x):
    global total
    total = total + 1
    seen.append(x)
    return x
print(rec(1) or rec(2), rec(0) and rec(3), total, seen)
def f(x):
    if x > 10:
        return "big"
    elif x > 5:
        return "mid"
    else:
        return "small"
print(f(1), f(6), f(11), f(0) if not seen else "seen")
try:
    {}["missing"]
except KeyError as e:
    print("key", e, repr(e), e.args)
try:
    [1][5]
except (KeyError, IndexError) as e:
    print(type(e) is IndexError, e)
try:
    1 / 0
except ZeroDivisionError as e:
    print(e)
else:
    print("no")
finally:
    print("finally")
def risky(v):
    try:
        if v == 1:
            raise ValueError("one")
        if v == 2:
            return "returned"
        int("x")
    except ValueError as err:
        return f"caught {err}"
    finally:
        seen.append(v)
    return "end"
print(risky(1), risky(2), risky(3), seen[-3:])
try:
    try:
        raise RuntimeError("inner")
    except RuntimeError:
        raise
except Exception as e:
    print("outer", e)
for bad in ["'a' + 1", "len(5)", "None + 1", "undefined_name", "'abc'.nope", "int('x')", "[] < 3", "{}.foo", "f()", "f(1, 2)", "f(y=1)", "'%d' % 'a'", "[1, 2, 3].index(9)"]:
    def run(b=bad):
        if b == "'a' + 1": return 'a' + 1
        if b == "len(5)": return len(5)
        if b == "None + 1": return None + 1
        if b == "undefined_name": return undefined_name
        if b == "'abc'.nope": return 'abc'.nope
        if b == "int('x')": return int('x')
        if b == "[] < 3": return [] < 3
        if b == "{}.foo": return {}.foo
        if b == "f()": return f()
        if b == "f(1, 2)": return f(1, 2)
        if b == "f(y=1)": return f(y=1)
        if b == "'%d' % 'a'": return '%d' % 'a'
        return [1, 2, 3].index(9)
    try:
        run()
    except Exception as e:
        print(type(e) == TypeError, e)
a, b = 1, 2
a, b = b, a
print(a, b, (y := 5) + 1, y)
x: int = 3
print(x, [i for i in range(3)], i)
assert x == 3, "no"
try:
    assert x == 4, "x is not 4"
except AssertionError as e:
    print("assert:", e)
if __name__ == "__main__":
    print("main")
def gen_any(values):
    calls = []
    def check(v):
        calls.append(v)
        return v > 1
    return any(check(v) for v in values), calls
print(gen_any([1, 2, 3]))
print(*[1, 2], sep="-", end=".\n")
print()
def unbound():
    print(q)
    q = 1
try:
    unbound()
except UnboundLocalError as e:
    print(e)
z = [1, 2, 3]
for item in z:
    if item < 3 and len(z) < 5:
        z.append(item * 10)
print(z); w = 1; print(w)
