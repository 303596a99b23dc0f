package awf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// document is the syntax tree of a file. Names of states are not resolved; states that are written inside a parallel
// state are in states, too.
type document struct {
	name, version, description text.Text
	meta                       []ir.Meta
	initial                    text.Text
	inputs                     []*input
	inputsAt                   source.Span
	outputs                    []*output
	hooks                      map[string][]hook // by event: workflow_start, …
	states                     []*state
	byName                     map[string]*state
	stateless                  bool        // the key "states" is missing, which is reported
	first                      source.Span // of the file's first key
}

// input is one input of the workflow, as written.
type input struct {
	name, kind, description text.Text
	required                bool
	def                     *text.Node
	pattern                 text.Text
	enum                    []*text.Node
	min, max                *int64
	fileExists              bool
	extensions              []text.Text
}

// output is one output of the workflow: its name and where its value comes from.
type output struct {
	name, from text.Text
}

// hook is one action before or after a state or workflow.
type hook struct {
	log, command text.Text
	timeout      ir.Millis
}

// state is one state of the file, with the keys of all types of states. kind is empty if the type is unknown; then only
// the transitions have been read.
type state struct {
	name            text.Text
	from            *text.Node // as written, without the template
	kind            string
	at              source.Span // of its type, or else of its name
	description     text.Text
	timeout         ir.Millis
	timeoutText     text.Text // a template that computes the timeout
	success         text.Text // on_success, or a loop's on_complete
	failure         text.Text
	inline          *inline
	transitions     []transition
	continueOnError bool // continue_on_error
	retry           *ir.Retry
	pre, post       []hook

	command, scriptFile, dir, shell text.Text // step
	status                          text.Text // terminal
	message                         text.Text
	branches                        []text.Text // parallel
	strategy                        string
	maxConcurrent                   int
	items                           *text.Node // for_each
	while, breakWhen                text.Text
	body                            []text.Text
	max                             int64
	maxText                         text.Text
	operation                       text.Text // operation
	inputs                          *text.Node
	workflow                        text.Text // call_workflow
	outputs                         *text.Node
	agent                           *agentKeys // agent
}

// hasSteps reports whether other states run inside s.
func (s *state) hasSteps() bool {
	switch s.kind {
	case kindParallel, kindForEach, kindWhile, kindCall:
		return true
	}
	return false
}

// agentKeys are the keys of an agent step.
type agentKeys struct {
	provider, mode, prompt, promptFile, system, role, format, continueFrom text.Text
	skills                                                                 []skillRef
	options                                                                agentOptions
	conversation                                                           bool
	maxTurns                                                               int  // 0 means unlimited
	tools                                                                  bool // mcp_proxy
	toolsAt                                                                source.Span
}

// agentOptions are the options of an agent. The zero value has none.
type agentOptions struct {
	model, system string
	maxTokens     int          // 0 means unlimited
	listsTools    bool         // there is a list of allowed tools, which may be empty
	tools         []*text.Node // the allowed tools
	permissions   []*text.Node // those that permit all tools
	pairs         []text.Pair  // all options
}

// skillRef names a skill, or the path of its file.
type skillRef struct {
	name, path text.Text
}

// inline is an on_failure that ends the run with a message instead of leading to a state.
type inline struct {
	message text.Text
	status  int64
	at      source.Span
}

// transition is a conditional way on. when is empty if it always applies.
type transition struct {
	when, to text.Text
}

// The types of steps.
const (
	kindCommand   = "step"
	kindAgent     = "agent"
	kindTerminal  = "terminal"
	kindParallel  = "parallel"
	kindForEach   = "for_each"
	kindWhile     = "while"
	kindOperation = "operation"
	kindCall      = "call_workflow"
)

// conversationMode is the mode of an agent that talks to a person.
const conversationMode = "conversation"

// The values of keys that accept only a few. The JSON Schema lists the same ones.
var (
	// approvalTypes are words for a step that other programs have.
	approvalTypes = []string{"approval", "approve", "gate", "human", "manual", "confirm", "input", "wait"}

	kinds = []string{
		kindCommand, "command", kindAgent, kindTerminal, kindParallel, kindForEach, kindWhile, kindOperation, kindCall,
	}
	inputKinds    = []string{"string", "integer", "boolean"}
	statuses      = []string{"success", "failure"}
	strategies    = []string{"all_succeed", "any_succeed", "best_effort"}
	backoffs      = []string{"constant", "linear", "exponential"}
	agentModes    = []string{"single", conversationMode}
	outputFormats = []string{"json", "text"}
	hookEvents    = []string{workflowStart, workflowEnd, workflowError, workflowCancel}
)

