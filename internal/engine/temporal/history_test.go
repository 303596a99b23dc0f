//go:build temporal

package temporal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// cacheVariable makes workers replay the whole history at every workflow task.
const cacheVariable = "ESPALIER_TEST_NO_CACHE"

func init() {
	if os.Getenv(cacheVariable) != "" {
		worker.SetStickyWorkflowCacheSize(0)
	}
}

// loop returns a program that repeats two tasks.
func loop(t *testing.T, items int) *ir.Program {
	list, err := json.Marshal(make([]int, items))
	if err != nil {
		t.Fatal(err)
	}
	return enginetest.Program(
		[]ir.Step{enginetest.Task("a"), {ID: "each", Type: "loop", Action: ir.Loop{
			Block: 1, Each: &ir.Each{Items: enginetest.List(t, string(list)), Var: "item"},
		}}, enginetest.Task("z")},
		[]ir.Step{enginetest.Task("x"), enginetest.Task("y")},
	)
}

// histories returns the histories of all workflows of a run, the newest first.
func histories(t *testing.T, e *temporal.Engine, id journal.RunID) (out []*historypb.History) {
	t.Helper()
	c, err := e.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for run, more := "", true; more; {
		h := &historypb.History{}
		events := c.GetWorkflowHistory(t.Context(), e.WorkflowID(id), run, false,
			enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			h.Events = append(h.Events, event)
		}
		out = append(out, h)
		run = h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
		more = run != ""
	}
	return out
}

// settled returns the histories of a run whose workflow has ended.
func settled(t *testing.T, e *temporal.Engine, id journal.RunID) []*historypb.History {
	t.Helper()
	c, err := e.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = c.GetWorkflow(t.Context(), e.WorkflowID(id), "").Get(t.Context(), nil)
	if _, failed := errors.AsType[*sdktemporal.WorkflowExecutionError](err); err != nil && !failed {
		t.Fatal(err)
	}
	return histories(t, e, id)
}

// A long run continues in new workflows, with the facts that one would have.
func TestLongRunContinuesAsNew(t *testing.T) {
	p := loop(t, 15)
	w := newWorld(t, func(c *temporal.Config) { c.ContinueAfter = 60 })
	kind := enginetest.NewKind()
	e := w.open(map[string]step.Runner{"test": kind})
	id := start(t, e, p)
	if entry := rest(t, e, id); entry.Outcome != journal.OutcomeOK {
		t.Fatalf("%+v", entry)
	}
	if d := cmp.Diff(embeddedFacts(t, p, enginetest.NewKind()), facts(t, w.store, id)); d != "" {
		t.Error(d)
	}
	for key, n := range kind.Done {
		if n != 1 {
			t.Errorf("%s was done %d times", key, n)
		}
	}
	verify(t, w.store, id)
	all := histories(t, e, id)
	if len(all) < 3 {
		t.Errorf("the run had %d workflows", len(all))
	}
	replay(t, e, all)
}

func replay(t *testing.T, e *temporal.Engine, all []*historypb.History) {
	t.Helper()
	r, err := e.Replayer()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		if err := r.ReplayWorkflowHistory(nil, h); err != nil {
			t.Error(err)
		}
	}
}

// Temporal compares only the commands of a replay, not what they carry. The ids of
// activities make it notice facts that differ.
func TestReplayNoticesOtherFacts(t *testing.T) {
	w := newWorld(t)
	p := enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b")})
	e := w.open(map[string]step.Runner{"test": enginetest.NewKind()})
	id := start(t, e, p)
	rest(t, e, id)
	all := histories(t, e, id)
	replay(t, e, all)
	done := 0
	for _, event := range all[0].Events {
		if x := event.GetActivityTaskCompletedEventAttributes(); x != nil && done == 0 {
			data := &x.Result.Payloads[0].Data
			changed := bytes.Replace(*data, []byte(`\"a#0\"`), []byte(`\"A#0\"`), 1)
			if bytes.Equal(changed, *data) {
				changed = bytes.Replace(*data, []byte(`"a#0"`), []byte(`"A#0"`), 1)
			}
			if bytes.Equal(changed, *data) {
				t.Fatalf("the result is not in %s", *data)
			}
			*data = changed
			done++
		}
	}
	r, err := e.Replayer()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.ReplayWorkflowHistory(nil, all[0]); err == nil || !strings.Contains(err.Error(), "TMPRL1100") {
		t.Errorf("a history with another result was replayed: %v", err)
	}
}

