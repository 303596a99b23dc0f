package reporttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Breaches checks the promises about the transcripts of a run and of all its
// children, by run id, and returns where they are broken. over reports that the
// run has finished. It shares no code with the writer, so that it does not repeat
// its mistakes.
func Breaches(files map[string]string, root string, over bool) []string {
	c := &checker{files: map[string]*transcriptFile{}, over: over}
	for _, run := range slices.Sorted(maps.Keys(files)) {
		c.files[run] = c.read(run, files[run])
	}
	for _, run := range slices.Sorted(maps.Keys(c.files)) {
		c.file(c.files[run], run == root)
	}
	c.linkage(root)
	return c.breaches
}

// checker checks the transcripts of a run and of the runs that it calls.
type checker struct {
	files    map[string]*transcriptFile
	over     bool
	breaches []string
}

// transcriptFile is one file, and what is open at the current line.
type transcriptFile struct {
	run    string
	lines  []transcriptLine
	open   map[string][]openedStep // by path
	latest map[string]int          // last iteration of a step of a sequential loop, by path
	calls  map[string]toolPayload  // by path and id
}

// openedStep is a step that has started and not ended.
type openedStep struct {
	line *transcriptLine
	loop bool // inside a loop, so that its iteration does not change
	// beside is set in a parallel step, which may be a fan-out over a list: then
	// the same step is open for several items.
	beside bool
}

// transcriptLine is a decoded line, with its keys in the order in which they are written.
type transcriptLine struct {
	number    int
	text      string
	keys      []string
	Seq       int64           `json:"seq"`
	Run       string          `json:"run_id"`
	Parent    string          `json:"parent_run_id"`
	Child     string          `json:"child_run_id"`
	Type      string          `json:"type"`
	Path      string          `json:"path"`
	Iteration int             `json:"iteration"`
	Timestamp string          `json:"timestamp"`
	Payload   json.RawMessage `json:"payload"`
	at        time.Time
	step      stepPayload
}

// stepPayload is the payload of a step or a run.
type stepPayload struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Attempt is the number of a retry, from 2.
	Attempt int             `json:"attempt"`
	Error   string          `json:"error"`
	Result  json.RawMessage `json:"result"`
}

// toolPayload is the payload of a tool call or its result.
type toolPayload struct {
	Name     string          `json:"name"`
	CallID   string          `json:"call_id"`
	Input    json.RawMessage `json:"input"`
	Output   json.RawMessage `json:"output"`
	Error    string          `json:"error"`
	Fidelity string          `json:"fidelity"`
}

// uuid4 matches a random UUID.
var uuid4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// htmlEscape matches the escape of <, > or &, after an even number of backslashes.
var htmlEscape = regexp.MustCompile(`[^\\](\\\\)*\\u00(3c|3e|26)`)

// breach reports that a line breaks a rule of transcripts.
func (c *checker) breach(f *transcriptFile, l *transcriptLine, format string, args ...any) {
	c.breaches = append(c.breaches, fmt.Sprintf("%s line %d: %s: %s", f.run, l.number, fmt.Sprintf(format, args...),
		l.text))
}

// read parses a file. Lines that cannot be read are reported and skipped.
func (c *checker) read(run, text string) *transcriptFile {
	f := &transcriptFile{
		run: run, open: map[string][]openedStep{}, latest: map[string]int{},
		calls: map[string]toolPayload{},
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		c.breaches = append(c.breaches, run+": the last line has no end")
	}
	if !uuid4.MatchString(run) {
		c.breaches = append(c.breaches, run+": no UUID of version 4")
	}
	for line := range strings.Lines(text) {
		l := transcriptLine{number: len(f.lines) + 1, text: strings.TrimSuffix(line, "\n")}
		if err := json.Unmarshal([]byte(l.text), &l); err != nil {
			c.breach(f, &l, "%v", err)
			continue
		}
		var compact bytes.Buffer
		switch err := json.Compact(&compact, []byte(l.text)); {
		case err != nil || compact.String() != l.text:
			c.breach(f, &l, "not compact")
		case !utf8.ValidString(l.text):
			c.breach(f, &l, "no UTF-8")
		}
		l.keys = keysOf([]byte(l.text))
		var err error
		if l.at, err = time.Parse("2006-01-02T15:04:05.000Z", l.Timestamp); err != nil {
			c.breach(f, &l, "%v", err)
		}
		f.lines = append(f.lines, l)
	}
	return f
}

