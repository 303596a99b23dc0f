package python

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/source"
)

const (
	sdkImport  = "from agents.shared.agent_sdk import AgentRunner, Pipeline\n"
	dataImport = "from dataclasses import dataclass, field\n@dataclass\n"
	baseImport = "from agents.shared.agent_base import AgentInput\n"
)

// testNodes is the node function of the tests and its state.
var testNodes = Nodes{Functions: []string{"node"}, Fields: map[string]Type{
	"text": {Name: "str"}, "score": {Name: "float"}, "count": {Name: "int"}, "maybe": {Name: "str", Null: true},
	"info": {Name: "dict"}, "any": {Name: "any"}, "sizes": {Name: "list", Elem: &Type{Name: "int"}},
	"items": {Name: "list", Elem: &Type{Name: "dict"}}, "errors": {Name: "list", Elem: &Type{Name: "str"}, Grows: true},
}}

const (
	nodeDef = "def node(state):\n    "
	result  = sdkImport + "def node(state):\n    result = AgentRunner.run('a')\n    "
)

func TestMistakesAreFound(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{"print(x)", `1:7 PY004 The name "x" is not defined.`},
		{"def f():\n    return y + 1", `2:12 PY004`},
		{"total = 1\nprint(totl)", `Did you mean "total"?`},
		{"json.loads('1')", `Add "import json".`},
		{"x: int = cast(int, 5)", `Add "from typing import cast".`},
		{"class A:\n    n = 1\n    def f(self):\n        return n", "4:16 PY004"},
		{"[i for i in range(3)]\nprint(i)", "2:7 PY004"},
		{"import maths", `1:8 PY002 The module "maths" is not available`},
		{"import os, requests", `1:12 PY002`},
		{"from numpy import array", `1:6 PY002`},
		{"sorted()", `1:1 PY007 The call of sorted() has no argument "iterable".`},
		{"list(map(len))", `1:6 PY007 The call of map() has no argument "iterable".`},
		{"max(key=len)", `1:1 PY007 The call of max() has no argument "arg1".`},
		{"filter(None, [1], [2])", `1:1 PY007 filter() takes 2 positional arguments, but the call has 3.`},
		{"from datetime import a, b, c", `1:22 PY005 The module "datetime" has no "a", "b", "c".`},
		{"import math\nmath.sqr(4)", `2:6 PY005 The module "math" has no attribute "sqr". Did you mean "sqrt"?`},
		{"import datetime as dt\ndt.now()", `2:4 PY005`},
		{
			sdkImport + "r = AgentRunner.run('a')\nprint(r.outpt)",
			`3:9 PY005 StepResult has no attribute "outpt". Did you mean "output"?`,
		},
		{sdkImport + "print(AgentRunner.run('a').sucess)", `Did you mean "success"?`},
		{sdkImport + "AgentRunner.rn('a')", `PY005 AgentRunner has no attribute "rn".`},
		{sdkImport + "p = Pipeline('x')\np.ad('a')", `PY005`},
		{sdkImport + "print(Pipeline('x').add('a').run().succeded)", `Did you mean "succeeded"?`},
		{sdkImport + "AgentRunner.run('a').output.gett('x')", `PY005 A value of type dict has no attribute "gett".`},
		{"'a'.uper()", `PY005`},
		{"x = [1]\nx.push(2)", `PY005 A value of type list`},
		{
			"def node(state):\n    return state.score",
			`2:18 PY005 A value of type dict has no attribute "score". Write state["score"]`,
		},
		{"open('x')", "PY006 Node code cannot use open()."},
		{"eval('1')", "PY006"},
		{"f = exec", "PY006"},
		{"def f(a, b=1): pass\nf()", `2:1 PY007 The call of f() has no argument "a".`},
		{"def f(a, b=1): pass\nf(1, 2, 3)", "PY007 f() takes 2 positional arguments, but the call has 3."},
		{"def f(a): pass\nf(1, c=2)", `PY007 f() has no parameter "c".`},
		{"def f(a): pass\nf(1, a=2)", `PY007 f() gets the argument "a" twice.`},
		{"def f(*, k): pass\nf()", "PY007"},
		{sdkImport + "AgentRunner.run('a', {}, {})", "PY007"},
		{sdkImport + "AgentRunner.run('a', work={})", `PY007 run() has no parameter "work".`},
		{"len([1], 2)", "PY007"},
		{sdkImport + "AgentRunner.run()", "2:1 PY007 The call of run() names no agent."},
		{sdkImport + "Pipeline('x').add()", "PY007 The call of add() names no agent."},
		{baseImport + "AgentInput(workload={}).wrkload", `PY005 AgentInput has no attribute "wrkload". Did you mean`},
		{baseImport + "AgentInput(1, 2, 3, 4)", "PY007 AgentInput() takes 3 positional arguments, but the call has 4."},
		{baseImport + "AgentInput(options={})", `PY007 The call of AgentInput() has no argument "workload".`},
		{baseImport + "def f(i: AgentInput):\n    return i.wrkload", "3:14 PY005"},
		{
			sdkImport + "from agents.shared.agent_sdk import StepResult\ndef f(r: StepResult):\n    return r.outpt",
			`4:14 PY005 StepResult has no attribute "outpt".`,
		},
		{dataImport + "class P:\n    a: int\nP(1).zz", `5:6 PY005 P has no attribute "zz".`},
		{dataImport + "class P:\n    a: int\nP(1, 2)", "5:1 PY007 P() takes 1 positional"},
		{dataImport + "class P:\n    a: int\n    b: int = 2\nP()", `no argument "a"`},
		{"class A:\n    def __init__(self, x): self.x = x\nA()", `PY007 The call of A() has no argument "x".`},
		{"class A:\n    def __init__(self, x): self.x = x\nprint(A(1).y)", `PY005 A has no attribute "y".`},
		{"class A:\n    pass\nA(1)", "PY007 A() takes no positional arguments"},
		{"def f():\n    y = later\n    later = 1\n    return y", `2:9 PY004 The name "later" has no value here`},
		{"n = 0\ndef f():\n    n += 1\n    return n", `3:5 PY004 The name "n" has no value here`},
		{"def f():\n    print(json)\n    import json", "PY004"},
		{"from datetime import datetime\ndatetime.nowww()", `2:10 PY005 datetime.datetime has no attribute "nowww".`},
		{"import datetime\nprint(datetime.datetime.now().iso_format())", "PY005 datetime.datetime has no"},
		{"from collections import Counter\nCounter('a').most_comon(1)", `Did you mean "most_common"?`},
		{"import datetime.datetime", "PY002"},
		{"import os\nos.system('ls')", "2:4 PY006 Node code cannot use os.system. Node code cannot start programs."},
		{"import subprocess\nsubprocess.run(['ls'])", "PY006 Node code cannot use subprocess.run."},
		{"import asyncio\nasync def f(): pass\nasyncio.run(f())", "PY006"},
		{"from concurrent.futures import ThreadPoolExecutor", "1:32 PY006"},
		{"from zoneinfo import ZoneInfo", "PY006 Node code cannot use zoneinfo.ZoneInfo."},
		{"from pathlib import Path\nPath('a').read_text()", "PY006 Node code cannot use pathlib.Path.read_text."},
		// Names that lose their values.
		{"def f():\n    a = 1\n    del a\n    print(a)", `4:11 PY004 The name "a" has no value here: it is deleted`},
		{"a = 1\ndel a\nif True:\n    print(a)", "4:11 PY004"},
		{
			"def f():\n    try:\n        g()\n    except ValueError as e:\n        pass\n    return e\ndef g(): pass",
			`6:12 PY004 The name "e" has a value only inside of its except clause.`,
		},
		{"def f():\n    global n\n    n += 1", `3:5 PY004 The name "n" is not defined.`},
		{"def f():\n    global n\n    return n", `3:12 PY004`},
		// Values of a wrong type.
		{
			result + "return {'text': result['output']}",
			"4:21 PY008 StepResult has attributes and no items. Write result.output.",
		},
		{result + "return {'text': result.error()}", "4:21 PY008 StepResult.error is a value and not a function."},
		{result + "return {'info': result.output()}", "PY008 StepResult.output is a value and not a function."},
		{result + "return {'info': result}", "4:21 PY008 A StepResult cannot be stored as JSON."},
		{result + "return result", "4:12 PY008 A node returns a dict of fields, not a StepResult."},
		{
			result + "for r in result.output['recommendations']:\n        print(r.title)",
			`5:17 PY005 A value of type dict has no attribute "title".`,
		},
		{result + "for r in result.output['rules_applied']:\n        print(r.uper())", "PY005 A value of type str"},
		{
			result + "return {'text': 1 + result.output['meta_insight']}",
			"PY008 The operator + does not work with an int",
		},
		{nodeDef + "return {'text': state['text'].uppr()}", `2:35 PY005 A value of type str has no attribute "uppr".`},
		{nodeDef + "for i in state['items']:\n        print(i.name)", "3:17 PY005 A value of type dict"},
		{
			nodeDef + "return {'text': state['count'] + 'x'}",
			"PY008 The operator + does not work with an int and a str.",
		},
		{nodeDef + "return state['count']['x']", "PY008 An int has no items."},
		{nodeDef + "return {'score': 'high'}", `2:22 PY008 The field "score" must be a float, not a str.`},
		{nodeDef + "return {'score': f'{1}'}", "PY008"},
		{nodeDef + "return {'score': str(0.5)}", "PY008"},
		{nodeDef + "return {'score': True}", "PY008"},
		{nodeDef + "return {'count': True}", "PY008"},
		{nodeDef + "return {'count': 2.0}", `PY008 The field "count" must be an int, not a float.`},
		{nodeDef + "return {'count': len('a') / 2}", "PY008"},
		{nodeDef + "return {'count': -1.5}", "PY008"},
		{nodeDef + "n = 'x'\n    return {'count': n}", "3:22 PY008"},
		{nodeDef + "return {'text': 5}", "PY008"},
		{nodeDef + "return {'text': ['a']}", "PY008"},
		{nodeDef + "return {'info': [1]}", "PY008"},
		{nodeDef + "return {'errors': 'failed'}", `PY008 The field "errors" must be a list, not a str.`},
		{nodeDef + "return {'errors': None}", "PY008"},
		{nodeDef + "return {'errors': ['a', 1]}", "2:29 PY008 The item must be a str, not an int."},
		{nodeDef + "return {'sizes': [1, 2.5]}", "PY008"},
		{
			nodeDef + "return {'info': {'s': {1, 2}}}",
			"2:27 PY008 A set cannot be stored as JSON. Convert it with sorted()",
		},
		{nodeDef + "return {'any': set()}", "PY008"},
		{nodeDef + "return [1]", "2:12 PY008 A node returns a dict of fields, not a list."},
		{nodeDef + "return 'done'", "PY008"},
		{nodeDef + "return {}, 1", "PY008 A node returns a dict of fields, not a tuple."},
		{
			"from decimal import Decimal\n" + nodeDef + "return {'score': Decimal('1') + Decimal('2')}",
			"PY008 A decimal.Decimal",
		},
		{"from datetime import datetime\n" + nodeDef + "return {'text': datetime.now()}", "PY008"},
		{
			dataImport + "class P:\n    a: int\n" + nodeDef + "return {'info': {'p': P(1)}}",
			"PY008 An object of class P cannot be stored as JSON.",
		},
		{"x = 'a' + 1", "1:5 PY008 The operator + does not work with a str and an int. Convert the value with str()"},
		{"x = [1] + (2,)", "PY008"},
		{"x = {'a': 1} + {'b': 2}", "PY008"},
		{"x = 'a' - 'b'", "PY008"},
		{"x = 'a' * 'b'", "PY008"},
		{"x = {}\nx()", "2:1 PY008 x is a value and not a function."},
		{"import importlib\nimportlib.import_module('requests')", "2:25 PY002"},
		{"from importlib import import_module as load\nload('requests')", "PY002"},
		{"import sqlite3\nsqlite3.connect('x.db')", `PY006 Node code cannot use the database "x.db".`},
		{"import os\nprint(os.environ['HOME'])", "2:7 PY006 Node code has no environment variables."},
		{"from os import environ\nprint(environ['HOME'])", "PY006"},
	} {
		got := mistakes(c.code)
		if !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s\ngot  %s\nwant %s", c.code, got, c.want)
		}
	}
}

