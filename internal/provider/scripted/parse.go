package scripted

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/xslices"
)

var codes = text.Codes{
	WrongType: CodeWrongType, Missing: CodeMissing, Unknown: CodeUnknown, BadValue: CodeBadValue,
	UnknownAs: diag.Error,
}

// Parse parses a script. The Script is usable unless the list contains an error.
func Parse(f *source.File) (*Script, diag.List) {
	node, out := text.ParseYAML(f, 0, len(f.Text))
	p := &parser{file: f, out: &out}
	s := &Script{path: f.Path}
	if node == nil {
		return s, out
	}
	r := text.Read(node, "script", codes, &out)
	s.replies = xslices.Map(r.List("replies"), p.reply)
	if tools := r.Map("tools"); tools != nil {
		s.tools = xslices.Map(tools.Pairs, p.tool)
	}
	s.simulate = r.Enum("otherwise", "simulate", "fail").Value == "simulate"
	r.Done()
	return s, out
}

type parser struct {
	file *source.File
	out  *diag.List
}

// reply parses one entry for models.
func (p *parser) reply(n *text.Node) *entry {
	r := text.Read(n, "reply", codes, p.out)
	e := p.entry(n, r)
	e.when.call, e.when.turn = p.numbers(r, "call"), p.numbers(r, "turn")
	if reply := r.Node("reply"); reply != nil {
		value := string(reply.JSON())
		if reply.Kind == text.String {
			value = reply.Value
		}
		e.reply = &value
	}
	e.thinking = r.String("thinking").Value
	e.calls = xslices.Map(r.List("tools"), p.call)
	e.stop = provider.StopReason(r.Enum("stop", string(provider.CutOff), string(provider.Refused)).Value)
	classes := xslices.Map(provider.Classes(), func(c ir.Class) string { return string(c) })
	e.fail = p.failure(r, classes)
	e.exit = p.exit(r)
	if u := r.Map("usage"); u != nil {
		e.usage = p.usage(u)
	}
	r.Done()
	if n.Kind == text.Map {
		p.checkReply(n, r)
	}
	return e
}

// exit parses the exit code of a command.
func (p *parser) exit(r *text.Reader) *int {
	n, at, ok := r.Int("exit", 0)
	if !ok {
		return nil
	}
	const most = 255
	if n > most {
		p.out.Errorf(CodeBadValue, at, "Use a number from 0 to 255.", "%d is not an exit code.", n)
	}
	code := int(n)
	return &code
}

// checkReply reports entries that are empty or contradictory.
func (p *parser) checkReply(n *text.Node, r *text.Reader) {
	if !r.Has("reply") && !r.Has("tools") && !r.Has("fail") && !r.Has("exit") {
		p.out.Errorf(CodeMissing, head(n), `Add a line such as reply: "the text of the reply".`,
			`The entry has no "reply", "tools", "fail" or "exit".`)
	}
	together := func(key, with, help string) {
		if r.Has(key) && r.Has(with) {
			p.out.Errorf(CodeTogether, r.KeySpan(with), help, "%q and %q of the reply exclude each other.", key, with)
		}
	}
	together("fail", "tools", `Write two entries: one calls the tools, the other, with turn: 2, fails.`)
	together("fail", "exit", `Remove "fail": a command fails with every exit code but 0.`)
	together("tools", "exit", `Remove one of them: a command calls no tools.`)
	together("fail", "usage", `Remove "usage": a failed call has no usage.`)
	together("fail", "stop", `Remove one of them: a failed call has no stop reason.`)
	if r.Has("stop") && r.Has("tools") && !r.Has("reply") {
		together("tools", "stop", `Remove "stop": the tool calls are the stop reason.`)
	}
}

// entry parses the keys that entries for models and tools have in common.
func (p *parser) entry(n *text.Node, r *text.Reader) *entry {
	e := &entry{span: head(n), line: p.file.Position(n.Span.Start).Line}
	e.when = selector{
		workflow: r.String("workflow"), step: r.String("step"), agent: r.String("agent"), key: r.String("key"),
		attempt: p.numbers(r, "attempt"), visit: p.numbers(r, "visit"), iteration: p.numbers(r, "iteration"),
	}
	if _, err := path.Match(e.when.key.Value, ""); err != nil {
		p.out.Errorf(CodeBadValue, e.when.key.Span,
			"Write a task's key, with * for any text between two slashes: each/*/draft.",
			"%q is not a valid pattern for keys.", e.when.key.Value)
	}
	e.delay = p.duration(r, "delay")
	return e
}

// head returns the span of the first key of an entry.
func head(n *text.Node) source.Span {
	if len(n.Pairs) > 0 {
		return n.Pairs[0].Key.Span
	}
	return n.Span
}

var severalNumbers = lazyregexp.New(`^([1-9]\d{0,5})\s*(?:(\+)|-\s*([1-9]\d{0,5}))?$`)

// numbers parses 2, 2-4 or 2+.
func (p *parser) numbers(r *text.Reader, key string) numbers {
	t := r.String(key)
	if t.IsZero() {
		return numbers{}
	}
	m := severalNumbers().FindStringSubmatch(strings.TrimSpace(t.Value))
	if m == nil {
		p.out.Errorf(CodeBadValue, t.Span,
			fmt.Sprintf("Write a number from 1 on, or several: %s: 2, %s: 2-4, %s: 2+.", key, key, key),
			"%q cannot be %q.", key, t.Value)
		return numbers{}
	}
	from, _ := strconv.Atoi(m[1]) // cannot fail: the pattern limits it to six digits
	to := from
	switch {
	case m[2] != "":
		to = 0
	case m[3] != "":
		to, _ = strconv.Atoi(m[3])
	}
	if to != 0 && to < from {
		p.out.Errorf(CodeBadValue, t.Span, fmt.Sprintf("Write %s: %d-%d.", key, to, from),
			"%q is an empty range: %d to %d.", key, from, to).WriteValue(t.Span, fmt.Sprintf("%d-%d", to, from))
	}
	return numbers{from, to, t.Span}
}

