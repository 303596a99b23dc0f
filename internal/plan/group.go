package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// decideGroup decides what happens next in a step that consists of frames.
func (d *decider) decideGroup(f *Frame) {
	if f.Group.TimedOut {
		d.endTimedOut(f)
		return
	}
	switch a := d.step(f).Action.(type) {
	case ir.Parallel:
		d.parallel(f, &a)
	case ir.Loop:
		d.loop(f, &a)
	case ir.Call:
		d.call(f, &a)
	}
}

// endTimedOut ends a step of frames that has timed out, as soon as no frame is open. The writes of branches stay.
func (d *decider) endTimedOut(f *Frame) {
	if f.Group.Live > 0 {
		return
	}
	d.leave(f, journal.StepLeft{
		Place: f.Place(), Outcome: journal.OutcomeFailed, Class: ir.ClassTimeout, For: f.For, Merge: d.merges(f),
		Error: fmt.Sprintf("it did not end within %s", ir.Millis(f.Group.Limit).Words()),
	})
}

// parallel opens branches, as many at a time as allowed, until all have run or the outcome is settled: a failure or a
// rejection settles a join of all branches, a success a join of any. Then the open branches are canceled, and the step
// ends when they have ended.
func (d *decider) parallel(f *Frame, a *ir.Parallel) {
	g := f.Group
	settled := a.Join == ir.JoinAll && g.Failed+g.Rejected > 0 || a.Join == ir.JoinAny && g.OK > 0
	if settled && g.Live > 0 && !g.Stopped {
		d.fact(f, journal.CancelRequested{Frame: f.Path, Below: true})
	}
	next := g.following()
	for !settled && !g.Stopped && next < g.Total && (a.MaxConcurrent == 0 || g.Live < a.MaxConcurrent) {
		d.openBranch(f, a, next)
		next = g.following()
	}
	if g.Live == 0 && (settled || g.Stopped || next >= g.Total) {
		d.join(f, a)
	}
}

// following returns the index of the next branch to open. Branches whose results an earlier attempt left are not opened
// again.
func (g *Group) following() int {
	next := g.Next
	for g.Results[next] != nil {
		next++
	}
	return next
}

// openBranch opens a branch. One whose condition is false, or cannot be evaluated, is opened and closed at once, so
// that it has a result like the others.
func (d *decider) openBranch(f *Frame, a *ir.Parallel, i int) {
	opened := journal.FrameOpened{Parent: f.Path, Step: f.Step, Program: f.Program, Index: i}
	if a.Each != nil {
		opened.Block, opened.Name = int(a.Each.Block), strconv.Itoa(i)
		opened.Vars = d.loopVars(f, a.Each, i)
		opened.Frame = framePath(f, opened.Name)
		d.fact(f, opened)
		return
	}
	branch := &a.Branches[i]
	opened.Block, opened.Name, opened.Budget = int(branch.Block), branch.Name, limits(&branch.Budget)
	opened.Frame = framePath(f, journal.KeySegment(branch.Name))
	runs, err := true, error(nil)
	if branch.When != nil {
		runs, err = d.evalBool(branch.When, d.scope(f))
	}
	d.fact(f, opened)
	switch {
	case err != nil:
		d.fact(f, journal.FrameClosed{
			Frame: opened.Frame, Outcome: journal.OutcomeFailed, Class: ir.ClassCondition, Error: err.Error(),
		})
	case !runs:
		d.fact(f, journal.FrameClosed{Frame: opened.Frame, Outcome: journal.OutcomeSkipped, Reason: ReasonCondition})
	}
}