// Results and notes of several megabytes are in the journal, and the history has
// only their hashes.
func TestLargeValuesStayOutOfTheHistory(t *testing.T) {
	const size = 3 << 20
	big := strings.Repeat("<x>", size/3)
	w := newWorld(t)
	e := w.open(map[string]step.Runner{"test": &bigKind{Kind: enginetest.NewKind(), text: big}})
	p := enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b")})
	p.Blocks[0].Steps[1].Reads = []ir.Ref{{Path: "state.a"}}
	id := start(t, e, p)
	if entry := rest(t, e, id); entry.Outcome != journal.OutcomeOK {
		t.Fatalf("%+v %v", entry, facts(t, w.store, id))
	}
	notes := 0
	for event, err := range w.store.Events(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if note, ok := event.Fact.(journal.TaskNoted); ok && len(note.Data) > size {
			notes++
		}
	}
	if notes != 2 {
		t.Errorf("%d large notes", notes)
	}
	verify(t, w.store, id)
	all := histories(t, e, id)
	total := 0
	for _, event := range all[0].Events {
		total += event.Size()
	}
	if total > 100<<10 {
		t.Errorf("the history has %d bytes", total)
	}
	replay(t, e, all)
}

// bigKind notes and returns a large text.
type bigKind struct {
	*enginetest.Kind
	text string
}

func (k *bigKind) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	for _, r := range job.Reads {
		if len(r.Value) < len(k.text) {
			return step.Result{}, step.Errorf(ir.ClassInput, "%d bytes of %s", len(r.Value), r.Path)
		}
	}
	if err := job.Log.Note(ctx, step.Note{Kind: "reply", Data: k.text}); err != nil {
		return step.Result{}, err
	}
	raw, err := step.Encode(k.text)
	return step.Result{Value: raw}, err
}

// Without a cache, every workflow task replays the history: gates, budgets and
// branches decide the same again.
func TestRunsSurviveEvictionFromTheCache(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run", "^(TestChain.*|TestLongRun.*|TestEngineKeepsItsPromises)$",
		"-test.timeout", "280s")
	cmd.Env = append(os.Environ(), cacheVariable+"=1")
	if os.Getenv(cacheVariable) != "" {
		t.Skip("this is the process without a cache")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A branch for each of many items: the tasks of all run at the same time.
func TestWideFanOutEnds(t *testing.T) {
	const wide = 1000
	p := withItems(t, wide, enginetest.Program(
		[]ir.Step{{ID: "fan", Type: "parallel", Action: ir.Parallel{
			Join: ir.JoinAll, Each: &ir.Each{Items: enginetest.List(t, "state.items"), Var: "item", Block: 1},
		}}, enginetest.Task("z")},
		[]ir.Step{enginetest.Task("x")},
	))
	w := newWorld(t)
	kind := enginetest.NewKind()
	e := w.open(map[string]step.Runner{"test": kind})
	id := start(t, e, p)
	if entry := finish(t, e, id); entry.Outcome != journal.OutcomeOK || len(kind.Done) != wide+1 {
		t.Errorf("%+v, %d tasks", entry, len(kind.Done))
	}
	verify(t, w.store, id)
	replay(t, e, histories(t, e, id))
}

// Tasks that wait for budget do not keep messages out: the budget can be raised,
// and every branch ends.
func TestBranchesWaitingForBudgetContinueAfterARaise(t *testing.T) {
	const wide = 12
	list, err := json.Marshal(make([]int, wide))
	if err != nil {
		t.Fatal(err)
	}
	p := enginetest.Program(
		[]ir.Step{{ID: "fan", Type: "parallel", Action: ir.Parallel{
			Join: ir.JoinAll, Each: &ir.Each{Items: enginetest.List(t, string(list)), Var: "item", Block: 1},
		}}},
		[]ir.Step{enginetest.Task("x")},
	)
	p.Budget.Tokens = &ir.Limit{Max: 250}
	w := newWorld(t)
	kind := enginetest.NewKind()
	kind.Hold = enginetest.Reserving(40)
	e := w.open(map[string]step.Runner{"test": kind})
	id := start(t, e, p)
	if entry := rest(t, e, id); entry.Status != journal.Exceeded {
		t.Fatalf("%+v", entry)
	}
	if err := e.Send(t.Context(), id, plan.Raise{Budget: ir.BudgetTokens, To: 100_000}, "r"); err != nil {
		t.Fatal(err)
	}
	if entry := rest(t, e, id); entry.Outcome != journal.OutcomeOK {
		t.Fatalf("%+v", entry)
	}
	notes := 0
	for _, line := range facts(t, w.store, id) {
		if strings.Contains(line, `"TaskNoted"`) {
			notes++
		}
	}
	if notes != 3*wide {
		t.Errorf("%d calls were made, not %d", notes, 3*wide)
	}
	verify(t, w.store, id)
	replay(t, e, histories(t, e, id))
}
