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

// simulatedUser describes what one process does as a user: it starts the run unless the run exists, and answers its
// questions until it has finished. The process may be killed at any write.
type simulatedUser struct {
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
	// NeverEnding holds the keys of tasks that never end. While they run, another process answers questions about
	// unknown outcomes.
	NeverEnding []string
	// Results are the results of steps with unknown outcome whose side effects exist, by step id; the default is the
	// key of the task.
	Results map[string]string

	// KillAt is the number of the write to the journal at which the process is killed without cleanup: before the
	// write, or with After once it is durable. 0 never kills it.
	KillAt int
	After  bool
	// AckEarly injects a fault: the journal reports a write as durable too early, so that a kill loses the last write.
	AckEarly bool
}

// userReport is what the process of a simulated user reports.
type userReport struct {
	Writes int // writes to the journal
	Status string
	Output string
}

const testRunID = "00000000-0000-4000-8000-000000000001"

// effects is the file in which the steps of a run record side effects, one per line.
const effects = "effects"

// recordEffect is the side effect of steps: it records the key of the task, without the id of the run, and returns it
// as the result.
const recordEffect = `key="${ESPALIER_KEY#*/}"; echo "$key" >> ../../../` + effects + `; printf '"%s"' "$key"`

// runSimulatedUser runs the simulatedUser that the file in its argument describes. It uses the command line for
// everything that has a command, and prints its report.
func runSimulatedUser() {
	var e simulatedUser
	raw, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(raw, &e)
	}
	if err == nil {
		s := &crashInjector{user: &e}
		var r userReport
		if len(e.Create) > 0 {
			r.Status, err = e.create(s)
			r.Writes = s.writes
			err = errors.Join(err, json.NewEncoder(os.Stdout).Encode(r))
		} else if r.Status, err = e.answerUntilFinished(s); err == nil {
			var out bytes.Buffer
			e.runCommand(s, &out, os.Stderr, "output", testRunID)
			r.Writes, r.Output = s.writes, out.String()
			err = json.NewEncoder(os.Stdout).Encode(r)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulated user:", err)
		os.Exit(1)
	}
}

// statusOutput is the output of `espalier status --json`.
type statusOutput struct {
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

func (e *simulatedUser) answerUntilFinished(s *crashInjector) (standing string, err error) {
	for range 300 {
		a, begun, err := e.readStatus(s)
		switch {
		case err != nil:
			return "", err
		case !begun:
			if err := e.start(s); err != nil {
				return "", err
			}
		case a.Status == "finished":
			return a.Status + " " + a.Outcome + " " + a.Error, nil
		case len(e.NeverEnding) > 0:
			if err := e.answerDuring(s, e.nextCommand(a)); err != nil {
				return "", err
			}
		default:
			e.runCommand(s, io.Discard, os.Stderr, e.nextCommand(a)...)
		}
	}
	return "", fmt.Errorf("the run did not finish after 300 commands")
}

// create generates a workflow. If there is a staged one, it continues it; otherwise it passes the description again.
func (e *simulatedUser) create(s *crashInjector) (standing string, err error) {
	s.countClock = true
	name, flags := e.Create[0], e.Create[2:]
	if staged, err := filepath.Glob(filepath.Join(e.Dir, "artifacts", name, "*", manifest.FileName)); err == nil &&
		e.Resume && len(staged) > 0 {
		if m, err := manifest.Read(filepath.Dir(staged[0])); err == nil {
			e.runCommand(s, io.Discard, os.Stderr, "resume", m.Run) // it may not have started, or be over
		}
	}
	code := e.runCommand(s, io.Discard, os.Stderr, append([]string{"create", name}, flags...)...)
	if code == 2 {
		code = e.runCommand(s, io.Discard, os.Stderr, append([]string{"create"}, e.Create...)...)
	}
	if code != 0 {
		return "", fmt.Errorf("create: exit code %d", code)
	}
	return "created", nil
}

// readStatus reads the status of the run; begun is false if it never started.
func (e *simulatedUser) readStatus(s *crashInjector) (a *statusOutput, begun bool, err error) {
	var out bytes.Buffer
	switch code := e.runCommand(s, &out, os.Stderr, "status", testRunID, "--json"); code {
	case 0:
		return a, true, json.Unmarshal(out.Bytes(), &a)
	case 2:
		return nil, false, nil
	default:
		return nil, false, fmt.Errorf("status: exit code %d", code)
	}
}

// answerDuring runs a command, and answers questions about unknown outcomes while it runs.
func (e *simulatedUser) answerDuring(s *crashInjector, args []string) error {
	stderr, progress := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.runCommand(s, io.Discard, progress, args...)
		progress.Close()
	}()
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		fmt.Fprintln(os.Stderr, lines.Text())
		a, _, err := e.readStatus(s)
		if err != nil {
			return err
		}
		if next := e.nextCommand(a); slices.Contains(next, "--decide") {
			e.runCommand(s, io.Discard, os.Stderr, next...)
		}
	}
	<-ended
	return lines.Err()
}