// keysOf returns the keys of an object in their order.
func keysOf(raw []byte) []string {
	var out []string
	in := json.NewDecoder(bytes.NewReader(raw))
	if start, err := in.Token(); err != nil || start != json.Delim('{') {
		return nil
	}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return out
		}
		out = append(out, fmt.Sprint(key))
		var value json.RawMessage
		if in.Decode(&value) != nil {
			return out
		}
	}
	return out
}

// ordered reports whether keys are a subset of all, in their order, with all that are needed.
func ordered(keys []string, all ...string) bool {
	next := 0
	for _, one := range all {
		name, optional := strings.CutSuffix(one, "?")
		switch {
		case next < len(keys) && keys[next] == name:
			next++
		case !optional:
			return false
		}
	}
	return next == len(keys)
}

// file checks the lines of one file in turn.
func (c *checker) file(f *transcriptFile, root bool) {
	for i := range f.lines {
		l := &f.lines[i]
		if !ordered(l.keys, "seq", "run_id", "parent_run_id?", "child_run_id?", "type", "path", "iteration",
			"timestamp", "payload") {
			c.breach(f, l, "the envelope has the keys %q", l.keys)
		}
		if l.Seq != int64(i+1) {
			c.breach(f, l, "seq is %d, not %d", l.Seq, i+1)
		}
		if l.Run != f.run {
			c.breach(f, l, "it is of run %s", l.Run)
		}
		if (l.Parent == "") != root {
			c.breach(f, l, "the lines of children, and only they, name their parent")
		}
		if i > 0 && l.at.Before(f.lines[i-1].at) {
			c.breach(f, l, "time goes back")
		}
		if (l.Child != "") && !strings.HasPrefix(l.Type, "step.call_workflow.") {
			c.breach(f, l, "only calls have a child")
		}
		if htmlEscape.MatchString(l.text) {
			c.breach(f, l, "it is escaped for HTML")
		}
		isRun := l.Type == "run.started" || l.Type == "run.completed"
		if isRun != (l.Path == "") {
			c.breach(f, l, "the path is %q", l.Path)
		}
		if l.Iteration < 0 || isRun && l.Iteration != 0 {
			c.breach(f, l, "iteration %d", l.Iteration)
		}
		if (l.Type == "run.started") != (i == 0) {
			c.breach(f, l, "a file begins with run.started, and has no other")
		}
		switch l.Type {
		case "run.started":
			c.step(f, l, false)
			c.runKind(f, l)
		case "run.completed":
			c.step(f, l, true)
			c.runKind(f, l)
			if i != len(f.lines)-1 {
				c.breach(f, l, "something comes after the end")
			}
			for _, path := range slices.Sorted(maps.Keys(f.open)) {
				c.breach(f, l, "%s is still open", path)
			}
		case "step.started", "hook.started", "step.call_workflow.started":
			c.step(f, l, false)
			c.begins(f, l)
		case "step.completed", "hook.completed", "step.call_workflow.completed":
			c.step(f, l, true)
			c.ends(f, l)
		case "message.user", "message.assistant":
			c.within(f, l)
			c.message(f, l)
		case "tool.call", "tool.result":
			c.within(f, l)
			c.tool(f, l)
		default:
			c.breach(f, l, "no such type")
		}
	}
	if c.over && (len(f.lines) == 0 || f.lines[len(f.lines)-1].Type != "run.completed") {
		c.breaches = append(c.breaches, f.run+": the run is over, and the last line does not say so")
	}
}

// step decodes the payload of run.* and step.* events.
func (c *checker) step(f *transcriptFile, l *transcriptLine, ended bool) {
	if err := json.Unmarshal(l.Payload, &l.step); err != nil {
		c.breach(f, l, "payload: %v", err)
		return
	}
	keys := keysOf(l.Payload)
	if ended && !ordered(keys, "name", "kind", "attempt?", "error?", "result?") ||
		!ended && !ordered(keys, "name", "kind", "attempt?") {
		c.breach(f, l, "the payload has the keys %q", keys)
	}
	if l.step.Name == "" || l.step.Kind == "" || slices.Contains(keys, "error") && l.step.Error == "" {
		c.breach(f, l, "the payload is empty")
	}
}

// runKind checks that a line about a run says so.
func (c *checker) runKind(f *transcriptFile, l *transcriptLine) {
	if l.step.Kind != "workflow" {
		c.breach(f, l, "the kind is %q", l.step.Kind)
	}
}

