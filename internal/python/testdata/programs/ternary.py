def grade(score):
    return "good" if score >= 0.8 else "fair" if score >= 0.5 else "poor"
print([grade(s) for s in (0.9, 0.5, 0.1)])
x = None
print(x if x is not None else "none", (1 if [] else 2) + 3, "a" if "" or None else "b")
print([i if i % 2 else -i for i in range(5) if (i > 1 if True else False)])
f = (lambda v: v * 2) if x is None else (lambda v: v)
print(f(4), {"k": 1 if x else 0}, f"{'yes' if x is None else 'no':>5}|")
print((yes := 3) if True else 0, yes)
print(not x if x else x, 1 if 0.0 else 0, [] or {} or "", 0 or None, 1 and "two" and [])