var readerCodes = text.Codes{
	WrongType: CodeWrongType, Missing: CodeMissing, Unknown: CodeUnknownKey, BadValue: CodeBadValue,
	UnknownAs: diag.Warning, YesNo: true,
}

// parser reads one file into a document.
type parser struct {
	file *source.File
	out  *diag.List
	doc  *document
	// templates returns a workflow template by name.
	templates func(name text.Text) *text.Node
}

// read returns a reader for a map that reports keys that the shape does not have. what names the map in messages.
func (p *parser) read(n *text.Node, shape *text.Shape, what string) *text.Reader {
	return shape.Read(n, what, readerCodes, p.out)
}

// parse parses a file. It returns nil if the file is unusable.
func (p *parser) parse() *document {
	node, list := text.ParseYAML(p.file, 0, len(p.file.Text))
	*p.out = append(*p.out, list...)
	if node == nil {
		return nil
	}
	p.doc = &document{byName: map[string]*state{}, hooks: map[string][]hook{}, first: node.Span}
	if node.Kind != text.Map {
		p.out.Errorf(CodeWrongType, p.file.Span(0, len(p.file.Line(1))), "Start with \"name:\" and \"states:\".",
			"The workflow is %s, not a map.", node.Kind)
		return nil
	}
	if len(node.Pairs) > 0 {
		p.doc.first = node.Pairs[0].Key.Span
	}
	r := p.read(node, workflowShape, "workflow")
	d := p.doc
	d.name, d.version, d.description = r.String("name"), r.String("version"), r.String("description")
	for _, key := range []string{"version", "author", "tags"} {
		if n := r.Node(key); n != nil {
			d.meta = append(d.meta, ir.Meta{Name: key, Value: n.JSON(), Span: n.Span})
		}
	}
	r.Strings("env")
	p.inputs(r)
	p.outputs(r)
	p.workflowHooks(r)
	if n := r.Node("plugins"); n != nil {
		p.out.Errorf(CodeUnsupported, r.KeySpan("plugins"),
			"Configure a tool or an MCP server in espalier.yaml, and call it with \"type: operation\".",
			"AWF plugins are not supported.")
	}
	initial := r.String("initial") // deprecated position
	r.RequireDeclared()
	states := r.Map("states")
	r.Done()
	if states == nil {
		d.stateless = true
		return d
	}
	sr := p.read(states, statesShape, `block "states"`)
	begin := sr.Node("initial")
	if begin != nil {
		initial = sr.String("initial")
	}
	d.initial = initial
	if initial.Value == "" && (begin == nil || begin.Kind < text.List) {
		p.out.Errorf(CodeMissing, r.KeySpan("states"),
			"Add \"initial:\" with the name of the first state below \"states:\".", "\"states\" has no initial state.")
	}
	d.states, d.byName = make([]*state, 0, len(states.Pairs)), make(map[string]*state, len(states.Pairs))
	for _, pair := range states.Pairs {
		if pair.Key.Value != "initial" {
			p.state(pair)
		}
	}
	return d
}

// inputs parses the inputs of the workflow, without those that repeat a name.
func (p *parser) inputs(r *text.Reader) {
	p.doc.inputsAt = r.KeySpan("inputs")
	seen := map[string]bool{}
	for _, n := range r.List("inputs") {
		ir := p.read(n, inputShape, "input")
		in := &input{name: ir.String("name"), description: ir.String("description")}
		in.kind = ir.Enum("type", append(slices.Clone(inputKinds), "")...)
		in.required, _, _ = ir.Bool("required")
		in.def = ir.Node("default")
		ir.RequireDeclared()
		p.validation(in, ir.Map("validation"), ir.Has("type"))
		ir.Done()
		if in.name.Value == "" {
			continue
		}
		if seen[in.name.Value] {
			p.out.Errorf(CodeRepeated, in.name.Span, "Rename one of them.", "Duplicate input %q.", in.name.Value)
			continue
		}
		seen[in.name.Value] = true
		p.doc.inputs = append(p.doc.inputs, in)
	}
}

// validation parses the rules for an input, and warns about rules that do not apply to its type. typed is set if the
// input declares a type.
func (p *parser) validation(in *input, n *text.Node, typed bool) {
	r := p.read(n, validationShape, "validation")
	in.pattern, in.enum = r.String("pattern"), r.List("enum")
	number := func(key string) *int64 {
		if v, _, ok := r.Int(key, -1<<62); ok {
			return &v
		}
		return nil
	}
	in.min, in.max = number("min"), number("max")
	in.fileExists, _, _ = r.Bool("file_exists")
	in.extensions = r.Strings("file_extension")
	r.Done()
	if typed && in.kind.IsZero() {
		return // the invalid type is already reported
	}
	whole, words := in.kind.Value == "integer", in.kind.Value == "" || in.kind.Value == "string"
	for _, rule := range []struct {
		key, of string
		counts  bool
	}{
		{"min", "integers", whole},
		{"max", "integers", whole},
		{"pattern", "strings", words},
		{"file_extension", "strings", words},
	} {
		if r.Has(rule.key) && !rule.counts {
			p.out.Warnf(CodeNoEffect, r.KeySpan(rule.key), "Remove it, or change the type of the input.",
				"%q has no effect: it applies to %s, and the input %q is %s.", rule.key, rule.of, in.name.Value,
				article(in.kind.Value)).RemoveEntry(rule.key, r.Entry(rule.key))
		}
	}
}

