package awf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/shell"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// commandReads adds the variables that every command reads: the working directory and the
// inputs.
func (l *lowering) commandReads(out *ir.Step) {
	l.vars["context.WorkingDir"] = ir.Var{Path: "context.WorkingDir", From: "dir"}
	out.AddRead(ir.Ref{Path: "context.WorkingDir"})
	if len(l.doc.inputs) > 0 {
		out.AddRead(ir.Ref{Path: "input"})
	}
}

// command compiles a step that runs a command or a script.
func (l *lowering) command(s *state, out *ir.Step) {
	t := ir.Task{Kind: "command"}
	body := s.command
	switch {
	case s.command.Value != "":
		t.Settings.Put("command", l.placed(s.command.Value), s.command.Span)
	case s.scriptFile.Value != "":
		body = l.script(s, &t)
	}
	t.Settings.PutSet("dir", s.dir.Value, s.dir.Span)
	t.Settings.PutSet("shell", s.shell.Value, s.shell.Span)
	t.Settings.PutSet("timeout", s.timeoutText.Value, s.timeoutText.Span)
	t.Settings.PutSet("export", l.exports(), s.at)
	t.Settings.PutSet("doubts", l.untrustedNames(), s.at)
	l.read(out, body, s.dir, s.shell, s.timeoutText)
	l.checkCode(body, s.shell.Value, s.scriptFile.Value != "")
	if len(expr.StepActions(s.shell.Value, true)) > 0 {
		l.out.Errorf(CodeAsCode, s.shell.Span, "Use {{raw …}} if you trust the value.",
			"Step output chooses the program that runs this command.")
	}
	l.commandReads(out)
	out.Action, out.Result = t, l.internalExpr(failedState)
}

// untrustedNames returns the untrusted names that the settings of a step list.
func (l *lowering) untrustedNames() []string {
	if l.tainted {
		return []string{"loop"}
	}
	return nil
}

// checkCode reports step output that is executed as code, where quoting cannot help.
func (l *lowering) checkCode(body text.Text, program string, script bool) {
	if !strings.Contains(body.Value, "{{") {
		return
	}
	parts := expr.StepActions(body.Value, l.tainted)
	if len(parts) == 0 {
		return
	}
	by := shell.Interpreter(body.Value)
	if script && by != "" && !shell.IsShell(by) {
		l.out.Warnf(CodeAsCode, body.Span,
			"Write the value to a file in an earlier step, and read the file in the script.",
			"Step output becomes part of this %s script: its author can execute any code.", by)
		return
	}
	if err := expr.CheckShell(cmp.Or(by, program, "sh"), body.Value, parts); err != nil {
		l.out.Errorf(CodeAsCode, body.Span, err.Help+".", "%s%s.", strings.ToUpper(err.Message[:1]), err.Message[1:])
	}
}

// script reads a script file at compile time, so that the run pins it. A script outside of the
// project, or with a computed name, is read when the step runs.
func (l *lowering) script(s *state, t *ir.Task) text.Text {
	ref := l.resolved(s.scriptFile)
	if !strings.Contains(ref, "{{") {
		f, err := l.find(ref, "scripts")
		if err == nil {
			l.p.AddFile(f, "script")
			t.Settings.Put("script", f.Text, s.scriptFile.Span)
			return text.Text{Value: f.Text, Span: s.scriptFile.Span}
		}
		if !outside(ref) {
			l.noFile("script", s.scriptFile, err)
		}
	}
	t.Settings.Put("script_file", ref, s.scriptFile.Span)
	t.Settings.Put("folder", l.folder(), s.scriptFile.Span)
	return s.scriptFile
}

// placedForm matches a path in the folder of scripts or prompts.
var placedForm = lazyregexp.New(`\{\{-?\s*\.?awf\.(scripts|prompts)_dir\s*-?\}\}/([A-Za-z0-9._/-]+)`)

