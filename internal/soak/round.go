package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// project has a workflow in each format. TRACE in a file is replaced by the path of the file in which steps leave a
// trace.
//
//go:embed all:testdata/project
var project embed.FS

// The run of every round.
const run = "00000000-0000-4000-8000-000000000001"

// workflow is how a format takes part.
type workflow struct {
	name  string   // what "espalier run" is given
	input []string // flags of "espalier run"
	event string   // that it waits for
	last  string   // the step after the gate
	edit  string
	// talks is set if the workflow is a conversation, which "espalier run" would hold with its standard input. The run
	// is started without a process, and an event drives it.
	talks bool
}

var formats = map[string]*workflow{
	"agent-flow": {name: "gated.md", event: "go", last: "hand_over", edit: "state.draft=2"},
	"agentfile": {
		name: "hand-over", input: []string{"--input", "AGENT_INPUT=x"}, event: "go", last: "hand-over",
		edit: "artifacts.make=\"edited\"",
	},
	"awf":    {name: "chat", event: "chat", last: "hand_over", edit: "states.make.output=\"edited\"", talks: true},
	"aiflow": {name: "people.aiflow", event: "go", last: "two", edit: "context.output_one=\"edited\""},
	"nof":    {name: "cost.nof.md", event: "go", last: "visual-report", edit: "state.spend=2"},
}

// formatOrder gives each format its turns. Its length has no divisor in common with the number of rounds in a lap. Runs
// of nof load an interpreter, which takes longer than all else.
var formatOrder = []string{
	"agent-flow", "agentfile", "awf", "aiflow", "agent-flow", "nof", "agentfile", "awf", "aiflow", "agent-flow", "awf",
}

// commands are what processes do to a run. leave is an approval that leaves the run to another process; kill and term
// are signals to the first of the other processes.
var commands = []string{
	"run", "resume", "approve", "leave", "reject", "decide", "signal", "edit", "pause", "cancel", "rm", "work", "kill",
	"term",
}

// args returns the arguments of a command; nil for signals.
func (w *workflow) args(command string) []string {
	switch command {
	case "run":
		start := []string{"run", w.name, "--run-id", run, "--script", "replies.yaml"}
		if w.talks {
			start = append(start, "--detach")
		}
		return append(start, w.input...)
	case "decide":
		return []string{"resume", run, "--decide", w.last + "=rerun"}
	case "signal":
		if w.talks {
			return []string{"signal", run, w.event, "--text", "Go on"}
		}
		return []string{"signal", run, w.event, "--data", `{"approved": true}`} // the gate of agent-flow needs it
	case "edit":
		return []string{"edit", run, w.edit}
	case "leave":
		return []string{"approve", run, "--no-continue"}
	case "rm":
		return []string{"runs", "rm", run}
	case "work":
		return []string{"work"}
	case "kill", "term":
		return nil
	}
	return []string{command, run} // approve, reject, resume, pause, cancel
}

// restTimeout is how long a worker has to bring the run to rest, endTimeout how long the processes of a round have.
const (
	restTimeout = time.Minute
	endTimeout  = 2 * time.Minute
)

// pollInterval leaves time to the processes that are observed.
const pollInterval = 20 * time.Millisecond

// job is a project in which rounds are played, one after the other. One goroutine uses it.
type job struct {
	program, dir, trace string
	env                 []string // added to that of this process
	wall                *wall    // nil is that of the machine
}

// newJob creates a project and approves it.
func newJob(program, dir string) (*job, error) {
	j := &job{program: program, dir: dir, trace: filepath.Join(dir, "trace")}
	err := fs.WalkDir(project, "testdata/project", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := project.ReadFile(path)
		if err != nil {
			return err
		}
		name := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(path, "testdata/project/")))
		return errors.Join(
			os.MkdirAll(filepath.Dir(name), 0o700),
			os.WriteFile(name, bytes.ReplaceAll(text, []byte("TRACE"), []byte(j.trace)), 0o600),
		)
	})
	if err != nil {
		return nil, err
	}
	if err := j.reset(); err != nil {
		return nil, err
	}
	if j.wall, err = newWall(dir + ".clock"); err != nil {
		return nil, err
	}
	j.env = append(j.env, clockVariable+"="+j.wall.path)
	if code, out := j.try("trust", "--yes"); code != 0 {
		return nil, fmt.Errorf("the project is not approved: %s", out)
	}
	return j, nil
}