// begins checks the start of a step: the steps around it must be open.
func (c *checker) begins(f *transcriptFile, l *transcriptLine) {
	call := strings.HasPrefix(l.Type, "step.call_workflow.")
	if call != (l.step.Kind == "call_workflow") {
		c.breach(f, l, "the kind is %q", l.step.Kind)
	}
	name := l.step.Name
	if strings.HasPrefix(l.Type, "hook.") && strings.HasPrefix(name, "workflow:") {
		name = l.Path[strings.LastIndexByte(l.Path, '.')+1:] // hooks of the workflow have the name of their event
	}
	around, nested := strings.CutSuffix(l.Path, "."+name)
	if !nested && l.Path != name {
		c.breach(f, l, "the path does not end with the name")
		return
	}
	one := openedStep{line: l}
	if nested {
		outer := f.open[around]
		if len(outer) == 0 {
			c.breach(f, l, "%s, in which it lies, is not open", around)
			return
		}
		kind := outer[0].line.step.Kind
		one.loop = outer[0].loop || kind == "for_each" || kind == "while"
		one.beside = outer[0].beside || kind == "parallel"
		if strings.HasPrefix(outer[0].line.Type, "step.call_workflow.") {
			c.breach(f, l, "what a child does is in its own file")
		}
	}
	if one.loop && !one.beside {
		if last, again := f.latest[l.Path]; again && l.Iteration <= last && l.step.Attempt < 2 {
			c.breach(f, l, "iteration %d after %d", l.Iteration, last)
		}
		f.latest[l.Path] = l.Iteration
	}
	if !one.beside && len(f.open[l.Path]) > 0 {
		c.breach(f, l, "it is open already")
	}
	f.open[l.Path] = append(f.open[l.Path], one)
}

// instance finds the visit of a step that a line belongs to. Outside of loops the
// iteration counts attempts, and may have grown since the step started.
func (f *transcriptFile) instance(l *transcriptLine) int {
	return slices.IndexFunc(f.open[l.Path], func(o openedStep) bool {
		return o.line.Iteration == l.Iteration || !o.loop && o.line.Iteration < l.Iteration
	})
}

// ends checks the end of a step: it must fit the start of the same visit.
func (c *checker) ends(f *transcriptFile, l *transcriptLine) {
	i := f.instance(l)
	if i < 0 {
		c.breach(f, l, "it ends without a start")
		return
	}
	began := f.open[l.Path][i].line
	if began.step.Attempt != l.step.Attempt || began.Iteration != l.Iteration {
		c.breach(f, l, "it began as attempt %d, iteration %d", began.step.Attempt, began.Iteration)
	}
	if hook := strings.HasPrefix(l.Type, "hook."); hook != (l.step.Kind == "hook") {
		c.breach(f, l, "the kind is %q", l.step.Kind)
	}
	if began.step.Name != l.step.Name || began.step.Kind != l.step.Kind || began.Child != l.Child ||
		strings.TrimSuffix(began.Type, ".started") != strings.TrimSuffix(l.Type, ".completed") {
		c.breach(f, l, "it began as line %d: %s", began.number, began.text)
	}
	if f.open[l.Path] = slices.Delete(f.open[l.Path], i, i+1); len(f.open[l.Path]) > 0 {
		return
	}
	delete(f.open, l.Path)
	for path := range f.open {
		if strings.HasPrefix(path, l.Path+".") {
			c.breach(f, l, "%s is still open", path)
		}
	}
	for path := range f.latest { // the next visit starts again
		if strings.HasPrefix(path, l.Path+".") {
			delete(f.latest, path)
		}
	}
}

// within checks an event inside a step.
func (c *checker) within(f *transcriptFile, l *transcriptLine) {
	if f.instance(l) < 0 {
		c.breach(f, l, "no such step is open")
	}
}

// blocks are the keys of each type of block, besides type and fidelity.
var blocks = map[string][]string{
	"text":        {"text?"},
	"thinking":    {"thinking?"},
	"tool_use":    {"tool_name", "tool_id?", "tool_input?"},
	"tool_result": {"tool_name?", "tool_id?", "tool_content?"},
	"command":     {"command"},
	"stream":      {"chunk"},
}

