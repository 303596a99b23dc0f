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

// errand is the work of a simulated user in one process: start the run unless it exists, and answer its questions until
// it is over. The process may be killed at any write.
type errand struct {
	Dir string // of the project
	// Run are the arguments of "espalier run". Program is used for programs that no format can express; it is started
	// as the command would start it.
	Run     []string
	Program *ir.Program
	// Create are the arguments of "espalier create": a name, a description and flags. Later calls continue without the
	// description until the workflow is generated.
	Create []string
	// Resume resumes the generating run with "espalier resume" first.
	Resume bool
	Raise  string // answer to an exhausted budget: BUDGET=N
	// Fails are the keys of tasks that fail, and are therefore repeated.
	Fails []string
	// Hopeless are the keys of tasks that never end. While they run, another process answers questions about unknown
	// outcomes.
	Hopeless []string
	// Results are the results of steps with unknown outcome whose side effects exist, by step id; the default is the
	// key of the task.
	Results map[string]string

	// Stop is the number of the write to the journal at which the process is killed without cleanup: before the write,
	// or with After once it is durable. 0 never kills it.
	Stop  int
	After bool
	// Late injects a fault: the journal reports a write as durable too early, so that a kill loses the last write.
	Late bool
}

// returned is the report of an errand.
type returned struct {
	Writes   int // writes to the journal
	Standing string
	Output   string
}

const errandRun = "00000000-0000-4000-8000-000000000001"

// effects is the file in which the steps of a run record side effects, one per line.
const effects = "effects"

// trace is the side effect of steps: it records the key of the task, without the id of the run, and returns it as the
// result.
const trace = `key="${ESPALIER_KEY#*/}"; echo "$key" >> ../../../` + effects + `; printf '"%s"' "$key"`

// person runs the errand in the file that is its argument. It uses the command line for everything that has a command,
// and prints its report.
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

// asked is the output of `espalier status --json`.
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

// create generates a workflow. If there is a staged one, it continues it; otherwise it passes the description again.
func (e *errand) create(s *stopping) (standing string, err error) {
	s.clock = true
	name, flags := e.Create[0], e.Create[2:]
	if staged, err := filepath.Glob(filepath.Join(e.Dir, "artifacts", name, "*", manifest.FileName)); err == nil &&
		e.Resume && len(staged) > 0 {
		if m, err := manifest.Read(filepath.Dir(staged[0])); err == nil {
			e.espalier(s, io.Discard, os.Stderr, "resume", m.Run) // it may not have started, or be over
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

// looks reads the status of the run; begun is false if it never started.
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

// besides runs a command, and answers questions about unknown outcomes while it runs.
func (e *errand) besides(s *stopping, args []string) error {
	stderr, progress := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.espalier(s, io.Discard, progress, args...)
		progress.Close()
	}()
	lines := bufio.NewScanner(stderr)
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

// answer returns the next command of the user. Unknown outcomes come first; they are decided by the recorded side
// effects.
func (e *errand) answer(a *asked) []string {
	doubts := []string{"resume", errandRun}
	var others []string
	for _, g := range a.Gates {
		_, g.Key, _ = strings.Cut(g.Key, "/") // after the id of the run
		switch {
		case g.Kind == "unknown_outcome" && e.Results[g.Step] != "" && len(traces(e.Dir)) > 0:
			doubts = append(doubts, "--decide", g.Step+"=result="+e.Results[g.Step])
		case g.Kind == "unknown_outcome" && (!slices.Contains(traces(e.Dir), g.Key) || slices.Contains(e.Fails, g.Key)):
			doubts = append(doubts, "--decide", g.Step+"=rerun")
		case g.Kind == "unknown_outcome" && slices.Contains(e.Hopeless, g.Key):
			// The other answers make it unnecessary.
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
	// check first what the last process has left
	case others != nil && a.Status != "running" && a.Status != "interrupted" && a.Status != "queued":
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

// espalier runs a command line of Espalier.
func (e *errand) espalier(s *stopping, out, stderr io.Writer, args ...string) int {
	w := cli.Environment{
		Stdin: strings.NewReader(""), Stdout: out, Stderr: stderr, Getenv: os.Getenv, Dir: e.Dir,
		Journal: s.wrap,
	}
	if s.clock {
		w.Now = s.now
	}
	return cli.Main(w, args)
}

func (e *errand) begin(s *stopping) error {
	if e.Program == nil {
		args := append([]string{"run", "--allow-shell"}, e.Run...)
		if code := e.espalier(s, io.Discard, os.Stderr,
			append(args, "--run-id", errandRun, "--durability", "relaxed")...); code == 2 || code == 3 || code == 6 {
			return fmt.Errorf("run: exit code %d", code)
		}
		return nil
	}
	approvals := trust.Open(os.Getenv)
	r, err := registry.OpenRuntime(filepath.Join(e.Dir, ".espalier"),
		registry.RuntimeOptions{Relaxed: true, Journal: s.wrap, Trust: &approvals})
	if err != nil {
		return err
	}
	defer r.Close()
	ctx := context.Background()
	if err := r.Engine.Start(ctx, errandRun, &engine.Definition{Program: e.Program}, json.RawMessage("{}"),
		registry.RunOptions{AllowShell: true}.Encode(), journal.Actor{User: "eva"}); err != nil {
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
	late   func() // a write that was reported as durable too early
	// clock also counts reads of the clock, which commands do before each change of a manifest.
	clock bool
}

func (s *stopping) now() time.Time {
	if s.next() {
		die()
	}
	return time.Now()
}

// wrap wraps a journal. A process opens its journal several times.
func (s *stopping) wrap(store journal.Store) journal.Store { return &counted{store, s} }

type counted struct {
	journal.Store
	s *stopping
}

// next counts a write, and reports whether the process is killed after it. It does not return if the process is killed
// before it.
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

// appendLate performs the previous write, and only reports this one as done.
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

// Close performs the late write: only a kill loses it.
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

// die ends the process like kill -9: locks are not released and buffers are not flushed.
func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		p.Kill()
	}
	select {}
}