// placed replaces references to AWF's script and prompt folders in a command by absolute paths,
// for files that exist only in the user's folders. The references mean the project's folders if
// the file exists there.
func (l *lowering) placed(command string) string {
	if !strings.Contains(command, "{{") {
		return command
	}
	return placedForm().ReplaceAllStringFunc(command, func(found string) string {
		m := placedForm().FindStringSubmatch(found)
		f, err := l.find("../"+m[1]+"/"+m[2], m[1])
		if err != nil {
			return found
		}
		l.p.AddFile(f, strings.TrimSuffix(m[1], "s"))
		if f.Abs == "" || filepath.Dir(l.folder()) == strings.TrimSuffix(filepath.ToSlash(f.Abs), "/"+m[1]+"/"+m[2]) {
			return found
		}
		return "'" + strings.ReplaceAll(f.Abs, "'", `'\''`) + "'"
	})
}

// resolved replaces references to AWF's own folders in a path.
func (l *lowering) resolved(ref text.Text) string {
	out := ref.Value
	for _, name := range []string{"scripts_dir", "prompts_dir"} {
		for _, form := range []string{"{{.awf." + name + "}}", "{{ .awf." + name + " }}", "{{awf." + name + "}}"} {
			out = strings.ReplaceAll(out, form, "../"+strings.TrimSuffix(name, "_dir"))
		}
	}
	return out
}

// outside reports whether a path cannot be inside of the project.
func outside(ref string) bool { return filepath.IsAbs(ref) || strings.HasPrefix(ref, "~") }

// find reads a file relative to the workflow's folder, the root, AWF's folder for such files,
// and the user's folders.
func (l *lowering) find(ref, folder string) (*source.File, error) {
	f, err := l.first(ref, path.Join("../"+folder, ref), path.Join(".awf/"+folder, ref))
	if err == nil {
		return f, nil
	}
	if f, err := l.lookup(folder, strings.TrimPrefix(ref, "../"+folder+"/")); err == nil {
		return f, nil
	}
	return nil, err
}

