package registry

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/journal/owner"
	"github.com/espalier-run/espalier/internal/provider"
)

// group are the processes of a test.
type group struct {
	mu   sync.Mutex
	dead map[journal.Owner]bool
}

// member is one of them.
type member struct {
	*group
	id journal.Owner
}

func (m member) ID() journal.Owner { return m.id }

func (m member) Dead(o journal.Owner) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead[o]
}
func (m member) Drives(o journal.Owner) bool                { return !m.Dead(o) }
func (m member) StopDriving()                               {}
func (m member) Wake(journal.Owner)                         {}
func (m member) Wakes() <-chan struct{}                     { return nil }
func (m member) Describe(journal.Owner) (owner.Info, error) { return owner.Info{}, nil }
func (m member) Publish(owner.Info) error                   { return nil }
func (m member) Workers(context.Context) ([]Worker, error)  { return nil, nil }
func (m member) Close() error                               { return nil }

func (g *group) kill(o journal.Owner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dead[o] = true
}

const busy = `
concurrency:
  all: {runs: 2}
  reports: {workflow: report, runs: 1}
  urgent: {workflow: alarm, priority: 5}
`

// Runs get slots in the order of their priorities and of their arrival. A run whose workflow is at its limit does not
// hold up others, and the slots and places of dead processes are free.
func TestRunsGetSlotsInTheOrderOfTheQueue(t *testing.T) {
	all := &group{dead: map[journal.Owner]bool{}}
	store, c := memorytest.New(), settings(t, busy)
	a, b := newConcurrency(store, member{all, "a"}, c, nil), newConcurrency(store, member{all, "b"}, c, nil)
	acquire := func(c *concurrency, run journal.RunID, workflow string, want bool) {
		t.Helper()
		got, err := c.Acquire(t.Context(), run, workflow, 1)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", run, got, err)
		}
	}
	queue := func(want ...journal.RunID) {
		t.Helper()
		places, err := a.places(t.Context())
		got := make([]journal.RunID, len(places))
		for run, at := range places {
			if err == nil && at.Position <= len(got) {
				got[at.Position-1] = run
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	acquire(a, "r1", "report", true)
	acquire(b, "r2", "report", false) // the limit of its workflow
	acquire(b, "d1", "draft", true)
	acquire(a, "d2", "draft", false)
	acquire(b, "alarm", "alarm", false)
	acquire(a, "alarm", "alarm", false) // another process wants to drive it, too
	queue("alarm", "r2", "d2")
	if _, err := b.Release(t.Context(), "d1", 7); err != nil { // not the number of the slot
		t.Error(err)
	}
	acquire(a, "alarm", "alarm", false)
	if next, err := b.Release(t.Context(), "d1", 1); err != nil || !slices.Equal(next, []journal.Owner{"a", "b"}) {
		t.Errorf("%v, %v", next, err)
	}
	acquire(a, "d2", "draft", false) // an alarm has a higher priority
	acquire(b, "alarm", "alarm", true)
	acquire(a, "alarm", "alarm", false) // b drives it
	if _, err := a.Leave(t.Context(), "alarm"); err != nil {
		t.Error(err)
	}
	queue("r2", "d2")
	all.kill("b") // it drove alarm, and wanted to drive r2
	queue("d2")
	acquire(a, "d2", "draft", true)
	queue()
}

// However many processes ask at the same time, only as many runs as the limit allows get a slot.
func TestProcessesShareTheSlots(t *testing.T) {
	const runs, limit = 24, 3
	all := &group{dead: map[journal.Owner]bool{}}
	store, c := memorytest.New(), settings(t, fmt.Sprintf("concurrency: {all: {runs: %d}}\n", limit))
	processes := map[journal.RunID]*concurrency{}
	for n := range runs {
		process := member{all, journal.Owner(fmt.Sprint("process ", n%4))}
		processes[journal.RunID(fmt.Sprint("run ", n))] = newConcurrency(store, process, c, nil)
	}
	for len(processes) > 0 {
		var mu sync.Mutex
		var driven []journal.RunID
		var work sync.WaitGroup
		for run, process := range processes {
			work.Go(func() {
				acquired, err := process.Acquire(t.Context(), run, "flow", 1)
				if err != nil {
					t.Error(err)
				}
				if acquired {
					mu.Lock()
					defer mu.Unlock()
					driven = append(driven, run)
				}
			})
		}
		work.Wait()
		if len(driven) != limit {
			t.Fatalf("%d of %d runs have a slot, expected %d", len(driven), len(processes), limit)
		}
		for _, run := range driven {
			if _, err := processes[run].Release(t.Context(), run, 1); err != nil {
				t.Fatal(err)
			}
			delete(processes, run)
		}
	}
}

// Calls of two processes to one provider wait for each other. Calls to another provider do not wait.
func TestCallsWaitForTheLimitOfTheirProvider(t *testing.T) {
	arrived, answer := make(chan string, 8), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.URL.Path
		<-answer
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,`+
			`"delta":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	defer server.Close()
	c := settings(t, `
models:
  providers:
    slow: {api: openai, base_url: "`+server.URL+`/slow", max_retries: 0}
    free: {api: openai, base_url: "`+server.URL+`/free", max_retries: 0}
concurrency: {slow: {provider: slow, calls: 1}, first: {workflow: alarm, provider: slow, priority: 1}}
`)
	all := &group{dead: map[journal.Owner]bool{}}
	store := memorytest.New()
	r := router{models: NewModels(t.TempDir(), c, func(string) string { return "" })}
	var work sync.WaitGroup
	call := func(process journal.Owner, model, workflow string) {
		m := limitedModel{r, r, newConcurrency(store, member{all, process}, c, nil), journal.RunID(workflow), workflow}
		work.Go(func() {
			request := provider.Request{Model: model, MaxTokens: 10, Messages: []provider.Message{{
				Role: provider.User, Blocks: []provider.Block{{Type: provider.Text, Text: "hi"}},
			}}}
			for _, err := range m.Generate(context.Background(), request) {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	watch := newConcurrency(store, member{all, "watch"}, c, nil)
	waiting := func(want map[journal.RunID]QueuePlace) {
		t.Helper()
		deadline := time.Now().Add(30 * time.Second)
		for {
			places, err := watch.places(t.Context())
			if err == nil && fmt.Sprint(places) == fmt.Sprint(want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%v, %v; want %v", places, err, want)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	call("a", "slow/m", "first")
	if path := <-arrived; path != "/slow/chat/completions" {
		t.Fatal(path)
	}
	call("b", "slow/m", "draft")
	waiting(map[journal.RunID]QueuePlace{"draft": {1, "slow", "slow", nil}})
	call("b", "slow/m", "alarm")
	waiting(map[journal.RunID]QueuePlace{"alarm": {1, "slow", "slow", nil}, "draft": {2, "slow", "slow", nil}})
	call("a", "free/m", "draft")
	if path := <-arrived; path != "/free/chat/completions" {
		t.Errorf("%s did not wait", path)
	}
	answer <- struct{}{}
	answer <- struct{}{} // to the first call, and to that of the other provider
	<-arrived
	waiting(map[journal.RunID]QueuePlace{"draft": {1, "slow", "slow", nil}})
	close(answer)
	work.Wait()
	waiting(map[journal.RunID]QueuePlace{})
}
