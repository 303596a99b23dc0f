package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/cli"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/manifest"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/trust"
)

// errand is what a person does in one process: begin the run unless it is
// there, and answer whatever it asks until it is over. The program may be
// stopped dead on the way.
type errand struct {
	Dir string // of the project
	// Run is how the run begins: what stands behind "espalier run". A Program
	// is for what no format can say yet; it is begun as the command would.
	Run     []string
	Program *ir.Program
	// Create is what stands behind "espalier create": a name, words and flags.
	// It is carried on without the words until it is done.
	Create []string
	// Resume: the run that generates is carried on by "espalier resume" first.
	Resume bool
	Raise  string // what to do about a budget: BUDGET=N
	// Fails are the keys of tasks that fail: whoever knows that does them again.
	Fails []string
	// Hopeless are the keys of tasks that never end by themselves. While they
	// run, what is in doubt is answered from beside the process that runs them.
	Hopeless []string
	// Results are what steps in doubt are said to have given when their traces
	// are there, by their ids; without one it is the key of the task.
	Results map[string]string

	// Stop is the number of the write to the journal at which the process is
	// killed, with nothing tidied up: before it, or After it is durable. 0 is never.
	Stop  int
	After bool
	// Late is a fault: the journal says that a write is durable before it is,
	// so that a kill loses the last one.
	Late bool
}

// returned is what a person comes back with.
type returned struct {
	Writes   int // to the journal
	Standing string
	Output   string
}

const errandRun = "00000000-0000-4000-8000-000000000001"

// effects is where the steps of a run leave traces in the world, a line each.
const effects = "effects"

// trace is what steps do in the world: it leaves the key of the task, without
// the run's id before it, and gives it back as the result.
const trace = `key="${ESPALIER_KEY#*/}"; echo "$key" >> ../../../` + effects + `; printf '"%s"' "$key"`

// person runs an errand, which it finds in the file that it is called with. It
// goes through the command line of the product for everything that has one,
// and prints what it comes back with.
func person() {
	var e errand
	raw, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(raw, &e)
	}
	if err == nil {
		s := &stopping{errand: &e}
		var r returned
		if len(e.Create) > 0 {
			r.Standing, err = e.create(s)
			r.Writes = s.writes
			err = errors.Join(err, json.NewEncoder(os.Stdout).Encode(r))
		} else if r.Standing, err = e.do(s); err == nil {
			var out bytes.Buffer
			e.espalier(s, &out, os.Stderr, "output", errandRun)
			r.Writes, r.Output = s.writes, out.String()
			err = json.NewEncoder(os.Stdout).Encode(r)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "person:", err)
		os.Exit(1)
	}
}

// asked is what a person reads in `espalier status --json`.
type asked struct {
	Status  string `json:"state"`
	Outcome string `json:"outcome"`
	Error   string `json:"error"`
	Gates   []struct {
		Step  string `json:"step"`
		Kind  string `json:"kind"`
		Event string `json:"event"`
		Key   string `json:"key"`
	} `json:"gates"`
}

func (e *errand) do(s *stopping) (standing string, err error) {
	for range 300 {
		a, begun, err := e.looks(s)
		switch {
		case err != nil:
			return "", err
		case !begun:
			if err := e.begin(s); err != nil {
				return "", err
			}
		case a.Status == "finished":
			return a.Status + " " + a.Outcome + " " + a.Error, nil
		case len(e.Hopeless) > 0:
			if err := e.besides(s, e.answer(a)); err != nil {
				return "", err
			}
		default:
			e.espalier(s, io.Discard, os.Stderr, e.answer(a)...)
		}
	}
	return "", fmt.Errorf("the run does not come to an end")
}

// create has a workflow made. Somebody who comes back carries on what is
// staged; only if nothing is, they say again what they want.
func (e *errand) create(s *stopping) (standing string, err error) {
	s.clock = true
	name, flags := e.Create[0], e.Create[2:]
	if staged, err := filepath.Glob(filepath.Join(e.Dir, "artifacts", name, "*", manifest.FileName)); err == nil && e.Resume && len(staged) > 0 {
		if m, err := manifest.Read(filepath.Dir(staged[0])); err == nil {
			e.espalier(s, io.Discard, os.Stderr, "resume", m.Run) // or it has not begun, or is over
		}
	}
	code := e.espalier(s, io.Discard, os.Stderr, append([]string{"create", name}, flags...)...)
	if code == 2 {
		code = e.espalier(s, io.Discard, os.Stderr, append([]string{"create"}, e.Create...)...)
	}
	if code != 0 {
		return "", fmt.Errorf("create: exit code %d", code)
	}
	return "created", nil
}

// looks asks how the run stands; false when it never began.
func (e *errand) looks(s *stopping) (a *asked, begun bool, err error) {
	var out bytes.Buffer
	switch code := e.espalier(s, &out, os.Stderr, "status", errandRun, "--json"); code {
	case 0:
		return a, true, json.Unmarshal(out.Bytes(), &a)
	case 2:
		return nil, false, nil
	default:
		return nil, false, fmt.Errorf("status: exit code %d", code)
	}
}

// besides runs a command, and answers what is in doubt while it runs.
func (e *errand) besides(s *stopping, args []string) error {
	told, progress := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.espalier(s, io.Discard, progress, args...)
		progress.Close()
	}()
	lines := bufio.NewScanner(told)
	for lines.Scan() {
		fmt.Fprintln(os.Stderr, lines.Text())
		a, _, err := e.looks(s)
		if err != nil {
			return err
		}
		if next := e.answer(a); slices.Contains(next, "--decide") {
			e.espalier(s, io.Discard, os.Stderr, next...)
		}
	}
	<-ended
	return lines.Err()
}

