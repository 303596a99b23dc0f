package agentfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// usualVariable holds what a run is given when the trigger names no other.
const usualVariable = "AGENT_INPUT"

// runVar is the run's id as the format has it (G5, G14): the name of a folder
// below outputs/NAME.
const runVar = "agentfile.run"

// lowering turns one document into a program.
type lowering struct {
	file  *source.File
	files format.Files
	doc   *document
	out   *diag.List
	p     *ir.Program

	made     []product         // by the steps so far
	agents   map[string]string // IDs by the path of their files
	env      map[string]bool   // variables of the environment that may be read
	reads    []ir.Ref          // of the step that is being lowered
	variable string
	used     bool // the run needs to be given something
	named    bool // placeholders may be filled in by what the run is given
	scripts  bool // a shell step has come already
	cli      bool // the layout is that of the agentfile CLI
	allowed  []string
}

// product is what a step produces.
type product struct {
	step string
	path string // cleaned; a folder's ends with /
	at   source.Span
}

func (l *lowering) report(code diag.Code, severity diag.Severity, at source.Span, message, help string, related ...diag.Related) {
	l.out.Add(diag.Diagnostic{Code: code, Severity: severity, Span: at, Message: message, Help: help, Related: related})
}

func (l *lowering) program() *ir.Program {
	d := l.doc
	l.agents, l.env = map[string]string{}, map[string]bool{}
	l.variable = usualVariable
	if d.trigger.variable.Value != "" {
		l.variable = d.trigger.variable.Value
	}
	l.p = &ir.Program{
		Format: Format{}.Name(), Name: d.name.Value, Version: d.version.Value, Description: d.description.Value,
		Tools: ir.Tools{AllowAll: true}, MayIntervene: true, Blocks: make([]ir.Block, 1), Span: d.first,
	}
	if !d.name.Span.IsZero() {
		l.p.Span = d.name.Span
	}
	if l.p.Name == "" {
		l.p.Name = path.Base(folder(l.file))
	}
	l.otherName()
	l.manifest()
	l.about()
	l.p.Vars = []ir.Var{{Path: runVar, From: "stamp:" + l.runs()}}
	l.body()
	l.input()
	for name := range l.env {
		if l.env[name] {
			l.p.Vars = append(l.p.Vars, ir.Var{Path: "env." + name, From: "env:" + name})
		}
	}
	slices.SortFunc(l.p.Vars, func(a, b ir.Var) int { return strings.Compare(a.Path, b.Path) })
	return l.p
}

// otherName: discovery and other programs go by the folder.
func (l *lowering) otherName() {
	in := folder(l.file)
	if name := l.doc.name; name.Value != "" && path.Base(path.Dir(in)) == "workflows" && path.Base(in) != name.Value {
		l.report(CodeOtherName, diag.Warning, name.Span, fmt.Sprintf("The workflow is called %q, and its folder %q.", name.Value, path.Base(in)),
			"Give both the same name: other programs find workflows by their folders.")
	}
}

// manifest looks into the project's agentfile.yaml, if there is one, for the
// variables of the environment that workflows may read (G6).
func (l *lowering) manifest() {
	for _, name := range l.allowed {
		l.env[name] = false // not read yet
	}
	f, err := l.files.Read(l.file, "agentfile.yaml")
	if err != nil {
		return // it is optional
	}
	root, list := text.ParseYAML(f, 0, len(f.Text))
	*l.out = append(*l.out, list...)
	if root == nil || root.Kind != text.Map {
		return
	}
	l.p.AddFile(f, "manifest")
	for _, name := range text.Read(root, "project", readerCodes, l.out).Strings("env") {
		l.env[name.Value] = false
	}
}

// about keeps what the file says about itself.
func (l *lowering) about() {
	d := l.doc
	meta := func(name string, t text.Text) {
		if t.Value != "" {
			raw, err := json.Marshal(t.Value)
			if err == nil { // text always encodes
				l.p.Meta = append(l.p.Meta, ir.Meta{Name: name, Value: raw, Span: t.Span})
			}
		}
	}
	meta("trigger", d.trigger.kind)
	meta("preferred", d.preferred) // G23: shown, and nothing else
	trigger := ir.Trigger{Kind: ir.OnDemand, Span: d.trigger.at}
	switch d.trigger.kind.Value {
	case "schedule":
		if d.trigger.schedule.Value == "" {
			break
		}
		trigger = ir.Trigger{Kind: ir.OnSchedule, Schedule: d.trigger.schedule.Value, Span: d.trigger.schedule.Span}
	case "file":
		trigger = ir.Trigger{Kind: ir.OnEvent, Event: "file", Span: d.trigger.kind.Span}
	}
	if d.trigger.kind.Value != "" {
		l.p.Triggers = []ir.Trigger{trigger}
	}
}

