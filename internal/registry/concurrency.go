package registry

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/xslices"
)

// The registers with the runs that are driven and the model calls under way, and those that wait.
const (
	runsRegister  = "concurrency/runs"
	callsRegister = "concurrency/calls"
)

// concurrency limits how many runs are driven and how many model calls are made at the same time, over all processes
// that share a store, and leaves runs to processes with the labels that they need. Processes share two registers, each
// with a queue, and ignore what dead processes have left in them.
//
// There is no coordinator: every process computes the same order from the content of a register (see next), and changes
// the register by compare-and-swap. A process that is killed between two changes leaves tickets that the others skip,
// and that the next change removes.
type concurrency struct {
	registers journal.Registers
	process   Process
	config    *config.Config
	limits    []config.Named[config.Concurrency]
	labels    []string      // of this process
	freed     chan struct{} // receives a value when this process has ended a call
}

var _ embedded.Slots = (*concurrency)(nil)

// newConcurrency returns the concurrency of a project; nil if it has neither limits nor needs. labels are those of this
// process.
func newConcurrency(store journal.Registers, p Process, c *config.Config, labels []string) *concurrency {
	if len(c.Concurrency) == 0 && len(c.Needs) == 0 {
		return nil
	}
	return &concurrency{
		registers: store, process: p, config: c, limits: c.Concurrency, labels: labels, freed: make(chan struct{}, 1),
	}
}

// MissingLabels returns the labels that runs of a workflow need and that are not among labels.
func MissingLabels(c *config.Config, workflow string, labels []string) []string {
	return slices.DeleteFunc(c.LabelsOf(workflow), func(label string) bool { return slices.Contains(labels, label) })
}

// queue is the content of a register, as JSON. Held has the tickets with a slot, Waiting those without.
type queue struct {
	Next    int64    `json:"next"` // arrival of the next ticket
	Held    []ticket `json:"held,omitempty"`
	Waiting []ticket `json:"waiting,omitempty"`
}

// ticket is a run that a process drives or wants to drive, or a model call.
type ticket struct {
	ID       string        `json:"id"` // of the run, or of the call
	Run      journal.RunID `json:"run"`
	Workflow string        `json:"workflow"`
	Provider string        `json:"provider,omitempty"` // of a call
	Owner    journal.Owner `json:"owner"`
	Slot     int64         `json:"slot,omitempty"` // distinguishes the slots that one run holds one after the other
	Arrival  int64         `json:"arrival"`
	// Lacks are labels that the run needs and the owner does not have. Such a ticket shows that the run waits, and
	// never gets a slot.
	Lacks []string `json:"lacks,omitempty"`
}

// is reports whether two tickets are the same: of one run or call, in one process. Several processes can have a ticket
// for the same run.
func (t *ticket) is(other *ticket) bool { return t.ID == other.ID && t.Owner == other.Owner }

// applies reports whether a limit applies to a ticket.
func applies(l *config.Concurrency, t *ticket) bool {
	return (l.Workflow.Value == "" || l.Workflow.Value == t.Workflow) &&
		(l.Provider.Value == "" || l.Provider.Value == t.Provider)
}

// priority returns the highest priority that the configuration has for a ticket.
func (c *concurrency) priority(t *ticket) (highest int64) {
	for i := range c.limits {
		if l := &c.limits[i].Is; applies(l, t) {
			highest = max(highest, l.Priority)
		}
	}
	return highest
}

// full returns the name of the limit that does not allow one more ticket on top of those that are held; empty if all
// do. A limit for each workflow or provider counts only the tickets of the same one; a limit of 0 is none.
func (c *concurrency) full(held []ticket, t *ticket) string {
	for i := range c.limits {
		l := &c.limits[i].Is
		most := l.Runs
		if t.Provider != "" {
			most = l.Calls
		}
		if most == 0 || !applies(l, t) {
			continue
		}
		var n int64
		for j := range held {
			h := &held[j]
			if applies(l, h) && (l.Each != config.EachWorkflow || h.Workflow == t.Workflow) &&
				(l.Each != config.EachProvider || h.Provider == t.Provider) {
				n++
			}
		}
		if n >= most {
			return c.limits[i].Name.Value
		}
	}
	return ""
}