// mistakes returns a line for each diagnostic.
func mistakes(code string) string {
	f := source.NewFile("p.py", code)
	m, list := Parse(f, 0, len(code))
	if !list.Errors() {
		list = Analyze([]*Module{m}, testNodes)
	}
	var b strings.Builder
	for _, d := range list {
		p := f.Position(d.Span.Start)
		fmt.Fprintf(&b, "%d:%d %s %s %s\n", p.Line, p.Column, d.Code, d.Message, d.Help)
	}
	return b.String()
}

func TestCodeWithoutMistakesIsNotReported(t *testing.T) {
	for _, code := range []string{
		"import os, sys\nif sys.platform == 'win32':\n    x = os.environ['APPDATA']\nelse:\n    x = '/tmp'\nprint(x)",
		"import os\nx = os.environ['TEMP'] if os.name == 'nt' else '/tmp'\nprint(x)",
		"import os, platform\nif platform.system() != 'Windows':\n    x = '/tmp'\nelif True:\n" +
			"    x = os.environ['TEMP']\nprint(x)",
		"try:\n    import numpy\nexcept ImportError:\n    numpy = None\nprint(numpy)",
		"def f():\n    global g\n    g = 1\ndef h():\n    return g",
		"def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n    return g",
		"class A:\n    x = 1\n    y = x + 1\n    def f(self):\n        return self.x, __class__",
		"from math import *\nprint(sqrt(4))",
		"if (n := 5) > 3:\n    print(n)",
		"print([y for x in [[1]] for y in x], {k: v for k, v in {}.items()})",
		"def f(*args, **kwargs): pass\nf(1, 2, a=3)\nf(*[1], **{})",
		"import functools\n@functools.lru_cache\ndef f(a): return a\nf.cache_clear()",
		"def f(): pass\nf = lambda a: a\nf(1)",
		"import os.path, xml.etree.ElementTree as ET\nprint(os.path.join('a'), os.sep, ET.fromstring)",
		"match 5:\n    case int() as n if n > 1:\n        print(n)\n    case [first, *rest]:\n        print(first, " +
			"rest)",
		"def f[T](x: T) -> T:\n    return x\ntype A = list[int]\nprint(A)",
		"def f(x: Unknown) -> Other:\n    y: Missing = x\n    return y",
		"with open as f:\n    pass" + "\nopen = 1",
		"x = {}\nx = []\nx.append(1)",
		"def node(state):\n    return state.get('a')",
		"for i in range(3):\n    pass\nprint(i)\ndel i",
		"print(f\"{'a'!r:>{10}} {len('x')=} {'nested' 'text'}\")",
		"print(f'{x[\"a\"]}' for x in [])",
		"async def f():\n    async with g() as h:\n        await h\ndef g(): pass",
		"def f(items):\n    for i in items:\n        if i:\n            print(last)\n        last = i",
		"def f():\n    def g(): return later\n    later = 1\n    return g()",
		"def f():\n    x = y = 1\n    x = x + y\n    x += 1\n    for i in range(x):\n        z = i\n    return z",
		"def f(a):\n    if a:\n        b = 1\n    return b",
		"def f():\n    return [q for q in [1]], (lambda: later)(), n if (n := 1) else 0\nlater = 1",
		"def f():\n    try:\n        pass\n    except ValueError as e:\n        print(e)\n    with g() as h:\n" +
			"        return h\ndef g(): pass",
		"class A:\n    def __init__(self): self.x = 1\na = A()\na.y = 2\nprint(a.x, a.y)",
		"class A(dict):\n    pass\nprint(A(x=1).y)",
		"class A:\n    def __getattr__(self, n): return n\nprint(A().anything)",
		"class A:\n    def __new__(cls, *a): return object()\nA(1, 2)",
		"from typing import ClassVar\n" + dataImport + "class P:\n    n: ClassVar[int] = 0\n    a: int\n" +
			"    b: list = field(default_factory=list)\n    def c(self): return self.a\n" +
			"print(P(1).c(), P(1, b=[]).b, P(a=1).n)",
		"from dataclasses import dataclass\n@dataclass(frozen=True)\n" +
			"class P:\n    a: int\nprint(P(1).a, P(1).__dict__)",
		"from enum import Enum\nclass C(Enum):\n    RED = 1\nprint(C(1).value, C.RED.name)",
		"sorted([1], key=len, reverse=True)\nmap(max, [1], [2])\nmax(1, 2, 3)\nmin([1], default=0, key=abs)\n" +
			"a = [[1]]\nmax(*a)\nsorted(*a)\nmap(*a)\nfilter(None, [1])",
		"from datetime import datetime, timezone, timedelta\nd = datetime.now(timezone.utc) - timedelta(days=1)\n" +
			"print(d.isoformat(), datetime.now().date().year, timedelta(1).total_seconds())",
		"import os\nprint(os.path.join('a', 'b'), os.environ.get('A'))",
		"try:\n    from zoneinfo import ZoneInfo\n    print(ZoneInfo('UTC'))\nexcept Exception:\n    pass",
		"from pathlib import Path\nprint(Path('a/b').name, Path('a').suffix)",
		baseImport + "def f(i: AgentInput = None):\n    return i.anything",
		sdkImport + "r = AgentRunner.run(agent_name='a', workload={})\nr = None\nprint(r.anything)",
		"def f():\n    a = 1\n    del a\n    a = 2\n    return a",
		"def f(c):\n    a = 1\n    if c:\n        del a\n        return 0\n    return a",
		"def f(c):\n    for a in c:\n        b = a\n        print(b)\n        del b",
		"a = {1: 2}\ndel a[1]\nprint(a)",
		"def f():\n    a = 1\n    del a\n    return [a for a in [1]]",
		"def f():\n    try:\n        g()\n    except ValueError as e:\n        err = e\n        print(e, [str(e)])\n" +
			"    return err\ndef g(): pass",
		"def f():\n    e = None\n    try:\n        g()\n    except ValueError as e:\n        pass\n" +
			"    return e\ndef g(): pass",
		"def f():\n    try:\n        g()\n    except ValueError as e:\n        raise\n    except KeyError as e:\n" +
			"        if e:\n            return str(e)\ndef g(): pass",
		"n = 0\ndef f():\n    global n\n    n += 1",
		"def f():\n    global n\n    n += 1\ndef g():\n    global n\n    n = 0",
		"def f():\n    globals()['n'] = 0\ndef g():\n    global n\n    n += 1",
		result + "return {'text': result.output['meta_insight'].strip(), 'info': result.output, " +
			"'errors': [result.error]}",
		result + "for r in result.output['recommendations']:\n        print(r['title'], r.get('x'))",
		result + "for r in result.output['recommendations']:\n        r = str(r)\n        print(r.title())",
		result + "r = result.output['recommendations']\n    return {'items': r + r, 'count': len(r), 'errors': r[:1]}",
		nodeDef + "if isinstance(state['text'], dict):\n        return state['text'].get('a')",
		nodeDef + "state['text'] = {}\n    return {'info': state['text'].get('a')}",
		nodeDef + "state.update(text={})\n    return {'info': state['text'].get('a')}",
		"def fill(s): s['text'] = {}\n" + nodeDef + "fill(state)\n    return {'info': state['text'].get('a')}",
		nodeDef + "return {'maybe': None, 'text': None, 'score': 1, 'count': 2, 'sizes': (1, 2), " +
			"'any': {'a': [1, 'b']}}",
		nodeDef + "return {'text': state['maybe'].anything, 'score': state['count'] * 1.5, " +
			"'errors': [*state['errors'], 'a']}",
		nodeDef + "return {'count': 7 // 2, 'score': 2 ** -1, 'text': 'a' * 3, 'sizes': [0] * 3, " +
			"'info': {**{}, 'a': 1}}",
		nodeDef + "return {'text': '%d' % 3, 'count': 1 if state['text'] else 0, 'score': round(1.5), 'errors': []}",
		nodeDef + "return {'count': sum(state['sizes']), 'score': max(0.5, 1), 'text': state['text'] or 'x'}",
		nodeDef + "def g():\n        return [1]\n    return {'sizes': g(), 'text': (lambda: 'a')()}",
		nodeDef + "return None",
		nodeDef + "return",
		nodeDef + "return dict(text='a')",
		"from collections import Counter, OrderedDict, defaultdict\n" + nodeDef +
			"return {'info': Counter('a'), 'any': OrderedDict(), 'errors': []}",
		"from enum import Enum\nclass C(str, Enum):\n    A = 'a'\n" + nodeDef + "return {'text': C.A, " +
			"'info': {'c': C('a')}}",
		"from decimal import Decimal\n" + nodeDef + "return {'score': float(Decimal('1') + 2)}",
		"def f():\n    n = None\n    def g():\n        nonlocal n\n        n = {}\n    g()\n    return n['a']",
		"cache = None\ndef node(state):\n    return {'text': cache['a']}\ndef load():\n" +
			"    global cache\n    cache = {}",
		"x = 1\nx = 'a'\ny = x + 'b'",
		"x = None\nif x:\n    print(x(1), x['a'], x + 1)",
		"import os\nif 'HOME' in os.environ:\n    print(os.environ['HOME'])",
		"import os\nos.environ['A'] = 'b'\nprint(os.environ['A'])",
		"import os\ntry:\n    print(os.environ['A'])\nexcept KeyError:\n    pass",
		"import importlib, sqlite3\nimportlib.import_module('json')\nsqlite3.connect(':memory:')",
		"x = 'a' 'b' + 'c'\ny = 1 + True - 2.5\nz = {1} | {2}\nw = {'a': 1} | {'b': 2}\nv = [1] + [2] * 2",
		"x = b'a' + b'b'\ny = 1j + 1\nz = {1} - {2}\nw = 1 << 3\nv = 'a' % ()",
	} {
		if got := mistakes(code); got != "" {
			t.Errorf("%s\n%s", code, got)
		}
	}
}

