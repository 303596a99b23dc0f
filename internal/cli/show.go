package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/schedule"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

func (a *invocation) showCommand() *cobra.Command {
	var stepID string
	var prompt bool
	cmd := a.jsonFlag(a.ofWorkflow(&cobra.Command{
		Use:   "show WORKFLOW [--step ID [--prompt]] [--json]",
		Short: "Show what a workflow does, on one page",
		Long: `Show a workflow on one page: what it is, how it is started, what goes in and
out, its steps, agents and bundles, and the worst-case cost of a run.

With --step, show what the reply of the model to one step must be, and with
--prompt the complete request that the model gets. Values that are known only
when the step runs are shown as their names in parentheses.`,
		Example: `  espalier show flow.md
  espalier show flow.md --step triage --prompt
  espalier show skills/minutes
  espalier show support-triage --json`,
	}, func(an *app.Analysis) error {
		if prompt && stepID == "" {
			return usage("Name the step with --step ID.", "--prompt shows the request of one step")
		}
		if stepID != "" {
			return a.showStep(context.Background(), an, stepID, prompt)
		}
		cost, err := a.app().Cost(an, "")
		if err != nil {
			return err
		}
		triggers, err := a.app().TriggersOf(an)
		if err != nil {
			return err
		}
		s := summarize(an, triggers, cost.Report, a.Now())
		if a.json {
			return a.writeJSON(s)
		}
		a.printSummary(s)
		if n := len(an.Diagnostics); n > 0 {
			them := "them"
			if n == 1 {
				them = "it"
			}
			a.note("\n%s; \"espalier validate %s\" shows %s.", diag.Summary(an.Diagnostics),
				shellWord(an.File.Path), them)
		}
		return nil
	}))
	cmd.Flags().StringVar(&stepID, "step", "", "show what the reply to this step must be")
	cmd.RegisterFlagCompletionFunc("step", offer(a.stepsOfWorkflow))
	cmd.Flags().BoolVar(&prompt, "prompt", false, "with --step: show the request that the model gets")
	return cmd
}

// summary is a workflow as show prints it.
type summary struct {
	Name        string       `json:"name"`
	Version     string       `json:"version,omitempty"`
	Description string       `json:"description,omitempty"`
	Format      string       `json:"format"`
	Dialect     string       `json:"dialect,omitempty"`
	Level       string       `json:"level,omitempty"`
	Path        string       `json:"path"`
	Facts       []fact       `json:"facts"`
	Triggers    []ir.Trigger `json:"triggers"`
	Next        []string     `json:"next,omitempty"` // times at which the schedule fires
	Inputs      []field      `json:"inputs"`
	Outputs     []field      `json:"outputs"`
	Budget      ir.Budget    `json:"budget"`
	Tools       ir.Tools     `json:"tools"`
	Steps       []stepRow    `json:"steps"`
	// Commands are what a run starts on this machine.
	Commands []app.Command  `json:"commands"`
	Agents   []ir.Agent     `json:"agents"`
	Bundles  []bundle       `json:"bundles"`
	Files    []ir.File      `json:"files"`
	Cost     check.Report   `json:"cost"`
	Problems map[string]int `json:"problems"`

	approved func(tool string) bool // whether a person has to approve calls of a tool
}

// fact is what the file says about itself beyond its name.
type fact struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// field is one property of an input or output.
type field struct {
	Name        string          `json:"name"`
	Type        string          `json:"type,omitempty"`
	Required    bool            `json:"required"`
	Default     json.RawMessage `json:"default,omitempty"`
	Description string          `json:"description,omitempty"`
}

type stepRow struct {
	ID          string   `json:"id"`
	Label       string   `json:"label,omitempty"`  // what people call it, if not that
	Inside      []string `json:"inside,omitempty"` // the steps around it, outermost first
	Type        string   `json:"type"`
	By          string   `json:"by,omitempty"` // agent, tool, bundle or person that does it
	Description string   `json:"description,omitempty"`
	Reads       []string `json:"reads"`
	Writes      []string `json:"writes"`
	When        string   `json:"when,omitempty"`
	Ways        []jump   `json:"ways,omitempty"` // on from here, other than to the next step
	Implied     bool     `json:"implied,omitempty"`
	AsksModel   bool     `json:"asks_model"`
}

