package python

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/source"
)

func TestHostileProgramsEndWithAnError(t *testing.T) {
	for name, c := range map[string]struct{ code, says string }{
		"endless loop":     {"while True:\n    pass", "operations"},
		"endless for":      {"xs = [1]\nfor x in xs:\n    xs.append(x)", ""},
		"huge list":        {"x = [0] * (1 << 40)", "MiB"},
		"huge text":        {"x = 'a' * (1 << 40)", "MiB"},
		"doubling text":    {"x = 'a' * 1000\nwhile True:\n    x += x", ""},
		"doubling list":    {"x = [1] * 1000\nwhile True:\n    x = x + x", ""},
		"extending itself": {"x = [1] * 1000\nwhile True:\n    x.extend(x)", ""},
		"huge number":      {"x = 10 ** 10 ** 8", "digits"},
		"huge shift":       {"x = 1 << (1 << 40)", "digits"},
		"squaring":         {"x = 3\nwhile True:\n    x *= x", "digits"},
		"deep recursion":   {"def f(n):\n    return f(n + 1)\nf(0)", "RecursionError"},
		"mutual recursion": {"f = lambda: g()\ng = lambda: f()\nf()", "RecursionError"},
		"list in itself":   {"x = []\nx.append(x)\nprint(x == [x])", "RecursionError"},
		"wide format":      {"print(f'{1:1000000000}')\nx = [f'{1:1000000}' for i in range(100000)]", ""},
		"wide printf":      {"x = ['%1000000d' % 1 for i in range(100000)]", ""},
		"ljust":            {"x = 'a'.ljust(1 << 40)", "MiB"},
		"replace grows":    {"x = ('a' * 1000000).replace('a', 'b' * 1000000)", "MiB"},
		"join grows":       {"x = ('a' * 1000000).join(['b'] * 1000000)", "MiB"},
		"big dict":         {"x = {}\ni = 0\nwhile True:\n    x[i] = i\n    i += 1", ""},
		"big set":          {"x = {i for i in range(1 << 40)}", ""},
		"list of range":    {"x = list(range(1 << 40))", ""},
		"sum of range":     {"x = sum(range(1 << 40))", "operations"},
		"sorted slowly": {
			"x = [i % 1000 for i in range(100000)]\nwhile True:\n    sorted(x, key=lambda v: -v)", "operations",
		},
		"shared repr": {"a = [1]\nfor i in range(60):\n    a = [a, a]\nprint(a)", ""},
		"shared equality": {
			"a = [1]\nb = [1]\nfor i in range(60):\n    a = [a, a]\n    b = [b, b]\nprint(a == b)", "operations",
		},
		"json of shared": {"import json\na = [1]\nfor i in range(60):\n    a = [a, a]\njson.dumps(a)", ""},
		"swallowed": {
			"while True:\n    try:\n        while True:\n            pass\n    except Exception:\n        pass", "operations",
		},
		"finally": {
			"while True:\n    try:\n        while True:\n            pass\n    finally:\n        pass", "operations",
		},
		"attribute by name":     {"getattr('', '__class__')", "AttributeError"},
		"attribute in a format": {"'{0.__class__}'.format('')", "AttributeError"},
		"attribute by parts":    {"getattr((), '_' + '_class__')", "AttributeError"},
		"shared key":            {"a = (1,)\nfor i in range(60):\n    a = (a, a)\nd = {a: 1}", "parts"},
		"deep generators":       {"g = iter([1])\nfor i in range(20000):\n    g = map(abs, g)\nnext(g)", "RecursionError"},
		"generator of itself":   {"g = (next(g) for x in range(1 << 40))\nnext(g)", "already executing"},
		"many names": {
			"d = {str(i): i for i in range(20000)}\ndef f(**k):\n    pass\nwhile True:\n    f(**d)", "operations",
		},
		"int of a long text": {"int('9' * 100000)", "ValueError"},
		"no open":            {"open('/etc/passwd')", "NameError"},
		"no eval":            {"eval('1')", "NameError"},
		"no import function": {"globals()", "NameError"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, list := ParseText(c.code, 1)
			if len(list) > 0 {
				t.Fatal(list)
			}
			th := NewThread(t.Context())
			th.Limits = Limits{Steps: 500_000, Bytes: 64 << 20, Depth: 200} // smaller, to be quick
			err := th.Run(m)
			if err == nil {
				t.Fatal("the program succeeded")
			}
			var raised *Raised
			var limit *LimitError
			if !errors.As(err, &raised) && !errors.As(err, &limit) {
				t.Fatalf("got %T: %v", err, err)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want something with %q", err, c.says)
			}
			if LineOf(err) == 0 {
				t.Error("the error has no line")
			}
		})
	}
}