// join ends a parallel step, or starts the task that combines its branches.
func (d *decider) join(f *Frame, a *ir.Parallel) {
	g := f.Group
	if a.Combine != nil && g.Failed > 0 && !g.Stopped && d.retryBranches(f, a) {
		return
	}
	left := journal.StepLeft{Place: f.Place(), Outcome: journal.OutcomeOK, For: f.For}
	// The outcome. Cases without a body are successes.
	switch {
	case a.Join == ir.JoinBest:
	case a.Join == ir.JoinAny && g.OK > 0:
	case a.MinSuccess > 0 && g.OK >= a.MinSuccess:
	case a.Join == ir.JoinAny, g.Failed > 0:
		left.Outcome = journal.OutcomeFailed
	case g.Rejected > 0:
		left.Outcome = journal.OutcomeRejected
	}
	if left.Outcome == journal.OutcomeFailed {
		for _, r := range d.s.Branches(f) {
			if r.Outcome == journal.OutcomeFailed {
				left.Class, left.Reason, left.Error = r.Class, r.Reason, fmt.Sprintf("%s: %s", r.Name, r.Error)
				break
			}
		}
		left.Error = cmp.Or(left.Error, "no branch succeeded")
	}
	// The writes of branches count whatever the outcome is.
	left.Merge = d.merges(f)
	if left.Outcome != journal.OutcomeOK {
		d.leave(f, left)
		return
	}
	if a.Combine != nil {
		d.startTask(f, journal.TaskID{Place: f.Place(), Part: PartCombine}, 0, nil, f.For)
		return
	}
	var gathered journal.Value
	if step := d.step(f); len(step.Writes) > 0 || step.Result != nil {
		values, _ := d.s.BranchValues(d.p, f) // a value that cannot be read is null
		gathered.JSON = mustJSON(values)
	}
	d.succeed(f, left, gathered)
}

// retryBranches schedules another attempt at the branches that failed, if it can make the step succeed.
func (d *decider) retryBranches(f *Frame, a *ir.Parallel) bool {
	step, g := d.step(f), f.Group
	retry := journal.RetrySet{TaskID: journal.TaskID{Place: f.Place(), Attempt: f.Attempt + 1}}
	for i := range g.Total {
		r := g.Results[i]
		if r == nil || r.Outcome != journal.OutcomeFailed || !retryable(step, f.Attempt, r.Class, r.Status) {
			continue
		}
		if len(retry.Branches) == 0 {
			retry.Class, retry.Error = r.Class, fmt.Sprintf("%s: %s", r.Name, r.Error)
		}
		retry.Branches = append(retry.Branches, i)
	}
	// Retrying helps only if no failed branch is left over, or if enough branches can succeed.
	again := len(retry.Branches)
	enough := again == g.Failed || a.MinSuccess > 0 && g.OK+again >= a.MinSuccess
	if again == 0 || !enough {
		return false
	}
	retry.Due = d.now + delay(step.Retry, d.s.Run, retry.TaskID)
	d.fact(f, retry)
	return true
}

// merges reports whether the writes of branches are merged when the step ends, whatever its outcome. They are not if a
// task combines them.
func (d *decider) merges(f *Frame) bool {
	par, ok := d.step(f).Action.(ir.Parallel)
	return ok && par.Combine == nil
}

// BranchValue is a branch's result as a combine task or a write sees it.
type BranchValue struct {
	Branch  string          `json:"branch"`
	Outcome journal.Outcome `json:"outcome"`
	Error   string          `json:"error,omitempty"`
	Value   json.RawMessage `json:"value"`
	Used    journal.Usage   `json:"-"`
	Child   journal.RunID   `json:"-"`
}

// BranchValues returns the results of branches in branch order.
func (s *State) BranchValues(p *Program, f *Frame) ([]BranchValue, error) {
	out := []BranchValue{}
	var first error
	for _, r := range s.Branches(f) {
		raw, err := p.raw(r.Value)
		first = cmp.Or(first, err)
		out = append(out, BranchValue{
			Branch: r.Name, Outcome: r.Outcome, Error: r.Error, Value: orNull(raw), Used: r.Used, Child: r.Child,
		})
	}
	return out, first
}