func TestSyntaxErrorsHaveOnePlace(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{"def f(x)\n    return x\nf(1)", "1:8 PY001 Expected a colon after the function."},
		{"if x\n    y = 1\nelse:\n    y = 2", "1:4 PY001 Expected a colon after the condition."},
		{"class A\n    x = 1", "1:7 PY001"},
		{"for i in range(3)\n    pass", "1:17 PY001"},
		{"x = (1,\ny = 2", "1:5 PY001 The bracket ( is never closed. Add the missing )."},
		{"r = f({1: 2}\nif not r:\n    x = [1]", "1:6 PY001 The bracket ( is never closed."},
		{"f(1\nif x:\n    g(2\nif y:\n    pass", "1:2 PY001"},
		{"x = (1 +", "PY001"},
		{"x = 'a", "1:5 PY001"},
		{"return 1", "PY001"},
		{"match 1:\n    case 1\n        pass", "2:10 PY001"},
		{"print(f'{x')", "PY001"},
		{strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000), "PY001"},
		{"x = " + strings.Repeat("1+", 100000) + "1", "PY001"},
		{"x = '\x00'", "PY001"},
		{"f'" + strings.Repeat("{:", 50000) + "'", "PY001"},
		{"f'" + strings.Repeat("{x", 50000) + "'", "PY001"},
	} {
		if got := mistakes(c.code); !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%.60s\ngot  %.300s\nwant %s", c.code, got, c.want)
		}
	}
}