// outputs parses the outputs, which AWF documents both as a list and as a map.
func (p *parser) outputs(r *text.Reader) {
	n := r.Node("outputs")
	if n == nil {
		return
	}
	switch n.Kind {
	case text.Map:
		for _, pair := range n.Pairs {
			o := &output{name: pair.Key.Text()}
			switch pair.Value.Kind {
			case text.Null: // the output of the state with that name
			case text.List:
				p.read(pair.Value, outputShape, "output") // reports the error
				continue
			case text.Map:
				or := p.read(pair.Value, outputShape, "output")
				o.from = p.from(or)
				or.Done()
			default:
				o.from = pair.Value.Text()
			}
			p.output(o)
		}
	case text.List:
		for _, item := range n.Items {
			or := p.read(item, outputShape, "output")
			o := &output{name: or.String("name"), from: p.from(or)}
			or.RequireDeclared()
			or.Done()
			p.output(o)
		}
	default:
		p.out.Errorf(CodeWrongType, n.Span, "Use entries of \"- name: NAME\" with \"from: states.STEP.Output\".",
			"\"outputs\" of the workflow is not a list.")
	}
}

// from returns the source of an output.
func (p *parser) from(r *text.Reader) text.Text {
	r.String("description")
	r.String("type")
	from, value := r.String("from"), r.String("value")
	if from.Value == "" {
		return value
	}
	p.redundant(r, "value", "from")
	return from
}

// output adds an output, unless it has no name or repeats one.
func (p *parser) output(o *output) {
	switch {
	case o.name.Value == "": // already reported
	case slices.ContainsFunc(p.doc.outputs, func(one *output) bool { return one.name.Value == o.name.Value }):
		p.out.Warnf(CodeRepeated, o.name.Span, "Rename one of them.", "Duplicate output %q: this one is ignored.",
			o.name.Value)
	default:
		p.doc.outputs = append(p.doc.outputs, o)
	}
}

// redundant reports a key that has no effect because another one is present.
func (p *parser) redundant(r *text.Reader, key, other string) {
	if r.Has(key) && r.Has(other) {
		p.out.Warnf(CodeNoEffect, r.KeySpan(key), "Keep one of them.", "%q has no effect: %q takes precedence.", key,
			other)
	}
}

// The events of workflow hooks.
const (
	workflowStart  = "workflow_start"
	workflowEnd    = "workflow_end"
	workflowError  = "workflow_error"
	workflowCancel = "workflow_cancel"
)

// workflowHooks parses the hooks of the workflow.
func (p *parser) workflowHooks(r *text.Reader) {
	hr := p.read(r.Map("hooks"), eventsShape, `block "hooks"`)
	for _, event := range hookEvents {
		p.doc.hooks[event] = p.hooks(hr.Node(event), event)
	}
	hr.Done()
}

// hooks parses a list of hooks, or a single one.
func (p *parser) hooks(n *text.Node, what string) []hook {
	if n == nil {
		return nil
	}
	list := []*text.Node{n}
	if n.Kind == text.List {
		list = n.Items
	}
	var out []hook
	for _, one := range list {
		if one.Kind == text.String {
			out = append(out, hook{command: one.Text()})
			continue
		}
		r := p.read(one, hookShape, what+" hook")
		if one.Kind != text.Map && one.Kind != text.Null {
			continue // already reported
		}
		h := hook{log: r.String("log"), command: r.String("command")}
		h.timeout = p.fixed(r, "timeout")
		r.Done()
		if h.log.Value == "" && h.command.Value == "" {
			p.out.Warnf(CodeMissing, one.Span, "Add \"log\" or \"command\".", "The hook has no effect.")
			continue
		}
		if h.log.Value != "" {
			h.command = text.Text{}
		}
		out = append(out, h)
	}
	return out
}