// loop ends a loop after an iteration, or opens the next iteration.
func (d *decider) loop(f *Frame, a *ir.Loop) {
	g := f.Group
	if g.Live > 0 {
		return
	}
	left := journal.StepLeft{Place: f.Place(), Outcome: journal.OutcomeOK, For: f.For}
	// How the last iteration ended.
	if last := g.Results[0]; last != nil {
		switch last.Outcome {
		case journal.OutcomeOK:
		case journal.OutcomeBreak:
			d.leaveLoop(f, left)
			return
		case journal.OutcomeJump:
			left.Outcome, left.To = journal.OutcomeJump, last.To
			d.leaveLoop(f, left) // the next step may read the number of iterations
			return
		default: // failed, rejected, cancelled, end
			left.Outcome, left.Class, left.Reason, left.Error = last.Outcome, last.Class, last.Reason, last.Error
			left.Status = last.Status
			d.leave(f, left)
			return
		}
	}
	i := g.Next
	if a.Each != nil && i >= g.Total {
		d.leaveLoop(f, left)
		return
	}
	vars := d.loopVars(f, a.Each, i)
	// The condition sees the variables of the iteration that it would start.
	if a.While != nil {
		sc := d.scope(f)
		sc.extra = vars
		goOn, err := d.evalBool(a.While, sc)
		if err != nil {
			left.Outcome, left.Class, left.Error = journal.OutcomeFailed, ir.ClassCondition, err.Error()
			d.leave(f, left)
			return
		}
		if !goOn {
			d.leaveLoop(f, left)
			return
		}
	}
	// The limit comes after the condition: a loop that has just enough iterations has not failed.
	if g.Max > 0 && i >= g.Max {
		if a.FailAtMax || a.Each != nil {
			left.Outcome, left.Class = journal.OutcomeFailed, ir.ClassLoopLimit
			left.Error = fmt.Sprintf("the loop has reached its limit of %d iterations", g.Max)
			if a.Each != nil {
				left.Error += fmt.Sprintf(", and there are %d items", g.Total)
			}
			d.leave(f, left)
			return
		}
		left.Reason = string(ir.ClassLoopLimit)
		d.leaveLoop(f, left)
		return
	}
	d.fact(f, journal.FrameOpened{
		Frame: framePath(f, strconv.Itoa(i)), Parent: f.Path, Step: f.Step, Program: f.Program, Block: int(a.Block),
		Index: i, Vars: vars,
	})
}

// leaveLoop ends a loop that has not failed. Its result is the number of iterations.
func (d *decider) leaveLoop(f *Frame, left journal.StepLeft) {
	var gathered journal.Value
	if step := d.step(f); len(step.Writes) > 0 || step.Result != nil {
		gathered.JSON = mustJSON(map[string]int{"iterations": f.Group.Next})
	}
	d.succeed(f, left, gathered)
}

// loopVars returns the variables of an iteration.
func (d *decider) loopVars(f *Frame, each *ir.Each, i int) map[string]journal.Value {
	length := -1
	if each != nil {
		length = f.Group.Total
	}
	loop := fmt.Appendf(nil, `{"index":%d,"first":%t,"last":%t,"length":%d`, i, i == 0, i == length-1, length)
	own := ""
	if each != nil {
		own = strings.TrimPrefix(each.Var, "loop.")
		if item := f.Group.item(i); own != each.Var {
			loop = fmt.Appendf(loop, `,%q:%s`, own, item)
		}
	}
	if outer := d.s.visible(f, "loop"); len(outer.JSON) > 0 {
		loop = fmt.Appendf(loop, `,"parent":%s`, outer.JSON)
	}
	vars := map[string]journal.Value{"loop": {JSON: append(loop, '}')}}
	if each != nil && own == each.Var {
		vars[each.Var] = journal.Value{JSON: f.Group.item(i)}
	}
	return vars
}

// item returns the i-th item of the list that a group iterates over.
func (g *Group) item(i int) json.RawMessage {
	if g.items == nil {
		if err := json.Unmarshal(g.Items.JSON, &g.items); err != nil {
			panic("plan: " + err.Error()) // the plan encoded it when the step started
		}
	}
	return g.items[i]
}

// call opens the child and, when it has ended, ends the step with its result or starts the task that postprocesses it.
func (d *decider) call(f *Frame, a *ir.Call) {
	g := f.Group
	if g.Next == 0 {
		d.openChild(f, a)
		return
	}
	if g.Live > 0 {
		return
	}
	last := g.Results[0]
	left := journal.StepLeft{
		Place: f.Place(), Outcome: last.Outcome, Class: last.Class, Reason: last.Reason, Error: last.Error, For: f.For,
	}
	if last.Outcome == journal.OutcomeOK {
		if a.Finish != nil {
			d.startTask(f, journal.TaskID{Place: f.Place(), Part: PartCombine}, 0, nil, f.For)
			return
		}
		value, err := d.checked(f, d.step(f), last.Value)
		if err == nil {
			d.succeed(f, left, value)
			return
		}
		left.Outcome, left.Class, left.Error = journal.OutcomeFailed, ir.ClassInvalid, err.Error()
	}
	left.Status = last.Status
	d.leave(f, left)
}

