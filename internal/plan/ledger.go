package plan

import (
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// Ledger is a budget and its use. The run has one. A branch or a child may have its own; its work then counts in both.
type Ledger struct {
	Limits journal.Limits `json:"limits,omitzero"` // nil fields are unlimited
	Used   journal.Usage  `json:"used,omitzero"`
	Held   journal.Usage  `json:"held,omitzero"` // reserved and not settled

	Clock
}

// Clock measures active time: the time during which at least one task is running.
type Clock struct {
	Open   int            `json:"open,omitempty"`   // running tasks
	Since  journal.Millis `json:"since,omitempty"`  // when the first of them started
	Active journal.Millis `json:"active,omitempty"` // time before Since
}

// start adds a running task. The clock runs while the number of running tasks is not zero.
func (c *Clock) start(at journal.Millis) {
	if c.Open == 0 {
		c.Since = at
	}
	c.Open++
}

// stop removes a running task.
func (c *Clock) stop(at journal.Millis) {
	c.Open--
	if c.Open == 0 {
		c.Active += max(at-c.Since, 0)
		c.Since = 0
	}
}

// due returns the time at which a limit is reached if the clock keeps running; 0 if it is stopped.
func (c *Clock) due(limit journal.Millis) journal.Millis {
	if c.Open == 0 {
		return 0
	}
	return c.Since + limit - c.Active
}

// limit returns the field of a named budget; nil if there is no such budget.
func (l *Ledger) limit(budget string) **int64 {
	switch budget {
	case ir.BudgetSteps:
		return &l.Limits.Steps
	case ir.BudgetTools:
		return &l.Limits.ToolCalls
	case ir.BudgetTokens:
		return &l.Limits.Tokens
	case ir.BudgetMoney:
		return &l.Limits.MicroDollars
	case ir.BudgetDeadline:
		return &l.Limits.ActiveSeconds
	}
	return nil
}

// countedBy returns the part of a usage that a named budget counts. Active time is not part of a usage: clocks measure
// it.
func countedBy(budget string, u journal.Usage) int64 {
	switch budget {
	case ir.BudgetSteps:
		return u.Steps
	case ir.BudgetTools:
		return u.ToolCalls
	case ir.BudgetTokens:
		return tokens(u)
	case ir.BudgetMoney:
		return u.MicroDollars
	}
	return 0
}

// tokens returns the tokens that count against a budget of tokens.
func tokens(u journal.Usage) int64 { return u.InputTokens + u.OutputTokens }

// Limit returns the limit of a named budget; nil if there is none.
func (l *Ledger) Limit(budget string) *int64 {
	if limit := l.limit(budget); limit != nil {
		return *limit
	}
	return nil
}

// Needed returns the limit at which a named budget has room for what is used, what is reserved, and a further amount.
func (l *Ledger) Needed(budget string, more journal.Usage) int64 {
	if budget == ir.BudgetDeadline {
		return (int64(l.Active) + 999) / 1000
	}
	return countedBy(budget, l.Used) + countedBy(budget, l.Held) + countedBy(budget, more)
}

// Shortfall returns how much of a budget the first request that waits for it needs, and how much of the budget of the
// run is left. Both are 0 if no request waits, and if that budget has no limit or counts active time.
func (s *State) Shortfall() (budget string, next, left int64) {
	root := s.Root()
	if len(s.BudgetWaiters) == 0 || root == nil || root.Ledger == nil {
		return "", 0, 0
	}
	head := s.BudgetWaiters[0]
	limit := root.Ledger.Limit(head.Budget)
	if limit == nil || head.Budget == ir.BudgetDeadline {
		return head.Budget, 0, 0
	}
	return head.Budget, countedBy(head.Budget, head.Amount),
		max(*limit-root.Ledger.Needed(head.Budget, journal.Usage{}), 0)
}

// raise sets the limit of a named budget.
func (l *Ledger) raise(budget string, to int64) {
	if limit := l.limit(budget); limit != nil {
		*limit = &to
	}
}

// short returns the first budget that an amount exceeds, or "". later reports whether the amount may fit after
// reservations are settled.
func (l *Ledger) short(amount journal.Usage) (budget string, later bool) {
	for _, name := range ir.Budgets {
		limit, more := l.Limit(name), countedBy(name, amount)
		if limit == nil || more == 0 {
			continue
		}
		if used := countedBy(name, l.Used) + more; used+countedBy(name, l.Held) > *limit {
			return name, used <= *limit
		}
	}
	return "", false
}

// ActiveAt returns the active time at a given time.
func (l *Ledger) ActiveAt(now journal.Millis) time.Duration {
	active := l.Active
	if l.Open > 0 {
		active += now - l.Since
	}
	return time.Duration(active) * time.Millisecond
}

// deadline returns when the active time is exhausted if the clock keeps running; 0 if it is stopped or there is no
// limit.
func (l *Ledger) deadline() journal.Millis {
	if l.Limits.ActiveSeconds == nil {
		return 0
	}
	return l.due(journal.Millis(*l.Limits.ActiveSeconds * 1000))
}

// ledgers calls do for every ledger that is charged for work in a frame.
func (s *State) ledgers(f *Frame, do func(f *Frame, l *Ledger)) {
	for {
		if f.Ledger != nil {
			do(f, f.Ledger)
		}
		if f.Path == "" {
			return
		}
		f = s.Frames[f.Parent]
	}
}

// limited calls do for every enclosing step that has a time limit.
func (s *State) limited(f *Frame, do func(at *Frame)) {
	for ; ; f = s.Frames[f.Parent] {
		if f.Group != nil && f.Group.Limit > 0 {
			do(f)
		}
		if f.Path == "" {
			return
		}
	}
}

// startClocks starts, and stopClocks stops, the clocks of the enclosing steps that have a time limit.
func (s *State) startClocks(f *Frame, at journal.Millis) {
	s.limited(f, func(owner *Frame) {
		g := owner.Group
		g.Clock.start(at)
		s.addTimer(timer{due: g.Clock.due(g.Limit), path: owner.Path, group: true})
	})
}

func (s *State) stopClocks(f *Frame, at journal.Millis) {
	s.limited(f, func(owner *Frame) { owner.Group.Clock.stop(at) })
}

// clocksRun reports whether active time is being measured.
func (s *State) clocksRun() bool {
	for _, f := range s.Frames {
		if f.Ledger != nil && f.Ledger.Open > 0 || f.Group != nil && f.Group.Clock.Open > 0 {
			return true
		}
	}
	return false
}

// shiftClocks removes time from everything that measures active time, and moves the deadlines that follow from it.
// Gates and retries keep their due times, which are times of the wall clock.
func (s *State) shiftClocks(by journal.Millis) {
	for _, path := range s.paths() {
		f := s.Frames[path]
		if l := f.Ledger; l != nil && l.Open > 0 {
			l.Since += by
			s.addTimer(timer{due: l.deadline(), path: path, limit: true})
		}
		if g := f.Group; g != nil && g.Clock.Open > 0 {
			g.Clock.Since += by
			if g.Limit > 0 {
				s.addTimer(timer{due: g.Clock.due(g.Limit), path: path, group: true})
			}
		}
	}
}

// timedOutStep returns the outermost enclosing step that has no time left; nil if there is none. Steps that have timed
// out already are not included: what still starts in them is cleanup.
func (s *State) timedOutStep(f *Frame) (spent *Frame) {
	s.limited(f, func(owner *Frame) {
		if g := owner.Group; !g.TimedOut && g.Clock.Open == 0 && g.Clock.Active >= g.Limit {
			spent = owner
		}
	})
	return spent
}

// countStep charges the execution of a step to the enclosing budgets. In a branch, it charges only the budget of the
// branch.
func (s *State) countStep(f *Frame) {
	for ; ; f = s.Frames[f.Parent] {
		if f.Ledger != nil {
			f.Ledger.Used.Steps++
		}
		if f.Path == "" || f.Apart {
			return
		}
	}
}

// counts reports whether starting a task is an execution of its step. Combining branches belongs to a step that has
// started, and so does the rerun of a lost task.
func counts(w journal.TaskID, rerun int) bool {
	return rerun == 0 && (w.Part != PartCombine || w.Attempt > 0)
}

// stepsBound reports whether a budget limits the number of steps of a frame.
func (s *State) stepsBound(f *Frame) bool {
	for ; ; f = s.Frames[f.Parent] {
		if f.Ledger != nil && f.Ledger.Limits.Steps != nil {
			return true
		}
		if f.Path == "" || f.Apart {
			return false
		}
	}
}

// short returns the first enclosing budget that an amount exceeds, or "". at is the frame of its ledger; later reports
// whether waiting may help.
func (s *State) short(f *Frame, amount journal.Usage) (budget string, at *Frame, later bool) {
	for ; ; f = s.Frames[f.Parent] {
		if f.Ledger != nil {
			if name, wait := f.Ledger.short(amount); name != "" {
				return name, f, wait
			}
		}
		if f.Path == "" {
			return "", nil, false
		}
		if f.Apart {
			amount.Steps = 0
		}
	}
}

// grant returns the part of an amount that can be reserved now: all of it or, if least output tokens suffice and
// waiting brings no more, the tokens that are left. The other results are those of short.
func (s *State) grant(f *Frame, amount journal.Usage, least int64) (
	granted journal.Usage, budget string, at *Frame, later bool,
) {
	budget, at, later = s.short(f, amount)
	if budget != ir.BudgetTokens || later || least == 0 {
		return amount, budget, at, later
	}
	// Tokens are short. If the least amount fits in every budget, grant what the tightest one has left.
	fewest := amount
	fewest.OutputTokens = least
	if budget, at, later = s.short(f, fewest); budget != "" {
		return amount, budget, at, later
	}
	left := amount.OutputTokens
	s.ledgers(f, func(_ *Frame, l *Ledger) {
		if l.Limits.Tokens != nil {
			left = min(left, *l.Limits.Tokens-tokens(l.Used)-tokens(l.Held)-amount.InputTokens)
		}
	})
	granted = amount
	granted.OutputTokens = left
	return granted, "", nil, false
}

// outOfTime returns the outermost enclosing frame that has no active time left; nil if there is none.
func (s *State) outOfTime(f *Frame) (spent *Frame) {
	s.ledgers(f, func(owner *Frame, l *Ledger) {
		if l.Limits.ActiveSeconds != nil && l.Open == 0 && l.Active >= journal.Millis(*l.Limits.ActiveSeconds*1000) {
			spent = owner // the last one is the outermost
		}
	})
	return spent
}

// Bounded reports whether a reservation of a task can be refused or has to wait:
// the run or a part of it has limits.
func (s *State) Bounded() bool {
	for _, f := range s.Frames {
		if l := f.Ledger; l != nil && (l.Limits.Tokens != nil || l.Limits.MicroDollars != nil ||
			l.Limits.ToolCalls != nil || l.Limits.Steps != nil) {
			return true
		}
	}
	return false
}
