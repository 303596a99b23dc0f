package agentfile

import (
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// document is the syntax tree of a file.
type document struct {
	name, version, description text.Text
	trigger                    trigger
	preferred                  text.Text // execution.preferred
	outputDir                  text.Text // output.directory
	steps                      []*node
	first                      source.Span // of the file's first key
}

// trigger is the trigger section of a file. variable is the name of the run's input.
type trigger struct {
	kind, variable, schedule text.Text
	commands, paths          []text.Text
	at                       source.Span
}

// node is one step of the file.
type node struct {
	id, name, goal text.Text
	shell          bool
	gate           text.Text
	agent, skill   text.Text
	inputs         []text.Text
	produces       text.Text
	draft          text.Text
	bash, pwsh     text.Text
	at             source.Span // of its id, or else of the whole step
}

var readerCodes = text.Codes{
	WrongType: CodeWrongType, Missing: CodeMissing, Unknown: CodeUnknownKey, BadValue: CodeBadValue,
	UnknownAs: diag.Warning,
}

type parser struct {
	file *source.File
	out  *diag.List
}

// read returns a reader for a map that reports keys that the shape does not have.
func (p *parser) read(n *text.Node, shape *text.Shape, what string) *text.Reader {
	return shape.Read(n, what, readerCodes, p.out)
}

// parse parses a file. It returns nil if the file is unusable.
func (p *parser) parse() *document {
	root, list := text.ParseYAML(p.file, 0, len(p.file.Text))
	*p.out = append(*p.out, list...)
	switch {
	case root == nil:
		return nil
	case root.Kind != text.Map:
		p.out.Errorf(CodeWrongType, p.file.Span(0, len(p.file.Line(1))),
			`Start with specVersion: "1.0", name: and steps:.`, "The workflow is %s, not a map.", root.Kind)
		return nil
	}
	d := &document{first: root.Span}
	if len(root.Pairs) > 0 {
		d.first = root.Pairs[0].Key.Span
	}
	r := p.read(root, workflowShape, "workflow")
	p.specVersion(r, d)
	d.name, d.version, d.description = r.String("name"), r.String("version"), r.String("description")
	r.Require("name", "version", "description", "trigger", "steps")
	p.fits(d.name, namePattern(), "workflow name",
		"Use lowercase letters, digits and hyphens, starting with a letter: code-reviewer.")
	p.fits(d.version, versionPattern(), "workflow version", "Use three numbers separated by dots: 1.0.0.")
	p.trigger(r, d)
	if n := r.Map("execution"); n != nil {
		er := p.read(n, executionShape, "execution section")
		d.preferred = er.Choice("preferred")
		er.Done()
	}
	if n := r.Map("output"); n != nil {
		or := p.read(n, outputShape, "output section")
		d.outputDir = or.String("directory")
		or.Done()
	}
	items := r.List("steps")
	if n := r.Node("steps"); n != nil && n.Kind == text.List && len(items) == 0 {
		p.out.Errorf(CodeMissing, r.KeySpan("steps"), "Add at least one step below steps:.",
			"The workflow has no steps.")
	}
	d.steps = xslices.Map(items, p.step)
	r.Done()
	return d
}

var (
	namePattern     = lazyregexp.New(nameForm)
	versionPattern  = lazyregexp.New(workflowShape.Field("version").Pattern)
	variablePattern = lazyregexp.New(variableForm)
)

// fits reports a name that does not match its pattern. An empty one has been reported as missing.
func (p *parser) fits(t text.Text, pattern *regexp.Regexp, what, help string) {
	if t.Value != "" && !pattern.MatchString(t.Value) {
		p.out.Errorf(CodeBadValue, t.Span, help, "%q is not a valid %s.", t.Value, what)
	}
}

// specVersion checks the version of the format, which is not "version". Early files have
// none, and some have a number.
func (p *parser) specVersion(r *text.Reader, d *document) {
	n := r.Node("specVersion")
	switch {
	case n == nil:
		p.out.Warnf(CodeSpecVersion, d.first, `Add specVersion: "1.0" as the first line.`,
			`The workflow has no specVersion, so "1.0" is assumed.`).
			AddEntry(r.PlaceFor("specVersion"), "specVersion", `"1.0"`)
	case n.Kind == text.Float && n.Value == "1.0":
		p.out.Warnf(CodeSpecVersion, n.Span, `Put it in quotes: specVersion: "1.0".`,
			"specVersion is a number, not a string.").WriteValue(n.Span, `"1.0"`)
	case n.Value != "1.0" && n.Value != "1.0.0":
		found := p.out.Errorf(CodeBadValue, n.Span, `Use specVersion: "1.0".`, "specVersion %q is not supported.",
			n.Value)
		if n.Kind < text.List {
			found.WriteValue(n.Span, `"1.0"`)
		}
	}
}

// trigger parses the trigger.
func (p *parser) trigger(r *text.Reader, d *document) {
	d.trigger.at = r.KeySpan("trigger")
	n := r.Map("trigger")
	if n == nil {
		return
	}
	tr := p.read(n, triggerShape, "trigger")
	t := &d.trigger
	t.kind = tr.Choice("type")
	t.variable = tr.String("input_var")
	tr.RequireDeclared()
	p.fits(t.variable, variablePattern(), "variable name", "Use letters, digits and _, without a $: AGENT_INPUT.")
	t.schedule, t.commands, t.paths = tr.String("schedule"), commandNames(tr), tr.Strings("paths")
	// Keys that the specification lacks, but files need.
	for _, key := range []string{"schedule", "commands", "paths"} {
		if tr.Has(key) {
			p.extension(tr.KeySpan(key), "trigger."+key)
		}
	}
	if t.kind.Value == "schedule" && t.schedule.Value == "" {
		p.out.Warnf(CodeMissing, t.kind.Span, `Add schedule: "0 9 * * 1-5" or another cron expression.`,
			"The trigger is a schedule without a cron expression.")
	}
	if t.kind.Value == "file" && len(t.paths) == 0 {
		p.out.Warnf(CodeMissing, t.kind.Span,
			"Add paths: [inbox/*.csv] or other patterns of files below the root of the project.",
			"The trigger watches files and names none.")
	}
	for _, pattern := range t.paths {
		if _, err := path.Match(pattern.Value, ""); err != nil || !filepath.IsLocal(filepath.FromSlash(pattern.Value)) {
			p.out.Errorf(CodeBadValue, pattern.Span,
				"Write a relative path, in which * stands for any characters of a name: inbox/*.csv.",
				"%q is not a pattern of files below the root of the project.", pattern.Value)
		}
	}
	tr.Done()
}

// commandNames returns the names of the commands that start the workflow: a list, or a map of names to
// the text that people type in an editor.
func commandNames(r *text.Reader) []text.Text {
	n := r.Node("commands")
	if n == nil || n.Kind != text.Map {
		return r.Strings("commands")
	}
	return xslices.Map(n.Pairs, func(p text.Pair) text.Text { return p.Key.Text() })
}

// extension notes a key that the specification lacks.
func (p *parser) extension(at source.Span, key string) {
	p.out.Notef(CodeExtension, at, "Remove it if other programs must run the workflow.",
		"%q is not in the specification. Espalier supports it, but other programs may not.", key)
}

// step parses one step. It returns a node even if the step has mistakes, so that later steps can refer to it.
func (p *parser) step(n *text.Node) *node {
	r := p.read(n, stepShape, "step")
	s := &node{id: r.String("id"), name: r.String("name"), goal: r.String("goal"), at: n.Span}
	if s.id.Value != "" {
		s.at = s.id.Span
	}
	r.RequireDeclared()
	p.fits(s.id, namePattern(), "step id",
		"Use lowercase letters, digits and hyphens, starting with a letter: write-summary.")
	action := r.Choice("action")
	s.agent, s.skill, s.produces, s.draft = r.String("agent"), r.String("skill"), r.String("produces"),
		r.String("draft")
	s.gate = r.Choice("gate")
	script := r.Map("script")
	s.inputs = p.inputs(r)
	if script != nil {
		sr := p.read(script, scriptShape, "script")
		s.bash, s.pwsh = sr.String("bash"), sr.String("pwsh")
		sr.Done()
	}
	s.shell = action.Value == "shell"
	p.kind(r, s, script != nil)
	if s.draft.Value != "" {
		p.extension(r.KeySpan("draft"), "draft")
	}
	r.Done()
	return s
}

// kind determines the kind of a step, and reports one diagnostic if it is ambiguous.
func (p *parser) kind(r *text.Reader, s *node, script bool) {
	switch {
	case s.shell && r.Has("agent"):
		p.out.Errorf(CodeStepKind, r.KeySpan("agent"), "Remove agent, or remove action and script.",
			"Step %q has both \"action: shell\" and an agent.", s.id.Value).RemoveEntry("agent", r.Entry("agent"))
	case s.shell:
		for _, key := range []string{"skill", "input", "gate"} {
			if r.Has(key) {
				p.out.Warnf(CodeUnknownKey, r.KeySpan(key),
					"Remove it. The script receives the run's input in its environment.",
					"%q has no effect in a shell step.", key).RemoveEntry(key, r.Entry(key))
			}
		}
		if r.Has("produces") {
			p.out.Warnf(CodeExtension, r.KeySpan("produces"),
				"Make sure that the script writes it to $AGENTFILE_RUN_DIR.",
				"A shell step does not produce a file by itself. The file is expected after the script has run.")
		}
		if wrong := r.Has("script") && !script; s.bash.Value == "" && s.pwsh.Value == "" && !wrong {
			p.out.Errorf(CodeMissing, s.at, "Add script: with bash: scripts/NAME.sh, or pwsh:, or both.",
				"Shell step %q has no script.", s.id.Value)
		}
	case r.Has("agent"):
		r.Require("input", "produces")
		if script {
			p.out.Errorf(CodeStepKind, r.KeySpan("script"), "Remove script, or remove agent and add \"action: shell\".",
				"Step %q has both an agent and a script.", s.id.Value).RemoveEntry("script", r.Entry("script"))
		}
	case script:
		s.shell = true
		found := p.out.Errorf(CodeStepKind, r.KeySpan("script"), "Add \"action: shell\".",
			"Step %q has a script but no \"action: shell\".", s.id.Value)
		if r.KeySpan("action").IsZero() {
			found.AddEntry(r.Entry("script"), "action", "shell")
		}
	case r.Has("goal") && r.Has("produces"): // as in the creator of the reference project
		p.out.Warnf(CodeStepKind, s.at, "Add agent: agents/NAME.md (specification, \"Agent Step Fields\").",
			"Step %q has no agent, so a model follows its goal without instructions.", s.id.Value)
	default:
		p.out.Errorf(CodeStepKind, s.at,
			"Add agent: agents/NAME.md with input: and produces: (specification, \"Agent Step Fields\"), or action: "+
				"shell with script: (\"Shell Step Fields\").", "Step %q is neither an agent step nor a shell step.",
			s.id.Value)
	}
}

// inputs parses the inputs: one string, a list, or a block with one input per line.
func (p *parser) inputs(r *text.Reader) []text.Text {
	n := r.Node("input")
	if n == nil {
		return nil
	}
	if n.Kind == text.List {
		var out []text.Text
		for _, one := range r.Strings("input") {
			if one.Value = strings.TrimSpace(one.Value); one.Value != "" {
				out = append(out, one)
			}
		}
		return out
	}
	one := r.String("input")
	if !strings.Contains(strings.TrimSpace(one.Value), "\n") {
		one.Value = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(one.Value), "- "))
		if one.Value == "" {
			return nil
		}
		return []text.Text{one}
	}
	var out []text.Text
	for line := range strings.Lines(one.Value) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "- "))
		if line == "" {
			continue
		}
		at := one.Span
		if i := strings.Index(p.file.Text[at.Start:at.End], line); i >= 0 {
			at = p.file.Span(at.Start+i, at.Start+i+len(line))
		}
		out = append(out, text.Text{Value: line, Span: at})
	}
	return out
}
