package agentfile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// DefaultVariable contains the run's input if the trigger names no other variable.
const DefaultVariable = "AGENT_INPUT"

// runVar is the variable with the run's id in the format's own form: the name of a
// folder below outputs/NAME.
const runVar = "agentfile.run"

// Placeholders of paths, and inputs of the same names that replace them.
const (
	workflowName = "workflow_name"
	runID        = "run_id"
)

// Paths in outputs/ are in the run's folder, those in sharedFolders in the root folder of the project, and all
// others in the workflow's folder.
const outputs = "outputs"

// sharedFolders are the folders that the workflows of a project share.
var sharedFolders = []string{"artifacts", "workflows", "shared"}

// Files of a generated workflow. Its folder is that of a definition.
const (
	manifestFile   = "manifest.json"
	definitionFile = "workflow.yaml"
)

// lowering compiles one document to a program.
type lowering struct {
	file  *source.File
	files format.Files
	doc   *document
	out   *diag.List
	p     *ir.Program

	made     []product         // products of the steps so far
	agents   map[string]string // IDs by file path
	env      map[string]bool   // environment variables that may be read; true if one is read
	reads    []ir.Ref          // of the current step
	variable string
	used     bool // the run requires an input
	named    bool // the run's input may replace placeholders
	scripts  bool // an earlier step is a shell step
	cli      bool // use the layout of the agentfile CLI
	allowed  []string
}

// product is the file or folder that a step produces. Paths are compared as text, after cleaning.
type product struct {
	step string
	path string // cleaned; a folder ends with /
	at   source.Span
	read bool // whether a later step reads it
}