// duration parses seconds or a Go duration. A template is returned as text.
func (p *parser) duration(r *text.Reader, key string) (ir.Millis, text.Text) {
	n := r.Node(key)
	if n == nil {
		return 0, text.Text{}
	}
	if strings.Contains(n.Value, "{{") {
		return 0, n.Text()
	}
	if v, err := strconv.ParseInt(n.Value, 10, 64); err == nil && v >= 0 && v <= maxSeconds {
		return ir.Millis(v * 1000), text.Text{}
	}
	// A positive duration below a millisecond becomes one millisecond: 0 would mean that there is no timeout.
	if v, err := time.ParseDuration(n.Value); err == nil && v >= 0 {
		return ir.Millis(max(v.Milliseconds(), min(v.Nanoseconds(), 1))), text.Text{}
	}
	is := strconv.Quote(n.Value)
	if n.Kind >= text.List {
		is = n.Kind.String()
	}
	p.out.Errorf(CodeBadValue, n.Span, "Use seconds such as 30, or a duration such as \"1m30s\" or \"500ms\".",
		"%q has an invalid value: %s.", key, is)
	return 0, text.Text{}
}

// maxSeconds is the maximum of a time.Duration: almost three hundred years.
const maxSeconds = int64(math.MaxInt64 / time.Second)

// fixed parses a duration that cannot be a template.
func (p *parser) fixed(r *text.Reader, key string) ir.Millis {
	d, template := p.duration(r, key)
	if template.Value != "" {
		p.out.Errorf(CodeBadValue, template.Span, "Use a duration such as \"2s\".", "%q cannot be a template.", key)
	}
	return d
}

// state parses one state and adds it to the document.
func (p *parser) state(pair text.Pair) {
	s := &state{name: pair.Key.Text(), at: pair.Key.Span}
	if s.name.Value == "" {
		p.out.Errorf(CodeBadValue, pair.Key.Span, "Add a name before the colon.", "The state has no name.")
		return
	}
	p.keys(s, pair.Value)
	p.doc.states = append(p.doc.states, s)
	if p.doc.byName[s.name.Value] == nil {
		p.doc.byName[s.name.Value] = s
	} else { // one is in a parallel state; the YAML parser reports duplicate keys
		p.out.Errorf(CodeRepeated, s.name.Span, "Rename one of them.", "Duplicate state %q.", s.name.Value)
	}
}

// keys parses a state's keys.
func (p *parser) keys(s *state, n *text.Node) {
	s.from = n
	lacks := false // the template with its action is missing
	if used := n.Get("use_template"); used != nil && used.Kind != text.Null && used.Kind < text.List {
		merged := p.fromTemplate(used.Text(), n)
		if lacks = merged == nil; !lacks {
			n = merged
		}
	}
	what := "state " + strconv.Quote(s.name.Value)
	r := p.read(n, stateShape, what)
	r.String("use_template")
	r.Map("parameters")
	if lacks {
		p.common(s, r)
		return
	}
	if n.Kind != text.Map && n.Kind != text.Null {
		return // already reported
	}
	kind := r.String("type")
	s.kind = strings.ToLower(kind.Value)
	switch {
	case s.kind == "command":
		s.kind = kindCommand
	case slices.Contains(kinds, s.kind):
	case kind.Value == "":
		s.kind = inferKind(r)
		p.out.Errorf(CodeMissing, s.name.Span, fmt.Sprintf("Add \"type: %s\".", s.kind), "The %s has no \"type\".",
			what).AddEntry(s.from.PlaceFor("type"), "type", s.kind)
	case strings.Contains(s.kind, "."):
		p.out.Errorf(CodeUnsupported, kind.Span,
			fmt.Sprintf("Configure a tool or an MCP server, and use \"type: operation\" with \"operation: %s\".",
				kind.Value), "%q is a step type of a plugin, and AWF plugins are not supported.", kind.Value)
		s.kind = ""
	case slices.Contains(approvalTypes, s.kind):
		p.out.Errorf(CodeBadValue, kind.Span,
			"AWF has no step for an approval. Use \"type: operation\" with a tool that has \"requires_approval: "+
				"true\" in espalier.yaml, or \"type: call_workflow\" with an Agent Flow file that has a gate.",
			"%q is not a step type.", kind.Value)
		s.kind = ""
	default:
		p.out.Errorf(CodeBadValue, kind.Span, "", "%q is not a step type.", kind.Value).Suggest(kind.Value, kinds)
		s.kind = ""
	}
	if s.kind == "" { // its own keys are unknown, but its transitions are not
		p.common(s, r)
		return
	}
	if kind.Value != "" {
		s.at = kind.Span
	}
	s.description = r.String("description")
	if s.kind != kindTerminal {
		p.common(s, r)
	}
	switch s.kind {
	case kindCommand:
		p.commandKeys(s, r)
	case kindTerminal:
		s.status = r.Choice("status")
		s.message = r.String("message")
	case kindParallel:
		p.parallelKeys(s, r)
	case kindForEach, kindWhile:
		p.loopKeys(s, r)
	case kindOperation:
		s.operation = r.String("operation")
		r.Require("operation")
		s.inputs = cmp.Or(r.Map("inputs"), r.Map("operation_inputs"))
		p.redundant(r, "operation_inputs", "inputs")
	case kindCall:
		p.callKeys(s, r)
	case kindAgent:
		p.agentKeys(s, r)
	}
	r.Done()
}