// message checks a message and its blocks.
func (c *checker) message(f *transcriptFile, l *transcriptLine) {
	var m struct {
		Role    string            `json:"role"`
		Blocks  []json.RawMessage `json:"blocks"`
		Offline string            `json:"offline"`
	}
	if err := json.Unmarshal(l.Payload, &m); err != nil {
		c.breach(f, l, "payload: %v", err)
		return
	}
	role, fidelity := "user", "router"
	if l.Type == "message.assistant" {
		role, fidelity = "assistant", "agent_emitted"
	}
	if keys := keysOf(l.Payload); !ordered(keys, "role", "blocks", "offline?") || m.Role != role || m.Blocks == nil {
		c.breach(f, l, "the payload has the keys %q and the role %q", keys, m.Role)
	}
	for _, raw := range m.Blocks {
		var b struct {
			Type     string `json:"type"`
			Fidelity string `json:"fidelity"`
		}
		err := json.Unmarshal(raw, &b)
		more, known := blocks[b.Type]
		keys, allowed := keysOf(raw), append([]string{"type", "fidelity"}, more...)
		if err != nil || !known || b.Fidelity != fidelity || !ordered(keys, allowed...) {
			c.breach(f, l, "the block %s", raw)
		}
		if (b.Type == "command" && role != "user") || (b.Type == "stream" && role != "assistant") {
			c.breach(f, l, "a %s block of the %s", b.Type, role)
		}
	}
}

// tool checks a tool call or its result.
func (c *checker) tool(f *transcriptFile, l *transcriptLine) {
	var p toolPayload
	if err := json.Unmarshal(l.Payload, &p); err != nil {
		c.breach(f, l, "payload: %v", err)
		return
	}
	keys := keysOf(l.Payload)
	if !ordered(keys, "name", "call_id", "input", "output", "error?", "fidelity", "offline?") || p.Name == "" ||
		p.CallID == "" {
		c.breach(f, l, "the payload has the keys %q", keys)
	}
	if p.Fidelity != "router" && p.Fidelity != "agent_emitted" {
		c.breach(f, l, "the fidelity is %q", p.Fidelity)
	}
	key := fmt.Sprintf("%s %d %s", l.Path, l.Iteration, p.CallID)
	if l.Type == "tool.call" {
		if string(p.Output) != "null" || p.Error != "" {
			c.breach(f, l, "a call has no output yet")
		}
		if _, twice := f.calls[key]; twice {
			c.breach(f, l, "the same call is open already")
		}
		f.calls[key] = p
		return
	}
	call, made := f.calls[key]
	delete(f.calls, key)
	switch {
	case !made:
		c.breach(f, l, "a result without its call")
	case call.Name != p.Name || call.Fidelity != p.Fidelity || !bytes.Equal(call.Input, p.Input):
		c.breach(f, l, "the call was of %s with %s, %s", call.Name, call.Input, call.Fidelity)
	}
}

// linkage checks that every child is called once, by the run that it names, and
// lasts as long as the call.
func (c *checker) linkage(root string) {
	if c.files[root] == nil {
		c.breaches = append(c.breaches, root+": there is no transcript")
	}
	called := map[string]bool{}
	for _, run := range slices.Sorted(maps.Keys(c.files)) {
		f := c.files[run]
		ended := map[string]*transcriptLine{}
		for i := range f.lines {
			if l := &f.lines[i]; l.Type == "step.call_workflow.completed" {
				ended[l.Child] = l
			}
		}
		for i := range f.lines {
			l := &f.lines[i]
			if l.Type != "step.call_workflow.started" || l.Child == "" {
				continue // a child that could not start has no file
			}
			child := c.files[l.Child]
			if child == nil || len(child.lines) == 0 {
				c.breach(f, l, "the child has no transcript")
				continue
			}
			if called[l.Child] {
				c.breach(f, l, "the child was called before")
			}
			called[l.Child] = true
			for j := range child.lines {
				if child.lines[j].Parent != run {
					c.breach(child, &child.lines[j], "its parent is %s", run)
				}
			}
			if child.lines[0].at.Before(l.at) {
				c.breach(f, l, "the child began before")
			}
			if end := ended[l.Child]; end != nil {
				last := &child.lines[len(child.lines)-1]
				if last.Type != "run.completed" || end.at.Before(last.at) {
					c.breach(f, end, "the child has not ended")
				}
			}
		}
	}
	for _, run := range slices.Sorted(maps.Keys(c.files)) {
		if run != root && !called[run] {
			c.breaches = append(c.breaches, run+": no run calls it")
		}
	}
}
