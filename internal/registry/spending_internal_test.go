package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/source"
)

func settings(t *testing.T, text string) *config.Config {
	t.Helper()
	c, problems := config.Parse(source.NewFile(config.FileName, text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return c
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// Many calls of several processes at once reserve exactly what the limit allows.
func TestSpendingLimitHoldsAcrossProcesses(t *testing.T) {
	c := settings(t, "spending: {all: {dollars_per_day: 1}, each: {each: user, dollars_per_day: 0.6}}\n")
	store := memorytest.New()
	clock := func() time.Time { return noon }
	var mu sync.Mutex
	granted := map[string]int{}
	var work sync.WaitGroup
	for process := range 4 {
		s := newSpending(store, c, clock)
		for call := range 20 {
			user := []string{"ana", "ben"}[(process+call)%2]
			work.Go(func() {
				full, err := s.reserve(t.Context(), s.shares(spender{workflow: "flow", user: user}), 100_000)
				if err != nil {
					t.Error(err)
				}
				if full == nil {
					mu.Lock()
					granted[user]++
					mu.Unlock()
				}
			})
		}
	}
	work.Wait()
	if granted["ana"] > 6 || granted["ben"] > 6 || granted["ana"]+granted["ben"] != 10 {
		t.Errorf("%v", granted)
	}
	// A refused share gives back what the other shares had reserved.
	status, err := newSpending(store, c, clock).status(t.Context())
	if err != nil || len(status) != 3 {
		t.Fatalf("%+v, %v", status, err)
	}
	if sum := status[1].MicroDollars + status[2].MicroDollars; status[0].MicroDollars != 1_000_000 || sum != 1_000_000 {
		t.Errorf("%+v", status)
	}
	// The next day is another one, and old days are forgotten.
	clock = func() time.Time { return noon.AddDate(0, 0, 30) }
	s := newSpending(store, c, clock)
	shares := s.shares(spender{workflow: "flow", user: "ana"})
	if full, err := s.reserve(t.Context(), shares, 100_000); full != nil || err != nil {
		t.Errorf("%+v, %v", full, err)
	}
	if all, err := store.List(t.Context(), spendingPrefix); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}

// A limit can be for one workflow, or for each of them.
func TestSpendingLimitsOfWorkflows(t *testing.T) {
	c := settings(t, "spending: {each: {each: workflow, dollars_per_day: 0.3}, "+
		"one: {workflow: draft, dollars_per_day: 0.1}}\n")
	s := newSpending(memorytest.New(), c, func() time.Time { return noon })
	granted := map[string]int{}
	for range 5 {
		for _, workflow := range []string{"draft", "review"} {
			for _, user := range []string{"ana", "ben"} { // together
				full, err := s.reserve(t.Context(), s.shares(spender{workflow: workflow, user: user}), 100_000)
				if err != nil {
					t.Fatal(err)
				}
				if full == nil {
					granted[workflow]++
				}
			}
		}
	}
	if granted["draft"] != 1 || granted["review"] != 3 {
		t.Errorf("%v", granted)
	}
}

// A call costs what the model has counted. One that fails before it is billed
// costs nothing, one that breaks off costs its worst case, and one that the
// limit does not allow is not made.
func TestCallsAreReservedAndSettled(t *testing.T) {
	calls, status, whole := 0, http.StatusOK, true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		end := "null"
		if whole {
			end = `"stop"`
		}
		fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,`+
			`"delta":{"role":"assistant","content":"hello"},"finish_reason":`+end+`}]}`+"\n\n")
		if whole {
			fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[],`+
				`"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}`+"\n\ndata: [DONE]\n\n")
		}
	}))
	defer server.Close()
	c := settings(t, `
models: {providers: {till: {api: openai, base_url: "`+server.URL+`", max_retries: 0}}}
prices: {till/m: {input: 10, output: 100}, till/free: {input: 0, output: 0}}
spending: {all: {dollars_per_day: 0.2}}
`)
	s := newSpending(memorytest.New(), c, func() time.Time { return noon })
	r := router{models: NewModels(t.TempDir(), c, func(string) string { return "" })}
	model := spendingModel{r, s, r.price, spender{workflow: "flow"}}
	ask := func(name string, tokens int) error {
		request := provider.Request{Model: name, MaxTokens: tokens, Messages: []provider.Message{{
			Role: provider.User, Blocks: []provider.Block{{Type: provider.Text, Text: "hi"}},
		}}}
		for _, err := range model.Generate(context.Background(), request) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	spent := func(want int64) {
		t.Helper()
		got, err := s.status(t.Context())
		if err != nil || len(got) != 1 || got[0].MicroDollars != want {
			t.Errorf("%+v, %v; want %d", got, err, want)
		}
	}
	const cost = 100*10 + 10*100 // in millionths
	if err := ask("till/m", 500); err != nil {
		t.Fatal(err)
	}
	spent(cost)
	status = http.StatusBadRequest
	if err := ask("till/m", 500); err == nil {
		t.Error("no error")
	}
	spent(cost)
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
	status, whole = http.StatusOK, false
	_ = ask("till/m", 500) // it breaks off
	got, err := s.status(t.Context())
	if err != nil || got[0].MicroDollars < cost+500*100 {
		t.Errorf("a reply that broke off: %+v, %v", got, err)
	}
	before := got[0].MicroDollars
	whole = true
	var refused *provider.Error
	if err := ask("till/m", 1900); !errors.As(err, &refused) || refused.Class != ir.ClassRateLimit ||
		refused.RetryAfter != 12*time.Hour {
		t.Errorf("beyond the limit: %v", err)
	}
	if err := ask("till/m", 5000); !errors.As(err, &refused) || refused.Class == ir.ClassRateLimit {
		t.Errorf("a call that never fits: %v", err)
	}
	if err := ask("till/unpriced", 100); err == nil {
		t.Error("a model without a price was asked")
	}
	spent(before)
	if calls != 3 {
		t.Errorf("%d calls", calls)
	}
}