// jump is a jump that the file defines.
type jump struct {
	Label string `json:"label"`
	To    string `json:"to"`
}

type bundle struct {
	Name    string   `json:"name"`
	Step    string   `json:"step"`
	Workers []string `json:"workers"`
	Join    ir.Join  `json:"join"`
	Combine string   `json:"combine,omitempty"`
	Each    string   `json:"each,omitempty"` // the list that it fans out over
}

// summarize collects what show prints of a workflow. Its lists are never nil, so that JSON has [] and not null.
func summarize(an *app.Analysis, triggers []ir.Trigger, cost check.Report, now time.Time) summary {
	p := an.Program
	s := summary{
		Name: an.Name(), Version: p.Version, Description: p.Description, Format: p.Format, Dialect: p.Dialect,
		Level: p.Level, Path: an.File.Path, Facts: []fact{}, Triggers: orEmpty(triggers),
		Next: upcoming(triggers, now), Inputs: fields(p.Input), Outputs: fields(p.Output),
		Budget: p.Budget, Tools: p.Tools, Steps: []stepRow{}, Commands: orEmpty(an.Commands()),
		Agents: orEmpty(p.Agents), Bundles: []bundle{}, Files: orEmpty(p.Files),
		Cost: cost, Problems: an.Counts(), approved: an.RequiresApproval,
	}
	for _, m := range p.Meta {
		switch {
		case m.Name == "name", m.Name == "kind", m.Name == "description", m.Name == "version" && p.Version != "":
			continue // shown in their own places
		}
		s.Facts = append(s.Facts, fact{m.Name, m.Value})
	}
	if len(p.Blocks) > 0 {
		s.block(p, catalog.Kinds(), ir.Body, nil)
	}
	return s
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// block adds the steps of a block and, below each step, those inside it. inside has the steps around the block.
func (s *summary) block(p *ir.Program, kinds stepkind.Set, id ir.BlockID, inside []string) {
	for i := range p.Blocks[id].Steps {
		one := &p.Blocks[id].Steps[i]
		row := stepRow{
			ID: one.ID, Inside: inside, Type: one.Type, By: s.doneBy(p, kinds,
				one), Description: one.Description,
			Reads: []string{}, Writes: []string{}, Ways: jumps(one), Implied: one.Implied,
			AsksModel: asksModel(p, kinds, one),
		}
		if title := one.Title(); title != one.ID {
			row.Label = title
		}
		for _, r := range one.Reads {
			row.Reads = append(row.Reads, r.Path)
		}
		for _, w := range one.Writes {
			row.Writes = append(row.Writes, w.Path)
		}
		if one.When != nil {
			row.When = one.When.Text
		}
		s.Steps = append(s.Steps, row)
		within := append(slices.Clip(inside), one.ID)
		switch action := one.Action.(type) {
		case ir.Parallel:
			b := bundle{
				Name: action.Name, Step: one.ID, Workers: []string{}, Join: action.Join,
				Combine: settingsText(action.Combine),
			}
			for _, branch := range action.Branches {
				b.Workers = append(b.Workers, branch.Name)
				first := len(s.Steps)
				s.block(p, kinds, branch.Block, within)
				if branch.When != nil && first < len(s.Steps) && s.Steps[first].When == "" {
					s.Steps[first].When = branch.When.Text
				}
			}
			if action.Each != nil {
				b.Each = action.Each.Items.Text
				s.block(p, kinds, action.Each.Block, within)
			}
			s.Bundles = append(s.Bundles, b)
		case ir.Loop:
			s.block(p, kinds, action.Block, within)
		}
	}
}

// doneBy says who or what does a step.
func (s *summary) doneBy(p *ir.Program, kinds stepkind.Set, one *ir.Step) string {
	switch action := one.Action.(type) {
	case ir.Task:
		by := taskBy(kinds, &action)
		if kind := kinds[action.Kind]; kind != nil &&
			slices.ContainsFunc(kind.Uses(&action).Tools, func(n ir.Name) bool { return s.approved(n.Name) }) {
			by += ", if a person approves"
		}
		return by
	case ir.Gate:
		switch action.Decider {
		case ir.Person:
			return "a person"
		case ir.Event:
			return "event " + action.Event
		}
		if action.Verdict != nil {
			return taskBy(kinds, action.Verdict)
		}
	case ir.Parallel:
		return action.Name
	case ir.Call:
		if action.Child < len(p.Children) {
			return p.Children[action.Child].Name
		}
	case ir.End:
		if action.Work != nil {
			return taskBy(kinds, action.Work)
		}
	}
	return ""
}

// taskBy returns the agents and tools that a task uses, or its kind if that is unknown.
func taskBy(kinds stepkind.Set, t *ir.Task) string {
	kind, ok := kinds[t.Kind]
	if !ok {
		return t.Kind
	}
	uses := kind.Uses(t)
	var names []string
	for _, n := range slices.Concat(uses.Agents, uses.Tools) {
		if n.Name != "" {
			names = append(names, n.Name)
		}
	}
	return strings.Join(names, ", ")
}

// jumps returns the jumps of a step that the file defines. Edges to the next step in the file (Sequential) are left
// out.
func jumps(s *ir.Step) []jump {
	var out []jump
	for _, e := range s.Next {
		if e.Sequential {
			continue
		}
		to := e.To.Step
		switch {
		case to != "":
		case e.To.Exit == ir.ExitBlock && e.To.Reason == "":
			to = "the end"
		default:
			to = strings.TrimSpace(string(e.To.Exit) + " " + e.To.Reason)
		}
		label := e.Label
		if label == "" {
			label = outcomeLabel(e.On)
			if e.When != nil {
				label = e.When.Text
			}
		}
		out = append(out, jump{label, to})
	}
	if s.Fallback != nil {
		out = append(out, jump{"if it fails or is skipped", s.Fallback.Name})
	}
	if s.StopWhen != nil {
		out = append(out, jump{s.StopWhen.Text, "end"})
	}
	return out
}

// outcomeLabel returns the label of a jump that is taken after these outcomes of its step.
func outcomeLabel(outcomes []ir.Outcome) string {
	ok, failed := slices.Contains(outcomes, ir.OK), slices.Contains(outcomes, ir.Failed)
	switch {
	case ok && failed:
		return "in any case"
	case ok:
		return "then"
	case len(outcomes) == 1 && failed:
		return "on error"
	}
	return strings.Join(xslices.Map(outcomes, func(o ir.Outcome) string { return string(o) }), "/")
}

// settingsText writes a task's settings without understanding them.
func settingsText(t *ir.Task) string {
	if t == nil {
		return ""
	}
	var parts []string
	for _, s := range t.Settings {
		if v := readableValue(s.Value); v != "" {
			parts = append(parts, s.Name+" "+v)
		}
	}
	return strings.Join(parts, ", ")
}

// readableValue writes JSON as people would: strings bare, lists with commas.
func readableValue(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	case []any:
		var items []string
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				return string(raw)
			}
			items = append(items, text)
		}
		return strings.Join(items, ", ")
	}
	return string(raw)
}

