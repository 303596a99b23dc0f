package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The run of every round.
const run = "00000000-0000-4000-8000-000000000001"

// workflow asks for a decision between two scripts that leave a trace.
const workflow = "---\nname: gated\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Make, ask, hand over.\n---\n" +
	"```step\nid: make\ntype: transform\ndescription: Make it\nwrites: [state.draft]\ncode:\n  language: sh\n  script: |\n    echo make >> TRACE; sleep 0.1; echo '{\"draft\": 1}'\n```\n" +
	"```step\nid: ok\ntype: gate\ngate_method: human_review\ndescription: Is it good\nreads: [state.draft]\nwrites: [state.ok]\n```\n" +
	"```step\nid: hand_over\ntype: transform\ndescription: Hand it over\nreads: [state.draft]\nwrites: [output]\ncode:\n  language: sh\n  script: |\n    echo hand_over >> TRACE; sleep 0.1; echo '{\"output\": 1}'\n```\n" +
	"```runtime\nhuman_in_the_loop: true\n```\n"

// commands are what processes do to the run. kill and term are signals to the
// first process.
var commands = map[string][]string{
	"approve": {"approve", run}, "reject": {"reject", run}, "resume": {"resume", run}, "decide": {"resume", run, "--decide", "hand_over=rerun"},
	"pause": {"pause", run}, "cancel": {"cancel", run}, "edit": {"edit", run, "state.draft=2"}, "leave": {"approve", run, "--no-continue"},
	"work": {"work"}, "kill": nil, "term": nil,
}

// restTimeout is how long a worker has to bring the run to rest.
const restTimeout = 30 * time.Second

// names are the commands in a fixed order, so that a seed determines a round.
var names = []string{"approve", "reject", "resume", "decide", "pause", "cancel", "edit", "leave", "work", "kill", "term"}

func main() {
	long := flag.Duration("for", 10*time.Minute, "how long to go on")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the first round; each round uses the next one")
	once := flag.Bool("once", false, "play one round only, and print what its processes say")
	flag.Parse()
	if err := soak(*long, *seed, *once); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func soak(long time.Duration, seed uint64, once bool) error {
	dir, err := os.MkdirTemp("", "espalier-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "espalier")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/espalier").CombinedOutput(); err != nil {
		return fmt.Errorf("building: %w\n%s", err, out)
	}
	fmt.Println("first seed:", seed)
	end, rounds, failed := time.Now().Add(long), 0, 0
	for ; rounds == 0 || time.Now().Before(end) && !once; rounds++ {
		r := &round{dir: filepath.Join(dir, fmt.Sprint(rounds)), program: program}
		r.play(rand.New(rand.NewPCG(seed, 0)))
		if len(r.wrong) > 0 {
			failed++
			fmt.Printf("seed %d: %s: %s\n%s\n", seed, strings.Join(r.plan, ", "), strings.Join(r.wrong, "; "), r.output())
		} else if once {
			fmt.Printf("seed %d: %s\n%s\n", seed, strings.Join(r.plan, ", "), r.output())
		}
		if err := os.RemoveAll(r.dir); err != nil {
			return err
		}
		seed++
	}
	fmt.Printf("%d rounds, %d failed\n", rounds, failed)
	if failed > 0 {
		return errors.New("play a round again with -once -seed SEED")
	}
	return nil
}

// round is one run and the processes that act on it.
type round struct {
	dir, program string
	plan         []string
	wrong        []string

	mu   sync.Mutex
	said []string
}

func (r *round) fail(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

func (r *round) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.said, "")
}

// begin starts a command.
func (r *round) begin(ctx context.Context, name string, args ...string) (*exec.Cmd, func() int, error) {
	cmd := exec.CommandContext(ctx, r.program, args...)
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), "HOME="+r.dir, "NO_COLOR=1")
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return cmd, func() int {
		_ = cmd.Wait() // the exit code says it
		r.mu.Lock()
		defer r.mu.Unlock()
		r.said = append(r.said, fmt.Sprintf("--- %s: exit %d\n%s", name, cmd.ProcessState.ExitCode(), out.String()))
		return cmd.ProcessState.ExitCode()
	}, nil
}

// try runs a command to its end.
func (r *round) try(args ...string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.program, args...)
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), "HOME="+r.dir, "NO_COLOR=1")
	out, _ := cmd.Output() // the exit code says it
	return cmd.ProcessState.ExitCode(), string(out)
}