// openChild opens the body of a child run. If its input cannot be computed or does not satisfy its contract, the child
// fails at once, but is still recorded as a run.
func (d *decider) openChild(f *Frame, a *ir.Call) {
	u := d.unit(f)
	child := &u.ir.Children[a.Child]
	step := d.step(f)
	input := map[string]json.RawMessage{}
	if a.PassReads {
		input = d.readInput(f, step, child)
	}
	var failed journal.FrameClosed // set if the input of the child is invalid
	for _, b := range a.Inputs {
		v, err := d.eval(b.Value, d.scope(f))
		if err != nil {
			failed.Class, failed.Error = ir.ClassCondition, fmt.Sprintf("input %q: %v", b.Name, err)
			break
		}
		input[b.Name] = mustJSON(v)
	}
	given := mustJSON(input)
	if d.p.FillInput != nil && failed.Class == "" {
		filled, err := d.p.FillInput(child, given)
		if err == nil {
			given = filled
		} else {
			failed.Class, failed.Error = ir.ClassInput, err.Error()
		}
	}
	path := framePath(f, journal.FrameCall)
	vars := InitialVars(child)
	for _, v := range child.Vars { // variables from the machine were read when the run started
		if found, ok := d.s.Root().Scope[v.Path]; ok && v.From != "" {
			vars[v.Path] = found
		}
	}
	vars["input"] = journal.Value{JSON: given}
	d.fact(f, journal.FrameOpened{
		Frame: path, Parent: f.Path, Step: f.Step, Program: childPath(f.Program, a.Child), Name: child.Name,
		Child: ChildID(d.s.Run, path), Vars: vars, Budget: limits(&child.Budget),
	})
	if failed.Class != "" {
		failed.Frame, failed.Outcome = path, journal.OutcomeFailed
		d.fact(d.s.Frames[path], failed)
	}
}

// readInput returns the reads of a step as the input of a child. Each value has the last segment of its path as
// its name, and a whole namespace provides its own names. The only read of a step is the whole input if it is an object
// and the child declares inputs, but none of that name. Values that were never written, and those that the child's
// schema does not allow, are left out.
func (d *decider) readInput(f *Frame, step *ir.Step, child *ir.Program) map[string]json.RawMessage {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Additional json.RawMessage            `json:"additionalProperties"`
	}
	if child.Input != nil {
		_ = json.Unmarshal(child.Input.Schema, &schema) // other schemas declare nothing
	}
	input, namespaces := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for _, r := range step.Reads {
		value, ok := d.s.Read(d.p, f, r.Path)
		if !ok {
			continue
		}
		name := r.Path[strings.LastIndexByte(r.Path, '.')+1:]
		_, declared := schema.Properties[name]
		spread := name == r.Path || len(step.Reads) == 1 && len(schema.Properties) > 0 && !declared
		if object := objectOf(value); spread && object != nil {
			maps.Copy(namespaces, object)
		} else {
			input[name] = value
		}
	}
	maps.Copy(namespaces, input) // names of their own take precedence
	input = namespaces
	// A schema that forbids other properties selects among the values instead of refusing the input.
	if string(schema.Additional) == "false" {
		maps.DeleteFunc(input, func(name string, _ json.RawMessage) bool {
			_, declared := schema.Properties[name]
			return !declared
		})
	}
	return input
}

// InitialVars returns the variables that a program starts with.
func InitialVars(p *ir.Program) map[string]journal.Value {
	vars := map[string]journal.Value{}
	for _, v := range p.Vars {
		if len(v.Init) > 0 {
			vars[v.Path] = journal.Value{JSON: v.Init}
		}
	}
	return vars
}

// LimitsOf returns a program's budgets in the form of facts.
func LimitsOf(p *ir.Program) *journal.Limits { return limits(&p.Budget) }

// limits returns a budget in the form of facts; nil if it has no limits.
func limits(b *ir.Budget) *journal.Limits {
	limit := func(l *ir.Limit) *int64 {
		if l == nil {
			return nil
		}
		return &l.Max
	}
	out := journal.Limits{
		Steps: limit(b.Steps), ToolCalls: limit(b.ToolCalls), Tokens: limit(b.Tokens),
		ActiveSeconds: limit(b.ActiveSeconds), MicroDollars: limit(b.MicroDollars),
	}
	if out == (journal.Limits{}) {
		return nil
	}
	return &out
}

// ChildID derives the ID of a child run from its frame, in the form of a UUID v4. It is the same in every process.
func ChildID(root journal.RunID, frame string) journal.RunID {
	sum := sha256.Sum256([]byte(string(root) + "\x00" + frame))
	sum[6] = sum[6]&0x0f | 0x40
	sum[8] = sum[8]&0x3f | 0x80
	h := hex.EncodeToString(sum[:16])
	return journal.RunID(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}