// reset removes everything that runs have left.
func (j *job) reset() error {
	return errors.Join(
		os.RemoveAll(filepath.Join(j.dir, ".espalier")), os.RemoveAll(filepath.Join(j.dir, "outputs")),
		os.RemoveAll(j.trace), os.Mkdir(filepath.Join(j.dir, ".espalier"), 0o700),
	)
}

// command returns a command that has not started. All projects share the cache of the interpreter.
func (j *job) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, j.program, args...)
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = filepath.Dir(j.dir)
	}
	cmd.Dir = j.dir
	cmd.Env = append(os.Environ(), "HOME="+j.dir, "XDG_CACHE_HOME="+cache, "NO_COLOR=1")
	cmd.Env = append(cmd.Env, j.env...)
	cmd.WaitDelay = time.Second
	return cmd
}

// try runs a command to its end and returns its standard output, and if it fails, what it says on standard error.
func (j *job) try(args ...string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	cmd := j.command(ctx, args...)
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		return -1, err.Error()
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		out = append(out, failed.Stderr...)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// round is one run and the processes that act on it. Its random numbers are determined by the seed and the number of
// the round, so that a round which fails can be played again; the timing of processes cannot.
type round struct {
	*job
	random *rand.Rand
	format *workflow
	plan   []string

	mu      sync.Mutex // guards the fields below
	wrong   []string
	outputs []string         // of its commands
	codes   map[string][]int // exit codes of each command
}

func (r *round) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

func (r *round) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.outputs, "")
}