// play brings a run into a situation, executes two or three commands at once,
// and checks what becomes of the run.
func (r *round) play(random *rand.Rand) {
	trace := filepath.Join(r.dir, "trace")
	if err := errors.Join(
		os.MkdirAll(filepath.Join(r.dir, ".espalier"), 0o700),
		os.WriteFile(filepath.Join(r.dir, "gated.md"), []byte(strings.ReplaceAll(workflow, "TRACE", trace)), 0o600),
		os.WriteFile(filepath.Join(r.dir, "espalier.yaml"), []byte("allow: {shell: true}\ngrace_period: 50ms\n"), 0o600),
	); err != nil {
		r.fail("%v", err)
		return
	}
	if code, out := r.try("trust", "--yes"); code != 0 {
		r.fail("the project is not approved: %s", out)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	start := []string{"run", "gated.md", "--run-id", run}
	var first *exec.Cmd
	var all sync.WaitGroup
	var worker *exec.Cmd
	var waitWorker func() int
	launch := func(name string, args []string) *exec.Cmd {
		cmd, wait, err := r.begin(ctx, name, args...)
		if err != nil {
			r.fail("%v", err)
			return nil
		}
		if name == "work" {
			waitWorker = wait
		} else {
			all.Go(func() { wait() })
		}
		return cmd
	}
	if random.IntN(3) > 0 {
		r.plan = append(r.plan, "waiting")
		r.try(start...)
	} else {
		r.plan = append(r.plan, "running")
		first = launch("run", start)
		for range 200 { // until the run exists
			if code, _ := r.try("status", run); code == 0 {
				break
			}
		}
	}
	stopped := false
	for range 2 + random.IntN(2) {
		name := names[random.IntN(len(names))]
		delay := time.Duration(random.IntN(4)*random.IntN(40)) * time.Millisecond
		r.plan = append(r.plan, fmt.Sprintf("%s after %s", name, delay))
		time.Sleep(delay)
		switch args := commands[name]; {
		case name == "work" && worker != nil:
		case name == "work":
			worker = launch(name, args)
		case args != nil:
			if cmd := launch(name, args); first == nil {
				first = cmd
			}
		case first != nil:
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
	if worker != nil {
		// A worker brings the run to rest. It looks for the runs of dead processes
		// once a second, and a busy machine delays it.
		for end := time.Now().Add(restTimeout); time.Now().Before(end); {
			if status, _ := r.status(); status != "running" {
				break
			}
		}
		_ = worker.Process.Signal(syscall.SIGTERM) // it may have ended
		waitWorker()
	}
	r.check(trace, stopped, worker != nil)
}

// status returns the status of the run, and whether a step is in doubt.
func (r *round) status() (status string, doubt bool) {
	code, out := r.try("status", run, "--json")
	var said struct {
		State string `json:"state"`
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil || code != 0 {
		return fmt.Sprintf("not shown (exit %d)", code), false
	}
	if said.State == "interrupted" || said.State == "queued" {
		said.State = "running"
	}
	return said.State, strings.Contains(out, `"unknown_outcome"`)
}

// check holds the run against what is promised.
func (r *round) check(trace string, stopped, worked bool) {
	status, doubt := r.status()
	left := strings.Contains(strings.Join(r.plan, " "), "leave")
	switch {
	case status == "running" && !left && (!stopped || worked):
		r.fail("the run is left without a process that drives it")
	case status == "running":
		r.try("resume", run)
		if status, _ := r.status(); status == "running" {
			r.fail("the run does not come to rest")
		}
	case strings.HasPrefix(status, "not shown"):
		r.fail("the status is %s", status)
	}
	if doubt && !stopped {
		r.fail("a command was cut off")
	}
	done, err := os.ReadFile(trace)
	if err != nil && !(stopped && errors.Is(err, os.ErrNotExist)) { // it may have been killed before the first step
		r.fail("%v", err)
	}
	decided := strings.Contains(strings.Join(r.plan, " "), "decide")
	for _, step := range []string{"make", "hand_over"} {
		if n := strings.Count(string(done), step+"\n"); n > 1 && !decided {
			r.fail("%s was done %d times", step, n)
		}
	}
	if code, out := r.try("audit", "verify", run); code != 0 {
		r.fail("the audit log does not verify: %s", out)
	}
}