func (p *parser) duration(r *text.Reader, key string) time.Duration {
	t := r.String(key)
	if t.IsZero() {
		return 0
	}
	d, err := time.ParseDuration(t.Value)
	if err != nil || d < 0 {
		p.out.Errorf(CodeBadValue, t.Span,
			fmt.Sprintf("Write a number and its unit: %s: 200ms, %s: 1.5s, %s: 2m.", key, key, key),
			"%q is not a duration.", t.Value)
		return 0
	}
	return d
}

func (p *parser) usage(n *text.Node) provider.Usage {
	r := text.Read(n, "usage", codes, p.out)
	var u provider.Usage
	u.Input, _, _ = r.Int("input", 0)
	u.Output, _, _ = r.Int("output", 0)
	u.CacheRead, _, _ = r.Int("cache_read", 0)
	u.CacheWrite, _, _ = r.Int("cache_write", 0)
	r.Done()
	return u
}

// call parses a tool call of a reply.
func (p *parser) call(n *text.Node) call {
	r := text.Read(n, "tool call", codes, p.out)
	r.Require("name")
	c := call{name: r.String("name"), input: json.RawMessage("{}")}
	if input := r.Map("input"); input != nil {
		c.input = input.JSON()
	}
	r.Done()
	return c
}

// failure parses fail: CLASS, or a map with details.
func (p *parser) failure(r *text.Reader, classes []string) *failure {
	n := r.Node("fail")
	if n == nil {
		return nil
	}
	f := &failure{message: "the script says so"}
	if n.Kind != text.Map {
		class := r.String("fail")
		if class.IsZero() {
			return f
		}
		f.class = class.Value
		if !slices.Contains(classes, f.class) {
			p.out.Errorf(CodeBadValue, class.Span, classHelp(f.class, classes), "There is no error class %q.", f.class)
		}
		return f
	}
	more := text.Read(n, "failure", codes, p.out)
	more.Require("class")
	f.class = more.Enum("class", classes...).Value
	if m := more.String("message").Value; m != "" {
		f.message = m
	}
	status, _, _ := more.Int("status", 100)
	f.status = int(min(status, 999))
	f.retryAfter = p.duration(more, "retry_after")
	more.Done()
	return f
}

func classHelp(class string, classes []string) string {
	if near := diag.Nearest(class, classes); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	return "Write one of: " + strings.Join(classes, ", ") + "."
}

// tool parses the entries of a tool: a list, or a map that also describes the tool.
func (p *parser) tool(pair text.Pair) toolScript {
	t := toolScript{
		name: text.Text{Value: pair.Key.Value, Span: pair.Key.Span},
		spec: tool.Spec{Name: pair.Key.Value, Description: "Answers from " + p.file.Path + "."},
	}
	answers := pair.Value.Items
	if pair.Value.Kind != text.List {
		r := text.Read(pair.Value, "tool", codes, p.out)
		if d := r.String("description").Value; d != "" {
			t.spec.Description = d
		}
		if schema := r.Map("schema"); schema != nil {
			t.spec.Schema = schema.JSON()
		}
		t.spec.SideEffects, _, _ = r.Bool("side_effects")
		t.spec.TakesKey, _, _ = r.Bool("takes_key")
		answers = r.List("answers")
		r.Done()
	}
	if len(answers) == 0 &&
		(pair.Value.Kind == text.List || pair.Value.Kind == text.Null || pair.Value.Get("answers") == nil) {
		p.out.Errorf(CodeMissing, pair.Key.Span, `Add an entry below it, such as "- output: {}".`,
			"The tool %q has no answers.", pair.Key.Value)
	}
	t.answers = xslices.Map(answers, p.answer)
	return t
}

// answer parses one result of a tool.
func (p *parser) answer(n *text.Node) *entry {
	r := text.Read(n, "answer", codes, p.out)
	e := p.entry(n, r)
	if input := r.Map("input"); input != nil {
		e.input = input.JSON()
	}
	if output := r.Node("output"); output != nil {
		e.output = output.JSON()
	}
	if no := r.Node("error"); no != nil {
		e.output, e.isError = no.JSON(), true
	}
	e.fail = p.failure(r, toolClasses)
	r.Done()
	says := xslices.Filter([]string{"output", "error", "fail"}, func(key string) bool { return r.Has(key) })
	switch {
	case n.Kind != text.Map:
	case len(says) == 0:
		p.out.Errorf(CodeMissing, head(n), "Add a line such as output: {}.",
			`The answer has no "output", "error" or "fail".`)
	case len(says) > 1:
		p.out.Errorf(CodeTogether, r.KeySpan(says[1]),
			`Keep one: "output" is a result, "error" a refusal by the tool, "fail" a failed call.`,
			"%q and %q of the answer exclude each other.", says[0], says[1])
	}
	return e
}

// toolClasses are the error classes of tools.
var toolClasses = []string{
	string(ir.ClassTool), string(ir.ClassTimeout), string(ir.ClassRateLimit),
	string(ir.ClassAPI), string(ir.ClassMissing),
}
