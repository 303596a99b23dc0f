package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/pgtest"
	"github.com/espalier-run/espalier/internal/temporaltest"
)

// fleetProject has a workflow whose steps leave traces. A step that was interrupted is not repeated without a person.
//
//go:embed testdata/fleet
var fleetProject embed.FS

// fleet is several workers on one store. They are killed, stopped and replaced, and so is the server that they use,
// while runs are started and approved. What is checked at the end: no step has left its trace twice, every run that was
// accepted has finished, and all journals are valid.
type fleet struct {
	*job
	name    string
	env     []string
	random  *rand.Rand
	restart func() error // kills the server and starts it again
	paused  time.Duration
	clocks  []*wall // of the workers; empty if they have that of the machine
	workers []*exec.Cmd
	stderr  []*bytes.Buffer

	runs    []string
	kills   map[string]int
	refused int
}

// fleetLoad is how many runs a fleet has at a time.
const fleetLoad = 12

// lease is how long a worker of the PostgreSQL fleet counts as alive after its last sign of life. It is short, so that
// leases end during a soak; paused workers are stopped for longer than this.
const lease = 2 * time.Second

// soakFleets keeps three workers on PostgreSQL and two on Temporal until a time. It returns what went wrong.
func soakFleets(program, dir string, seed uint64, end time.Time) error {
	fmt.Println("seed:", seed)
	var all sync.WaitGroup
	errs := make([]error, 2)
	all.Go(func() { errs[0] = soakPostgres(program, filepath.Join(dir, "postgres"), seed, end) })
	all.Go(func() { errs[1] = soakTemporal(program, filepath.Join(dir, "temporal"), seed, end) })
	all.Wait()
	return errors.Join(errs...)
}

func soakPostgres(program, dir string, seed uint64, end time.Time) error {
	server, err := pgtest.Start()
	if err != nil {
		return fmt.Errorf("the PostgreSQL server: %w", err)
	}
	defer server.Remove()
	f := &fleet{
		name: "PostgreSQL", env: []string{"ESPALIER_STORE=" + server.URL("postgres") + "&lease=" + lease.String()},
		random: rand.New(rand.NewPCG(seed, 1)), paused: lease + lease/2,
		restart: func() error { server.Kill(); return server.Run() },
	}
	return f.soak(program, dir, 3, end)
}

// heartbeat is the time without a heartbeat after which Temporal considers a step lost.
const heartbeat = 10 * time.Second

func soakTemporal(program, dir string, seed uint64, end time.Time) error {
	store, err := pgtest.Start()
	if err != nil {
		return fmt.Errorf("the PostgreSQL server: %w", err)
	}
	defer store.Remove()
	server, err := temporaltest.Start()
	if err != nil {
		return fmt.Errorf("the Temporal server: %w", err)
	}
	defer server.Remove()
	f := &fleet{
		name: "Temporal", random: rand.New(rand.NewPCG(seed, 2)), paused: heartbeat + heartbeat/5,
		env: []string{"ESPALIER_TEMPORAL=" + server.Address, "ESPALIER_STORE=" + store.URL("postgres")},
	}
	f.restart = func() error {
		if f.random.IntN(2) == 0 {
			store.Kill()
			return store.Run()
		}
		server.Kill()
		return server.Restart()
	}
	return f.soak(program, dir, 2, end)
}

// soak keeps workers until a time, and then checks every run.
func (f *fleet) soak(program, dir string, workers int, end time.Time) error {
	if err := f.create(program, dir, "chain.md"); err != nil {
		return err
	}
	defer f.end()
	if err := f.start(workers); err != nil {
		return err
	}
	for time.Now().Before(end) {
		if err := f.advance(); err != nil {
			return err
		}
		if err := f.disturb(); err != nil {
			return err
		}
	}
	return f.report()
}