// interrupted is a model whose calls are canceled after they have reported usage.
type interrupted struct{ partial *provider.Reply }

func (m interrupted) Generate(context.Context, provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		yield(provider.Chunk{}, &provider.Interrupted{Cause: context.Canceled, Partial: m.partial})
	}
}

// A call that is canceled counts with the usage that it has reported, not with its worst case.
func TestInterruptedCallsCountWhatTheyReported(t *testing.T) {
	c := settings(t, `
models: {providers: {till: {api: openai, base_url: "http://localhost:9"}}}
prices: {till/m: {input: 10, output: 100}}
spending: {all: {dollars_per_day: 0.2}}
`)
	s := newSpending(memorytest.New(), c, func() time.Time { return noon })
	r := router{models: NewModels(t.TempDir(), c, func(string) string { return "" })}
	r.models.open["till"] = interrupted{&provider.Reply{Usage: provider.Usage{Input: 100, Output: 10}}}
	model := spendingModel{r, s, r.price, spender{workflow: "flow"}}
	for _, err := range model.Generate(t.Context(), provider.Request{Model: "till/m", MaxTokens: 500}) {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	const cost = 100*10 + 10*100 // in millionths
	if got, err := s.status(t.Context()); err != nil || got[0].MicroDollars != cost {
		t.Errorf("%+v, %v; want %d", got, err, cost)
	}
}

// retried is a model whose first attempt fails after it has reported usage.
type retried struct{ partial *provider.Reply }

func (m retried) Generate(context.Context, provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		failed := &provider.Error{Class: ir.ClassAPI, Billable: true, Partial: m.partial}
		_ = yield(provider.Chunk{Retried: &provider.Retried{Error: failed}}, nil) &&
			yield(provider.Chunk{NextAttempt: true}, nil) && yield(provider.Chunk{Reply: m.partial}, nil)
	}
}

// An attempt that is repeated counts with the usage that it has reported, not with its worst case.
func TestRepeatedAttemptsCountWhatTheyReported(t *testing.T) {
	c := settings(t, `
models: {providers: {till: {api: openai, base_url: "http://localhost:9"}}}
prices: {till/m: {input: 10, output: 100}}
spending: {all: {dollars_per_day: 0.2}}
`)
	s := newSpending(memorytest.New(), c, func() time.Time { return noon })
	r := router{models: NewModels(t.TempDir(), c, func(string) string { return "" })}
	r.models.open["till"] = retried{&provider.Reply{Usage: provider.Usage{Input: 100, Output: 10}}}
	model := spendingModel{r, s, r.price, spender{workflow: "flow"}}
	for _, err := range model.Generate(t.Context(), provider.Request{Model: "till/m", MaxTokens: 500}) {
		if err != nil {
			t.Error(err)
		}
	}
	const cost = 2 * (100*10 + 10*100) // in millionths
	if got, err := s.status(t.Context()); err != nil || got[0].MicroDollars != cost {
		t.Errorf("%+v, %v; want %d", got, err, cost)
	}
}

// racing are registers whose first two readers see the same version.
type racing struct {
	journal.Registers
	loads atomic.Int32
	both  chan struct{}
}

func (r *racing) Load(ctx context.Context, key string) (journal.Register, error) {
	got, err := r.Registers.Load(ctx, key)
	switch r.loads.Add(1) {
	case 1:
		<-r.both
	case 2:
		close(r.both)
	}
	return got, err
}

// Of two calls that read the same sum, one is counted first and the other looks
// again.
func TestSpendingCountsCallsThatRace(t *testing.T) {
	c := settings(t, "spending: {all: {dollars_per_day: 1}}\n")
	s := newSpending(&racing{Registers: memorytest.New(), both: make(chan struct{})}, c,
		func() time.Time { return noon })
	granted := make(chan bool, 2)
	for range 2 {
		go func() {
			full, err := s.reserve(context.Background(), s.shares(spender{workflow: "flow", user: ""}), 600_000)
			if err != nil {
				t.Error(err)
			}
			granted <- full == nil
		}()
	}
	if a, b := <-granted, <-granted; a == b {
		t.Errorf("both calls: %v", a)
	}
}
