d = {"b": 1, "a": 2}
print(d.get("x"), d.get("x", 0), d.get("a"), d.setdefault("c", []), d.setdefault("a", 9), d)
d["c"].append(1)
print(d.pop("b"), d.pop("zz", None), d, list(d), list(d.keys()), list(d.values()), list(d.items()))
d.update({"a": 3}, e=4)
d.update([("f", 5)])
print(d, len(d), "a" in d, d.copy() == d, d.popitem(), bool({}), d | {"a": 0})
print(dict(a=1, b=2), dict([("x", 1)]), dict({"y": 2}, z=3), dict.fromkeys(["p", "q"], 0), {**d, "n": None})
del d["c"]
print(d, {k: v for k, v in sorted(d.items())}, {v: k for k, v in d.items()}, max(d, key=d.get), sum(d.values()))
for bad in (lambda: d["no"], lambda: d.pop("no"), lambda: {}.popitem(), lambda: {[]: 1}, lambda: dict([1]), lambda: {{}: 1}):
    try:
        bad()
    except Exception as e:
        print(e)
print({1: "int", 1.0: "float", True: "bool"}, {(1, 2): "t"}[(1, 2)], {None: 0}, {"a": {"b": {"c": 1}}}["a"]["b"]["c"])
counts = {}
for w in "the cat the dog the end".split():
    counts[w] = counts.get(w, 0) + 1
print(counts, sorted(counts.items(), key=lambda kv: (-kv[1], kv[0])))
groups = {}
for w in ["apple", "avocado", "bean"]:
    groups.setdefault(w[0], []).append(w)
print(groups, list(reversed(d)), d.clear(), d)
print({"a": 1} == {"a": 1}, {"a": 1, "b": 2} == {"b": 2, "a": 1}, str({"a": [1, {"b": (2,)}]}), repr({"q": "it's"}), d.get(1))
print(("x", 1) in {"x": 1}.items())
