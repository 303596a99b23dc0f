# keys, values and items show the dict as it is now.
d = {"a": 1, "b": 2}
print(d.keys(), d.values(), d.items(), {}.keys())
keys, items = d.keys(), d.items()
d["c"] = 3
print(list(keys), len(items), "c" in keys, ("c", 3) in items, 3 in d.values(), bool({}.items()))
print(keys == {"a", "b", "c"}, keys & {"a"}, keys - {"a", "b"}, sorted(keys | {"z"}), {"a"} <= keys, keys == {"c": 0, "b": 0, "a": 0}.keys())
print(d.values() == d.values(), isinstance(keys, list), list(reversed(keys)))
for change in [lambda: d.update(x=1), lambda: d.pop("x")]:
    try:
        for k, v in d.items():
            change()
    except RuntimeError as err:
        print(err)
try:
    keys[0]
except TypeError as err:
    print(err)
print(dict(d.items()) == d, [*d.values()], sorted(d.items(), key=lambda kv: -kv[1])[0], max(d.values()), ",".join(keys))

# Equal keys are one key.
print({frozenset([1, 2]): "set"}[frozenset([2, 1])], {range(3): "range"}[range(0, 3, 1)], {1e20: "float"}[10**20], {2.0**62: "large"}[2**62])
print(range(0) == range(1, 1), range(0, 3, 2) == range(0, 4, 2), frozenset([1]) in {frozenset([1.0])})