// create creates the project, with some of its files.
func (f *fleet) create(program, dir string, files ...string) error {
	f.job, f.kills = &job{program: program, dir: dir, trace: filepath.Join(dir, "trace"), env: f.env}, map[string]int{}
	err := os.MkdirAll(filepath.Join(dir, ".espalier"), 0o700)
	for _, name := range files {
		text, reading := fleetProject.ReadFile("testdata/fleet/" + name)
		text = bytes.ReplaceAll(text, []byte("TRACE"), []byte(f.trace))
		err = errors.Join(err, reading, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return err
}

// start starts all workers, which end ends.
func (f *fleet) start(workers int) error {
	for i := range workers {
		f.workers, f.stderr = append(f.workers, nil), append(f.stderr, nil)
		if err := f.work(i); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) end() {
	for _, w := range f.workers {
		_ = w.Process.Kill() // it may have ended
		_ = w.Wait()
	}
}

// work starts a worker.
func (f *fleet) work(i int) error {
	cmd, stderr := f.command(context.Background(), "work"), new(bytes.Buffer)
	cmd.Stderr = stderr
	if f.clocks != nil {
		cmd.Env = append(cmd.Env, clockVariable+"="+f.clocks[i].path)
	}
	f.workers[i], f.stderr[i] = cmd, stderr
	return cmd.Start()
}

// advance starts as many runs as are missing, and approves those that wait.
func (f *fleet) advance() error {
	states, err := f.approve()
	if err != nil {
		f.refused++ // the server is about to come back
		return nil
	}
	open := 0
	for _, s := range states {
		if s.State != "finished" && !s.outcomeUnknown() {
			open++
		}
	}
	for range fleetLoad - open {
		id := uuid.NewString()
		if f.send("run", "chain.md", "--allow-shell", "--detach", "--run-id", id) {
			f.runs = append(f.runs, id)
		}
	}
	return nil
}

// send executes a command, which may fail while the server restarts. It reports whether the command was accepted.
func (f *fleet) send(args ...string) bool {
	code, _ := f.try(args...)
	if code != 0 {
		f.refused++
	}
	return code == 0
}

// disturb does something to a worker or to the server.
func (f *fleet) disturb() error {
	time.Sleep(time.Duration(f.random.IntN(1500)) * time.Millisecond)
	i := f.random.IntN(len(f.workers))
	w := f.workers[i]
	signal := func(name string, s os.Signal) {
		f.kills[name]++
		_ = w.Process.Signal(s) // it may have ended
	}
	switch chance := f.random.IntN(20); {
	case chance == 0:
		f.kills["restart of the server"]++
		return f.restart()
	case chance < 4:
		signal("pause", syscall.SIGSTOP)
		time.Sleep(f.paused)
		_ = w.Process.Signal(syscall.SIGCONT) // as above
		return nil
	case chance < 8:
		signal("stop", syscall.SIGTERM)
	default:
		signal("kill", os.Kill)
	}
	_ = w.Wait() // how it ended does not matter
	if text := f.stderr[i].String(); strings.Contains(text, "panic:") {
		return fmt.Errorf("%s: a worker crashed:\n%s", f.name, text)
	}
	return f.work(i)
}

// runState is a run as "espalier runs" shows it.
type runState struct {
	ID         string `json:"run_id"`
	Workflow   string `json:"workflow"`
	State      string `json:"state"`
	Outcome    string `json:"outcome"`
	WaitingFor string `json:"waiting_for"`
}

// traces is how many steps of each workflow leave a trace.
var traces = map[string]int{"chain": 3, "wait": 2, "tick": 0}

// outcomeUnknown reports whether the run waits for a person to resolve a step.
func (s *runState) outcomeUnknown() bool {
	return strings.HasPrefix(s.WaitingFor, unknownOutcomePrefix)
}

// unknownOutcomePrefix precedes the name of the step.
const unknownOutcomePrefix = "unknown outcome: "

func (f *fleet) states() ([]runState, error) {
	code, out := f.try("runs", "--limit", "0", "--json")
	if code != 0 {
		return nil, fmt.Errorf("%s: runs: exit %d: %s", f.name, code, out)
	}
	var all []runState
	for line := range strings.Lines(out) {
		var s runState
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			return nil, fmt.Errorf("%s: %w in %s", f.name, err, line)
		}
		all = append(all, s)
	}
	return all, nil
}

// rest waits until every run has finished or asks about a step.
func (f *fleet) rest() (states []runState, err error) {
	for end := time.Now().Add(endTimeout); ; time.Sleep(time.Second) {
		if states, err = f.approve(); err != nil {
			if time.Now().After(end) {
				return nil, err
			}
			continue // the server is about to come back
		}
		open := slices.IndexFunc(states, func(s runState) bool { return s.State != "finished" && !s.outcomeUnknown() })
		if open < 0 {
			return states, nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%s: run %s does not come to rest: %s %s",
				f.name, states[open].ID, states[open].State, states[open].WaitingFor)
		}
	}
}

// approve approves what waits, and returns the states of all runs before that.
func (f *fleet) approve() ([]runState, error) {
	states, err := f.states()
	for _, s := range states {
		if s.State == "waiting" && strings.HasPrefix(s.WaitingFor, "approval") {
			f.send("approve", s.ID, "ok", "--no-continue")
		}
	}
	return states, err
}

// traced returns how often each step has left its trace.
func (f *fleet) traced() (map[string]int, error) {
	text, err := os.ReadFile(f.trace)
	times := map[string]int{}
	for line := range strings.Lines(string(text)) {
		times[strings.TrimSpace(line)]++
	}
	return times, err
}

// resolve answers what became of the interrupted steps as a person does who looks for their traces. No worker is
// disturbed anymore, so that a step without a trace leaves none later.
func (f *fleet) resolve(states []runState) (doubts int, err error) {
	times, err := f.traced()
	if err != nil {
		return 0, err
	}
	const together = 4
	slots, failed := make(chan struct{}, together), make(chan error, len(states))
	for _, s := range states {
		if !s.outcomeUnknown() {
			continue
		}
		doubts++
		step := strings.TrimPrefix(s.WaitingFor, unknownOutcomePrefix)
		answer := step + "=rerun"
		for key := range times {
			if strings.HasPrefix(key, s.ID+"/"+step+"#") {
				answer = step + `=result={"first": 1, "second": 1, "output": 1}`
			}
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			if code, out := f.try("resume", s.ID, "--decide", answer); code != 0 && code != waitsCode {
				failed <- fmt.Errorf("%s: resume %s --decide %s: exit %d: %s", f.name, s.ID, answer, code, out)
			}
		}()
	}
	for range together {
		slots <- struct{}{}
	}
	close(failed)
	for one := range failed {
		err = errors.Join(err, one)
	}
	return doubts, err
}

// waitsCode is the exit code of a command whose run waits for a person.
const waitsCode = 4

// report checks all runs, and prints what has happened to them. It waits until they are at rest, answers for steps that
// were interrupted, and waits again.
func (f *fleet) report() error {
	states, err := f.rest()
	if err != nil {
		return err
	}
	doubts, err := f.resolve(states)
	if err != nil {
		return err
	}
	if states, err = f.rest(); err != nil {
		return err
	}
	times, err := f.traced()
	if err != nil {
		return err
	}
	var wrong []string
	for key, n := range times {
		if n > 1 {
			wrong = append(wrong, fmt.Sprintf("%s was done %d times", key, n))
		}
	}
	for _, s := range states {
		done := 0
		for key := range times {
			if strings.HasPrefix(key, s.ID) {
				done++
			}
		}
		if s.Outcome != "ok" || done != traces[s.Workflow] {
			wrong = append(wrong, fmt.Sprintf("run %s: %s %s %s with %d of %d traces",
				s.ID, s.State, s.Outcome, s.WaitingFor, done, traces[s.Workflow]))
		}
		if code, out := f.try("audit", "verify", s.ID); code != 0 {
			wrong = append(wrong, fmt.Sprintf("audit verify %s: exit %d: %s", s.ID, code, out))
		}
	}
	for _, id := range f.runs {
		if !slices.ContainsFunc(states, func(s runState) bool { return s.ID == id }) {
			wrong = append(wrong, "run "+id+" was accepted and is gone")
		}
	}
	if code, out := f.try("store", "check"); code != 0 {
		wrong = append(wrong, fmt.Sprintf("store check: exit %d: %s", code, out))
	}
	fmt.Printf("%s: %d workers, %d runs, of which %d asked about an interrupted step; %v; %d commands refused\n",
		f.name, len(f.workers), len(states), doubts, f.kills, f.refused)
	if len(wrong) > 0 {
		return fmt.Errorf("%s:\n%s", f.name, strings.Join(wrong, "\n"))
	}
	return nil
}
