package formattest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/registry"
)

// trial is one workflow with everything that happens to it.
type trial struct {
	files  []txtar.File // the first one is run
	input  string       // JSON; empty means {}
	script string       // replies of models and tools; empty simulates them
	seed   uint64       // of the simulation
	do     []string     // actions of people, one per line
	// agreeable approves every gate and sends every event.
	agreeable bool
	// stopAt is the write to the journal at which the process dies; 0 means never.
	stopAt    int
	stopAfter bool
	// change modifies the program before it runs; may be nil.
	change func(*ir.Program)
	// join opens a store and an engine as a process does; nil selects the embedded engine in memory, with a virtual
	// clock. wrap changes the store that the engine uses.
	join func(t *testing.T, dir string, wrap func(journal.Store) journal.Store) member
}

// member is an engine and its store. leave closes both as a process that ends does.
type member struct {
	engine.Engine
	store journal.Store
	leave func()
}

// joining returns what opens the engines of a trial, and a function to call at its end.
func (tr *trial) joining(
	t *testing.T, dir string,
) (join func(wrap func(journal.Store) journal.Store) member, over func()) {
	dir = filepath.Join(dir, ".espalier")
	if tr.join != nil {
		return func(wrap func(journal.Store) journal.Store) member { return tr.join(t, dir, wrap) }, func() {}
	}
	store := memorytest.New()
	return func(wrap func(journal.Store) journal.Store) member {
			e := inMemory(dir, wrap(store))
			return member{e, store, func() { end(e) }}
		}, func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
}

// unchanged wraps a store with nothing.
func unchanged(s journal.Store) journal.Store { return s }

// special are the names of archive files that are not part of the workflow.
var special = []string{"input.json", "script.yaml", "do", "want"}

func newTrial(a *txtar.Archive) *trial {
	t := &trial{}
	for _, f := range a.Files {
		switch text := string(f.Data); f.Name {
		case "input.json":
			t.input = text
		case "script.yaml":
			t.script = text
		case "do":
			t.do = lines(text)
		case "want":
		default:
			t.files = append(t.files, f)
		}
	}
	return t
}

func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

func section(a *txtar.Archive, name string) (string, bool) {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data), true
		}
	}
	return "", false
}

// happened is the result of a trial.
type happened struct {
	problems diag.List // of compiling; after an error nothing was run
	program  *ir.Program
	events   []journal.Event
	entry    journal.Entry
	children []journal.Entry
	state    *plan.State
	answers  map[int][]string // responses to actions, by the number of preceding events
	dir      string           // of the run's files
	stopped  bool             // the process died, and another one continued
}

const theRun journal.RunID = "00000000-0000-4000-8000-000000000001"

