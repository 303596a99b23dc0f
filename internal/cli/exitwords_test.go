//go:build unix

package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/cli"
)

// The runs of a jsonProject.
const (
	waitingRun  = "a0000000-0000-4000-8000-000000000000"
	pausedRun   = "b0000000-0000-4000-8000-000000000000"
	finishedRun = "c0000000-0000-4000-8000-000000000000"
	queuedRun   = "d0000000-0000-4000-8000-000000000000"
	sleepingRun = "e0000000-0000-4000-8000-000000000000"
	runningRun  = "f0000000-0000-4000-8000-000000000000"
	doubtfulRun = "10000000-0000-4000-8000-000000000000" // it was interrupted twice during a command
	approvedRun = "20000000-0000-4000-8000-000000000000" // approved, and then left to another process
	newRun      = "30000000-0000-4000-8000-000000000000" // does not exist
)

// sleepingFlow waits for an hour.
const sleepingFlow = `name: sleeping
states:
  initial: nap
  nap: {type: step, command: "false", retry: {max_attempts: 2, initial_delay: 1h}, on_success: done, on_failure: done}
  done: {type: terminal}
`

// runningFlow executes a command that lasts.
const runningFlow = `name: running
states:
  initial: work
  work: {type: step, command: "sleep 600", on_success: done, on_failure: done}
  done: {type: terminal}
`

// scheduledFlow runs every morning.
var scheduledFlow = strings.Replace(
	readOnlyFlow, "name: gated\n", "name: scheduled\ntriggers:\n  schedule: \"0 6 * * *\"\n  on_demand: true\n", 1,
)

// jsonCommands are arguments for each command that has --json.
var jsonCommands = map[string][][]string{
	"run": {
		{"gated.md", "--simulate", "--run-id", newRun},
		{"gated.md", "--simulate", "--run-id", newRun},
		{"gated.md"},
		{"gated.md", "--simulate", "--follow"},
		{"missing.md"},
		{"broken.md", "--simulate"},
	},
	"approve": {{newRun, "--no-continue"}, {finishedRun}}, "reject": {{finishedRun}},
	"pause": {{finishedRun}, {newRun}}, "cancel": {{finishedRun}, {newRun}},
	"edit": {{pausedRun, "state.draft=2"}}, "signal": {{waitingRun, "go"}, {finishedRun, "go"}},
	"resume": {{finishedRun}, {finishedRun, "--from", "publish", "--follow"}},
	"status": {
		{waitingRun},
		{pausedRun},
		{finishedRun},
		{queuedRun},
		{sleepingRun},
		{runningRun},
		{waitingRun, "--step", "draft"},
	},
	"runs": {{}}, "output": {{finishedRun}}, "runs rm": {{finishedRun, "--dry-run"}, {"--keep", "0", "--dry-run"}},
	"audit": {{finishedRun}}, "audit verify": {{finishedRun}}, "transcript": {{finishedRun}}, "store check": {{}},
	"graph": {{waitingRun}, {"gated.md"}}, "show": {{"gated.md"}, {"scheduled.md"}}, "cost": {{"gated.md"}},
	"create": {{"tidy", "Tidy the folder", "--simulate"}}, "doctor": {{}}, "explain": {{}}, "expr": {{"1 + 1"}},
	"init": {{}}, "list": {{}}, "memory": {{}}, "new": {{"fresh"}}, "schema": {{"awf"}}, "setup-ide": {{}},
	"tools": {{}}, "triggers list": {{}}, "triggers next": {{"scheduled.md"}}, "triggers pause": {{"scheduled.md"}},
	"triggers resume": {{"scheduled.md"}}, "triggers run": {{"scheduled.md"}}, "trust": {{}},
	"user add": {{"eva", "--role", "viewer", "--expires", "9d"}}, "user token": {{"eva"}}, "user list": {{}},
	"validate": {{"gated.md"}}, "version": {{}}, "workers": {{}},
}

// otherJSON are commands whose JSON is not ours to name, or that do not end by themselves.
var otherJSON = map[string]string{
	"promote":       "prints the manifest of an Agentfile workflow, whose fields the format defines",
	"drift":         "compares with a server",
	"store migrate": "needs another store",
	"serve":         "prints the address and serves until it is interrupted",
}