// begin starts a command and returns a function that waits for its end and checks how it ended: with a known exit code,
// not without a reason, and without a panic. In one of four cases the command has another monotonic clock.
func (r *round) begin(ctx context.Context, name string, args ...string) (*exec.Cmd, func(), error) {
	cmd := r.command(ctx, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if r.random.IntN(4) == 0 {
		shiftClock(cmd, r.random)
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return cmd, func() {
		_ = cmd.Wait() // the exit code says it
		code, text := cmd.ProcessState.ExitCode(), out.String()
		r.mu.Lock()
		r.outputs = append(r.outputs, fmt.Sprintf("--- %s: exit %d\n%s", strings.Join(cmd.Args[1:], " "), code, text))
		r.codes[name] = append(r.codes[name], code)
		r.mu.Unlock()
		switch code {
		// The command was carried out, or the run failed, waits, is out of budget or was interrupted.
		case 0, 1, 4, 5, 130:
		case 2, 6:
			if strings.TrimSpace(text) == "" {
				r.fail("%s was refused without a reason", name)
			}
		case -1: // by a signal
		default:
			r.fail("%s ended with %d", name, code)
		}
		if strings.Contains(text, "panic:") || strings.Contains(text, "goroutine ") {
			r.fail("%s crashed", name)
		}
	}, nil
}

// prepare brings the run into a situation. It returns the process that drives the run, if there is one.
func (r *round) prepare(
	names []string, launch func(name string, args []string) *exec.Cmd,
) (situation string, first *exec.Cmd) {
	start := r.format.args("run")
	starts := slices.Contains(names, "run")
	switch chance := r.random.IntN(6); {
	case starts && !r.format.talks && chance < 3:
		return "new", nil
	case chance == 0:
		r.try(start...)
		r.try("cancel", run)
		return "finished", nil
	case chance < 4:
		r.try(start...)
		if r.format.talks {
			r.try(r.format.args("signal")...)
		}
		return "waiting", nil
	case r.format.talks:
		r.try(start...)
		return "running", launch("signal", r.format.args("signal"))
	}
	first = launch("run", start)
	for end := time.Now().Add(restTimeout); time.Now().Before(end); time.Sleep(pollInterval) { // until the run exists
		if code, _ := r.try("status", run); code == 0 {
			break
		}
	}
	return "running", first
}

// play brings a run into a situation, executes commands at once, and checks what becomes of the run.
func (r *round) play(names []string) {
	if err := r.reset(); err != nil {
		r.fail("%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	var all sync.WaitGroup
	var workers []*exec.Cmd
	var ended []func()
	launch := func(name string, args []string) *exec.Cmd {
		cmd, wait, err := r.begin(ctx, name, args...)
		switch {
		case err != nil:
			r.fail("%v", err)
			return nil
		case name == "work":
			workers, ended = append(workers, cmd), append(ended, wait)
		default:
			all.Go(wait)
		}
		return cmd
	}
	situation, first := r.prepare(names, launch)
	r.plan = append(r.plan, r.format.name, situation)
	stopped := false
	for _, name := range names {
		delay := time.Duration(r.random.IntN(4)*r.random.IntN(40)) * time.Millisecond
		r.plan = append(r.plan, fmt.Sprintf("%s after %s", name, delay))
		time.Sleep(delay)
		if r.random.IntN(4) == 0 {
			r.plan = append(r.plan, r.wall.jump(r.random))
		}
		if args := r.format.args(name); args != nil {
			if cmd := launch(name, args); first == nil && name != "work" {
				first = cmd
			}
		} else if first != nil {
			stopped = true
			signal := os.Signal(syscall.SIGTERM)
			if name == "kill" {
				signal = os.Kill
			}
			_ = first.Process.Signal(signal) // it may have ended
		}
	}
	all.Wait()
	if ctx.Err() != nil {
		r.fail("a process does not end")
	}
	if len(workers) > 0 {
		// A worker brings the run to rest. It looks for the runs of dead processes once a second, and a busy machine
		// delays it.
		for end := time.Now().Add(restTimeout); time.Now().Before(end); time.Sleep(pollInterval) {
			if status, _ := r.status(); status != "running" {
				break
			}
		}
		for i, worker := range workers {
			_ = worker.Process.Signal(syscall.SIGTERM) // it may have ended
			ended[i]()
		}
	}
	r.check(situation, names, stopped, len(workers) > 0)
}

// missing is the status of a run that is not there.
const missing = "missing"

// status returns the status of the run, and whether the outcome of a step is unknown.
func (j *job) status() (status string, unknownOutcome bool) {
	code, out := j.try("status", run, "--json")
	var printed struct {
		State string `json:"state"`
	}
	switch err := json.Unmarshal([]byte(out), &printed); {
	case code == 2:
		return missing, false
	case err != nil || code != 0:
		return fmt.Sprintf("not shown (exit %d)", code), false
	case printed.State == "interrupted" || printed.State == "queued":
		printed.State = "running"
	}
	return printed.State, strings.Contains(out, `"unknown_outcome"`)
}

// check compares the run with what is promised: a run that was accepted exists, comes to rest, has done each step at
// most once, has a step with an unknown outcome only if a process was killed, and has a valid journal.
func (r *round) check(situation string, names []string, stopped, worked bool) {
	did := func(name string) bool { return slices.Contains(names, name) }
	removed := false
	for _, code := range r.codes["rm"] {
		removed = removed || code == 0 || stopped && code != 2 // it may have been killed after it removed the run
	}
	started := situation != "new"
	for _, code := range r.codes["run"] {
		started = started || code == 0 || code == 4
	}
	// The run may have been started, or sent a message, by a command that drives nothing.
	detached := did("leave") || did("run") && r.format.talks
	status, unknownOutcome := r.status()
	switch {
	case status == missing && (removed || !started):
		return
	case status == missing:
		r.fail("the run is gone")
		return
	case strings.HasPrefix(status, "not shown"):
		r.fail("the status is %s", status)
		return
	case status == "running" && !detached && (!stopped || worked):
		r.fail("the run is left without a process that drives it")
	case status == "running":
		r.try("resume", run)
		if status, _ := r.status(); status == "running" {
			r.fail("the run does not come to rest")
		}
	}
	if unknownOutcome && !stopped {
		r.fail("a command was cut off")
	}
	done, err := os.ReadFile(r.trace)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.fail("%v", err)
	}
	for _, step := range []string{"make", "hand_over", "hand-over"} {
		if n := strings.Count(string(done), step+"\n"); n > 1 && !did("decide") && !removed {
			r.fail("%s was done %d times", step, n)
		}
	}
	for _, args := range [][]string{{"audit", "verify", run}, {"store", "check"}} {
		if code, out := r.try(args...); code != 0 {
			r.fail("%s: exit %d: %s", strings.Join(args, " "), code, out)
		}
	}
}