// input is the contract of what a run is given.
func (l *lowering) input() {
	properties := map[string]any{l.variable: map[string]any{"type": "string", "description": "what the workflow is to work on"}}
	if l.named {
		properties["workflow_name"] = map[string]any{"type": "string", "description": "what {workflow_name} stands for; the workflow's own name if left out"}
		properties["run_id"] = map[string]any{"type": "string", "description": "what {run_id} stands for; the run's own if left out"}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if l.used {
		schema["required"] = []string{l.variable}
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return // plain data always encodes
	}
	at := l.doc.trigger.variable.Span
	if at.IsZero() {
		at = l.doc.trigger.at
	}
	if at.IsZero() {
		at = l.doc.first
	}
	l.p.Input = &ir.Contract{Schema: raw, Span: at}
}

// body lowers the steps, each of which leads to the next.
func (l *lowering) body() {
	var steps []ir.Step
	add := func(s ir.Step) {
		if n := len(steps); n > 0 {
			steps[n-1].Next = []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: s.ID}, Sequential: true}}
		}
		steps = append(steps, s)
	}
	seen := map[string]source.Span{}
	last := l.lastAgent()
	for i, n := range l.doc.steps {
		if n.id.Value == "" {
			n.id.Value = fmt.Sprintf("step-%d", i+1) // reported already
		}
		if first, twice := seen[n.id.Value]; twice {
			l.report(CodeRepeated, diag.Error, n.at, fmt.Sprintf("There are two steps with the id %q.", n.id.Value), "Give each step an id of its own.",
				diag.Related{Span: first, Message: "The first one."})
			continue
		}
		seen[n.id.Value] = n.at
		l.reads = nil
		s := ir.Step{ID: n.id.Value, Description: n.name.Value, Span: n.at}
		if n.shell {
			l.shell(n, &s)
		} else {
			l.agent(n, &s)
			if n == last && !l.collects() {
				s.Writes = append(s.Writes, ir.Write{Path: "output"})
			}
		}
		s.Reads = l.reads
		add(s)
		if n.gate.Value != "" && !n.shell {
			// G7: the artifact is there before somebody is asked.
			add(ir.Step{
				ID: n.id.Value + ":gate", Type: "gate", Description: n.name.Value, Implied: true, Reads: []ir.Ref{{Path: variable(n.id.Value), Span: n.gate.Span}},
				Action: ir.Gate{Decider: ir.Person, Span: n.gate.Span}, Span: n.gate.Span,
			})
		}
	}
	if l.collects() && last != nil {
		add(l.collect(last))
	}
	l.p.Blocks[ir.Body] = ir.Block{Steps: steps, Span: l.doc.first}
	if len(steps) == 0 {
		l.p.Unread.Steps = true
	}
}

func (l *lowering) lastAgent() *node {
	for _, n := range slices.Backward(l.doc.steps) {
		if !n.shell {
			return n
		}
	}
	return nil
}

// collects tells whether the output is put together at the end: when it is
// copied somewhere (G21), or when somebody may still change it at a gate (G7).
func (l *lowering) collects() bool {
	last := l.lastAgent()
	return last != nil && (l.doc.outputDir.Value != "" || last.gate.Value != "")
}

// variable is where a step's product is kept.
func variable(step string) string { return "artifacts." + step }

func (l *lowering) read(path string, at source.Span) {
	if !slices.ContainsFunc(l.reads, func(r ir.Ref) bool { return r.Path == path }) {
		l.reads = append(l.reads, ir.Ref{Path: path, Span: at})
	}
}

// here adds what a step needs to know about where it is.
func (l *lowering) here(paths ...text.Text) {
	l.read(runVar, source.Span{})
	for _, p := range paths {
		if strings.Contains(p.Value, "{workflow_name}") || strings.Contains(p.Value, "{run_id}") {
			l.named = true
			l.read("input.workflow_name", source.Span{})
			l.read("input.run_id", source.Span{})
		}
	}
}

// input is one thing that an agent works on, as the step kind has it: one of
// the last three.
type given struct {
	Name string `json:"name"`
	Read string `json:"read,omitempty"` // a variable
	Part string `json:"part,omitempty"` // of the variable: a file of a folder
	File string `json:"file,omitempty"` // read when the step runs
	Text string `json:"text,omitempty"` // read now
}

