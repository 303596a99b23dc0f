# Places in the list that is read, and lists that others have, too.
l = [1, 2]
l[1], l[0] = l
print(l)
l = [1, 2, 3, 4]
l[::-1] = l
print(l)
l[1:1] = "ab"
del l[::2]
print(l)
l = list(range(8))
del l[1:6:2], l[-1:]
print(l)
l[0:2] += [7, 8]
print(l)
a = b = [1]
a *= 3
a += "xy"
print(b, a is b)
s = t = {1, 2}
s |= {3}
s -= {1}
s &= {3, 4}
print(t, s is t)
print("a\r\nb".splitlines(True), "a\rb\vc\x1cd\u2028e\n".splitlines(), len("\r\n"), f"\r\n{1}" == "\x0d\x0a1")
print("a\x1cb\u3000c".split(), "\x1ca".strip(), "\x1f".isspace())