func TestHostileCodeIsRejectedByTheParser(t *testing.T) {
	for name, c := range map[string]struct {
		code string
		want string
	}{
		"dunder":        {"x = ().__class__.__bases__", "PY003"},
		"dunder name":   {"__import__('os')", "PY003"},
		"import":        {"import os", "PY002"},
		"from":          {"from subprocess import run", "PY002"},
		"class":         {"class A:\n    pass", "PY002"},
		"with":          {"with open('x') as f:\n    pass", "PY002"},
		"yield":         {"def f():\n    yield 1", "PY002"},
		"async":         {"async def f():\n    pass", "PY002"},
		"decorator":     {"@staticmethod\ndef f():\n    pass", "PY002"},
		"match":         {"match 1:\n    case 1:\n        pass", "PY002"},
		"deep brackets": {strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000), "PY001"},
		"deep not":      {strings.Repeat("not ", 5000) + "1", "PY001"},
		"long sum":      {"x = " + strings.Repeat("1+", 100000) + "1", "PY001"},
		"deep blocks":   {deepBlocks(3000), "PY001"},
		"long elif":     {"if 0:\n    pass\n" + strings.Repeat("elif 0:\n    pass\n", 5000), "PY001"},
		"nul":           {"x = '\x00'", "PY001"},
	} {
		t.Run(name, func(t *testing.T) {
			f := source.NewFile("p.py", c.code)
			_, list := Parse(f, 0, len(c.code))
			if len(list) == 0 || string(list[0].Code) != c.want {
				t.Errorf("got %v, want %s", list, c.want)
			}
		})
	}
}

func deepBlocks(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "if 1:\n")
	}
	b.WriteString(strings.Repeat(" ", n) + "pass\n")
	return b.String()
}

func TestCancelingTheContextEndsTheProgram(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	m, _ := ParseText("while True:\n    pass", 1)
	if err := NewThread(ctx).Run(m); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestErrorsNameTheLineOfTheFile(t *testing.T) {
	m, list := ParseText("def f(x):\n    return x['a']\n\nf({})\n", 40)
	if len(list) > 0 {
		t.Fatal(list)
	}
	err := NewThread(t.Context()).Run(m)
	if LineOf(err) != 41 || err.Error() != "KeyError: 'a'" {
		t.Errorf("line %d: %v", LineOf(err), err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("def f(a, *b, c=1, **d):\n    return [x for x in a if x] + f'{a!r:>{b}}'\n")
	f.Add("try:\n  x = {1: 2, **y}\nexcept (A, B) as e:\n  raise\nfinally:\n  del x[1:2]\n")
	f.Add("if a:\n\tb\nelif c: d\nelse:\n  pass")
	f.Fuzz(func(t *testing.T, code string) {
		file := source.NewFile("p.py", code)
		m, list := Parse(file, 0, len(code))
		for _, d := range list {
			if d.Span.Start < 0 || d.Span.End > len(code) || d.Span.Start > d.Span.End {
				t.Errorf("span %+v of %q", d.Span, code)
			}
		}
		if list.Errors() || len(code) > 300 {
			return
		}
		th := NewThread(t.Context())
		th.Limits = Limits{Steps: 20000, Bytes: 1 << 20, Depth: 20}
		err := th.Run(m)
		var raised *Raised
		var limit *LimitError
		if err != nil && !errors.As(err, &raised) && !errors.As(err, &limit) {
			t.Errorf("%q: %T %v", code, err, err)
		}
	})
}