// alive removes the tickets of dead processes, and of processes that are about to end from those that wait. It sorts
// the waiting tickets by priority and arrival. Every reader of a queue calls it first, so the order follows the
// configuration of the reader.
func (c *concurrency) alive(l *queue) {
	// Each process is looked up once.
	others := func(look func(journal.Owner) bool) func(ticket) bool {
		found := map[journal.Owner]bool{c.process.ID(): false}
		return func(t ticket) bool {
			if _, known := found[t.Owner]; !known {
				found[t.Owner] = look(t.Owner)
			}
			return found[t.Owner]
		}
	}
	l.Held = slices.DeleteFunc(l.Held, others(c.process.Dead))
	l.Waiting = slices.DeleteFunc(l.Waiting, others(func(o journal.Owner) bool { return !c.process.Drives(o) }))
	slices.SortStableFunc(l.Waiting, func(a, b ticket) int {
		return cmp.Or(cmp.Compare(c.priority(&b), c.priority(&a)), cmp.Compare(a.Arrival, b.Arrival))
	})
}

// next returns the waiting tickets that the limits allow now: in their order, each on top of those before it. A ticket
// whose own limit is reached does not hold up those behind it. Tickets that lack labels are skipped.
func (c *concurrency) next(l *queue) (out []ticket) {
	held := slices.Clone(l.Held)
	for i := range l.Waiting {
		t := &l.Waiting[i]
		if len(t.Lacks) > 0 {
			continue
		}
		if slices.ContainsFunc(held, func(h ticket) bool { return h.ID == t.ID && !h.is(t) }) {
			// Another process drives the run, or may do so before this one.
			if !slices.ContainsFunc(l.Held, func(h ticket) bool { return h.ID == t.ID }) {
				out = append(out, *t)
			}
			continue
		}
		if c.full(held, t) == "" {
			held, out = append(held, *t), append(out, *t)
		}
	}
	return out
}

func (c *concurrency) load(ctx context.Context, key string) (l queue, r journal.Register, err error) {
	if r, err = c.registers.Load(ctx, key); err != nil {
		return l, r, err
	}
	if err := r.Decode(&l); err != nil {
		return l, r, err
	}
	c.alive(&l)
	return l, r, nil
}

// update changes a register. change reports whether there is something to save. After a conflict with another process
// it is called again with the new content, so it must not keep anything from an earlier call.
func (c *concurrency) update(ctx context.Context, key string, change func(*queue) bool) error {
	for {
		l, r, err := c.load(ctx, key)
		if err != nil || !change(&l) {
			return err
		}
		if _, err = journal.SaveJSON(ctx, c.registers, r, l); !errors.Is(err, journal.ErrConflict) {
			return err
		}
	}
}

// enter adds a ticket to those that wait, unless it is there, and reports whether it is its turn. A ticket that lacks
// labels also waits, so that people see why the run does not continue; its turn never comes.
func (c *concurrency) enter(l *queue, t *ticket) (turn, changed bool) {
	if t.Provider == "" {
		t.Lacks = MissingLabels(c.config, t.Workflow, c.labels)
	}
	at := slices.IndexFunc(l.Waiting, func(w ticket) bool { return w.is(t) })
	if at < 0 {
		t.Arrival = l.Next
		// A run that two processes want to drive has one place in the queue.
		if same := slices.IndexFunc(l.Waiting, func(w ticket) bool { return w.ID == t.ID }); same >= 0 {
			t.Arrival = l.Waiting[same].Arrival
		}
		l.Next++
		l.Waiting = append(l.Waiting, *t)
		c.alive(l)
	}
	return slices.ContainsFunc(c.next(l), func(n ticket) bool { return n.is(t) }), at < 0
}

// acquire gives a ticket a slot if it is its turn; otherwise the ticket waits. It is idempotent: a ticket that is held
// already gets the new number of the slot.
func (c *concurrency) acquire(ctx context.Context, key string, t ticket) (acquired bool, err error) {
	t.Owner = c.process.ID()
	err = c.update(ctx, key, func(l *queue) bool {
		t := t
		if at := slices.IndexFunc(l.Held, func(h ticket) bool { return h.is(&t) }); at >= 0 {
			l.Held[at].Slot, acquired = t.Slot, true
			return true
		}
		var changed bool
		if acquired, changed = c.enter(l, &t); !acquired {
			return changed
		}
		l.Waiting = slices.DeleteFunc(l.Waiting, func(w ticket) bool { return w.is(&t) })
		l.Held = append(l.Held, t)
		return true
	})
	return acquired && err == nil, err
}