// inferKind infers the type of a state without one from its keys.
func inferKind(r *text.Reader) string {
	for _, of := range []struct{ key, kind string }{
		{"command", kindCommand},
		{"script_file", kindCommand},
		{"provider", kindAgent},
		{"prompt", kindAgent},
		{"parallel", kindParallel},
		{"items", kindForEach},
		{"while", kindWhile},
		{"until", kindWhile},
		{"operation", kindOperation},
		{"workflow", kindCall},
		{"call_workflow", kindCall},
		{"on_success", kindCommand},
		{"on_failure", kindCommand},
		{"transitions", kindCommand},
	} {
		if r.Has(of.key) {
			return of.kind
		}
	}
	return kindTerminal
}

// common parses the keys that every step may have.
func (p *parser) common(s *state, r *text.Reader) {
	s.timeout, s.timeoutText = p.duration(r, "timeout")
	s.success = r.String("on_success")
	if n := r.Node("on_failure"); n != nil && n.Kind == text.Map {
		ir := p.read(n, failureShape, "on_failure")
		s.inline = &inline{message: ir.String("message"), status: 1, at: r.KeySpan("on_failure")}
		switch code, at, ok := ir.Int("status", 0); {
		case ok && (code == 0 || code > 255):
			p.out.Warnf(CodeBadValue, at, "Use a number from 1 to 255.",
				"%d is not a valid exit code for a failure, so 1 is used.", code)
		case ok:
			s.inline.status = code
		}
		ir.RequireDeclared()
		ir.Done()
	} else {
		s.failure = r.String("on_failure")
	}
	for _, n := range r.List("transitions") {
		tr := p.read(n, transitionShape, "transition")
		t := transition{when: tr.String("when"), to: tr.String("goto")}
		tr.RequireDeclared()
		tr.Done()
		if t.to.Value != "" {
			s.transitions = append(s.transitions, t)
		}
	}
	s.continueOnError, _, _ = r.Bool("continue_on_error")
	if n := r.Map("retry"); n != nil {
		s.retry = p.retry(n)
	}
	if n := r.Map("hooks"); n != nil {
		hr := p.read(n, aroundShape, `block "hooks"`)
		s.pre, s.post = p.hooks(hr.Node("pre"), "pre"), p.hooks(hr.Node("post"), "post")
		hr.Done()
	}
	s.pre = append(s.pre, p.hooks(r.Node("pre_hook"), "pre_hook")...)
	s.post = append(s.post, p.hooks(r.Node("post_hook"), "post_hook")...)
	for _, key := range []string{"capture", "depends_on"} { // the reference program parses and ignores them
		if r.Node(key) != nil {
			p.out.Notef(CodeNoEffect, r.KeySpan(key),
				"Remove it. The output of a step is always kept, and transitions determine the order of steps.",
				"%q has no effect.", key).RemoveEntry(key, s.from.Entry(key))
		}
	}
}

// retry parses the retry block. Without max_attempts, there is one attempt.
func (p *parser) retry(n *text.Node) *ir.Retry {
	r := p.read(n, retryShape, "retry")
	out := &ir.Retry{MaxAttempts: 1, Backoff: ir.Constant, Span: n.Span}
	if v, _, ok := r.Int("max_attempts", 1); ok {
		out.MaxAttempts = int(min(v, 1<<20))
	}
	for _, key := range []string{"initial_delay", "max_delay"} {
		d := p.fixed(r, key)
		if value := r.Node(key); value != nil && value.Kind == text.Int && d > 0 {
			found := p.out.Notef(CodeSeconds, value.Span,
				fmt.Sprintf(
					"Use \"%ss\" to make it explicit. AWF's documentation says milliseconds, but its program uses "+
						"seconds.", value.Value), "%q means %s seconds.", key, value.Value)
			if strings.Trim(value.Value, "0123456789") == "" {
				found.WriteValue(value.Span, value.Value+"s")
			}
		}
		if key == "max_delay" {
			out.MaxDelay = d
		} else if d > 0 {
			out.Delays = []ir.Millis{d}
		}
	}
	if b := r.Choice("backoff"); b.Value != "" {
		out.Backoff = ir.Backoff(b.Value)
	}
	float := func(key string, least, most float64) float64 {
		n := r.Node(key)
		if n == nil {
			return 0
		}
		v, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || math.IsNaN(v) || v < least || v > most {
			p.out.Errorf(CodeBadValue, n.Span, fmt.Sprintf("Use a number from %g to %g.", least, most),
				"%q has an invalid value: %q.", key, n.Value)
			return 0
		}
		return v
	}
	out.Multiplier, out.Jitter = float("multiplier", 0, 1000), float("jitter", 0, 1)
	for _, code := range r.List("retryable_exit_codes") {
		v, err := strconv.Atoi(code.Value)
		if err != nil || code.Kind != text.Int {
			p.out.Errorf(CodeWrongType, code.Span, "Use numbers such as [1, 75].", "The exit code is not an integer.")
			continue
		}
		out.ExitCodes = append(out.ExitCodes, v)
	}
	r.Done()
	return out
}

