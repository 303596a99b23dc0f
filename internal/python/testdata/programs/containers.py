xs = [3, 1, 2]
xs.append(5)
xs.extend([4, 4])
xs.insert(0, 9)
print(xs, len(xs), xs.index(5), xs.count(4), xs.pop(), xs.pop(0), xs)
xs.sort()
print(xs, sorted(xs, reverse=True), sorted(["bb", "a", "ccc"], key=len), sorted([(2, "b"), (1, "z"), (2, "a")]))
xs.reverse()
xs.remove(3)
print(xs, xs[1:], xs[:-1], xs[::-1], xs * 2, [0] * 3, xs + [7], 5 in xs, 99 not in xs)
xs[0] = "first"
xs[1:2] = [10, 11]
del xs[-1]
print(xs, [1, 2] == [1, 2], [1, 2] < [1, 3], (1, 2) < (1, 2, 3))
d = {"a": 1, "b": {"c": [1, 2]}}
d["z"] = 26
print(d, d.get("q"), d.get("q", 0), d["b"]["c"][1], "a" in d, len(d), list(d), list(d.keys()), list(d.values()), list(d.items()))
print(d.pop("a"), d.pop("nope", "dflt"), d.setdefault("n", []), d)
d["n"].append(1)
d.update({"z": 27, "y": 1}, k=2)
print(d, {**d, "z": 0}, dict(a=1, b=2), dict([("x", 1)]), {k: v for k, v in [("m", 1)]}, dict.fromkeys(["p", "q"], 0))
for k, v in d.items():
    print(k, v)
a, (b, *c), e = 1, (2, 3, 4), 5
print(a, b, c, e)
first, *rest = [1, 2, 3]
print(first, rest, [*rest, *(8, 9)], (1,), (), [[]])
print([x * y for x in range(3) for y in range(3) if x != y], [[j for j in range(i)] for i in range(4)], {x % 3 for x in range(3)} == {0, 1, 2}, {c: i for i, c in enumerate("ab")})
print(sum(x * x for x in range(5)), any(x > 3 for x in range(5)), all(x < 3 for x in range(5)), max((len(w), w) for w in ["a", "bbb", "cc"]), ", ".join(str(i) for i in range(3)))
print(list(zip([1, 2, 3], "ab")), list(enumerate(["x", "y"], start=1)), list(map(lambda v: v + 1, [1, 2])), list(filter(None, [0, 1, "", "a"])), list(reversed([1, 2])), list(range(10, 0, -3)))
print(min([3, 1], key=lambda v: -v), max([], default="none"), max({"a": 3, "b": 9}.items(), key=lambda kv: kv[1]))
s = {1, 2}
s.add(3)
s.discard(9)
print(len(s), s | {4} == {1, 2, 3, 4}, s & {1}, s - {1, 2}, s ^ {3, 4} == {1, 2, 4}, s <= {1, 2, 3}, set() == set([]), {1}.issubset(s))
nested = {"rows": [{"v": 1}, {"v": 2}]}
print([r["v"] for r in nested.get("rows", [])], nested["rows"][-1]["v"], nested["rows"][0].get("w", {}).get("x", 0.0))
nested["rows"][0]["v"] += 10
print(nested, isinstance(nested, dict), isinstance([], (list, tuple)), isinstance(True, int), isinstance("a", str), isinstance(1.0, int))
m = [[1, 2], [3, 4]]
print([list(r) for r in zip(*m)], [x for row in m for x in row], sum(m, []))
l = [1, 2, 3]
alias = l
alias.append(4)
copy = l.copy()
copy.append(5)
print(l, copy, l is alias, l is copy, l == copy[:-1])
del d["k"]
print("k" in d, None in [None], [1, [2, [3]]], (1, 2) + (3,), tuple([1]), {"a": [1, {"b": None}]})
it = iter([1, 2])
print(next(it), next(it), next(it, "end"))
print(1 in range(0, 10, 3), 3 in range(0, 10, 3), len(range(0, 10, 3)), range(3))
