package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// panel is what a page shows of one step: of the visit that is chosen, or of a step that the run has not reached.
type panel struct {
	*stepView
	Visits int
	Reads  []evidence
	Result json.RawMessage
	Writes []string
	// The run has not reached the step.
	Pending bool
	Attempt string
	// What has been received so far of a reply.
	Live     string
	Contract *contract.Contract // of the reply; nil if the step asks no model
	Source   *excerpt
	// Log is what the command of the step has written; Left is how many earlier lines it lacks.
	Log  []outputLine
	Left int
	// Fork are the variables that can be changed before the run is repeated from this step.
	Fork []setField
	// Inside are the steps inside a step that has many, the failed ones first.
	Inside              []lane
	FirstItem, NextItem int // items that this page and the next one start with; 0 if there is no next page
}

// maxOpen is up to how many steps inside another one are shown in the timeline; more are a list in the panel.
const maxOpen = 20

// folded reports whether the steps inside are not in the timeline.
func folded(v *report.StepVisit) bool { return v.Items > maxOpen }

// itemsPerPage is how many steps inside another one a page lists.
const itemsPerPage = 50

// list adds one page of the steps inside a folded step, the failed ones first. from is how many of them earlier pages
// have.
func (p *panel) list(s *story, from int) {
	if !folded(p.StepVisit) {
		return
	}
	p.FirstItem = from
	n := 0
	for _, failed := range []bool{true, false} {
		for _, v := range s.steps {
			if v.Parent != p.StepVisit || (v.State == journal.StateFailed) != failed {
				continue
			}
			if n++; n <= from {
				continue
			}
			if len(p.Inside) == itemsPerPage {
				p.NextItem = n - 1
				return
			}
			p.Inside = append(p.Inside, lane{
				Step: v.Path, Visit: v.Visit, Label: visible(v.Place), State: stateView{v.State},
				Took: report.Duration(v.length()),
			})
		}
	}
}

// excerpt is the part of a workflow file that declares a step.
type excerpt struct {
	Path  string
	First int // number of the first line
	Lines []string
	// Changed reports that the file is not the one that the run was started from, and has no lines for that reason.
	Changed bool
}

// panel returns the panel of a step; nil if no step is chosen. It shows what the workflow says about the step, also
// before the run reaches it, and otherwise what the chosen visit has read, done and written.
func (h *Handler) panel(r *request, p *runPage, s *story, path string, chosen *stepView) (*panel, error) {
	if path == "" {
		return nil, nil
	}
	out := &panel{stepView: chosen, Visits: s.Visited[path]}
	if chosen == nil {
		out.stepView, out.Pending = &stepView{
			StepVisit: &report.StepVisit{State: journal.StatePending},
			Name:      path, Title: path, Path: path, Key: path + "#",
		}, true
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("item")) // any other value means the first page
	out.list(s, max(from, 0))
	// A step of a called workflow is in another program, which the visit knows.
	program, step := p.program, findStep(p.program, path)
	if out.info != nil {
		program, step = out.info.Program, out.info.Step
	}
	if out.Pending && step != nil {
		out.Title = step.Title()
	}
	if err := h.describeStep(r, p, out, program, step); err != nil || out.Pending {
		return out, err
	}
	out.Live = out.live
	out.Log, out.Left = logLines(out.output)
	if p.forks() {
		fields, err := h.correctable(r, p.run, path, out.Visits)
		if err != nil {
			return nil, err
		}
		out.Fork = fields
	}
	if n := len(out.Attempts); n > 1 {
		out.Attempt = fmt.Sprintf(" · attempt %d", n)
	}
	last, err := h.execution(r, cmp.Or(p.run.Root, p.run.ID), out.Name, out.Visit, out.Visits)
	if err != nil || last == nil {
		return out, err
	}
	for _, name := range slices.Sorted(maps.Keys(last.Reads)) {
		out.Reads = append(out.Reads, evidence{
			Name: visible(name), Value: last.Reads[name], Size: len(last.Reads[name]),
			Untrusted: p.Run.Untrusted && app.FromInput(name),
		})
	}
	out.Result, out.Writes = last.Result, last.Writes
	if len(out.Log) == 0 {
		out.Log, out.Left = logLines(stored(last.Result))
	}
	return out, nil
}

