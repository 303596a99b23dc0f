words = ["pear", "Fig", "apple", "fig", "Banana"]
print(sorted(words), sorted(words, key=str.lower), sorted(words, key=len), sorted(words, key=len, reverse=True), sorted(words, reverse=True))
pairs = [("b", 2), ("a", 2), ("c", 1)]
print(sorted(pairs, key=lambda p: (p[1], p[0])), sorted(pairs, key=lambda p: p[1], reverse=True), sorted(pairs, key=lambda p: (-p[1], p[0])))
xs = [3, 1, 2]
print(xs.sort(), xs, sorted(xs, key=lambda v: -v), sorted("hello"), sorted({"b": 1, "a": 2}), sorted({3, 1}), sorted((2, 1)))
xs.sort(reverse=True)
print(xs, list(reversed(xs)), sorted([True, 0, 2.5, -1]), sorted([[2, 1], [1, 9], [1]]), sorted([1.5, 1, 0.5]))
d = {"x": 3, "y": 1, "z": 2}
print(sorted(d.items(), key=lambda kv: kv[1]), sorted(d, key=d.get), [k for k, _ in sorted(d.items(), key=lambda kv: kv[1], reverse=True)][:2], dict(sorted(d.items(), key=lambda kv: -kv[1])))
rows = [{"n": "a", "v": 1}, {"n": "b", "v": 1}, {"n": "c", "v": 0}]
rows.sort(key=lambda r: r["v"])
print([r["n"] for r in rows], [r["n"] for r in sorted(rows, key=lambda r: r["v"], reverse=True)])
try:
    sorted([{"a": 1}, {"b": 2}])
except TypeError as e:
    print(e)
try:
    sorted([1], lambda v: v)
except TypeError:
    print("a key is named")
print(sorted([]), max(words, key=len), min(words, key=lambda w: (len(w), w)))
