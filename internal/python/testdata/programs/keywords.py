# Arguments with names keep the order of the call.
def show(*args, **kw):
    print(args, kw)

show(1, z=1, a=2, **{"m": 3, "b": 4})
print(dict(z=1, a=2, m=3), dict({"q": 1}, c=2, b=3))
d = {"x": 1}
d.update(z=1, a=2)
print(d)
import json
print(json.dumps(dict(name="n", age=1)))
print(json.dumps({"s": {1}, "t": (1, 2)}, default=sorted), json.dumps([1], indent=True))

def f(a, b=2, *, c, d=4):
    return a, b, c, d

for call in [lambda: f(1, c=3), lambda: f(), lambda: f(1), lambda: f(1, c=3, e=5, z=6), lambda: f(1, 2, 3), lambda: f(1, a=1, c=2), lambda: max(1, 2, default=3), lambda: print(sep=1)]:
    try:
        print(call())
    except TypeError as err:
        print(err)