// execution returns one of so many visits of a step; nil if the run has not reached the step. ExecutionAt counts the
// executions by the name of the step alone. If that count differs from visits, as in a child run, the number of the
// visit does not identify an execution, and the last one is returned.
func (h *Handler) execution(r *request, id journal.RunID, name string, visit, visits int) (*app.Execution, error) {
	one, count, err := h.o.App.ExecutionAt(r.Context(), id, name, max(visit, 1))
	if err == nil && count != visits {
		one, _, err = h.o.App.ExecutionAt(r.Context(), id, name, count)
	}
	if known, ok := errors.AsType[*app.Error](err); ok && known.Kind == app.NotFound {
		return nil, nil
	}
	return one, err
}

// describeStep adds what the workflow says about a step: the contract of its reply, and the part of its source from the
// step to the next one in the same file. The source is shown only if the file is still the one that the run was started
// from: the spans of the program would select other lines otherwise.
func (h *Handler) describeStep(r *request, p *runPage, out *panel, program *ir.Program, step *ir.Step) error {
	if step == nil {
		return nil
	}
	out.Description = step.Description
	if t := step.Task(); t != nil {
		if kind := catalog.Kinds()[t.Kind]; kind != nil {
			out.Contract = stepkind.ContractOf(kind, program, step, t)
		}
	}
	if step.Span.IsZero() {
		return nil
	}
	text, path, err := h.o.App.SourceText(r.Context(), p.run, step.Span.File)
	switch {
	case err != nil || path == "":
		return err
	case text == "":
		out.Source = &excerpt{Path: visible(path), Changed: true}
		return nil
	}
	next := len(text)
	for s := range program.Steps() {
		at := s.Span
		if at.File == step.Span.File && at.Start > step.Span.Start {
			next = min(next, at.Start)
		}
	}
	out.Source = excerptOf(text, step.Span.Start, next)
	out.Source.Path = visible(path)
	return nil
}

// maxExcerpt is how many lines of a file an excerpt has.
const maxExcerpt = 24

// excerptOf returns the lines of a text from the line before a position up to, but not including, the line before the
// next position, at most maxExcerpt, without empty lines at the end.
func excerptOf(text string, at, next int) *excerpt {
	at, next = min(at, len(text)), min(next, len(text))
	line := strings.Count(text[:at], "\n") // the index of the line
	first := max(line-1, 0)
	end := strings.Count(text[:next], "\n") - 1
	if next == len(text) {
		end = first + maxExcerpt
	}
	all := strings.Split(visible(text), "\n")
	end = min(max(end, line+1), first+maxExcerpt, len(all))
	for end > line+1 && strings.TrimSpace(all[end-1]) == "" {
		end--
	}
	return &excerpt{First: first + 1, Lines: all[first:end]}
}

// findStep returns the step of a program that a path names; nil if there is none. Paths have the steps around a step in
// front of its name, separated by slashes or dots, and the number of an item after "#". Only the name counts: the first
// block with such a step has it.
func findStep(p *ir.Program, path string) *ir.Step {
	name := path[strings.LastIndexAny(path, "/.")+1:]
	name, _, _ = strings.Cut(name, "#")
	for b := range p.Blocks {
		if step := p.Step(ir.BlockID(b), name); step != nil {
			return step
		}
	}
	return nil
}

// Count describes the steps inside.
func (p *panel) Count() string { return p.count() + ", the failed ones first" }

// forks reports whether a user can change variables and repeat the run from a step.
func (p *runPage) forks() bool {
	return p.Run.State == journal.StateFinished && p.MayEdit && p.run.Root == ""
}

// Retries reports whether the page offers to retry the failed run from the step that the panel shows.
func (p *runPage) Retries() bool { return p.Why != nil && p.Step != nil && p.Why.From == p.Step.Path }

// HasConversation reports whether the step has a conversation.
func (p *panel) HasConversation() bool { return len(p.Messages) > 0 || p.Live != "" }