// What follows a block on one line with a mistake is not taken for a part of it.
func TestStatementsAfterABrokenLineAreNotInItsBlock(t *testing.T) {
	for code, want := range map[string][]string{
		"def f(): x y\nreturn 1":             {"1:12 PY001", `2:1 PY001 "return" is outside of a function.`},
		"def f(): x y\nyield 1":              {"1:12 PY001", `2:1 PY001 "yield" is outside of a function.`},
		"f(lambda: (x y))\nreturn 1":         {"1:14 PY001", `2:1 PY001 "return" is outside of a function.`},
		"for i in []: x y\nbreak":            {"1:16 PY001", `2:1 PY001 "break" is outside of a loop.`},
		"while x: x y\ncontinue":             {"1:12 PY001", `2:1 PY001 "continue" is outside of a loop.`},
		"def f():\n  class A: x y\n  return": {"2:14 PY001"},
		"while x:\n  def f(): x y\n  break":  {"2:14 PY001"},
	} {
		got := strings.Split(strings.TrimSuffix(mistakes(code), "\n"), "\n")
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%s\ngot  %q\nwant %q", code, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("def f(a, *b, c=1, **d):\n    return [x for x in a if x] + f'{a!r:>{b}}'\n")
	f.Add("try:\n  x = {1: 2, **y}\nexcept (A, B) as e:\n  raise\nfinally:\n  del x[1:2]\n")
	f.Add("match x:\n  case {'a': [1, *y], **z} | C(d=e) if f:\n    pass\n")
	f.Add("@d\nasync def f[T](a, /, b):\n  async with x as y:\n    yield await z\nclass A(B, c=1): pass\n")
	f.Fuzz(func(t *testing.T, code string) {
		file := source.NewFile("p.py", code)
		m, list := Parse(file, 0, len(code))
		if !list.Errors() {
			list = Analyze([]*Module{m}, Nodes{Functions: []string{"f"}})
		}
		for _, d := range list {
			if d.Span.Start < 0 || d.Span.End > len(code) || d.Span.Start > d.Span.End {
				t.Errorf("span %+v of %q", d.Span, code)
			}
		}
	})
}