// commandKeys parses the keys of a command.
func (p *parser) commandKeys(s *state, r *text.Reader) {
	s.command, s.scriptFile, s.dir, s.shell = r.String("command"), r.String("script_file"), r.String("dir"),
		r.String("shell")
	switch {
	case s.command.Value != "" && s.scriptFile.Value != "":
		p.out.Errorf(CodeEither, r.KeySpan("script_file"), "Keep one of them.",
			"State %q has both \"command\" and \"script_file\".", s.name.Value)
	case s.scriptFile.Value == "":
		r.Require("command")
	}
}

// parallelKeys parses the keys of a parallel state. Its branches are names of states, or states themselves.
func (p *parser) parallelKeys(s *state, r *text.Reader) {
	key := "parallel"
	if r.Has("steps") && !r.Has("parallel") {
		key = "steps"
	}
	list := r.Node(key)
	r.Node("steps")
	p.redundant(r, "steps", "parallel")
	p.requireNonEmpty(s, r, key)
	for i, n := range listItems(list) {
		switch n.Kind {
		case text.Map: // the documented form: a step that contains its name
			s.branches = append(s.branches, p.inlineBranch(s, n, i))
		case text.List, text.Null:
			p.out.Errorf(CodeWrongType, n.Span, "Use \"parallel: [first, second]\".",
				"The branch is not the name of a state.")
		default:
			s.branches = append(s.branches, n.Text())
		}
	}
	s.strategy = r.Choice("strategy").Value
	most, _, _ := r.Int("max_concurrent", 0)
	s.maxConcurrent = int(min(most, 1<<20))
}

// requireNonEmpty reports a list of states that is missing or empty.
func (p *parser) requireNonEmpty(s *state, r *text.Reader, key string) {
	r.Require(key)
	if n := r.Node(key); n != nil && n.Kind == text.List && len(n.Items) == 0 {
		p.out.Errorf(CodeMissing, r.KeySpan(key), "Add the names of the states to run.", "%q of the state %q is empty.",
			key, s.name.Value)
	}
}

// inlineBranch adds a state for a step that is defined inside a parallel state, and returns its
// name.
func (p *parser) inlineBranch(s *state, n *text.Node, i int) text.Text {
	name := text.Text{Value: fmt.Sprintf("%s_%d", s.name.Value, i+1), Span: n.Span}
	kept := &text.Node{Kind: text.Map, Span: n.Span}
	for _, pair := range n.Pairs {
		if pair.Key.Value == "name" {
			name = pair.Value.Text()
			continue
		}
		kept.Pairs = append(kept.Pairs, pair)
	}
	if n.Get("type") == nil && n.Get("use_template") == nil {
		kept.Pairs = append(kept.Pairs, text.Pair{
			Key:   &text.Node{Kind: text.String, Value: "type", Span: n.Span},
			Value: &text.Node{Kind: text.String, Value: kindCommand, Span: n.Span},
		})
	}
	p.state(text.Pair{Key: &text.Node{Kind: text.String, Value: name.Value, Span: name.Span}, Value: kept})
	return name
}

// listItems returns the entries of a list, or a single value.
func listItems(n *text.Node) []*text.Node {
	switch {
	case n == nil:
		return nil
	case n.Kind == text.List:
		return n.Items
	}
	return []*text.Node{n}
}