func (l *lowering) agent(n *node, s *ir.Step) {
	s.Type = "agent"
	t := ir.Task{Kind: "artifact"}
	id := l.agentOf(n)
	t.Settings.Put("agent", id, n.agent.Span)
	if n.skill.Value != "" {
		if f := l.open(n.skill, "skill"); f != nil {
			l.sections(f, n.skill, "skill", "Purpose", "Instructions", "Examples")
			l.p.AddFile(f, "skill")
			t.Settings.Put("skill", f.Text, n.skill.Span)
		}
	}
	t.Settings.Put("goal", n.goal.Value, n.goal.Span)
	var inputs []given
	for _, in := range n.inputs {
		if one, ok := l.given(n, in); ok {
			inputs = append(inputs, one)
		}
	}
	t.Settings.Put("inputs", inputs, s.Span)
	l.here(append(slices.Clone(n.inputs), n.produces)...)
	l.produced(n, &t)
	if n.draft.Value != "" {
		t.Settings.Put("draft", n.draft.Value, n.draft.Span)
	}
	l.place(&t)
	s.Action, s.Writes = t, []ir.Write{{Path: variable(n.id.Value), Span: n.produces.Span}}
}

// place tells a task which workflow it belongs to, and where that lies.
func (l *lowering) place(t *ir.Task) {
	t.Settings.Put("workflow", l.p.Name, source.Span{})
	t.Settings.Put("folder", filepath.FromSlash(folder(l.file)), source.Span{})
	if l.cli {
		t.Settings.Put("runs", l.runs(), source.Span{})
	}
}

// runs is the folder that holds those of all runs, from the project's root (G5).
func (l *lowering) runs() string {
	if l.cli {
		return path.Join("workflows", path.Base(folder(l.file)), "outputs")
	}
	return "outputs/" + l.p.Name
}

// produced tells a task where to put what it makes, and remembers it.
func (l *lowering) produced(n *node, t *ir.Task) {
	made, ok := l.path(n.produces, n.id.Value)
	if !ok {
		return
	}
	if slices.Contains([]string{".", "outputs", "artifacts", "workflows", "shared"}, made) {
		l.report(CodeBadValue, diag.Error, n.produces.Span, fmt.Sprintf("%q is a folder, and a step that produces one file cannot write that.", n.produces.Value),
			fmt.Sprintf("Name a file, such as outputs/%s.md; or write a / at the end if the step produces a folder of files.", n.id.Value))
		return
	}
	t.Settings.Put("produces", made, n.produces.Span)
	for _, other := range l.made {
		if other.path == made {
			l.report(CodeMadeTwice, diag.Warning, n.produces.Span, fmt.Sprintf("Step %q writes over what step %q has produced.", n.id.Value, other.step),
				"Give it a path of its own, unless that is what you want.", diag.Related{Span: other.at, Message: "The first one."})
		}
	}
	l.made = append(l.made, product{step: n.id.Value, path: made, at: n.produces.Span})
}

// agentOf is the agent of a step: who it is to be, with what holds for all.
func (l *lowering) agentOf(n *node) string {
	ref := n.agent
	if id, ok := l.agents[path.Clean(ref.Value)]; ok {
		return id
	}
	id := strings.TrimSuffix(strings.TrimPrefix(path.Clean(ref.Value), "agents/"), ".md")
	if ref.Value == "" {
		id = n.id.Value
	}
	if l.p.Agent(id) != nil { // agents/a.md and a.md are two
		id = path.Clean(ref.Value)
	}
	l.agents[path.Clean(ref.Value)] = id
	a := ir.Agent{ID: id, Span: ref.Span}
	var system []string
	// G17: both are optional; an AGENTS.md at the root is for editors.
	for _, name := range []string{"shared/project.md", "shared/AGENTS.md"} {
		if f, err := l.files.Read(l.file, name); err == nil {
			l.p.AddFile(f, "shared")
			system = append(system, strings.TrimSpace(f.Text))
		}
	}
	if ref.Value != "" {
		if f := l.open(ref, "agent"); f != nil {
			l.sections(f, ref, "agent", "Persona", "Responsibilities", "Rules", "Output Format")
			l.p.AddFile(f, "agent")
			system = append(system, strings.TrimSpace(f.Text))
		}
	}
	a.Instructions = strings.Join(system, "\n\n")
	l.p.Agents = append(l.p.Agents, a)
	return id
}

