# Every combination of flags, width, precision and verb, and every way to fail.
values = [0, 1, -1, 42, -255, 10**20, True, 2.5, -0.0, 1e22, 1e-7, "a", "é", None, [1], (2,)]
for verb in "diuxXofFeEgGsrac":
    for flags in ("", "-", "0", "+", " ", "#", "#0"):
        for size in ("", "8", ".0", "9.4"):
            line = []
            for v in values:
                spec = "%" + flags + size + verb
                if isinstance(v, tuple):
                    v = (v,)
                try:
                    line.append(spec % v)
                except Exception as e:
                    line.append(str(type(e))[8:12])
            print(spec, line)
for f in (lambda: "%d" % float("inf"), lambda: "%d" % float("-inf"), lambda: "%i" % float("nan"), lambda: "%x" % 1.5,
          lambda: "%f" % "a", lambda: "%f" % 10**400, lambda: "%c" % 0x110000, lambda: "%c" % -1, lambda: "%c" % "ab",
          lambda: "%c" % 65, lambda: "%", lambda: "%" % 1, lambda: "%5" % 1, lambda: "%y" % 1, lambda: "ab%" % (),
          lambda: "%s %s" % 1, lambda: "%s" % (1, 2), lambda: "x" % 1, lambda: "x" % {}, lambda: "x" % [],
          lambda: "%(a)s" % 1, lambda: "%(a)s" % {"b": 1}, lambda: "%(a" % {"a": 1}, lambda: "%(a)s%(b)d" % {"a": "x", "b": 2},
          lambda: "%*d|" % (5, 42), lambda: "%-*d|" % (5, 42), lambda: "%.*f|" % (2, 3.14159), lambda: "%*d" % ("x", 1),
          lambda: "%*d" % (1,), lambda: "%%%d%%" % 7, lambda: "%s" % {"a": 1}, lambda: "%(a)%" % {"a": 1}):
    try:
        print(f())
    except Exception as e:
        print(type(e), e)