// loopKeys parses the keys of both kinds of loops.
func (p *parser) loopKeys(s *state, r *text.Reader) {
	if done := r.String("on_complete"); done.Value != "" {
		s.success = done
	}
	s.body = r.Strings("body")
	p.requireNonEmpty(s, r, "body")
	s.breakWhen = r.String("break_when")
	if s.kind == kindForEach {
		s.items = r.Node("items")
		r.Require("items")
		if s.items != nil && s.items.Kind == text.Map {
			p.out.Errorf(CodeWrongType, s.items.Span,
				"Use \"items: [first, second]\", or a string or template that yields a list.",
				"\"items\" is a map, not a list.")
			s.items = nil
		}
		if s.items != nil && s.items.Kind == text.String && s.items.Value == "" {
			s.items = nil // already reported
		}
	} else {
		s.while = r.String("while")
		until := r.String("until")
		switch {
		case until.Value != "" && s.while.Value == "" && s.breakWhen.Value == "":
			s.breakWhen = until
		case until.Value != "":
			p.out.Errorf(CodeEither, r.KeySpan("until"), "Use \"while\" with \"break_when\", or \"until\" alone.",
				"\"until\" is combined with another condition.")
		default:
			r.Require("while")
		}
	}
	n := r.Node("max_iterations")
	switch {
	case n == nil:
	case n.Kind == text.Int:
		v, at, _ := r.Int("max_iterations", 1)
		if v > maxIterations {
			p.out.Errorf(CodeBadValue, at, "Use a smaller number, or split the items over several loops.",
				"\"max_iterations\" is %d, above the maximum of %d.", v, maxIterations)
		}
		s.max = v
	case n.Kind == text.Float || n.Kind == text.Bool:
		p.out.Errorf(CodeBadValue, n.Span, fmt.Sprintf("Use an integer from 1 to %d.", maxIterations),
			"\"max_iterations\" has an invalid value: %s.", n.Value)
	default:
		s.maxText = r.String("max_iterations")
	}
}

// maxIterations is the documented maximum; defaultIterations applies to a while loop without a
// limit.
const (
	maxIterations     = 10000
	defaultIterations = 100
)

// callKeys parses the keys of a call: those of the program, or the documented form with a nested map.
func (p *parser) callKeys(s *state, r *text.Reader) {
	if n := r.Map("call_workflow"); n != nil { // the documented form
		inner := p.read(n, callShape, "call_workflow")
		s.workflow, s.inputs, s.outputs = inner.String("workflow"), inner.Map("inputs"), inner.Map("outputs")
		if d, template := p.duration(inner, "timeout"); d > 0 || template.Value != "" {
			s.timeout, s.timeoutText = d, template
		}
		inner.RequireDeclared()
		inner.Done()
		return
	}
	s.workflow, s.inputs, s.outputs = r.String("workflow"), r.Map("inputs"), r.Map("outputs")
	r.Require("workflow")
}

// providers are the CLI programs and endpoints that AWF knows.
var providers = []string{"claude", "codex", "gemini", "github_copilot", "mistral_vibe", "opencode", "openai_compatible"}

// agentKeys parses the keys of an agent.
func (p *parser) agentKeys(s *state, r *text.Reader) {
	a := &agentKeys{}
	s.agent = a
	a.provider = r.String("provider")
	r.Require("provider")
	// PROVIDER/MODEL is a model of the configuration, which is an Espalier extension.
	if v := a.provider.Value; v != "" && !strings.Contains(v, "{{") && !strings.Contains(v, "/") &&
		!slices.Contains(providers, v) {
		p.out.Warnf(CodeBadValue, a.provider.Span, "", "AWF has no provider %q.", v).Suggest(v, providers)
	}
	a.mode = r.Choice("mode")
	a.prompt, a.promptFile = r.String("prompt"), r.String("prompt_file")
	if initial := r.String("initial_prompt"); a.prompt.Value == "" {
		a.prompt = initial
	}
	p.redundant(r, "initial_prompt", "prompt")
	switch {
	case a.prompt.Value != "" && a.promptFile.Value != "":
		p.out.Errorf(CodeEither, r.KeySpan("prompt_file"), "Keep one of them.",
			"State %q has both \"prompt\" and \"prompt_file\".", s.name.Value)
	case a.prompt.Value == "" && a.promptFile.Value == "":
		r.Require("prompt")
	case a.promptFile.Value != "" && a.mode.Value == conversationMode:
		p.out.Errorf(CodeEither, r.KeySpan("prompt_file"), "Use \"prompt\" instead.",
			"A conversation cannot use \"prompt_file\".")
	}
	a.system, a.role = r.String("system_prompt"), r.String("role")
	a.format = r.Choice("output_format")
	a.options = p.agentOptions(r.Map("options"))
	if n := r.Map("conversation"); n != nil {
		a.conversation = true
		cr := p.read(n, conversationShape, "conversation")
		a.continueFrom = cr.String("continue_from")
		noEffect := []string{"stop_condition", "max_context_tokens", "strategy"}
		if a.mode.Value == conversationMode {
			turns, _, _ := cr.Int("max_turns", 1)
			a.maxTurns = int(min(turns, maxIterations))
		} else {
			noEffect = append([]string{"max_turns"}, noEffect...)
		}
		for _, key := range noEffect {
			if cr.Node(key) != nil {
				p.out.Notef(CodeNoEffect, cr.KeySpan(key),
					"Remove it. The whole conversation is sent to the model, and an empty line ends it.",
					"%q has no effect.", key).RemoveEntry(key, cr.Entry(key))
			}
		}
		cr.Done()
	}
	for _, n := range listItems(r.Node("skills")) {
		switch n.Kind {
		case text.Map:
			sr := p.read(n, skillShape, "skill")
			ref := skillRef{name: sr.String("name"), path: sr.String("path")}
			if !sr.Has("path") {
				sr.Require("name")
			}
			sr.Done()
			a.skills = append(a.skills, ref)
		case text.List, text.Null:
			p.out.Errorf(CodeWrongType, n.Span, "Use \"skills: [review]\".",
				"The skill is neither a name nor a map with \"path\".")
		default:
			a.skills = append(a.skills, skillRef{name: n.Text()})
		}
	}
	strict := readerCodes
	strict.UnknownAs = diag.Error // as in AWF: it determines what an agent may do
	mr := proxyShape.Read(r.Map("mcp_proxy"), "mcp_proxy", strict, p.out)
	a.tools, _, _ = mr.Bool("enable")
	a.toolsAt = r.KeySpan("mcp_proxy")
	p.pluginTools(mr)
	if on, at, ok := mr.Bool("intercept_builtins"); ok && !on {
		if a.tools && len(listItems(mr.Node("plugin_tools"))) == 0 {
			p.out.Errorf(CodeBadValue, at,
				"Remove it to offer Read, Write, Edit, Bash, Glob and Grep, or remove \"mcp_proxy\".",
				"\"intercept_builtins: false\" leaves the proxy without tools.").
				RemoveEntry("mcp_proxy", r.Entry("mcp_proxy")) // not the other: it would allow tools
		}
		a.tools = false
	}
	mr.Done()
}