// sections warns about what a file for a model should have and has not. Half
// of all skills lack one, so it cannot be more than a warning.
func (l *lowering) sections(f *source.File, ref text.Text, what string, wanted ...string) {
	var missing []string
	headings := text.ParseMarkdown(f).Headings
	for _, one := range wanted {
		if !slices.ContainsFunc(headings, func(h text.Heading) bool { return strings.EqualFold(strings.TrimSpace(h.Text), one) }) {
			missing = append(missing, fmt.Sprintf("%q", "## "+one))
		}
	}
	if len(missing) == 0 {
		return
	}
	word := "section"
	if len(missing) > 1 {
		word = "sections"
	}
	l.report(CodeNoSection, diag.Warning, f.Span(0, len(f.Line(1))), fmt.Sprintf("The %s %s has no %s %s.", what, f.Path, word, strings.Join(missing, ", ")),
		"Add what is missing: models go by these sections.", diag.Related{Span: ref.Span, Message: fmt.Sprintf("The %s is named here.", what)})
}

// open reads a file that the workflow refers to.
func (l *lowering) open(ref text.Text, what string) *source.File {
	f, err := l.files.Read(l.file, path.Clean(ref.Value))
	if err == nil {
		return f
	}
	l.noFile(ref, what, err)
	return nil
}

func (l *lowering) noFile(ref text.Text, what string, err error) {
	var failed *source.RefError
	if errors.As(err, &failed) && (failed.Problem == source.RefEscapes || failed.Problem == source.RefAbsolute) {
		l.report(CodeOutside, diag.Error, ref.Span, fmt.Sprintf("The %s %q lies outside of the project.", what, ref.Value), "Write a path from the workflow's folder that stays inside the project.")
		return
	}
	help := fmt.Sprintf("Make the file, or mend the path: it begins in the folder of %s.", path.Base(l.file.Path))
	if failed != nil && len(failed.Near) > 0 {
		help = fmt.Sprintf("Did you mean %q?", failed.Near[0])
	}
	l.report(CodeNoFile, diag.Error, ref.Span, fmt.Sprintf("There is no %s %q.", what, ref.Value), help)
}