// in changes the working directory, and returns a function that restores it.
func in(t *testing.T, dir string) (back func()) {
	t.Helper()
	before, err := os.Getwd()
	if err == nil {
		err = os.Chdir(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Chdir(before); err != nil {
			t.Fatal(err)
		}
	}
}

// run compiles the workflow and runs it, with the actions of people, until it rests.
func (tr *trial) run(t *testing.T) *happened {
	t.Helper()
	dir := t.TempDir()
	for _, f := range tr.files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, ".espalier"), 0o700); err != nil {
		t.Fatal(err)
	}
	space, err := project.NewWorkspace(dir, dir, filepath.Join(dir, "awf"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	p, file, err := space.File(tr.files[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	compiled := catalog.Formats().Compile(file, p)
	h := &happened{problems: compiled.Diagnostics, program: compiled.Program, answers: map[int][]string{}}
	if h.program != nil && tr.change != nil {
		tr.change(h.program)
	}
	if h.program != nil {
		h.problems = append(h.problems, check.Program(h.program, catalog.Kinds())...).Sorted()
	}
	if h.problems.Errors() {
		return h
	}
	pinned := asWritten(t, h.program)
	h.dir = filepath.Join(dir, ".espalier", "runs", string(theRun))
	defer in(t, dir)() // the working directory of the run
	play := tr.play
	if tr.stopAt > 0 {
		play = tr.playStopped
	}
	if tr.join != nil {
		play(t, h, dir)
		h.reported(t)
		return h
	}
	synctest.Test(t, func(t *testing.T) { play(t, h, dir) })
	if !bytes.Equal(written(t, h.program), pinned) {
		t.Error("the run has changed its program, which all runs of it share")
	}
	h.reported(t)
	return h
}

// settle waits until every goroutine is blocked, in a synctest bubble.
func (tr *trial) settle() {
	if tr.join == nil {
		synctest.Wait()
	}
}

// play runs in a synctest bubble, unless the trial has an engine of its own: time passes only when
// every goroutine is blocked.
func (tr *trial) play(t *testing.T, h *happened, dir string) {
	join, over := tr.joining(t, dir)
	defer over()
	e := join(unchanged)
	defer e.leave()
	store, ctx := e.store, t.Context()
	if err := tr.start(ctx, e, h); err != nil {
		t.Fatal(err)
	}
	for _, line := range tr.do {
		words := strings.Fields(line)
		if words[0] == "after" { // at a certain moment, not at rest
			d, err := time.ParseDuration(words[1])
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			time.Sleep(d)
			tr.settle()
			words = words[2:]
		} else {
			tr.rest(t, e)
		}
		if len(words) == 0 {
			continue
		}
		n := tr.seen(t, store, h)
		answer := "> " + strings.Join(words, " ")
		if err := act(ctx, e, words); err != nil {
			answer += ": " + err.Error()
		}
		tr.settle()
		h.answers[n] = append(h.answers[n], answer)
	}
	for tr.agreeable && tr.agree(t, e) {
		tr.rest(t, e)
	}
	h.entry = tr.rest(t, e)
	tr.seen(t, store, h)
	state, _, _, err := e.Load(ctx, theRun)
	if err != nil {
		t.Fatal(err)
	}
	h.state = state
	for child, err := range store.Runs(ctx, journal.Filter{Root: theRun, Children: true}) {
		if err != nil {
			t.Fatal(err)
		}
		h.children = append(h.children, child)
	}
}

// start starts the run.
func (tr *trial) start(ctx context.Context, e engine.Engine, h *happened) error {
	options := registry.RunOptions{
		Simulate: tr.script == "", Seed: tr.seed, Script: tr.script,
		AllowShell: h.program.Format != "agentfile" || len(h.program.Children) > 0,
	}
	if tr.script != "" {
		options.ScriptName = "script.yaml"
	}
	input := json.RawMessage(tr.input)
	if len(bytes.TrimSpace(input)) == 0 {
		input = json.RawMessage("{}")
	}
	def := &engine.Definition{Program: h.program, Path: tr.files[0].Name}
	return e.Start(ctx, theRun, def, input, options.Encode(), journal.Actor{User: "eva"})
}

// agree approves the first open gate; false if there is none.
func (tr *trial) agree(t *testing.T, e engine.Engine) bool {
	t.Helper()
	tr.rest(t, e)
	state, _, _, err := e.Load(t.Context(), theRun)
	if err != nil {
		t.Fatal(err)
	}
	gates := state.OpenGates()
	if len(gates) == 0 {
		return false
	}
	words := []string{"approve", gates[0].Place().Key()}
	if gates[0].Gate.Kind == journal.GateEvent {
		words = []string{"signal", gates[0].Gate.Event, "{}"}
	}
	if err := act(t.Context(), e, words); err != nil {
		t.Fatal(err)
	}
	tr.settle()
	return true
}

// seen reads the journal and returns the number of events.
func (tr *trial) seen(t *testing.T, store journal.Store, h *happened) int {
	t.Helper()
	h.events = nil
	switch found, err := engine.Verify(t.Context(), store, theRun); {
	case err != nil:
		t.Error(err)
	case len(found.Damage) > 0:
		t.Errorf("the journal is damaged: %+v", found.Damage)
	}
	for e, err := range store.Events(t.Context(), theRun, 0) {
		if err != nil {
			t.Fatal(err)
		}
		h.events = append(h.events, e)
	}
	return len(h.events)
}

func (tr *trial) rest(t *testing.T, e engine.Engine) journal.Entry {
	t.Helper()
	entry, err := e.Wait(t.Context(), theRun)
	if err != nil {
		t.Fatal(err)
	}
	tr.settle()
	return entry
}

var errWords = errors.New("there is no such thing to do")

// act performs the action of one line.
func act(ctx context.Context, e engine.Engine, words []string) error {
	word := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	tail := func(i int) string { return strings.Join(words[min(i, len(words)):], " ") }
	by := journal.Actor{User: "eva"}
	var roles []string
	if list, ok := strings.CutPrefix(words[len(words)-1], "roles="); ok { // "as" is a user of a server
		roles, words = strings.Split(list, ","), words[:len(words)-1]
	}
	if as, ok := strings.CutPrefix(words[len(words)-1], "as="); ok {
		by.As, words = as, words[:len(words)-1]
	}
	if roles != nil {
		by = journal.Actor{User: by.As, Method: "token"}
	}
	var in plan.Input
	switch words[0] {
	case "wait": // let time pass
		d, err := time.ParseDuration(word(1))
		if err != nil {
			return err
		}
		time.Sleep(d)
		return nil
	case "resume":
		return e.Resume(ctx, theRun)
	case "approve", "reject":
		in = plan.GateDecision{
			Step: word(1), Answer: journal.Answer(words[0]), Note: tail(2), Digest: digest(ctx, e, word(1)),
			By: by, Roles: roles,
		}
	case "approve-something-else": // the digest does not match what the gate shows
		in = plan.GateDecision{Step: word(1), Answer: journal.AnswerApprove, Digest: "0000", By: by}
	case "decide":
		in = plan.GateDecision{Step: word(1), Answer: journal.Answer(word(2)), Value: json.RawMessage(tail(3)), By: by}
	case "signal":
		in = plan.Signal{Event: word(1), Data: json.RawMessage(tail(2)), By: by, Roles: roles}
	case "raise":
		n, err := strconv.ParseInt(word(2), 10, 64)
		if err != nil {
			return err
		}
		in = plan.Raise{Budget: word(1), To: n, By: by}
	case "pause":
		in = plan.Pause{By: by}
	case "continue":
		in = plan.Continue{By: by}
	case "cancel":
		in = plan.Cancel{Reason: tail(1), By: by}
	case "edit":
		in = plan.Edit{Path: word(1), Value: json.RawMessage(tail(2)), By: by}
	default:
		return fmt.Errorf("%w: %s", errWords, words[0])
	}
	return e.Send(ctx, theRun, in, "said")
}

// digest returns the digest of what the gate of a step shows.
func digest(ctx context.Context, e engine.Engine, step string) string {
	state, program, _, err := e.Load(ctx, theRun)
	if err != nil {
		return ""
	}
	for _, f := range state.OpenGates() {
		if step == "" || f.Step == step || f.Place().Key() == step {
			_, digest := state.Shown(program, f)
			return digest
		}
	}
	return ""
}

// made returns the files in the run's folder with their contents.
func (h *happened) made(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(h.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return err
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(h.dir, name)
		out = append(out, fmt.Sprintf("file %s: %s", filepath.ToSlash(rel), strings.TrimRight(string(raw), "\n")))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// inMemory returns an engine over a store that no other process shares. It writes the files of steps below dir.
func inMemory(dir string, store journal.Store) engine.Engine {
	return embedded.New(embedded.Config{
		Config: registry.EngineConfig(dir, registry.RuntimeOptions{}), Store: store,
		Process: onlyProcess(uuid.NewString()),
	})
}

// onlyProcess is a process that shares its store with no living process.
type onlyProcess journal.Owner

func (p onlyProcess) ID() journal.Owner         { return journal.Owner(p) }
func (p onlyProcess) Dead(o journal.Owner) bool { return o != journal.Owner(p) }
func (onlyProcess) Wake(journal.Owner)          {}
func (onlyProcess) Drives(journal.Owner) bool   { return false }
func (onlyProcess) StopDriving()                {}
func (onlyProcess) Wakes() <-chan struct{}      { return nil }