// agentOptions parses the options of an agent. A provider may have more of them, which are not for Espalier to judge.
func (p *parser) agentOptions(n *text.Node) agentOptions {
	if n == nil {
		return agentOptions{}
	}
	r := p.read(n, optionsShape, "options")
	o := agentOptions{model: r.String("model").Value, system: r.String("system_prompt").Value, pairs: n.Pairs}
	for _, key := range []string{"max_completion_tokens", "max_tokens"} {
		if n := r.Node(key); n != nil && n.Kind == text.Int && o.maxTokens == 0 {
			var most int
			if json.Unmarshal(n.JSON(), &most) == nil && most > 0 {
				o.maxTokens = most
			}
		}
	}
	for _, key := range []string{"allowed_tools", "allowedTools"} {
		o.listsTools = o.listsTools || !r.KeySpan(key).IsZero() // even if its value is null
		if list := r.Node(key); list != nil {
			o.tools = append(o.tools, list)
		}
	}
	for _, key := range []string{"dangerously_skip_permissions", "yolo", "full_auto", "allow_all_tools"} {
		if n := r.Node(key); n != nil && n.Value == "true" {
			o.permissions = append(o.permissions, n)
		}
	}
	for _, pair := range n.Pairs {
		key := pair.Key.Value
		if meant := misspelledOption(key); meant != "" && n.Get(meant) == nil {
			p.out.Notef(CodeUnknownKey, pair.Key.Span, fmt.Sprintf("Did you mean %q?", meant),
				"AWF does not know the option %q.", key)
		}
	}
	return o
}

// misspelledOption returns the option of Espalier or a compatible server that differs from an unknown one only in a
// letter, in case or in word separators, or "". Providers have options that are less similar, such as disallowed_tools.
func misspelledOption(name string) string {
	if optionsShape.Find(name) != nil {
		return ""
	}
	for _, one := range slices.Concat(readShape.Fields, serverShape.Fields) {
		if !one.Hidden && differInLetter(letters(name), letters(one.Name)) {
			return one.Name
		}
	}
	return ""
}

// letters returns a key in lower case and without its word separators.
func letters(key string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
}

// differInLetter reports whether at most one letter of a is missing, added or different in b, or two neighbors are
// swapped.
func differInLetter(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a) <= 1 && len(b) <= 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}

// pluginTools reports the tools of plugins, which are not supported, and plugins that are listed twice.
func (p *parser) pluginTools(r *text.Reader) {
	list := r.Node("plugin_tools")
	if list == nil {
		return
	}
	p.out.Warnf(CodeUnsupported, r.KeySpan("plugin_tools"), "Configure them as an MCP server in espalier.yaml.",
		"Tools of AWF plugins are not available.")
	seen := map[string]bool{}
	for _, n := range listItems(list) {
		name := n.Get("plugin")
		if name == nil {
			continue
		}
		if seen[name.Value] {
			p.out.Errorf(CodeRepeated, name.Span, "List its tools under one entry.", "Plugin %q is listed twice.",
				name.Value)
		}
		seen[name.Value] = true
	}
}