var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_]*)\}`) })

// path cleans a path of the file: inside the project, with the step's own id
// filled in and placeholders that nobody knows reported (G12).
func (l *lowering) path(ref text.Text, step string) (string, bool) {
	if ref.Value == "" {
		return "", false
	}
	for _, m := range placeholder().FindAllStringSubmatch(ref.Value, -1) {
		if !slices.Contains([]string{"workflow_name", "run_id", "step_id"}, m[1]) {
			l.report(CodePlaceholder, diag.Warning, ref.Span, fmt.Sprintf("Nothing fills in %q; it stays as it is.", m[0]), "Use {workflow_name}, {run_id} or {step_id}.")
		}
	}
	name := strings.ReplaceAll(ref.Value, "{step_id}", step)
	if strings.HasPrefix(name, "/") || strings.ContainsAny(name, `\:`) || !filepath.IsLocal(filepath.FromSlash(path.Clean(name))) {
		l.report(CodeOutside, diag.Error, ref.Span, fmt.Sprintf("The path %q lies outside of the project.", ref.Value), "Write a path from the workflow's folder, with / between its parts and without .. at its beginning.")
		return "", false
	}
	clean := path.Clean(name)
	if strings.HasSuffix(name, "/") {
		clean += "/"
	}
	return clean, true
}

// given finds out what an input means: a variable, what an earlier step
// produces, or a file.
func (l *lowering) given(n *node, in text.Text) (given, bool) {
	if name, ok := strings.CutPrefix(in.Value, "$"); ok {
		return l.variableOf(text.Text{Value: strings.TrimSuffix(strings.TrimPrefix(name, "{"), "}"), Span: in.Span})
	}
	in.Value = strings.TrimPrefix(in.Value, "@")
	name, ok := l.path(in, n.id.Value)
	if !ok {
		return given{}, false
	}
	for _, m := range slices.Backward(l.made) {
		part, inside := strings.CutPrefix(name, m.path)
		switch {
		case name == m.path, name+"/" == m.path:
			part = ""
		case !inside || !strings.HasSuffix(m.path, "/"):
			continue
		}
		l.read(variable(m.step), in.Span)
		return given{Name: name, Read: variable(m.step), Part: part}, true
	}
	return l.fileOf(n, in, name)
}

// variableOf is what a $VARIABLE means (G6).
func (l *lowering) variableOf(name text.Text) (given, bool) {
	switch _, allowed := l.env[name.Value]; {
	case name.Value == l.variable || name.Value == usualVariable:
		l.used = true
		l.read("input."+l.variable, name.Span)
		return given{Name: name.Value, Read: "input." + l.variable}, true
	case allowed:
		l.env[name.Value] = true
		l.read("env."+name.Value, name.Span)
		return given{Name: name.Value, Read: "env." + name.Value}, true
	}
	help := fmt.Sprintf("Use $%s, which holds what the run is given; to read it from the environment, list it in agentfile.yaml: \"env: [%s]\", or use --env %[2]s.", l.variable, name.Value)
	if near := diag.Nearest(name.Value, []string{l.variable, usualVariable}); near != "" {
		help = fmt.Sprintf("Did you mean $%s?", near)
	}
	l.report(CodeNoVariable, diag.Error, name.Span, fmt.Sprintf("Nothing sets the variable %q.", "$"+name.Value), help)
	return given{}, false
}

// fileOf is an input that no earlier step produces: a file that is there now,
// or that a script or another workflow has to make before the step runs.
func (l *lowering) fileOf(n *node, in text.Text, name string) (given, bool) {
	for _, later := range l.doc.steps {
		if made, _ := l.quiet(later); made != "" && strings.TrimSuffix(made, "/") == strings.TrimSuffix(name, "/") {
			l.report(CodeNotMade, diag.Error, in.Span, fmt.Sprintf("Step %q works on %q, which is only produced by step %q after it.", n.id.Value, in.Value, later.id.Value),
				"Change the order of the steps.", diag.Related{Span: later.produces.Span, Message: "It is produced here."})
			return given{}, false
		}
	}
	atRun := given{Name: name, File: name}
	if placeholder().MatchString(name) || strings.HasSuffix(name, "/") || l.scripts {
		return atRun, true
	}
	if strings.HasPrefix(name, "outputs/") {
		var names []string
		for _, m := range l.made {
			names = append(names, m.path)
		}
		help := "Let an earlier step produce it."
		if len(names) > 0 {
			help = diag.DidYouMean(name, names)
		}
		l.report(CodeNotMade, diag.Error, in.Span, fmt.Sprintf("Step %q works on %q, and no step before it produces that.", n.id.Value, in.Value), help)
		return given{}, false
	}
	f, err := l.files.Read(l.file, name)
	if err != nil {
		l.noFile(in, "input", err)
		return given{}, false
	}
	l.p.AddFile(f, "input")
	return given{Name: name, Text: f.Text}, true
}

// quiet is what a step produces, without a word about what is wrong with it.
func (l *lowering) quiet(n *node) (string, bool) {
	silent := &lowering{out: &diag.List{}}
	return silent.path(n.produces, n.id.Value)
}

// script is a script of a shell step, as the step kind has it.
type script struct {
	Shell string `json:"shell"`
	Path  string `json:"path"` // from the workflow's folder
	Text  string `json:"text"` // as it was when the run began
}

func (l *lowering) shell(n *node, s *ir.Step) {
	s.Type = "shell"
	t := ir.Task{Kind: "shell"}
	var scripts []script
	for _, one := range []struct {
		shell string
		ref   text.Text
	}{{"bash", n.bash}, {"pwsh", n.pwsh}} {
		if one.ref.Value == "" {
			continue
		}
		if f := l.open(one.ref, "script"); f != nil {
			l.p.AddFile(f, "script")
			scripts = append(scripts, script{Shell: one.shell, Path: path.Clean(one.ref.Value), Text: f.Text})
		}
	}
	t.Settings.Put("scripts", scripts, n.at)
	t.Settings.Put("variable", l.variable, source.Span{})
	l.read("input."+l.variable, source.Span{})
	l.here(n.produces)
	l.produced(n, &t)
	l.place(&t)
	l.scripts = true
	s.Action, s.Writes = t, []ir.Write{{Path: variable(n.id.Value)}}
}

// collect gives the last product as the output, as it is by now, and copies
// all products to where the file wants them (G21).
func (l *lowering) collect(last *node) ir.Step {
	l.reads = nil
	t := ir.Task{Kind: "handover"}
	t.Settings.Put("output", variable(last.id.Value), last.at)
	if dir, ok := l.path(l.doc.outputDir, "output"); ok {
		t.Settings.Put("directory", dir, l.doc.outputDir.Span)
	}
	type source struct {
		Read string `json:"read"`
		Path string `json:"path"`
	}
	var products []source
	for _, m := range l.made {
		if i := slices.IndexFunc(l.doc.steps, func(n *node) bool { return n.id.Value == m.step }); i < 0 || l.doc.steps[i].shell {
			continue
		}
		products = append(products, source{variable(m.step), m.path})
		l.read(variable(m.step), m.at)
	}
	t.Settings.Put("products", products, last.at)
	l.place(&t)
	l.here(l.doc.outputDir)
	return ir.Step{
		ID: "output:collect", Type: "output", Description: "Put the output together", Implied: true, Reads: l.reads, Action: t,
		Writes: []ir.Write{{Path: "output"}}, Span: last.at,
	}
}