// fields lists the properties of a contract, in the order of the file.
func fields(c *ir.Contract) []field {
	out := []field{}
	if c == nil {
		return out
	}
	var schema struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if json.Unmarshal(c.Schema, &schema) != nil || schema.Properties == nil {
		return out
	}
	d := json.NewDecoder(bytes.NewReader(schema.Properties)) // which keeps the order, and has read them once
	if open, _ := d.Token(); open != json.Delim('{') {
		return out
	}
	for d.More() {
		key, _ := d.Token()
		name, _ := key.(string)
		f := field{Name: name, Required: slices.Contains(schema.Required, name)}
		var property struct {
			Type        any             `json:"type"`
			Enum        []any           `json:"enum"`
			Items       map[string]any  `json:"items"`
			Default     json.RawMessage `json:"default"`
			Description string          `json:"description"`
		}
		if d.Decode(&property) == nil {
			f.Type = typeText(property.Type, property.Enum, property.Items)
			f.Default, f.Description = property.Default, property.Description
		}
		out = append(out, f)
	}
	return out
}

// typeText describes the type of a property in a few words: its values, if they are listed.
func typeText(t any, enum []any, items map[string]any) string {
	if len(enum) > 0 {
		return strings.Join(xslices.Map(enum, func(v any) string { return fmt.Sprint(v) }), " | ")
	}
	switch t := t.(type) {
	case string:
		if of, ok := items["type"].(string); ok && t == "array" {
			return "list of " + of
		}
		return t
	case []any:
		return strings.Join(xslices.Map(t, func(one any) string { return fmt.Sprint(one) }), " | ")
	}
	return ""
}

