xs = [3, 1]
print(xs.append(2), xs, xs.extend([5, 1]), xs, xs.insert(0, "first"), xs, xs.insert(-1, "late"), xs)
print(xs.pop(), xs.pop(0), xs, xs.remove(1), xs, xs.index(2), xs.count(3), xs.copy(), xs.reverse(), xs)
xs.clear()
print(xs, [1] * 3, [[]] * 2, [1] + [2], [1, 2] == [1, 2], 2 in [1, 2], len([[], []]))
for bad in (lambda: [].pop(), lambda: [1].pop(5), lambda: [1].remove(2), lambda: [1].index(2), lambda: [1][1], lambda: [1] + (2,), lambda: [1]["a"], lambda: [].nope, lambda: [1] * "a"):
    try:
        bad()
    except Exception as e:
        print(e)
nested = [[0] * 2 for _ in range(2)]
nested[0][1] = 5
shared = [[0] * 2] * 2
shared[0][1] = 5
print(nested, shared, list("abc"), list({"k": 1}), list((1, 2)), [None, True, 1.0, "s", (1,), {2}, {}])
ys = [1, 2, 3, 4]
ys[1], ys[-1] = ys[-1], ys[1]
del ys[0]
print(ys, [y for y in ys if y != 3], ys[::-1], sorted(ys), ys, [1, [2, [3]]], str([]), repr(["a'b", 'c"d', "e\n"]))
it = iter([1, 2])
print(next(it), next(it), next(it, "end"), list(zip(*[[1, 2], [3, 4]])), [*zip([1], [2])], any([]), all([]))
a = [1, 2]
b = a
b += [3]
c = a[:]
c.append(4)
print(a, b, c, a is b, a is c, [1, 2] < [1, 2, 0], max([1, 2], [1, 3]))
st = {3, 1}
st.add(2); st.discard(9); st.remove(1)
print(sorted(st), 3 in st, sorted(st.union([7])), sorted(st.intersection({3})), sorted(st.difference({3})), {1} | {2} == {2, 1}, set(), {1}.issubset({1, 2}), len(frozenset([1, 1])))