// Queue implements embedded.Slots.
func (c *concurrency) Queue(ctx context.Context, run journal.RunID, workflow string) (turn bool, err error) {
	err = c.update(ctx, runsRegister, func(l *queue) bool {
		t := ticket{ID: string(run), Run: run, Workflow: workflow, Owner: c.process.ID()}
		if slices.ContainsFunc(l.Held, func(h ticket) bool { return h.is(&t) }) {
			turn = true
			return false
		}
		var changed bool
		turn, changed = c.enter(l, &t)
		return changed
	})
	return turn, err
}

// Acquire implements embedded.Slots.
func (c *concurrency) Acquire(ctx context.Context, run journal.RunID, workflow string, slot int64) (bool, error) {
	return c.acquire(ctx, runsRegister, ticket{ID: string(run), Run: run, Workflow: workflow, Slot: slot})
}

// Release implements embedded.Slots. Only the slot with this number is released: the run may have got a newer one
// meanwhile.
func (c *concurrency) Release(ctx context.Context, run journal.RunID, slot int64) ([]journal.Owner, error) {
	return c.leave(ctx, runsRegister, func(t *ticket) bool { return t.ID == string(run) && t.Slot == slot }, nil)
}

// Leave implements embedded.Slots.
func (c *concurrency) Leave(ctx context.Context, run journal.RunID) ([]journal.Owner, error) {
	return c.leave(ctx, runsRegister, nil, func(t *ticket) bool { return t.ID == string(run) })
}

// leave removes tickets of this process, and returns the processes whose turn it is then, each once, for the caller to
// wake. A nil function selects no ticket.
func (c *concurrency) leave(
	ctx context.Context, key string, held, waiting func(*ticket) bool,
) (next []journal.Owner, err error) {
	me := c.process.ID()
	remove := func(list *[]ticket, which func(*ticket) bool) bool {
		n := len(*list)
		*list = slices.DeleteFunc(*list, func(t ticket) bool { return which != nil && t.Owner == me && which(&t) })
		return len(*list) != n
	}
	err = c.update(ctx, key, func(l *queue) bool {
		a, b := remove(&l.Held, held), remove(&l.Waiting, waiting)
		next = xslices.Map(c.next(l), func(t ticket) journal.Owner { return t.Owner })
		return a || b
	})
	return slices.Compact(slices.Sorted(slices.Values(next))), err
}

// QueuePlace is the place of a run, or of one of its model calls, among those that wait for a concurrency limit.
type QueuePlace struct {
	Position int    // 1 is next
	Limit    string // name of the limit; empty if it is the run's turn
	Provider string // of the call that waits; empty if the run itself waits
	// Labels are what the run needs and no process has that would drive it; there is no position then.
	Labels []string
}

// Queued returns the runs that wait because of a concurrency limit, or for a process with certain labels.
func (r *Runtime) Queued(ctx context.Context) (map[journal.RunID]QueuePlace, error) {
	if r.concurrency == nil {
		return nil, nil
	}
	return r.concurrency.places(ctx)
}

// Unserved returns a function that returns what the workers lack to run tasks of a workflow on Temporal. It returns
// nil if one of them lacks nothing, or if there are none.
func (r *Runtime) Unserved(ctx context.Context) (func(workflow string) []string, error) {
	if r.concurrency == nil || len(r.concurrency.config.Needs) == 0 || !r.OnTemporal() {
		return func(string) []string { return nil }, nil
	}
	all, err := r.Process.Workers(ctx)
	return func(workflow string) (least []string) {
		for _, w := range all {
			if !w.Works {
				continue
			}
			missing := MissingLabels(r.concurrency.config, workflow, w.Labels)
			if len(missing) == 0 {
				return nil
			}
			if least == nil || len(missing) < len(least) {
				least = missing
			}
		}
		return least
	}, err
}

// places returns the place of each run that waits. Calls are read before runs, so a run that itself waits is listed
// with its own place. A run with tickets of several processes has the place of the first one.
func (c *concurrency) places(ctx context.Context) (map[journal.RunID]QueuePlace, error) {
	out := map[journal.RunID]QueuePlace{}
	for _, key := range []string{callsRegister, runsRegister} {
		l, _, err := c.load(ctx, key)
		if err != nil {
			return nil, err
		}
		seen := map[string]bool{}
		for i := range l.Held {
			seen[l.Held[i].ID] = true
		}
		position := map[string]int{} // by provider: calls of others are not ahead
		for i := range l.Waiting {
			t := &l.Waiting[i]
			if seen[t.ID] || len(t.Lacks) > 0 {
				continue // another process drives it, or waits for it, too; or none can
			}
			seen[t.ID] = true
			position[t.Provider]++
			if at, known := out[t.Run]; !known || at.Provider != t.Provider {
				out[t.Run] = QueuePlace{Position: position[t.Provider], Limit: c.full(l.Held, t), Provider: t.Provider}
			}
		}
		for i := range l.Waiting {
			if t := &l.Waiting[i]; !seen[t.ID] {
				out[t.Run] = QueuePlace{Labels: t.Lacks}
			}
		}
	}
	return out, nil
}