// answer is the next command of somebody who sees this. What is in doubt comes
// first, and is decided by looking at the world.
func (e *errand) answer(a *asked) []string {
	doubts := []string{"resume", errandRun}
	var others []string
	for _, g := range a.Gates {
		_, g.Key, _ = strings.Cut(g.Key, "/") // behind the run's id
		switch {
		case g.Kind == "unknown_outcome" && e.Results[g.Step] != "" && len(traces(e.Dir)) > 0:
			doubts = append(doubts, "--decide", g.Step+"=result="+e.Results[g.Step])
		case g.Kind == "unknown_outcome" && (!slices.Contains(traces(e.Dir), g.Key) || slices.Contains(e.Fails, g.Key)):
			doubts = append(doubts, "--decide", g.Step+"=rerun")
		case g.Kind == "unknown_outcome" && slices.Contains(e.Hopeless, g.Key):
			// The others will make it superfluous.
		case g.Kind == "unknown_outcome":
			doubts = append(doubts, "--decide", fmt.Sprintf("%s=result=%q", g.Step, g.Key))
		case others != nil: // one at a time
		case g.Kind == "event":
			others = []string{"signal", errandRun, g.Event}
		default:
			others = []string{"approve", errandRun, g.Step}
		}
	}
	switch {
	case len(doubts) > 2:
		return doubts
	case others != nil && a.Status != "running" && a.Status != "interrupted" && a.Status != "queued": // first see what the last process has left
		return others
	case a.Status == "budget":
		return []string{"resume", errandRun, "--raise", e.Raise}
	}
	return []string{"resume", errandRun}
}

func traces(dir string) []string {
	raw, err := os.ReadFile(filepath.Join(dir, effects))
	if err != nil {
		return nil
	}
	return strings.Fields(string(raw))
}

// espalier runs one command line of the product.
func (e *errand) espalier(s *stopping, out, told io.Writer, args ...string) int {
	w := cli.World{Stdin: strings.NewReader(""), Stdout: out, Stderr: told, Getenv: os.Getenv, Dir: e.Dir, Journal: s.wrap}
	if s.clock {
		w.Now = s.now
	}
	return cli.Main(w, args)
}

func (e *errand) begin(s *stopping) error {
	if e.Program == nil {
		args := append([]string{"run", "--allow-shell"}, e.Run...)
		if code := e.espalier(s, io.Discard, os.Stderr, append(args, "--run-id", errandRun, "--durability", "relaxed")...); code == 2 || code == 3 || code == 6 {
			return fmt.Errorf("run: exit code %d", code)
		}
		return nil
	}
	approvals := trust.Open(os.Getenv)
	r, err := registry.OpenRuntime(filepath.Join(e.Dir, ".espalier"), registry.RuntimeOptions{Relaxed: true, Journal: s.wrap, Trust: &approvals})
	if err != nil {
		return err
	}
	defer r.Close()
	ctx := context.Background()
	if err := r.Engine.Start(ctx, errandRun, &engine.Definition{Program: e.Program}, json.RawMessage("{}"), registry.RunOptions{AllowShell: true}.Encode(), journal.Actor{User: "eva"}); err != nil {
		return err
	}
	_, err = r.Engine.Wait(ctx, errandRun)
	return err
}

// stopping counts the writes to a journal and kills the process at one of them.
type stopping struct {
	errand *errand
	mu     sync.Mutex
	writes int
	late   func() // the write that was said to be durable and is not
	// clock: looking at the clock counts, too. Commands do so before each
	// change of a manifest.
	clock bool
}

func (s *stopping) now() time.Time {
	if s.next() {
		die()
	}
	return time.Now()
}

// wrap lays it around a journal. One process opens its journal several times.
func (s *stopping) wrap(store journal.Store) journal.Store { return &counted{store, s} }

type counted struct {
	journal.Store
	s *stopping
}

// next counts a write, and tells whether the process dies when it is done. It
// does not return when the process dies before.
func (s *stopping) next() (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.writes == s.errand.Stop && !s.errand.After {
		die()
	}
	return s.writes == s.errand.Stop
}

func (c *counted) Append(b journal.Batch, done func(error)) {
	last := c.s.next()
	if c.s.errand.Late {
		c.appendLate(b, done, last)
		return
	}
	c.Store.Append(b, func(err error) {
		if last {
			die()
		}
		done(err)
	})
}

// appendLate writes what came before, and only says that it has written this.
func (c *counted) appendLate(b journal.Batch, done func(error), last bool) {
	c.s.mu.Lock()
	before := c.s.late
	c.s.late = func() { c.Store.Append(b, func(error) {}) }
	c.s.mu.Unlock()
	if before != nil {
		before()
	}
	if last {
		die()
	}
	go done(nil)
}

// Close writes what is late: only a kill loses it.
func (c *counted) Close() error {
	c.s.mu.Lock()
	before := c.s.late
	c.s.late = nil
	c.s.mu.Unlock()
	if before != nil {
		before()
	}
	return c.Store.Close()
}

func (c *counted) Claim(ctx context.Context, run journal.RunID, me journal.Owner) (journal.Claim, error) {
	last := c.s.next()
	claim, err := c.Store.Claim(ctx, run, me)
	if last {
		die()
	}
	return claim, err
}

// die ends the process as kill -9 does: no lock is given back, nothing is flushed.
func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		p.Kill()
	}
	select {}
}