// first returns the first of some files that can be read, or the error about the first one.
func (l *lowering) first(refs ...string) (*source.File, error) {
	var first error
	for _, ref := range refs {
		f, err := l.files.Read(l.file, ref)
		if err == nil {
			return f, nil
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// nearOr returns the help text for a file that does not exist: the nearest name, or else the given text.
func nearOr(help string, err error) string {
	if failed, ok := errors.AsType[*source.RefError](err); ok && len(failed.Near) > 0 {
		return fmt.Sprintf("Did you mean %q?", failed.Near[0])
	}
	return help
}

// noFile reports a file that cannot be read.
func (l *lowering) noFile(what string, ref text.Text, err error) {
	help := fmt.Sprintf("Create the %s at this path, relative to the workflow's folder or the project root.", what)
	l.out.Errorf(CodeNoFile, ref.Span, nearOr(help, err), "The %s %q cannot be read.", what, ref.Value)
}

// undefined reports a role or a skill that does not exist.
func (l *lowering) undefined(what string, name text.Text, file string, err error) {
	help := fmt.Sprintf("Create .awf/%ss/%s or .agents/%ss/%s.", what, file, what, file)
	l.out.Errorf(CodeNoFile, name.Span, nearOr(help, err), "The %s %q does not exist.", what, name.Value)
}

// operations are AWF's own operations that are supported, with their inputs. The first one is required.
var operations = map[string][]string{
	"http.request": {"url", "method", "headers", "body", "timeout", "retryable_status_codes", "timeout_seconds"},
	"notify.send":  {"message", "backend", "title", "priority", "webhook_url"},
}

// knownOperation reports inputs that one of AWF's operations would reject, and misspelled
// operations.
func (l *lowering) knownOperation(s *state) {
	known, ok := operations[s.operation.Value]
	if !ok {
		if near := diag.Nearest(s.operation.Value, slices.Sorted(maps.Keys(operations))); near != "" {
			l.out.Warnf(CodeBadValue, s.operation.Span,
				fmt.Sprintf("Did you mean %q? Your own tools must be configured in espalier.yaml.", near),
				"AWF has no operation %q.", s.operation.Value).Replace(s.operation.Value, near)
		}
		return
	}
	for _, key := range s.inputs.Keys() {
		if !slices.Contains(known, key) {
			l.out.Warnf(CodeUnknownKey, s.inputs.Key(key).Span, "", "Operation %q has no input %q.", s.operation.Value,
				key).Suggest(key, known)
		}
	}
	if must := known[0]; s.inputs.Get(must) == nil {
		l.out.Errorf(CodeMissing, s.operation.Span, fmt.Sprintf("Add \"%s: …\" below \"inputs:\".", must),
			"Operation %q requires the input %q.", s.operation.Value, must)
	}
	if s.operation.Value != "http.request" {
		return
	}
	methods := []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"}
	if n := s.inputs.Get("method"); n != nil && !strings.Contains(n.Value, "{{") &&
		!slices.Contains(methods, strings.ToUpper(strings.TrimSpace(n.Value))) {
		l.out.Errorf(CodeBadValue, n.Span, "", "%q is not an HTTP method.", n.Value).
			Suggest(strings.ToUpper(n.Value), methods)
	}
}

// operation compiles a step that calls a tool.
func (l *lowering) operation(s *state, out *ir.Step) {
	l.knownOperation(s)
	t := ir.Task{Kind: "operation"}
	t.Settings.Put("operation", s.operation.Value, s.operation.Span)
	var texts []text.Text
	if s.inputs != nil {
		t.Settings.Put("inputs", s.inputs.JSON(), s.inputs.Span)
		texts = templates(s.inputs, nil)
		if code := s.inputs.Get(ir.ShellArgument); code != nil && s.operation.Value == ir.ShellTool {
			l.checkCode(code.Text(), ir.ToolShell, false)
		}
	}
	t.Settings.PutSet("doubts", l.untrustedNames(), s.at)
	t.Settings.PutSet("timeout", s.timeoutText.Value, s.timeoutText.Span)
	l.read(out, append(texts, s.timeoutText)...)
	out.Action, out.Result = t, l.internalExpr(failedState)
}

// templates appends the strings below a node.
func templates(n *text.Node, out []text.Text) []text.Text {
	switch n.Kind {
	case text.List:
		for _, item := range n.Items {
			out = templates(item, out)
		}
	case text.Map:
		for _, pair := range n.Pairs {
			out = templates(pair.Value, out)
		}
	case text.String:
		out = append(out, n.Text())
	}
	return out
}

// agent compiles a step that calls a model.
func (l *lowering) agent(s *state, out *ir.Step) {
	a := s.agent
	id := s.name.Value
	agent := ir.Agent{ID: id, Provider: a.provider.Value, Implied: true, Span: s.at}
	if strings.Contains(a.provider.Value, "{{") {
		agent.Provider, agent.Late = "", true
	}
	agent.Model, agent.MaxTokens = a.options.model, a.options.maxTokens
	agent.Options = l.forwarded(a.options, a.provider.Value)
	system := cmp.Or(a.system.Value, a.options.system)
	if a.role.Value != "" {
		if f := l.role(a.role); f != nil {
			system = strings.TrimSpace(strings.TrimSpace(f.Text) + "\n\n" + system)
		}
	}
	agent.Tools = tools(a, s.at)
	l.addAgent(agent)
	prompt := a.prompt
	if a.promptFile.Value != "" {
		if f, err := l.find(l.resolved(a.promptFile), "prompts"); err != nil {
			l.noFile("prompt", a.promptFile, err)
		} else {
			l.p.AddFile(f, "prompt")
			prompt = text.Text{Value: f.Text, Span: a.promptFile.Span}
		}
	}
	t := ir.Task{Kind: "conversation"}
	t.Settings.Put("agent", id, s.at)
	t.Settings.Put("prompt", prompt.Value, prompt.Span)
	t.Settings.PutSet("system", system, a.system.Span)
	var skills []map[string]string
	for _, ref := range a.skills {
		if f := l.skill(ref); f != nil {
			skills = append(skills, map[string]string{"name": skillName(ref, f), "text": f.Text})
		}
	}
	t.Settings.PutSet("skills", skills, s.at)
	t.Settings.PutSet("format", a.format.Value, a.format.Span)
	if agent.Late {
		t.Settings.Put("provider", a.provider.Value, a.provider.Span)
	}
	t.Settings.PutSet("timeout", s.timeoutText.Value, s.timeoutText.Span)
	l.read(out, prompt, a.provider, s.timeoutText)
	if from := a.continueFrom; l.doc.byName[from.Value] != nil {
		t.Settings.Put("continue_from", from.Value, from.Span)
		for _, part := range []string{".Conversation", ".Session"} {
			out.Reads = append(out.Reads, ir.Ref{Path: "states." + from.Value + part, Span: from.Span})
		}
	}
	t.Settings.PutSet("keep", a.conversation || l.continued(id), s.at)
	if a.mode.Value == conversationMode {
		t.Settings.Put("dialog", id, s.at)
		t.Settings.PutSet("max_turns", a.maxTurns, s.at)
		out.Writes = append(out.Writes, ir.Write{Path: "turns." + id, Part: "Turns"})
	}
	out.Action, out.Result = t, l.internalExpr(failedState)
}

// withReplies adds the rest of a conversation to the steps of a state, the first of which is its
// first turn: a gate that waits for a person's text, and a step that sends the text to the model.
// Both turns lead to the gate until the conversation has ended.
func (l *lowering) withReplies(s *state, steps []ir.Step) []ir.Step {
	id := s.name.Value
	first := &steps[0]
	input := ir.Step{
		ID: id + ":input", Type: "input", Implied: true,
		Description: "Reply to " + id + ". An empty text ends the conversation.",
		Reads:       []ir.Ref{{Path: "states." + id + ".Output"}}, Writes: []ir.Write{{Path: "said." + id}},
		Action: ir.Gate{Decider: ir.Event, Event: id, Text: true, Span: s.at}, Span: s.name.Span,
	}
	reply := *first
	reply.ID, reply.Implied = id+":reply", true
	reply.Reads = []ir.Ref{{Path: "turns." + id}, {Path: "said." + id}}
	reply.Writes = slices.Clone(first.Writes)
	reply.Writes[len(reply.Writes)-1].Reducer = ir.Append
	task := first.Action.(ir.Task)
	task.Settings = slices.DeleteFunc(slices.Clone(task.Settings), func(one ir.Setting) bool {
		return one.Name == "prompt" || one.Name == "skills" || one.Name == "continue_from"
	})
	task.Settings.Put("reply", true, s.at)
	for _, t := range []text.Text{s.agent.provider, s.timeoutText} {
		reply.Reads = append(reply.Reads, l.reads(t)...)
	}
	reply.Action = task
	wait := ir.Edge{
		On: []ir.Outcome{ir.OK}, When: l.internalExpr(fmt.Sprintf(`states[%q].Status == "waiting"`, id)),
		To: ir.Target{Step: input.ID}, Sequential: true,
	}
	input.Next = []ir.Edge{{On: onAny, To: ir.Target{Step: reply.ID}, Sequential: true}}
	reply.Next = append([]ir.Edge{wait}, first.Next...)
	first.Next = append([]ir.Edge{wait}, first.Next...)
	return append(steps, input, reply)
}

// forwarded returns the options that are passed to the provider unchanged: those without an
// equivalent in ir.Agent. The server's address is accepted only for an OpenAI-compatible
// endpoint.
func (l *lowering) forwarded(options agentOptions, provider string) json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, pair := range options.pairs {
		switch key := pair.Key.Value; {
		case serverShape.Find(key) != nil && provider != compatible:
			l.out.Warnf(CodeNoEffect, pair.Key.Span,
				"Configure the server and its key in espalier.yaml, under models: providers: and the provider's "+
					"name, or use \"provider: openai_compatible\".", "The option %q has no effect.", key)
		case readShape.Find(key) == nil:
			out[key] = pair.Value.JSON()
			if v := pair.Value.Value; key == "api_key" && !strings.HasPrefix(v, "secret://") &&
				!strings.Contains(v, "${") {
				l.out.Warnf(CodeKeyInFile, pair.Value.Span,
					"Use \"api_key: ${NAME}\" with an environment variable, or secret://NAME.",
					"The API key is stored in plain text.")
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return format.JSON(out)
}

// proxyTools are the tools that AWF's proxy offers to agents. readOnlyTools are those that some
// CLI programs grant by default.
var (
	proxyTools    = []string{"Read", "Write", "Edit", "Bash", "Glob", "Grep"}
	readOnlyTools = []string{"Read", "Glob", "Grep"}
	cliProviders  = []string{"claude", "codex", "gemini", "github_copilot"}
)

// compatible is the provider whose server and key a file may choose.
const compatible = "openai_compatible"

// tools returns the tools that an agent may call: those that its options allow. Tools that
// change something require an option or the proxy. A model that is not a CLI program has no
// tools of its own.
func tools(a *agentKeys, at source.Span) []ir.Name {
	var out []ir.Name
	add := func(at source.Span, names ...string) {
		for _, name := range names {
			if name = strings.TrimSpace(name); name != "" &&
				!slices.ContainsFunc(out, func(n ir.Name) bool { return n.Name == name }) {
				out = append(out, ir.Name{Name: name, Span: at})
			}
		}
	}
	if a.tools {
		add(a.toolsAt, proxyTools...)
	}
	if a.provider.Value == compatible {
		return out
	}
	for _, list := range a.options.tools {
		for _, one := range listItems(list) {
			add(list.Span, entries(one.Value)...)
		}
	}
	for _, one := range a.options.permissions {
		add(one.Span, proxyTools...)
	}
	if !a.options.listsTools && slices.Contains(cliProviders, a.provider.Value) {
		add(at, readOnlyTools...)
	}
	return out
}

// entries splits a list of tools such as "Read, Bash(git log, *)" at commas and spaces outside
// of parentheses.
func entries(list string) []string {
	var out []string
	depth, from := 0, 0
	for i, c := range list {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth = max(depth-1, 0)
		case depth == 0 && (c == ',' || c == ' '):
			out, from = append(out, list[from:i]), i+1
		}
	}
	return append(out, list[from:])
}

// continued reports whether another step continues the conversation of a step.
func (l *lowering) continued(id string) bool {
	return slices.ContainsFunc(l.doc.states,
		func(s *state) bool { return s.agent != nil && s.agent.continueFrom.Value == id })
}

// addAgent adds an agent to the program.
func (l *lowering) addAgent(a ir.Agent) {
	if l.p.Agent(a.ID) == nil { // a state may be in several blocks
		l.p.Agents = append(l.p.Agents, a)
	}
}

// role reads the file of a role.
func (l *lowering) role(name text.Text) *source.File {
	file := name.Value + "/AGENTS.md"
	f, err := l.first("../roles/"+file, ".awf/roles/"+file, ".agents/roles/"+file, ".claude/roles/"+file,
		"../roles/"+name.Value+".md", ".awf/roles/"+name.Value+".md", name.Value)
	if err != nil {
		var missing error
		if f, missing = l.lookup("roles", file); missing != nil {
			l.undefined("role", name, file, err)
			return nil
		}
	}
	l.p.AddFile(f, "role")
	return f
}

// skill reads the file of a skill. It returns nil if there is none, after reporting that.
func (l *lowering) skill(ref skillRef) *source.File {
	var f *source.File
	var err error
	file := ref.name.Value + "/SKILL.md"
	switch {
	case ref.path.Value != "":
		if f, err = l.first(ref.path.Value, ref.path.Value+"/SKILL.md"); err != nil {
			l.noFile("skill", ref.path, nil)
			return nil
		}
	case ref.name.Value == "":
		return nil
	default:
		if f, err = l.files.Skill(ref.name.Value); err != nil {
			f, err = l.first("../skills/"+file, ".awf/skills/"+file)
		}
		if err != nil {
			l.undefined("skill", ref.name, file, nil)
			return nil
		}
	}
	l.p.AddFile(f, "skill")
	return f
}

// skillName returns the name of a skill, which may come from its folder.
func skillName(ref skillRef, f *source.File) string {
	return cmp.Or(ref.name.Value, path.Base(path.Dir(f.Path)))
}
