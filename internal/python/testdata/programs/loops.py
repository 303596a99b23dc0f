n, steps = 27, 0
while n != 1:
    n = n // 2 if n % 2 == 0 else 3 * n + 1
    steps += 1
print(steps)
queue, seen = ["a"], []
graph = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}
while queue:
    node = queue.pop(0)
    if node in seen:
        continue
    seen.append(node)
    queue.extend(graph[node])
print(seen)
i = 0
while i < 3:
    i += 1
else:
    print("done", i)
for i in range(5, 0, -2):
    for j in range(i):
        if j == 2:
            break
    else:
        print("short", i)
        continue
    print("long", i, j)
for ch in "ab":
    print(ch, end=" ")
print()
for k in {"x": 1, "y": 2}:
    print(k, end=";")
print()
d = {"a": 1}
try:
    for k in d:
        d[k + "b"] = 1
except RuntimeError as e:
    print(e)
for pair in zip([1, 2, 3], "ab"):
    print(pair)
total = 0
while (total := total + 3) < 10:
    pass
print(total, list(range(0)), list(range(3, 9, 3)), range(3), len(range(1, 10, 2)), 5 in range(0, 10, 5), range(10)[2:4] == range(2, 4))
for _ in range(2): total -= 1
print(total)
while True:
    if total > 12: break
    total += 1
print(total)