// ConcurrencyStatus is a concurrency limit with what counts for it.
type ConcurrencyStatus struct {
	Name            string
	Runs, MaxRuns   int64
	Calls, MaxCalls int64
	Waiting         int64 // runs and calls
}

// Concurrency returns the concurrency limits, and how many runs and calls count for each.
func (r *Runtime) Concurrency(ctx context.Context) ([]ConcurrencyStatus, error) {
	c := r.concurrency
	if c == nil {
		return nil, nil
	}
	runs, _, err := c.load(ctx, runsRegister)
	if err != nil {
		return nil, err
	}
	calls, _, err := c.load(ctx, callsRegister)
	if err != nil {
		return nil, err
	}
	count := func(list []ticket, l *config.Concurrency) (n int64) {
		seen := map[string]bool{}
		for i := range list {
			if t := &list[i]; applies(l, t) && !seen[t.ID] {
				seen[t.ID] = true
				n++
			}
		}
		return n
	}
	var out []ConcurrencyStatus
	for i := range c.limits {
		l := &c.limits[i].Is
		one := ConcurrencyStatus{Name: c.limits[i].Name.Value, MaxRuns: l.Runs, MaxCalls: l.Calls}
		if l.Runs > 0 {
			one.Runs, one.Waiting = count(runs.Held, l), count(runs.Waiting, l)
		}
		if l.Calls > 0 {
			one.Calls, one.Waiting = count(calls.Held, l), one.Waiting+count(calls.Waiting, l)
		}
		out = append(out, one)
	}
	return out, nil
}

// limitsRuns reports whether a limit or a need concerns runs.
func (c *concurrency) limitsRuns() bool {
	return c != nil && (len(c.config.Needs) > 0 ||
		slices.ContainsFunc(c.limits, func(l config.Named[config.Concurrency]) bool { return l.Is.Runs > 0 }))
}

// limitsCalls reports whether a limit concerns model calls.
func (c *concurrency) limitsCalls() bool {
	return c != nil && slices.ContainsFunc(c.limits, func(l config.Named[config.Concurrency]) bool {
		return l.Is.Calls > 0
	})
}

// callPoll is how often a waiting call looks whether another process has ended one. Calls of the same process wake each
// other by freed.
const callPoll = 50 * time.Millisecond

// limitedModel is a model whose calls wait for their turn. It wraps next, which counts spending, so that a waiting call
// has no money reserved. The embedded router only chooses the provider.
type limitedModel struct {
	router
	next provider.Model
	*concurrency
	run      journal.RunID
	workflow string
}

// Generate waits until the limits allow the call, and makes it. The slot is given back in any case, also after a
// cancellation; the ticket of a process that dies is ignored by the others.
func (m limitedModel) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		choice, problem := m.models.ChooseWith(m.name(req.Model), req.Options)
		if problem != nil { // the call reports it
			m.next.Generate(ctx, req)(yield)
			return
		}
		call := ticket{ID: rand.Text(), Run: m.run, Workflow: m.workflow, Provider: choice.Provider}
		defer func() {
			mine := func(t *ticket) bool { return t.ID == call.ID }
			others, err := m.leave(context.WithoutCancel(ctx), callsRegister, mine, mine)
			if err == nil && len(others) > 0 {
				select {
				case m.freed <- struct{}{}:
				default:
				}
			}
		}()
		if err := m.waitTurn(ctx, call); err != nil {
			yield(provider.Chunk{}, err)
			return
		}
		m.next.Generate(ctx, req)(yield)
	}
}

// waitTurn waits until a call has a slot.
func (m limitedModel) waitTurn(ctx context.Context, call ticket) error {
	for {
		if acquired, err := m.acquire(ctx, callsRegister, call); acquired || err != nil {
			return err
		}
		again := time.NewTimer(callPoll)
		select {
		case <-again.C:
		case <-m.freed:
		case <-ctx.Done():
			again.Stop()
			return context.Cause(ctx)
		}
		again.Stop()
	}
}