// printSummary prints a workflow on one page. Sections without content are left out, and budgets that are enough.
func (a *invocation) printSummary(s summary) {
	p := a.page()
	p.title(strings.TrimSpace(s.Name+" "+s.Version),
		strings.Join(slices.DeleteFunc([]string{s.Format, s.Dialect, s.Level}, func(s string) bool { return s == "" }),
			" · "))
	p.paragraph(s.Description)
	p.out.WriteString("\n")
	p.table(factsTable(s))
	p.tableSection("Inputs", fieldsTable(s.Inputs))
	p.tableSection("Outputs", fieldsTable(s.Outputs))
	p.section("Steps")
	p.table(stepsTable(s.Steps))
	p.tableSection("Agents", agentsTable(s.Agents))
	p.tableSection("Side by side", bundlesTable(s.Bundles))
	p.tableSection("Commands on this machine", commandsTable(s.Commands))
	p.tableSection("What a run can cost", amountsTable(s.Cost))
	for _, b := range s.Cost.Budgets {
		if b.Verdict == check.Fits || b.Verdict == check.ShouldFit || b.Scope != "" && b.Verdict != check.CannotFinish {
			continue // "espalier cost" has them all
		}
		text := fmt.Sprintf("Budget of %s %s: %s", stepkind.N(b.Limit), b.Name, b.Verdict)
		if b.Scope != "" {
			text = b.Scope + ": " + text
		}
		if b.Because != "" {
			text += ", " + b.Because
		}
		p.text(sentence(text))
	}
	for _, reason := range unboundedReasons(s.Cost) {
		p.text("Unbounded: " + sentence(reason))
	}
	p.tableSection("Time", timesTable(s.Cost))
	p.print()
}

func commandsTable(commands []app.Command) table {
	t := table{}
	for _, c := range commands {
		step := c.Step
		for _, line := range c.Lines() {
			t.add(step, line)
			step = ""
		}
	}
	return t
}

func factsTable(s summary) table {
	t := table{}
	add := func(name, text string) {
		if text != "" {
			t.add(name, text)
		}
	}
	t.add("file", s.Path)
	for _, f := range s.Facts {
		add(strings.ReplaceAll(f.Name, "_", " "), strings.ReplaceAll(readableValue(f.Value), "**", ""))
	}
	add("triggers", triggersText(s.Triggers))
	for i, at := range s.Next {
		label := ""
		if i == 0 {
			label = "next"
		}
		t.add(label, whenText(at))
	}
	add("budget", budgetText(s.Budget))
	add("tools", toolsText(s.Tools))
	var asking []string
	for _, one := range s.Steps {
		if one.AsksModel {
			asking = xslices.AppendNew(asking, cmp.Or(one.Label, one.ID))
		}
	}
	if len(s.Steps) > 0 {
		t.add("model calls", cmp.Or(strings.Join(asking, ", "), "none"))
	}
	for _, f := range s.Files {
		t.add("uses "+f.Role, f.Path)
	}
	return t
}

// asksModel reports whether a step calls a model, itself or in the workflow that it calls.
func asksModel(p *ir.Program, kinds stepkind.Set, s *ir.Step) bool {
	if call, ok := s.Action.(ir.Call); ok && call.Child >= 0 && call.Child < len(p.Children) {
		child := &p.Children[call.Child]
		for inner := range child.Steps() {
			if asksModel(child, kinds, inner) {
				return true
			}
		}
	}
	task := s.Task()
	return task != nil && kinds[task.Kind] != nil && stepkind.AsksModel(kinds[task.Kind], p, s, task)
}