// program compiles the document. The contract of the input comes after the steps, because it depends on what they read.
func (l *lowering) program() *ir.Program {
	d := l.doc
	l.agents, l.env = map[string]string{}, map[string]bool{}
	l.variable = cmp.Or(d.trigger.variable.Value, DefaultVariable)
	l.p = &ir.Program{
		Format: Format{}.Name(), Name: cmp.Or(d.name.Value, path.Base(folder(l.file))), Version: d.version.Value,
		Description: d.description.Value,
		Tools:       ir.Tools{AllowAll: true}, MayIntervene: true, Blocks: make([]ir.Block, 1),
		Span: cmp.Or(d.name.Span, d.first),
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

// otherName warns if the name differs from the folder's, by which discovery and other programs
// find workflows.
func (l *lowering) otherName() {
	in := folder(l.file)
	if name := l.doc.name; name.Value != "" && path.Base(path.Dir(in)) == "workflows" && path.Base(in) != name.Value {
		l.out.Warnf(CodeOtherName, name.Span,
			"Use the same name for both: other programs find workflows by their folders.",
			"The workflow is named %q, but its folder %q.", name.Value, path.Base(in))
	}
}

// manifest reads the environment variables that workflows may read from the project's
// agentfile.yaml, if it exists.
func (l *lowering) manifest() {
	for _, name := range l.allowed {
		l.env[name] = false // not read so far
	}
	f, err := l.files.Read(l.file, "agentfile.yaml")
	if err != nil {
		return // the file is optional
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

// about adds the file's metadata and trigger to the program.
func (l *lowering) about() {
	d := l.doc
	meta := func(name string, t text.Text) {
		if t.Value != "" {
			l.p.Meta = append(l.p.Meta, ir.Meta{Name: name, Value: format.JSON(t.Value), Span: t.Span})
		}
	}
	meta("trigger", d.trigger.kind)
	meta("preferred", d.preferred) // displayed only
	trigger := ir.Trigger{Kind: ir.OnDemand, Span: d.trigger.at}
	switch d.trigger.kind.Value {
	case "schedule":
		if d.trigger.schedule.Value == "" {
			break
		}
		trigger = ir.Trigger{Kind: ir.OnSchedule, Schedule: d.trigger.schedule.Value, Span: d.trigger.schedule.Span}
	case "file":
		trigger = ir.Trigger{Kind: ir.OnFile, Paths: text.Values(d.trigger.paths), Span: d.trigger.kind.Span}
	case "command":
		trigger = ir.Trigger{Kind: ir.OnCommand, Names: text.Values(d.trigger.commands), Span: d.trigger.kind.Span}
	case "natural-language":
		trigger = ir.Trigger{Kind: ir.OnMention, Span: d.trigger.kind.Span}
	}
	if d.trigger.kind.Value != "" {
		l.p.Triggers = []ir.Trigger{trigger}
	}
}

// input sets the contract of the run's input.
func (l *lowering) input() {
	properties := map[string]any{l.variable: map[string]any{"type": "string", "description": "input of the workflow"}}
	if l.named {
		properties[workflowName] = map[string]any{
			"type":        "string",
			"description": "value of {workflow_name}; default: the workflow's name",
		}
		properties[runID] = map[string]any{
			"type":        "string",
			"description": "value of {run_id}; default: the run's own id",
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	switch scheduled := l.doc.trigger.kind.Value == "schedule" && l.doc.trigger.schedule.Value != ""; {
	case l.used && scheduled: // a schedule passes no input
		properties[l.variable].(map[string]any)["default"] = ""
		l.out.Warnf(CodeNoVariable, l.doc.trigger.schedule.Span,
			"Let the steps read files instead, or use another type of trigger.",
			"A scheduled run has no input, so $%s is empty.", l.variable)
	case l.used:
		schema["required"] = []string{l.variable}
	}
	l.p.Input = &ir.Contract{
		Schema: format.JSON(schema), Span: cmp.Or(l.doc.trigger.variable.Span, l.doc.trigger.at, l.doc.first),
	}
}

// body compiles the steps, each of which leads to the next.
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
		n.id.Value = cmp.Or(n.id.Value, fmt.Sprintf("step-%d", i+1)) // a missing one is reported already
		first, twice := seen[n.id.Value]
		if twice {
			l.out.Errorf(CodeRepeated, n.at, "Use a unique id for each step.", "Duplicate step id %q.", n.id.Value).
				Relate(first, "The first one.")
		} else {
			seen[n.id.Value] = n.at
		}
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
		if twice { // its other mistakes are reported, too
			l.p.Unread.Steps = true
			continue
		}
		add(s)
		if n.gate.Value != "" && !n.shell {
			// The artifact exists before a person is asked.
			add(ir.Step{
				ID: n.id.Value + ":gate", Type: "gate", Description: n.name.Value, Implied: true,
				Reads:  []ir.Ref{{Path: variable(n.id.Value), Span: n.gate.Span}},
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

// lastAgent returns the last agent step, whose product is the output of the run; nil if there is none.
func (l *lowering) lastAgent() *node {
	for _, n := range slices.Backward(l.doc.steps) {
		if !n.shell {
			return n
		}
	}
	return nil
}

// collects reports whether the output is assembled at the end: if it is copied elsewhere,
// or if a person may still change it at a gate.
func (l *lowering) collects() bool {
	last := l.lastAgent()
	return last != nil && (l.doc.outputDir.Value != "" || last.gate.Value != "")
}

// variable returns the variable that contains a step's product.
func variable(step string) string { return "artifacts." + step }

// read records that the current step reads a variable.
func (l *lowering) read(path string, at source.Span) {
	if !slices.ContainsFunc(l.reads, func(r ir.Ref) bool { return r.Path == path }) {
		l.reads = append(l.reads, ir.Ref{Path: path, Span: at})
	}
}

// readRun adds the reads of a step that locate its run.
func (l *lowering) readRun(paths ...text.Text) {
	l.read(runVar, source.Span{})
	for _, p := range paths {
		if strings.Contains(p.Value, "{"+workflowName+"}") || strings.Contains(p.Value, "{"+runID+"}") {
			l.named = true
			l.read("input."+workflowName, source.Span{})
			l.read("input."+runID, source.Span{})
		}
	}
}

// artifactInput is one input of an agent, as in the settings of the step kind. Exactly one of
// Read, File and Text is set.
type artifactInput struct {
	Name string `json:"name"`
	Read string `json:"read,omitempty"` // a variable
	Part string `json:"part,omitempty"` // a file of a folder in the variable
	File string `json:"file,omitempty"` // read when the step runs
	Text string `json:"text,omitempty"` // read at compile time
}

// agent compiles a step whose agent writes a product.
func (l *lowering) agent(n *node, s *ir.Step) {
	s.Type = "agent"
	t := ir.Task{Kind: "artifact"}
	id := l.agentOf(n)
	t.Settings.Put("agent", id, n.agent.Span)
	if n.skill.Value != "" {
		if f := l.open(n.skill, "skill", diag.Error); f != nil {
			l.sections(f, n.skill, "skill", "Purpose", "Instructions", "Examples")
			l.p.AddFile(f, "skill")
			t.Settings.Put("skill", f.Text, n.skill.Span)
		}
	}
	t.Settings.Put("goal", n.goal.Value, n.goal.Span)
	var inputs []artifactInput
	for _, in := range n.inputs {
		if one, ok := l.resolve(n, in); ok {
			inputs = append(inputs, one)
		}
	}
	t.Settings.Put("inputs", inputs, s.Span)
	l.readRun(append(slices.Clone(n.inputs), n.produces)...)
	l.produced(n, &t)
	if n.draft.Value != "" {
		if drafts[n.draft.Value] == nil {
			names := slices.Sorted(maps.Keys(drafts))
			l.out.Errorf(CodeNoDraft, n.draft.Span, diag.DidYouMean(n.draft.Value, names), "There is no draft %q.",
				n.draft.Value)
		}
		t.Settings.Put("draft", n.draft.Value, n.draft.Span)
	}
	l.place(&t)
	s.Action, s.Writes = t, []ir.Write{{Path: variable(n.id.Value), Span: n.produces.Span}}
}

// place adds the workflow's name and location to the settings of a task.
func (l *lowering) place(t *ir.Task) {
	t.Settings.Put("workflow", l.p.Name, source.Span{})
	t.Settings.Put("folder", filepath.FromSlash(folder(l.file)), source.Span{})
	dir := path.Join(l.runs(), "{run}")
	if !l.cli {
		dir = path.Join(dir, "execution")
	}
	t.Settings.Put("layout", map[string]any{
		"run": runVar, "outputs": outputs, "dir": dir, "shared": sharedFolders,
		"placeholders": []map[string]string{
			{"name": workflowName, "read": "input." + workflowName, "default": l.p.Name},
			{"name": runID, "read": "input." + runID, "default": "{run}"},
		},
	}, source.Span{})
}

// runs returns the folder of all runs, relative to the project root.
func (l *lowering) runs() string {
	if l.cli {
		return path.Join("workflows", path.Base(folder(l.file)), outputs)
	}
	return outputs + "/" + l.p.Name
}

// staged returns where a product is written. A model's reply becomes neither a workflow, which later runs
// trust, nor the manifest of a generation, which "espalier promote" trusts: these stay in the run's folder.
func staged(product string) string {
	switch {
	case strings.HasPrefix(product, "workflows/") && strings.HasSuffix(product, "/"):
		return runFolder + product
	case strings.HasPrefix(product, "artifacts/") && path.Base(product) == manifestFile:
		return runFolder + manifestFile
	}
	return product
}

// produced adds the product to the settings of a task, and records it.
func (l *lowering) produced(n *node, t *ir.Task) {
	made, ok := l.path(n.produces, n.id.Value)
	if !ok {
		return
	}
	if made == "." || made == outputs || slices.Contains(sharedFolders, made) {
		l.out.Errorf(CodeBadValue, n.produces.Span,
			fmt.Sprintf(
				"Use a file name such as outputs/%s.md, or add a trailing / if the step produces a folder of files.",
				n.id.Value), "%q is a folder, but the step produces a single file.", n.produces.Value)
		return
	}
	if kept := staged(made); kept != made {
		l.out.Warnf(CodeStaged, n.produces.Span,
			"No action is required: the product is kept in the run's folder. To install a generated workflow, run "+
				"\"espalier promote\".", "Step %q does not write to %s, because Espalier trusts what is there.",
			n.id.Value, n.produces.Value)
		made = kept
	}
	l.unwritable(made, n.produces.Span)
	t.Settings.Put("produces", made, n.produces.Span)
	for _, other := range l.made {
		if other.path == made && other.step != n.id.Value {
			l.out.Warnf(CodeMadeTwice, n.produces.Span, "Use another path, unless this is intended.",
				"Step %q overwrites the product of step %q.", n.id.Value, other.step).Relate(other.at, "The first one.")
		}
	}
	l.made = append(l.made, product{step: n.id.Value, path: made, at: n.produces.Span})
}

// agentOf returns the ID of a step's agent. Its instructions combine the shared files and the
// agent's own file.
func (l *lowering) agentOf(n *node) string {
	ref := n.agent
	if id, ok := l.agents[path.Clean(ref.Value)]; ok {
		return id
	}
	id := strings.TrimSuffix(strings.TrimPrefix(path.Clean(ref.Value), "agents/"), ".md")
	if ref.Value == "" {
		id = n.id.Value
	}
	if l.p.Agent(id) != nil { // agents/a.md and a.md are different agents
		id = path.Clean(ref.Value)
	}
	l.agents[path.Clean(ref.Value)] = id
	a := ir.Agent{ID: id, Span: ref.Span}
	var system []string
	// Both are optional; an AGENTS.md at the root is for editors.
	for _, name := range []string{"shared/project.md", "shared/AGENTS.md"} {
		if f, err := l.files.Read(l.file, name); err == nil {
			l.p.AddFile(f, "shared")
			system = append(system, strings.TrimSpace(f.Text))
		}
	}
	if ref.Value != "" {
		if f := l.open(ref, "agent", diag.Error); f != nil {
			l.sections(f, ref, "agent", "Persona", "Responsibilities", "Rules", "Output Format")
			l.p.AddFile(f, "agent")
			system = append(system, strings.TrimSpace(f.Text))
		}
	}
	a.Instructions = strings.Join(system, "\n\n")
	l.p.Agents = append(l.p.Agents, a)
	return id
}

// sections warns about missing sections of a file for a model. It is only a warning because
// half of all published skills lack one.
func (l *lowering) sections(f *source.File, ref text.Text, what string, wanted ...string) {
	var missing []string
	headings := text.ParseMarkdown(f).Headings
	for _, one := range wanted {
		if !slices.ContainsFunc(headings,
			func(h text.Heading) bool { return strings.EqualFold(strings.TrimSpace(h.Text), one) }) {
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
	l.out.Warnf(CodeNoSection, f.Span(0, len(f.Line(1))), "Add the missing sections: models rely on them.",
		"The %s %s has no %s %s.", what, f.Path, word, strings.Join(missing, ", ")).
		Relate(ref.Span, fmt.Sprintf("The %s is referenced here.", what))
}

// open reads a file that the workflow refers to. missing is the severity of the diagnostic if there is none.
func (l *lowering) open(ref text.Text, what string, missing diag.Severity) *source.File {
	f, err := l.files.Read(l.file, path.Clean(ref.Value))
	if err == nil {
		return f
	}
	l.noFile(ref, what, missing, err)
	return nil
}

// noFile reports a file that cannot be read. Outside of the project it is an error in any case.
func (l *lowering) noFile(ref text.Text, what string, missing diag.Severity, err error) {
	var failed *source.RefError
	if errors.As(err, &failed) && (failed.Problem == source.RefEscapes || failed.Problem == source.RefAbsolute) {
		l.out.Errorf(CodeOutside, ref.Span, "Use a path relative to the workflow's folder and inside the project.",
			"The %s %q is outside of the project.", what, ref.Value)
		return
	}
	help := fmt.Sprintf("Create the file, or fix the path, which is relative to the folder of %s.",
		path.Base(l.file.Path))
	if failed != nil && len(failed.Near) > 0 {
		help = fmt.Sprintf("Did you mean %q?", failed.Near[0])
	}
	l.out.Reportf(CodeNoFile, missing, ref.Span, help, "The %s %q does not exist.", what, ref.Value)
}

// placeholder matches a name in braces in a path.
var placeholder = lazyregexp.New(`\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// path cleans a path of the file. It must be inside the project. The step's own id is
// substituted, and unknown placeholders are reported.
func (l *lowering) path(ref text.Text, step string) (string, bool) {
	if ref.Value == "" {
		return "", false
	}
	for _, m := range placeholder().FindAllStringSubmatch(ref.Value, -1) {
		if !slices.Contains([]string{workflowName, runID, "step_id"}, m[1]) {
			l.out.Warnf(CodePlaceholder, ref.Span, "Use {workflow_name}, {run_id} or {step_id}.",
				"The placeholder %q is unknown and stays as it is.", m[0])
		}
	}
	name := strings.ReplaceAll(ref.Value, "{step_id}", step)
	if i := strings.IndexAny(name, `\:`); i >= 0 {
		l.out.Errorf(CodeOutside, ref.Span,
			"Use a path relative to the workflow's folder, with / as separator, or one variable such as $AGENT_INPUT.",
			"%q is not a path: it contains %q.", ref.Value, name[i])
		return "", false
	}
	if strings.HasPrefix(name, "/") || !filepath.IsLocal(filepath.FromSlash(path.Clean(name))) {
		l.out.Errorf(CodeOutside, ref.Span,
			"Use a path relative to the workflow's folder, with / as separator and no .. at the start.",
			"The path %q is outside of the project.", ref.Value)
		return "", false
	}
	clean := path.Clean(name)
	if strings.HasSuffix(name, "/") {
		clean += "/"
	}
	return clean, true
}

// resolve determines what an input refers to: a variable, the product of an earlier step, or a
// file.
func (l *lowering) resolve(n *node, in text.Text) (artifactInput, bool) {
	if name, ok := strings.CutPrefix(in.Value, "$"); ok {
		return l.variableOf(text.Text{Value: strings.TrimSuffix(strings.TrimPrefix(name, "{"), "}"), Span: in.Span})
	}
	in.Value = strings.TrimPrefix(in.Value, "@")
	name, ok := l.path(in, n.id.Value)
	if !ok {
		return artifactInput{}, false
	}
	if kept := staged(name); slices.ContainsFunc(l.made, func(m product) bool { return m.path == kept }) {
		name = kept
	}
	for i, m := range slices.Backward(l.made) {
		part, inside := strings.CutPrefix(name, m.path)
		switch {
		case name == m.path, name+"/" == m.path:
			part = ""
		case !inside || !strings.HasSuffix(m.path, "/"):
			continue
		}
		l.made[i].read = true
		l.read(variable(m.step), in.Span)
		return artifactInput{Name: name, Read: variable(m.step), Part: part}, true
	}
	return l.fileOf(n, in, name)
}

// variableOf resolves a $VARIABLE.
func (l *lowering) variableOf(name text.Text) (artifactInput, bool) {
	switch _, allowed := l.env[name.Value]; {
	case name.Value == l.variable || name.Value == DefaultVariable:
		l.used = true
		l.read("input."+l.variable, name.Span)
		return artifactInput{Name: name.Value, Read: "input." + l.variable}, true
	case allowed:
		l.env[name.Value] = true
		l.read("env."+name.Value, name.Span)
		return artifactInput{Name: name.Value, Read: "env." + name.Value}, true
	}
	help := fmt.Sprintf("Use $%s for the run's input. To read the variable from the environment, add \"env: "+
		"[%s]\" to agentfile.yaml, or use --env %[2]s.", l.variable, name.Value)
	near := diag.Nearest(name.Value, []string{l.variable, DefaultVariable})
	if near != "" {
		help = fmt.Sprintf("Did you mean $%s?", near)
	}
	l.out.Errorf(CodeNoVariable, name.Span, help, "Variable %q is not defined.", "$"+name.Value).
		Replace(name.Value, near)
	return artifactInput{}, false
}

// fileOf resolves an input that no earlier step produces: an existing file, or one that a
// script or another workflow creates before the step runs.
func (l *lowering) fileOf(n *node, in text.Text, name string) (artifactInput, bool) {
	for _, later := range l.doc.steps {
		if made, _ := l.quiet(later); made != "" && strings.TrimSuffix(made, "/") == strings.TrimSuffix(name, "/") {
			l.out.Errorf(CodeNotMade, in.Span, "Change the order of the steps.",
				"Step %q reads %q, which the later step %q produces.", n.id.Value, in.Value, later.id.Value).
				Relate(later.produces.Span, "Produced here.")
			return artifactInput{}, false
		}
	}
	atRun := artifactInput{Name: name, File: name}
	if placeholder().MatchString(name) || strings.HasSuffix(name, "/") || l.scripts {
		return atRun, true
	}
	if strings.HasPrefix(name, runFolder) {
		names := xslices.Map(l.made, func(m product) string { return m.path })
		help := "Add a step before it that produces the file."
		if len(names) > 0 {
			help = diag.DidYouMean(name, names)
		}
		l.out.Errorf(CodeNotMade, in.Span, help, "Step %q reads %q, which no earlier step produces.", n.id.Value,
			in.Value).Replace(name, diag.Nearest(name, names))
		return artifactInput{}, false
	}
	f, err := l.files.Read(l.file, name)
	if err != nil {
		l.noFile(in, "input", diag.Error, err)
		return artifactInput{}, false
	}
	l.p.AddFile(f, "input")
	return artifactInput{Name: name, Text: f.Text}, true
}

// quiet returns the product of a step without reporting diagnostics.
func (l *lowering) quiet(n *node) (string, bool) {
	silent := &lowering{out: &diag.List{}}
	return silent.path(n.produces, n.id.Value)
}

// script is a script of a shell step, as in the settings of the step kind.
type script struct {
	Shell string `json:"shell"`
	Path  string `json:"path"` // relative to the workflow's folder
	Text  string `json:"text"` // at the start of the run
}

// shell compiles a step that runs a script. The texts of the scripts are part of the program, so that a run does not
// depend on later changes of the files.
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
		missing := diag.Error
		if len(scripts) > 0 { // the script for the other shell suffices
			missing = diag.Warning
		}
		if f := l.open(one.ref, "script", missing); f != nil {
			l.p.AddFile(f, "script")
			scripts = append(scripts, script{Shell: one.shell, Path: path.Clean(one.ref.Value), Text: f.Text})
		}
	}
	t.Settings.Put("scripts", scripts, n.at)
	t.Settings.Put("variable", l.variable, source.Span{})
	t.Settings.Put("sets", map[string]string{
		"run": "AGENTFILE_RUN_ID", "dir": "AGENTFILE_RUN_DIR", "workflow": "AGENTFILE_WORKFLOW",
		"input": DefaultVariable,
	}, source.Span{})
	l.read("input."+l.variable, source.Span{})
	l.readRun(n.produces)
	l.produced(n, &t)
	l.place(&t)
	l.scripts = true
	s.Action, s.Writes = t, []ir.Write{{Path: variable(n.id.Value)}}
}

// published returns the products that are copied to the output directory: those of agents that no
// later step reads. What a step writes outside the run's folder stays where it is. The files of a generated
// workflow, which are those in the folder of a workflow.yaml, are not published, because "espalier promote" installs
// them after a person has seen them.
func (l *lowering) published() []product {
	if l.doc.outputDir.Value == "" {
		return nil
	}
	var generated []string
	for _, m := range l.made {
		if folder, file := path.Split(m.path); strings.HasSuffix(file, definitionFile) {
			generated = append(generated, folder)
		}
	}
	return slices.DeleteFunc(slices.Clone(l.made), func(m product) bool {
		shell := slices.ContainsFunc(l.doc.steps, func(n *node) bool { return n.id.Value == m.step && n.shell })
		part := func(folder string) bool {
			return strings.HasPrefix(m.path, folder) || !strings.HasPrefix(folder, runFolder)
		}
		return shell || m.read || path.Base(m.path) == manifestFile || !strings.HasPrefix(m.path, runFolder) ||
			slices.ContainsFunc(generated, part)
	})
}

// runFolder is the prefix of products in the run's folder.
const runFolder = outputs + "/"

// unwritable reports a path that a run does not write, before anything is paid for: configuration, and the definition
// of a workflow.
func (l *lowering) unwritable(name string, at source.Span) bool {
	parts := strings.Split(strings.TrimSuffix(name, "/"), "/")
	defines := protected.Definition(parts[0])
	switch {
	case parts[0] == "workflows":
		defines = len(parts) > 2 && protected.Definition(parts[2])
	case parts[0] == outputs, slices.Contains(sharedFolders, parts[0]):
		defines = false
	}
	switch {
	case defines:
		l.out.Errorf(CodeBadValue, at,
			"Use a path in outputs/ or artifacts/, and \"espalier promote\" to install a workflow.",
			"A run cannot write %q: it is part of a workflow's definition.", name)
	case slices.ContainsFunc(parts, protected.Name):
		l.out.Errorf(CodeBadValue, at, "Use another path.", "A run cannot write %q: programs read it as configuration.",
			name)
	default:
		return false
	}
	return true
}

// collect returns the step that returns the current last product as the output, and copies the
// final products to the output directory.
func (l *lowering) collect(last *node) ir.Step {
	l.reads = nil
	t := ir.Task{Kind: "handover"}
	t.Settings.Put("output", variable(last.id.Value), last.at)
	dir, ok := l.path(l.doc.outputDir, "output")
	if ok {
		t.Settings.Put("directory", dir, l.doc.outputDir.Span)
	}
	type source struct {
		Read string `json:"read"`
		Path string `json:"path"`
	}
	l.read(variable(last.id.Value), last.at)
	var products []source
	published := l.published()
	if ok && len(published) == 0 {
		l.out.Warnf(CodeUnpublished, l.doc.outputDir.Span,
			"It receives products in outputs/ that no later step reads, except manifests, products of scripts and "+
				"generated workflows.", "The output directory receives nothing.")
	}
	for _, m := range published {
		if l.unwritable(path.Join(dir, strings.TrimPrefix(m.path, runFolder)), l.doc.outputDir.Span) {
			break
		}
		products = append(products, source{variable(m.step), m.path})
		l.read(variable(m.step), m.at)
	}
	t.Settings.Put("products", products, last.at)
	t.Settings.Put("omit", map[string]any{"files": []string{manifestFile}, "beside": definitionFile}, last.at)
	l.place(&t)
	l.readRun(l.doc.outputDir)
	return ir.Step{
		ID: "output:collect", Type: "output", Description: "Assemble the output", Implied: true, Reads: l.reads,
		Action: t,
		Writes: []ir.Write{{Path: "output"}}, Span: last.at,
	}
}
