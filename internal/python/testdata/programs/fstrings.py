n, x, s, d, xs = 42, 3.14159, "text", {"k": 1.5, "q": "v"}, [1, 2]
print(f"{n}|{n:5}|{n:<5}|{n:^5}|{n:>5}|{n:05}|{n:+}|{n: }|{n:,}|{1234567:,}|{1234567:_}|{n:x}|{n:#x}|{n:X}|{n:b}|{n:o}|{n:e}|{n:c}")
print(f"{x:.2f}|{x:8.3f}|{x:<8.1f}|{x:+.0f}|{x:e}|{x:.3g}|{x:g}|{x:%}|{0.256:.1%}|{1e10:g}|{1234.5:,.2f}|{x:08.2f}|{-x:08.2f}|{x:.10}|{1e-7:g}|{0.1:.20f}|{100.0:g}|{x:10}|")
print(f"{s:10}|{s:>10}|{s:^10}|{s:*^10}|{s:.2}|{s:-<8.3}|{s!r}|{s!r:>8}|{s!s}|{'é'!a}|{s:s}|")
print(f"{d['k']}|{d['k']:.2f}|{xs}|{xs[0]}|{d}|{{literal}}|{{{n}}}|{s.upper()}|{len(xs)}|{', '.join(str(v) for v in xs)}|{n if n > 1 else 0}")
w, p = 8, 2
print(f"{x:{w}.{p}f}|{s:{'>'}{w}}|{n=}|{x = :.1f}|{s=!s}|{xs=}|{None}|{True:5}|{None!s:>6}|{True}|{(1, 2)}|{n + 1:>{w}}|")
print(f"{n:d}" f"{s}" "plain {n}" f'{d["q"]}', f"a{'b' + 'c'}d", f"{'nested ' + f'{n}'}", f"", f"{lambda_ if (lambda_ := 1) else 0}", rf"\n{n}", f"\t|{s}\n|")
print(f"""multi
{n:>6}
  end""")
print("{} {}".format(1, "a"), "{0} {1} {0}".format("x", "y"), "{name:>6}|{v:.1f}".format(name="n", v=2.55), "{:>5}|{:<5}|{:^5}|".format(1, 2, 3), "{{}}".format(), "{[0]} {a[k]}".format([7], a={"k": 8}), "{!r}".format("q"))
print("%s %d %5.2f %-5s| %05d %x %% %r" % ("a", 3, 2.5, "l", 42, 255, "q"), "%s" % 5, "%(k)s %(v).1f" % {"k": "a", "v": 1.25}, "%s" % [1], "%s" % (None,), "%e" % 12345.678, "%g" % 0.0001, "%c" % "z", "%+d" % 5, "%i" % 3.9)
for bad in (lambda: f"{s:d}", lambda: f"{n:.2q}", lambda: f"{xs:5}", lambda: f"{None:5}", lambda: "{}".format(), lambda: "%d" % "a", lambda: "%s %s" % (1,), lambda: f"{x:d}", lambda: f"{n:.2d}", lambda: "{a}".format(b=1)):
    try:
        print(bad())
    except Exception as e:
        print(e)
print(format(3.14159, ".2f"), format(5, "03d"), format("a", ">3"), f"{2**70:,}", f"{-5:=+6}|{-5:06}|{5:=6}|", f"{1.0}", f"{1e20}", f"{float('inf'):.1f} {float('nan'):5}|", f"{0.5:.0f} {1.5:.0f} {2.5:.0f}", f"{1.005:.2f}", f"{12345.6789:,.1f}", f"{0:.2%}", f"{True:d}", f"{3:.1f}", f"{7:.3g}", f"{123456789.0:g}", f"{1.0:.3}", f"{1e6:.3}")