// timeNames are the names of times. An event has a timestamp; a scheduled time has "at".
var timeNames = []string{
	"timestamp", "started", "updated", "finished", "wakes", "at", "next", "until", "since", "last_seen", "created",
	"expires", "driver_since",
	"decided_at", // part of the value of a gate, which the format defines
}

// runNames are the names of ids of runs. The audit log calls the root run a trace.
var runNames = []string{"run_id", "parent_run_id", "root_run_id", "child_run_id", "from_run_id", "trace_id"}

var (
	runLike  = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	timeLike = regexp.MustCompile(`^\d{4}-\d\d-\d\d`)
	clock    = regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`)
)

// wrongForms returns what is wrong with the names and times in a JSON value. times counts times by name.
func wrongForms(name string, value any, times map[string]int) (wrong []string) {
	switch x := value.(type) {
	case map[string]any:
		for key, v := range x {
			if key == "shown" {
				continue // what the digest of a decision covers: earlier digests would not verify with other names
			}
			wrong = append(wrong, wrongForms(key, v, times)...)
		}
	case []any:
		for _, v := range x {
			wrong = append(wrong, wrongForms(name, v, times)...)
		}
	case float64:
		if x > 1.5e9 && x < 4e9 || x > 1.5e12 && x < 4e12 {
			wrong = append(wrong, fmt.Sprintf("%s is the time %.0f as a number", name, x))
		}
	case string:
		switch isRun := slices.Contains(runNames, name); {
		case runLike.MatchString(x) != isRun:
			wrong = append(wrong, fmt.Sprintf("%s is %q", name, x))
		case isRun:
			times["run_id"]++
		}
		if name == "driver" && clock.MatchString(x) {
			wrong = append(wrong, fmt.Sprintf("%s is %q, with a time in another form", name, x))
		}
		if timeLike.MatchString(x) {
			times[name]++
			_, err := time.Parse(time.RFC3339Nano, x)
			if err != nil || !strings.HasSuffix(x, "Z") || !slices.Contains(timeNames, name) {
				wrong = append(wrong, fmt.Sprintf("%s is %q", name, x))
			}
		}
	}
	return wrong
}

// jsonProject is a project with a run in each state.
type jsonProject struct {
	*testing.T
	dir  string
	stop func() // ends the run that is running
}

func (p *jsonProject) world(stdout, stderr io.Writer, signals *cli.Signals) cli.Environment {
	return cli.Environment{
		Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Dir: p.dir, Signals: signals,
		Getenv: func(name string) string { return map[string]string{"HOME": p.dir, "PATH": os.Getenv("PATH")}[name] },
	}
}

func (p *jsonProject) try(args ...string) (code int, stdout, stderr string) {
	var out, problems bytes.Buffer
	code = cli.Main(p.world(&out, &problems, nil), args)
	return code, out.String(), problems.String()
}

func (p *jsonProject) must(want int, args ...string) {
	p.Helper()
	if code, out, stderr := p.try(args...); code != want {
		p.Fatalf("%s: exit code %d\n%s%s", strings.Join(args, " "), code, out, stderr)
	}
}

// state returns the state of a run that the status command prints.
func (p *jsonProject) state(run string) string {
	p.Helper()
	var status struct{ State string }
	if code, out, stderr := p.try("status", run, "--json"); code == 0 {
		if err := json.Unmarshal([]byte(out), &status); err != nil {
			p.Fatalf("%v: %s%s", err, out, stderr)
		}
	}
	return status.State
}

// drive starts a run in the background and waits until it is in a state. The returned function interrupts it.
func (p *jsonProject) drive(state, run string, args ...string) (stop func()) {
	p.Helper()
	signals, ended := cli.NewSignals(), make(chan struct{})
	var stderr bytes.Buffer
	go func() {
		defer close(ended)
		cli.Main(p.world(io.Discard, &stderr, signals), append([]string{"run", "--run-id", run}, args...))
	}()
	stop = sync.OnceFunc(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Millisecond):
				signals.Deliver(os.Interrupt)
			}
		}
	})
	p.Cleanup(stop)
	for end := time.Now().Add(30 * time.Second); p.state(run) != state; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			stop()
			p.Fatalf("the run is %q, not %s: %s", p.state(run), state, &stderr)
		}
	}
	return stop
}

func newJSONProject(t *testing.T) *jsonProject {
	p := &jsonProject{T: t, dir: t.TempDir()}
	if err := errors.Join(
		os.Mkdir(filepath.Join(p.dir, ".espalier"), 0o700),
		os.WriteFile(filepath.Join(p.dir, "gated.md"), []byte(readOnlyFlow), 0o600),
		os.WriteFile(filepath.Join(p.dir, "broken.md"),
			[]byte(strings.ReplaceAll(readOnlyFlow, "transform", "x")), 0o600),
		os.WriteFile(filepath.Join(p.dir, "scheduled.md"), []byte(scheduledFlow), 0o600),
		os.WriteFile(filepath.Join(p.dir, "sleeping.yaml"), []byte(sleepingFlow), 0o600),
		os.WriteFile(filepath.Join(p.dir, "running.yaml"), []byte(runningFlow), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	p.must(0, "run", "gated.md", "--simulate", "--detach", "--run-id", queuedRun)
	p.must(4, "run", "gated.md", "--simulate", "--run-id", waitingRun)
	p.must(4, "run", "gated.md", "--simulate", "--run-id", pausedRun)
	p.must(0, "pause", pausedRun)
	p.must(4, "run", "gated.md", "--simulate", "--run-id", finishedRun)
	p.must(0, "approve", finishedRun)
	p.must(4, "run", "gated.md", "--simulate", "--run-id", approvedRun)
	p.must(0, "approve", approvedRun, "--no-continue")
	p.drive("sleeping", sleepingRun, "sleeping.yaml", "--allow-shell")()
	p.drive("running", doubtfulRun, "running.yaml", "--allow-shell")()
	p.stop = p.drive("running", runningRun, "running.yaml", "--allow-shell")
	return p
}

// anchored writes an anchor and removes one of its runs. It returns the anchor and the arguments that verify it.
func (p *jsonProject) anchored() (anchor string, verify []string) {
	p.Helper()
	const run = "40000000-0000-4000-8000-000000000000"
	anchor, key := filepath.Join(p.dir, "anchor"), filepath.Join(p.dir, "key")
	p.must(4, "run", "gated.md", "--simulate", "--run-id", run)
	p.must(0, "cancel", run)
	p.must(0, "audit", "keygen", key)
	p.must(0, "audit", "anchor", "--key", key, "--out", anchor)
	p.must(0, "runs", "rm", run)
	return anchor, []string{"--anchor", anchor, "--key", key + ".pub"}
}

// The same thing has the same name and form in the JSON of all commands: the id of a run is run_id, and times are in
// RFC 3339 and in UTC.
func TestJSONOfAllCommandsNamesTheSameThingAlike(t *testing.T) {
	p := newJSONProject(t)
	times := map[string]int{}
	anchor, verify := p.anchored()
	commands := maps.Clone(jsonCommands)
	commands["audit verify"] = append(slices.Clip(commands["audit verify"]), verify)
	text, err := os.ReadFile(anchor)
	if err != nil {
		t.Fatal(err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(text)); decoder.More(); {
		var value any
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		for _, w := range wrongForms("", value, times) {
			t.Errorf("audit anchor: %s", w)
		}
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		name := strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), "espalier"))
		if c.Flags().Lookup("json") != nil && otherJSON[name] == "" {
			if commands[name] == nil {
				t.Errorf("the test does not know arguments for %q", name)
			}
			for _, args := range commands[name] {
				args = slices.Concat(strings.Fields(name), args, []string{"--json"})
				_, out, stderr := p.try(args...)
				decoder, n := json.NewDecoder(strings.NewReader(out)), 0
				for ; ; n++ {
					var value any
					if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, out, stderr)
					}
					for _, w := range wrongForms("", value, times) {
						t.Errorf("%s: %s", strings.Join(args, " "), w)
					}
				}
				one := c.Annotations["one-result"] != "" && !slices.Contains(args, "--follow")
				if n == 0 && name != "workers" || one && n != 1 {
					t.Errorf("%s prints %d JSON values: %s", strings.Join(args, " "), n, stderr)
				}
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(cli.Commands())
	for _, name := range []string{
		"run_id", "timestamp", "started", "updated", "finished", "wakes", "at", "next", "driver_since",
	} {
		if times[name] == 0 {
			t.Errorf("no command has printed %s: the test shows nothing", name)
		}
	}
}

// With --json, run prints one object also for a workflow that is invalid.
func TestRunOfAnInvalidWorkflowPrintsOneObject(t *testing.T) {
	p := &jsonProject{T: t, dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(p.dir, "broken.md"),
		[]byte(strings.ReplaceAll(readOnlyFlow, "transform", "x")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--simulate"}, {"--simulate", "--detach"}, {}} {
		code, out, stderr := p.try(append([]string{"run", "broken.md", "--json"}, args...)...)
		var object struct {
			Outcome     string
			Diagnostics []json.RawMessage
		}
		decoder := json.NewDecoder(strings.NewReader(out))
		if err := decoder.Decode(&object); err != nil || decoder.More() {
			t.Fatalf("%v: not one object (%v): %s%s", args, err, out, stderr)
		}
		if code != 3 || object.Outcome != "invalid" || len(object.Diagnostics) == 0 {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
	}
}

// Runs in different situations have different states, in the list and in the status. The list says which process drives
// a run and until when a run sleeps, and what a paused run waits for.
func TestRunsTellStatesApart(t *testing.T) {
	p := newJSONProject(t)
	_, list, _ := p.try("runs")
	_, out, _ := p.try("runs", "--json")
	listed := ""
	for decoder := json.NewDecoder(strings.NewReader(out)); decoder.More(); {
		var run struct {
			ID    string `json:"run_id"`
			State string
		}
		if err := decoder.Decode(&run); err != nil {
			t.Fatal(err)
		}
		listed += fmt.Sprintf("%s %s\n", run.ID, run.State)
	}
	for run, want := range map[string]struct{ state, row string }{
		queuedRun: {"queued", "queued"}, waitingRun: {"waiting", "waiting (approval: ok)"},
		pausedRun: {"paused", "paused (approval: ok)"}, finishedRun: {"finished", "ok"},
		sleepingRun: {"sleeping", `sleeping until .* \(retry: nap\)`}, approvedRun: {"queued", "queued"},
		runningRun:  {"running", fmt.Sprintf(`running \(.*process %d on .*\)`, os.Getpid())},
		doubtfulRun: {"unknown", "unknown outcome: work"},
	} {
		if got := p.state(run); got != want.state || !strings.Contains(listed, fmt.Sprintf("%s %s\n", run, got)) {
			t.Errorf("%s is %q, not %q, or listed otherwise:\n%s", run, got, want.state, listed)
		}
		if !strings.Contains(want.row, `\(`) {
			want.row = regexp.QuoteMeta(want.row)
		}
		if !regexp.MustCompile(`(?m)^` + run[:8] + ` .*  ` + want.row + `$`).MatchString(list) {
			t.Errorf("%s is not listed as %q:\n%s", run, want.row, list)
		}
		_, only, _ := p.try("runs", "--status", want.state)
		for line := range strings.Lines(only) {
			if id, _, _ := strings.Cut(line, " "); strings.Contains(listed, id+"-") &&
				!regexp.MustCompile(id+`\S* `+want.state+"\n").MatchString(listed) {
				t.Errorf("--status %s lists a run in another state: %s", want.state, line)
			}
		}
		if !strings.Contains(only, run[:8]) {
			t.Errorf("--status %s does not list %s:\n%s", want.state, run, only)
		}
	}
	p.must(0, "cancel", pausedRun)
	for _, list := range [][]string{{"runs"}, {"runs", "rm", "--dry-run"}} {
		_, only, stderr := p.try(append(list, "--status", "canceled")...)
		if !strings.Contains(only+stderr, pausedRun[:8]) {
			t.Errorf("%q --status canceled does not list the canceled run: %s%s", list, only, stderr)
		}
	}
}

// stoppingFlow executes a command that lasts until there is a file, whose path it has instead of %[1]s. It creates
// another one when it begins.
const stoppingFlow = `name: stopping
states:
  initial: hold
  hold: {type: step, command: "touch %[1]s.began; until test -e %[1]s; do sleep 0.1; done",
    on_success: next, on_failure: next}
  next: {type: step, command: "true", on_success: done, on_failure: done}
  done: {type: terminal}
`

// A process that was interrupted drives a run until its steps have finished: the list and the status name it, and say
// that it stops. Afterwards the run is interrupted.
func TestRunsNameTheDriverWhileItStops(t *testing.T) {
	p := &jsonProject{T: t, dir: t.TempDir()}
	proceed := filepath.Join(p.dir, "proceed")
	if err := errors.Join(
		os.Mkdir(filepath.Join(p.dir, ".espalier"), 0o700),
		os.WriteFile(filepath.Join(p.dir, "stopping.yaml"), fmt.Appendf(nil, stoppingFlow, proceed), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	signals, ended := cli.NewSignals(), make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		ended <- cli.Main(p.world(io.Discard, &stderr, signals),
			[]string{"run", "stopping.yaml", "--allow-shell", "--run-id", runningRun})
	}()
	release := sync.OnceFunc(func() {
		if err := os.WriteFile(proceed, nil, 0o600); err != nil {
			t.Error(err)
		}
	})
	wait := sync.OnceValue(func() int { release(); return <-ended })
	t.Cleanup(func() { wait() }) // before the folder is removed, also if the test fails
	await := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				_, list, _ := p.try("runs")
				t.Fatalf("the run is not %s:\n%s", what, list)
			}
		}
	}
	var status struct {
		State, Driver string
		Since         time.Time `json:"driver_since"`
		Stopping      bool      `json:"driver_stopping"`
		Steps         []string
	}
	look := func() string {
		_, out, _ := p.try("status", runningRun, "--json")
		if err := json.Unmarshal([]byte(out), &status); err != nil {
			return ""
		}
		return strings.Join(status.Steps, " ")
	}
	await("executing its step", func() bool { return look() == "hold" })
	if status.State != "running" || status.Stopping || status.Since.IsZero() {
		t.Errorf("before the interrupt: %+v", status)
	}
	signals.Deliver(os.Interrupt)
	row := regexp.MustCompile(fmt.Sprintf(
		`(?m)running \(.*, process %d on .*, since \d\d:\d\d:\d\d, stopping\)$`, os.Getpid()))
	await("listed as stopping", func() bool { _, list, _ := p.try("runs"); return row.MatchString(list) })
	if _, out, _ := p.try("status", runningRun); !row.MatchString(out) {
		t.Error(out)
	}
	if look(); status.State != "running" || !status.Stopping || status.Driver == "" {
		t.Errorf("after the interrupt: %+v", status)
	}
	if code := wait(); code != 130 {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
	// How long a process worked on it after the last event is not known.
	left := regexp.MustCompile(`(?m):\d\d +-  \$0\.00  \S+ +interrupted$`)
	if _, list, _ := p.try("runs"); !left.MatchString(list) || p.state(runningRun) != "interrupted" {
		t.Error(p.state(runningRun), list)
	}
}

// On a terminal, what an interrupt does is printed above the status area, which does not overwrite it. A run whose step
// was cut off is reported as waiting, as it is listed.
func TestInterruptIsExplainedAboveTheStatusArea(t *testing.T) {
	p := &jsonProject{T: t, dir: t.TempDir()}
	proceed := filepath.Join(p.dir, "proceed")
	if err := errors.Join(
		os.Mkdir(filepath.Join(p.dir, ".espalier"), 0o700),
		os.WriteFile(filepath.Join(p.dir, "stopping.yaml"), fmt.Appendf(nil, stoppingFlow, proceed), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	signals := cli.NewSignals()
	var stdout, stderr bytes.Buffer
	w := p.world(&stdout, &stderr, signals)
	w.IsTerminal = func(io.Writer) bool { return true }
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(w, []string{"run", "stopping.yaml", "--allow-shell", "--json", "--run-id", runningRun})
	}()
	wait := sync.OnceValue(func() int { return <-ended })
	t.Cleanup(func() {
		signals.Deliver(os.Interrupt)
		wait()
	})
	executes := func() bool { _, err := os.Stat(proceed + ".began"); return err == nil }
	for end := time.Now().Add(30 * time.Second); !executes(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the run does not execute its step")
		}
	}
	signals.Deliver(os.Interrupt)
	signals.Deliver(os.Interrupt)
	code := wait()
	printed := stderr.String()
	if !strings.Contains(printed,
		"AWaiting for running commands and calls. Press Ctrl-C again to stop now.\r\n") {
		t.Errorf("%q", printed)
	}
	var result struct{ State, Outcome string }
	if err := json.Unmarshal(stdout.Bytes(), &result); err != nil || code != 130 ||
		result.State != "unknown" || result.Outcome != "interrupted" ||
		!strings.Contains(printed, "run f0000000 has an unknown outcome: hold.\n") {
		t.Errorf("exit code %d, %+v, %v: %q", code, result, err, printed)
	}
}

// pause says when it takes effect: at once, or when the running steps have finished.
func TestPauseSaysWhenItTakesEffect(t *testing.T) {
	p := newJSONProject(t)
	for run, want := range map[string]string{
		runningRun:  "Pausing run f0000000 after work finishes.\n",
		waitingRun:  "Recorded.\nRun a0000000: paused (approval: ok).\n",
		sleepingRun: "Recorded.\nRun e0000000: paused (retry: nap).\n",
	} {
		if code, _, stderr := p.try("pause", run); code != 0 || stderr != want {
			t.Errorf("exit code %d, %q; expected %q", code, stderr, want)
		}
	}
	for run, want := range map[string]string{
		runningRun: "the run is being paused already: its running steps finish first",
		waitingRun: "the run is paused already",
	} {
		if code, _, stderr := p.try("pause", run); code != 2 || !strings.HasPrefix(stderr, "espalier: "+want+".\n") {
			t.Errorf("again: exit code %d, %q; expected %q", code, stderr, want)
		}
	}
}

// The JSON of pause says when it takes effect.
func TestJSONOfPauseSaysWhenItTakesEffect(t *testing.T) {
	p := newJSONProject(t)
	for run, want := range map[string]string{
		runningRun: "running, after_steps [work]", waitingRun: "paused, now []", queuedRun: "paused, now []",
	} {
		var got struct {
			State       string
			TakesEffect string `json:"takes_effect"`
			Steps       []string
		}
		code, out, stderr := p.try("pause", run, "--json")
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
			t.Fatalf("exit code %d, %v: %s%s", code, err, out, stderr)
		}
		if is := fmt.Sprintf("%s, %s %v", got.State, got.TakesEffect, got.Steps); is != want {
			t.Errorf("%s: %s; expected %s", run, is, want)
		}
	}
}

// On a terminal, run shows the id of the run before its first step and at its end.
func TestRunShowsItsIDOnATerminal(t *testing.T) {
	p := newJSONProject(t)
	var stdout, stderr bytes.Buffer
	w := p.world(&stdout, &stderr, nil)
	w.IsTerminal = func(io.Writer) bool { return true }
	if code := cli.Main(w, []string{"run", "gated.md", "--simulate", "--run-id", newRun}); code != 4 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	before, rest, _ := strings.Cut(stderr.String(), "draft")
	if !strings.Contains(before, newRun) || strings.Count(rest, newRun[:8]+" is waiting (approval: ok)") != 1 {
		t.Error(stderr.String())
	}
}

// The JSON of a run that was not started names what is missing.
func TestJSONNamesWhatARunLacks(t *testing.T) {
	p := newJSONProject(t)
	code, out, _ := p.try("run", "gated.md", "--json")
	var result struct{ Outcome, Error string }
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 6 || result.Outcome != "not_ready" ||
		result.Error != "the models are not ready: no model is named, and none is configured" {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
}