// upcoming are the next five times at which a workflow's schedules fire, with
// the offset of their zone: it changes when clocks do.
func upcoming(triggers []ir.Trigger, now time.Time) []string {
	var all []time.Time
	for _, t := range triggers {
		if t.Kind != ir.OnSchedule || t.Off {
			continue
		}
		zone, err := time.LoadLocation(t.Timezone) // no name is UTC
		if err != nil {
			continue // reported by the checks
		}
		times, err := schedule.Parse(t.Schedule, zone)
		if err != nil {
			continue // likewise
		}
		all = append(all, times.Upcoming(now, maxUpcoming)...)
	}
	slices.SortFunc(all, time.Time.Compare)
	var out []string
	for _, at := range all[:min(len(all), maxUpcoming)] {
		out = append(out, at.Format(time.RFC3339))
	}
	return out
}

const maxUpcoming = 5

// whenText is a time as people read it.
func whenText(at string) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return at
	}
	return t.Format("Mon 2006-01-02 15:04 -07:00")
}

func triggersText(triggers []ir.Trigger) string {
	return strings.Join(xslices.Map(triggers, func(t ir.Trigger) string {
		if t.Off {
			return t.Words() + " (disabled)"
		}
		return t.Words()
	}), "; ")
}

func budgetText(b ir.Budget) string {
	var parts []string
	add := func(l *ir.Limit, what string) {
		if l != nil {
			parts = append(parts, stepkind.N(l.Max).String()+" "+what)
		}
	}
	add(b.Steps, "steps")
	add(b.ToolCalls, "tool calls")
	add(b.Tokens, "tokens")
	if b.ActiveSeconds != nil {
		parts = append(parts, seconds(b.ActiveSeconds.Max)+" of active time")
	}
	if b.MicroDollars != nil {
		parts = append(parts, price.Dollars(b.MicroDollars.Max))
	}
	return strings.Join(parts, ", ")
}

func toolsText(t ir.Tools) string {
	var parts []string
	if len(t.Allow) > 0 {
		parts = append(parts, "only "+names(t.Allow))
	}
	if len(t.Deny) > 0 {
		parts = append(parts, "never "+names(t.Deny))
	}
	return strings.Join(parts, "; ")
}

func names(list []ir.Name) string {
	return strings.Join(xslices.Map(list, func(n ir.Name) string { return n.Name }), ", ")
}

func fieldsTable(fields []field) table {
	t := table{}
	for _, f := range fields {
		need := "optional"
		switch {
		case f.Required:
			need = "required"
		case f.Default != nil:
			need = "default " + string(f.Default)
		}
		t.add(f.Name, f.Type, need, f.Description)
	}
	return t
}

// stepsTable has a row for each step, indented by the steps around it, and below the row where the run continues from
// there.
func stepsTable(steps []stepRow) table {
	t := table{header: []string{"STEP", "TYPE", "BY", "READS → WRITES"}}
	labels := map[string]string{}
	for _, s := range steps {
		labels[s.ID] = s.Label
	}
	for _, s := range steps {
		flow := strings.Join(s.Reads, ", ")
		if len(s.Writes) > 0 {
			flow = strings.TrimSpace(flow + " → " + strings.Join(s.Writes, ", "))
		}
		var jumps []string
		if s.When != "" {
			jumps = append(jumps, "when "+s.When)
		}
		for _, w := range s.Ways {
			jumps = append(jumps, w.Label+" → "+cmp.Or(labels[w.To], w.To))
		}
		t.add(strings.Repeat("· ", len(s.Inside))+cmp.Or(s.Label, s.ID), s.Type, s.By, flow)
		t.under(strings.Join(jumps, "; "))
	}
	return t
}

func agentsTable(agents []ir.Agent) table {
	t := table{header: []string{"AGENT", "MODEL", "REPLY", "TOOLS", "ROLE"}, right: []int{2}}
	for _, a := range agents {
		most := ""
		if a.MaxTokens > 0 {
			most = stepkind.N(int64(a.MaxTokens)).String()
		}
		role := cmp.Or(a.Role, a.Goal)
		t.add(a.ID, strings.TrimSpace(a.Provider+" "+a.Model), most, names(a.Tools), role)
	}
	return t
}

func bundlesTable(bundles []bundle) table {
	t := table{header: []string{"BUNDLE", "STEP", "WORKERS", "MERGE"}}
	for _, b := range bundles {
		workers := strings.Join(b.Workers, ", ")
		if b.Each != "" {
			workers = "one for each of " + b.Each
		}
		t.add(b.Name, b.Step, workers, b.Combine)
	}
	return t
}