// nextCommand returns the next command of the user. Unknown outcomes come first; they are decided by the recorded side
// effects.
func (e *simulatedUser) nextCommand(a *statusOutput) []string {
	doubts := []string{"resume", testRunID}
	var others []string
	for _, g := range a.Gates {
		_, g.Key, _ = strings.Cut(g.Key, "/") // after the id of the run
		switch {
		case g.Kind == "unknown_outcome" && e.Results[g.Step] != "" && len(recordedEffects(e.Dir)) > 0:
			doubts = append(doubts, "--decide", g.Step+"=result="+e.Results[g.Step])
		case g.Kind == "unknown_outcome" &&
			(!slices.Contains(recordedEffects(e.Dir), g.Key) || slices.Contains(e.Fails, g.Key)):
			doubts = append(doubts, "--decide", g.Step+"=rerun")
		case g.Kind == "unknown_outcome" && slices.Contains(e.NeverEnding, g.Key):
			// The other answers make it unnecessary.
		case g.Kind == "unknown_outcome":
			doubts = append(doubts, "--decide", fmt.Sprintf("%s=result=%q", g.Step, g.Key))
		case others != nil: // one at a time
		case g.Kind == "event":
			others = []string{"signal", testRunID, g.Event}
		default:
			others = []string{"approve", testRunID, g.Step}
		}
	}
	switch {
	case len(doubts) > 2:
		return doubts
	// check first what the last process has left
	case others != nil && a.Status != "running" && a.Status != "interrupted" && a.Status != "queued":
		return others
	case a.Status == "budget":
		return []string{"resume", testRunID, "--raise", e.Raise}
	}
	return []string{"resume", testRunID}
}

func recordedEffects(dir string) []string {
	raw, err := os.ReadFile(filepath.Join(dir, effects))
	if err != nil {
		return nil
	}
	return strings.Fields(string(raw))
}

// runCommand runs a command line of Espalier.
func (e *simulatedUser) runCommand(s *crashInjector, out, stderr io.Writer, args ...string) int {
	w := cli.Environment{
		Stdin: strings.NewReader(""), Stdout: out, Stderr: stderr, Getenv: os.Getenv, Dir: e.Dir,
		Journal: s.wrap,
	}
	if s.countClock {
		w.Now = s.now
	}
	return cli.Main(w, args)
}

func (e *simulatedUser) start(s *crashInjector) error {
	if e.Program == nil {
		args := append([]string{"run", "--allow-shell"}, e.Run...)
		if code := e.runCommand(s, io.Discard, os.Stderr,
			append(args, "--run-id", testRunID, "--durability", "relaxed")...); code == 2 || code == 3 || code == 6 {
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
	if err := r.Engine.Start(ctx, testRunID, &engine.Definition{Program: e.Program}, json.RawMessage("{}"),
		registry.RunOptions{AllowShell: true}.Encode(), journal.Actor{User: "eva"}); err != nil {
		return err
	}
	_, err = r.Engine.Wait(ctx, testRunID)
	return err
}

// crashInjector counts the writes to a journal and kills the process at one of them.
type crashInjector struct {
	user      *simulatedUser
	mu        sync.Mutex
	writes    int
	unwritten func() // a write that was reported as durable too early
	// countClock also counts reads of the clock, which commands do before each change of a manifest.
	countClock bool
}

func (s *crashInjector) now() time.Time {
	if s.countWrite() {
		killSelf()
	}
	return time.Now()
}

// wrap wraps a journal. A process opens its journal several times.
func (s *crashInjector) wrap(store journal.Store) journal.Store { return &crashingStore{store, s} }

type crashingStore struct {
	journal.Store
	injector *crashInjector
}

// countWrite counts a write, and reports whether the process is killed after it. It does not return if the process is
// killed before it.
func (s *crashInjector) countWrite() (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.writes == s.user.KillAt && !s.user.After {
		killSelf()
	}
	return s.writes == s.user.KillAt
}

func (c *crashingStore) Append(b journal.Batch, done func(error)) {
	last := c.injector.countWrite()
	if c.injector.user.AckEarly {
		c.ackBeforeWrite(b, done, last)
		return
	}
	c.Store.Append(b, func(err error) {
		if last {
			killSelf()
		}
		done(err)
	})
}

// ackBeforeWrite performs the previous write, and only reports this one as done.
func (c *crashingStore) ackBeforeWrite(b journal.Batch, done func(error), last bool) {
	c.injector.mu.Lock()
	before := c.injector.unwritten
	c.injector.unwritten = func() { c.Store.Append(b, func(error) {}) }
	c.injector.mu.Unlock()
	if before != nil {
		before()
	}
	if last {
		killSelf()
	}
	go done(nil)
}

// Close performs the late write: only a kill loses it.
func (c *crashingStore) Close() error {
	c.injector.mu.Lock()
	before := c.injector.unwritten
	c.injector.unwritten = nil
	c.injector.mu.Unlock()
	if before != nil {
		before()
	}
	return c.Store.Close()
}

func (c *crashingStore) Claim(ctx context.Context, run journal.RunID, me journal.Owner) (journal.Claim, error) {
	last := c.injector.countWrite()
	claim, err := c.Store.Claim(ctx, run, me)
	if last {
		killSelf()
	}
	return claim, err
}

// killSelf ends the process like kill -9: locks are not released and buffers are not flushed.
func killSelf() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		p.Kill()
	}
	select {}
}
