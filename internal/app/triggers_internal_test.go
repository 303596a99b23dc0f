package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/journal"
)

const scheduled = `---
name: %s
kind: agent-flow/workflow
version: 1.0.0
description: A test.
triggers: { schedule: %q }
---
`

const (
	answering = "```step\nid: ask\ntype: transform\ndescription: Say hello\nwrites: [output]\n```\n"
	waiting   = "```step\nid: ok\ntype: gate\ngate_method: human_review\ndescription: May we\nwrites: [state.ok]\n```\n"
)

const daily = `specVersion: "1.0"
name: daily
version: 1.0.0
description: Reports every morning
trigger:
  type: schedule
  schedule: "0 6 * * *"
steps:
  - id: report
    name: Report
    agent: agents/worker.md
    input: agents/worker.md
    goal: Report.
    produces: outputs/result.md
`

// The schedule of an Agentfile starts one run each time, however many servers there are.
func TestScheduleOfAgentfileStartsRuns(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"workflows/daily/workflow.yaml":    daily,
		"workflows/daily/agents/worker.md": "# Agent: Worker\n## Persona\nWorks.\n",
		"espalier.yaml":                    "triggers: {daily: {simulate: true}}\n",
	})
	s, other := p.server(), p.server()
	for _, c := range []struct {
		at   float64
		runs int
	}{{0, 0}, {5.9, 0}, {6, 1}, {6.5, 1}, {29.9, 1}, {30, 2}} {
		for _, server := range []*triggerService{s, other} {
			server.at(t, &p.clock, hour(c.at))
			server.rest(t)
			if n := len(server.runs(t)); n != c.runs {
				t.Fatalf("after %g hours there are %d runs, want %d: %v", c.at, n, c.runs, p.notices)
			}
		}
	}
	for _, r := range s.runs(t) {
		if r.Name != "daily" || r.Status != journal.Finished {
			t.Errorf("%+v", r)
		}
	}
}

// A schedule of the configuration starts runs of workflows whose files have no triggers, and adds to those of files.
func TestScheduleOfTheConfigurationStartsRuns(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"digest.yaml": "name: digest\ninputs:\n  - {name: topic, type: string, required: true}\n" +
			"states:\n  initial: write\n" +
			"  write: {type: agent, provider: claude, prompt: 'On {{.inputs.topic}}', on_success: done}\n" +
			"  done: {type: terminal}\n",
		"hourly.md": fmt.Sprintf(scheduled, "hourly", "0 * * * *") + answering,
		"espalier.yaml": "triggers:\n" +
			"  digest: {schedule: '0 6 * * *', timezone: Europe/Berlin, input: {topic: t}, simulate: true}\n" +
			"  hourly: {schedule: '30 2 * * *', simulate: true}\n",
	})
	s := p.server()
	for _, c := range []struct {
		at             float64
		digest, hourly int
	}{{0, 0, 0}, {0.9, 0, 0}, {1, 0, 1}, {2.5, 0, 3}, {4.9, 0, 5}, {5, 1, 6}} {
		for at := p.clock.Now(); at.Before(hour(c.at)); {
			at = at.Add(6 * time.Minute)
			s.at(t, &p.clock, at)
			s.rest(t)
		}
		count := map[string]int{}
		for _, r := range s.runs(t) {
			count[r.Name]++
		}
		if count["digest"] != c.digest || count["hourly"] != c.hourly {
			t.Fatalf("after %g hours: %v, want %+v: %v", c.at, count, c, p.notices)
		}
	}
	list, err := s.app.Triggers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, one := range list {
		ids = append(ids, one.ID)
	}
	if want := []string{"digest.yaml#schedule", "hourly.md#schedule", "hourly.md#schedule-2"}; !slices.Equal(ids,
		want) {
		t.Errorf("%q", ids)
	}
}

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = at
}

var midnight = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func hour(n float64) time.Time { return midnight.Add(time.Duration(n * float64(time.Hour))) }

// triggered is a project with triggers and a clock.
type triggered struct {
	t       *testing.T
	dir     string
	home    string
	env     map[string]string
	clock   clock
	notices []string
	mu      sync.Mutex
	journal func(journal.Store) journal.Store
}

func newTriggered(t *testing.T, files map[string]string) *triggered {
	p := &triggered{t: t, dir: t.TempDir(), home: t.TempDir()}
	p.clock.set(midnight)
	for name, text := range files {
		p.write(name, text)
	}
	return p
}

func (p *triggered) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// server returns the trigger service of another process on the project.
func (p *triggered) server() *triggerService {
	p.t.Helper()
	a := New(Options{
		Dir: p.dir, Home: p.home, Now: p.clock.Now, Journal: p.journal,
		Getenv: func(name string) string {
			if name == "HOME" {
				return p.home
			}
			return p.env[name]
		},
		Notify: func(n Notice) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.notices = append(p.notices, n.Text)
		},
	})
	p.t.Cleanup(func() { a.Close() })
	env, err := a.storage(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	s := newTriggerService(a, env)
	a.triggers = s
	return s
}

// at sets the clock, reads the workflows and fires what is due.
func (s *triggerService) at(t *testing.T, c *clock, now time.Time) {
	t.Helper()
	c.set(now)
	if _, err := s.reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.fireDue(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (s *triggerService) runs(t *testing.T) []Run {
	t.Helper()
	runs, err := s.app.Runs(t.Context(), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// rest waits until all runs are at rest.
func (s *triggerService) rest(t *testing.T) {
	t.Helper()
	for _, r := range s.runs(t) {
		if _, err := s.app.Wait(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *triggerService) trigger(t *testing.T, id string) Trigger {
	t.Helper()
	list, err := s.app.Triggers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list {
		if one.ID == id {
			return one
		}
	}
	t.Fatalf("there is no trigger %s in %+v", id, list)
	return Trigger{}
}

const simulated = "triggers:\n  %s: {simulate: true, overlap: %s, catch_up: 3h}\n"

// Spec: Agent Flow §2.4 schedule
func TestScheduleStartsOneRunOnManyServers(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"hourly.md":     fmt.Sprintf(scheduled, "hourly", "0 * * * *") + answering,
		"espalier.yaml": fmt.Sprintf(simulated, "hourly", "allow"),
	})
	servers := []*triggerService{p.server(), p.server(), p.server()}
	for _, s := range servers {
		s.at(t, &p.clock, midnight)
	}
	p.clock.set(hour(2.5)) // two firings are due
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(func() {
			if _, err := s.fireDue(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, s := range servers { // each waits for the runs that it drives
		s.rest(t)
	}
	runs := servers[0].runs(t)
	if len(runs) != 2 || runs[0].Outcome != journal.OutcomeOK {
		t.Fatalf("%d runs: %+v", len(runs), runs)
	}
	// A clock that goes back and forth starts none of them again.
	for _, now := range []float64{1.2, 2.9, 0.1, 2.1} {
		servers[1].at(t, &p.clock, hour(now))
	}
	if again := servers[0].runs(t); len(again) != 2 {
		t.Errorf("%d runs after the clock went back", len(again))
	}
}

// crashing is a store whose process ends between starting a run and saving the
// state of its trigger.
type crashing struct {
	journal.Store
	crash bool
}

var errCrash = errors.New("crash")

func (c *crashing) Save(ctx context.Context, r journal.Register) (int64, error) {
	if c.crash && strings.HasPrefix(r.Key, triggerPrefix) {
		return 0, errCrash
	}
	return c.Store.Save(ctx, r)
}

func TestCrashBetweenStartAndSaveGivesOneRun(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"hourly.md":     fmt.Sprintf(scheduled, "hourly", "0 * * * *") + answering,
		"espalier.yaml": fmt.Sprintf(simulated, "hourly", "skip"),
	})
	var store *crashing
	p.journal = func(s journal.Store) journal.Store {
		store = &crashing{Store: s}
		return store
	}
	first := p.server()
	first.at(t, &p.clock, midnight)
	store.crash = true
	p.clock.set(hour(1))
	if _, err := first.fireDue(t.Context()); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	first.rest(t)
	if n := len(first.runs(t)); n != 1 {
		t.Fatalf("%d runs before the crash", n)
	}
	p.journal = nil
	second := p.server()
	second.at(t, &p.clock, hour(1.1))
	if n := len(second.runs(t)); n != 1 {
		t.Errorf("%d runs after the crash", n)
	}
	second.at(t, &p.clock, hour(2))
	if n := len(second.runs(t)); n != 2 {
		t.Errorf("%d runs an hour later", n)
	}
}

func TestOverlapCountsRunsThatWait(t *testing.T) {
	for _, c := range []struct {
		overlap                string
		runs, unfinished, wait int
		missed                 string
	}{
		{"skip", 1, 1, 0, "the previous run had not finished"},
		{"queue-one", 1, 1, 1, "another firing was already queued"},
		{"queue-all", 1, 1, 2, ""},
		{"cancel-old", 3, 1, 0, ""},
		{"allow", 3, 3, 0, ""},
	} {
		t.Run(c.overlap, func(t *testing.T) {
			p := newTriggered(t, map[string]string{
				"gated.md":      fmt.Sprintf(scheduled, "gated", "0 * * * *") + waiting,
				"espalier.yaml": fmt.Sprintf(simulated, "gated", c.overlap),
			})
			s := p.server()
			s.at(t, &p.clock, midnight)
			for n := range 3 {
				s.at(t, &p.clock, hour(float64(n+1)))
				s.rest(t)
			}
			runs, open := s.runs(t), 0
			for _, r := range runs {
				if r.Status != journal.Finished {
					open++
				}
			}
			got := s.trigger(t, "gated.md#schedule")
			if len(runs) != c.runs || open != c.unfinished || len(got.Queue) != c.wait {
				t.Fatalf("%d runs, %d unfinished, queue %v", len(runs), open, got.Queue)
			}
			if c.missed != "" && (len(got.Missed) != 1 || got.Missed[0].Reason != c.missed) {
				t.Errorf("missed %+v", got.Missed)
			}
			if c.wait == 0 {
				return
			}
			// The queued firing starts when the previous run is over.
			if _, err := s.app.Send(t.Context(), runs[0].ID, journal.Actor{User: "x"}, Approve{}); err != nil {
				t.Fatal(err)
			}
			s.rest(t)
			s.at(t, &p.clock, hour(3.1))
			if n := len(s.runs(t)); n != 2 {
				t.Errorf("%d runs after the first is over", n)
			}
		})
	}
}

func TestPauseResumeRunNowAndNextTimes(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"hourly.md":     fmt.Sprintf(scheduled, "hourly", "0 * * * *") + answering,
		"espalier.yaml": fmt.Sprintf(simulated, "hourly", "allow"),
	})
	s := p.server()
	s.at(t, &p.clock, midnight)
	if _, err := s.app.PauseTrigger(t.Context(), "hourly", true); err != nil {
		t.Fatal(err)
	}
	s.at(t, &p.clock, hour(2.5))
	got := s.trigger(t, "hourly.md#schedule")
	if len(s.runs(t)) != 0 || !got.Paused || !got.Next.IsZero() || len(got.Missed) != 1 {
		t.Fatalf("%+v", got)
	}
	id, err := s.app.RunTrigger(t.Context(), "hourly.md#schedule", journal.Actor{User: "x"})
	if err != nil {
		t.Fatal(err)
	}
	s.rest(t)
	if runs := s.runs(t); len(runs) != 1 || runs[0].ID != id {
		t.Errorf("%+v", runs)
	}
	p.clock.set(hour(3.5))
	got, err = s.app.PauseTrigger(t.Context(), "hourly", false)
	if err != nil || got.Paused || !got.Next.Equal(hour(4)) {
		t.Fatalf("%+v, %v", got, err)
	}
	s.at(t, &p.clock, hour(3.6))
	if n := len(s.runs(t)); n != 1 {
		t.Errorf("the pause was caught up with: %d runs", n)
	}
	s.at(t, &p.clock, hour(4))
	if n := len(s.runs(t)); n != 2 {
		t.Errorf("%d runs after resuming", n)
	}
	_, next, err := s.app.UpcomingTimes(t.Context(), "hourly", 3)
	if want := []time.Time{hour(5), hour(6), hour(7)}; err != nil || !slices.EqualFunc(next, want, time.Time.Equal) {
		t.Errorf("%v, %v", next, err)
	}
	if _, err := s.app.PauseTrigger(t.Context(), "weekly", true); err == nil {
		t.Error("a trigger that does not exist was paused")
	}
}

// Spec: Agent Flow §2.5 canonical
func TestEditedWorkflowsChangeTheirTriggers(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"flow.md":       fmt.Sprintf(scheduled, "flow", "0 12 * * *") + answering,
		"espalier.yaml": fmt.Sprintf(simulated, "flow", "allow"),
	})
	s := p.server()
	s.at(t, &p.clock, midnight)
	s.at(t, &p.clock, hour(11.5))
	// The new schedule counts from now on: earlier times of it were never missed.
	p.write("flow.md", fmt.Sprintf(scheduled, "flow", "0,30 * * * *")+answering)
	s.at(t, &p.clock, hour(11.6))
	if runs := s.runs(t); len(runs) != 0 {
		t.Fatalf("the edited schedule fired for the past: %+v", runs)
	}
	s.at(t, &p.clock, hour(12))
	if n := len(s.runs(t)); n != 1 {
		t.Fatalf("%d runs after the edit", n)
	}
	// A file with errors keeps its triggers, and runs are those of its last valid version.
	p.write("flow.md", fmt.Sprintf(scheduled, "flow", "0,30 * * * *")+"```step\nid: x\ntype: transfrom\n```\n")
	s.at(t, &p.clock, hour(12.5))
	s.rest(t)
	runs := s.runs(t)
	if len(runs) != 2 || runs[0].Outcome != journal.OutcomeOK {
		t.Fatalf("%+v", runs)
	}
	if got := s.trigger(t, "flow.md#schedule"); !strings.Contains(got.Problem, "flow.md") {
		t.Errorf("the problem is %q", got.Problem)
	}
	if !slices.ContainsFunc(p.notices, func(n string) bool { return strings.Contains(n, "last valid version") }) {
		t.Errorf("notices %q", p.notices)
	}
	// A server that has not seen a valid version knows the triggers, and says why they do not start runs.
	other := p.server()
	other.at(t, &p.clock, hour(13))
	got := other.trigger(t, "flow.md#schedule")
	if len(other.runs(t)) != 2 || len(got.Missed) != 1 || !strings.Contains(got.Missed[0].Reason, "flow.md") {
		t.Errorf("%d runs, %+v", len(other.runs(t)), got.Missed)
	}
	// A renamed or removed file has no triggers under its old name.
	if err := os.Rename(filepath.Join(p.dir, "flow.md"), filepath.Join(p.dir, "renamed.md")); err != nil {
		t.Fatal(err)
	}
	p.write("renamed.md", fmt.Sprintf(scheduled, "flow", "0,30 * * * *")+answering)
	s.at(t, &p.clock, hour(13.5))
	if list, err := s.app.Triggers(t.Context()); err != nil || len(list) != 1 || list[0].ID != "renamed.md#schedule" {
		t.Errorf("%+v, %v", list, err)
	}
	if err := os.Remove(filepath.Join(p.dir, "renamed.md")); err != nil {
		t.Fatal(err)
	}
	before := len(s.runs(t))
	s.at(t, &p.clock, hour(14))
	if list, err := s.app.Triggers(t.Context()); err != nil || len(list)+len(s.all()) != 0 || len(s.runs(t)) != before {
		t.Errorf("after the file is removed: %+v, %+v, %v; %d runs, before %d",
			list, s.all(), err, len(s.runs(t)), before)
	}
}

func TestFiringThatCannotStartIsMissedWithTheReason(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"hourly.md": fmt.Sprintf(scheduled, "hourly", "0 * * * *") + answering, // needs a model
	})
	s := p.server()
	s.at(t, &p.clock, midnight)
	s.at(t, &p.clock, hour(1))
	got := s.trigger(t, "hourly.md#schedule")
	if len(s.runs(t)) != 0 || len(got.Missed) != 1 || !strings.Contains(got.Missed[0].Reason, "not ready") {
		t.Errorf("%d runs, %+v", len(s.runs(t)), got.Missed)
	}
}

// A trigger is no person who names a file, so it is no consent to the commands of the file.
func TestTriggersDoNotConsentToCommands(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"shell.md": fmt.Sprintf(scheduled, "shell", "0 * * * *") +
			"```step\nid: hello\ntype: transform\ndescription: Say hello\nwrites: [output]\n" +
			"code:\n  language: sh\n  script: printf 1\n```\n",
	})
	s := p.server()
	s.at(t, &p.clock, midnight)
	s.at(t, &p.clock, hour(1))
	got := s.trigger(t, "shell.md#schedule")
	if len(s.runs(t)) != 0 || len(got.Missed) != 1 || !strings.Contains(got.Missed[0].Reason, "consent") {
		t.Errorf("%d runs, %+v", len(s.runs(t)), got.Missed)
	}
}

// The service that Work runs sees edits and fires without being asked.
func TestWorkFiresTriggersOfNewFiles(t *testing.T) {
	p := newTriggered(t, map[string]string{"espalier.yaml": fmt.Sprintf(simulated, "often", "allow")})
	home := t.TempDir()
	a := New(Options{Dir: p.dir, Home: home, Getenv: func(name string) string {
		return map[string]string{"HOME": home}[name]
	}})
	defer a.Close()
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- a.Work(ctx, func(string) { close(ready) }, func(*Run, *Error) {}) }()
	<-ready
	pos, err := a.Position(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p.write("new/often.md", fmt.Sprintf(scheduled, "often", "* * * * * *")+answering)
	for e, err := range a.Watch(ctx, WatchRequest{After: pos}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Run.Name == "often" {
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWorkWithoutTriggersFiresNone(t *testing.T) {
	for _, off := range []bool{false, true} {
		home := t.TempDir()
		a := New(Options{Dir: t.TempDir(), Home: home, NoTriggers: off, Getenv: func(name string) string {
			return map[string]string{"HOME": home}[name]
		}})
		ctx, stop := context.WithCancel(t.Context())
		err := a.Work(ctx, func(string) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if (a.triggers == nil) != off {
				t.Errorf("without triggers: %v, service: %v", off, a.triggers)
			}
			stop()
		}, nil)
		if err != nil {
			t.Error(err)
		}
		a.Close()
	}
}

// A schedule without a time zone is in UTC, whatever the time zone of the machine.
//
// Spec: Agent Flow §2.4 timezone-default
func TestScheduleWithoutTimeZoneIsInUTC(t *testing.T) {
	local := time.Local
	t.Cleanup(func() { time.Local = local })
	time.Local = time.FixedZone("east", 5*60*60)
	p := newTriggered(t, map[string]string{"noon.md": fmt.Sprintf(scheduled, "noon", "0 12 * * *") + answering})
	s := p.server()
	s.at(t, &p.clock, midnight)
	_, next, err := s.app.UpcomingTimes(t.Context(), "noon", 1)
	if err != nil || len(next) != 1 || !next[0].Equal(hour(12)) {
		t.Errorf("%v, %v", next, err)
	}
}

// A schedule with a time zone is in that zone, on both sides of a daylight saving change.
//
// Spec: Agent Flow §2.4 timezone
func TestScheduleIsInTheTimeZoneOfItsWorkflow(t *testing.T) {
	head := strings.Replace(fmt.Sprintf(scheduled, "noon", "0 12 * * *"), " }\n", ", timezone: America/New_York }\n", 1)
	p := newTriggered(t, map[string]string{"noon.md": head + answering})
	s := p.server()
	for now, want := range map[string]string{
		"2026-03-07T00:00:00Z": "2026-03-07T17:00:00Z", "2026-03-08T00:00:00Z": "2026-03-08T16:00:00Z",
	} {
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		p.clock.set(at)
		_, next, err := s.app.UpcomingTimes(t.Context(), "noon", 1)
		if err != nil || len(next) != 1 || next[0].UTC().Format(time.RFC3339) != want {
			t.Errorf("after %s: %v, %v, want %s", now, next, err, want)
		}
	}
}

// A person can approve the commands of a workflow whose schedule is in the configuration. The approval outlasts what
// the commands write, and a firing after a change of a program names it.
func TestApprovalCoversSchedulesOfTheConfiguration(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"beat.yaml": "name: beat\nstates:\n  initial: tick\n" +
			"  tick: {type: step, command: sh tool.sh | tee -a beats.txt, on_success: done}\n" +
			"  done: {type: terminal}\n",
		"tool.sh": "echo beat\n", "beats.txt": "beat\n",
		"espalier.yaml": "triggers: {beat: {schedule: \"0 * * * *\", overlap: allow}}\n",
	})
	t.Chdir(p.dir) // where commands run
	s := p.server()
	s.at(t, &p.clock, midnight)
	review := func() *Review {
		t.Helper()
		r, err := s.app.Review(context.Background(), p.dir, catalog.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := review()
	if len(r.Commands) != 1 || r.Approved {
		t.Fatalf("%+v", r)
	}
	if err := s.app.Approve(r); err != nil {
		t.Fatal(err)
	}
	if !review().Approved {
		t.Error("what was approved does not count as approved")
	}
	s.at(t, &p.clock, hour(1))
	s.rest(t)
	p.write("beats.txt", "beat\nbeat\n")
	s.at(t, &p.clock, hour(2))
	s.rest(t)
	if got := s.trigger(t, "beat.yaml#schedule"); len(s.runs(t)) != 2 || len(got.Missed) != 0 {
		t.Fatalf("%d runs, %+v", len(s.runs(t)), got.Missed)
	}
	p.write("tool.sh", "echo other\n")
	s.at(t, &p.clock, hour(3))
	got := s.trigger(t, "beat.yaml#schedule")
	if len(s.runs(t)) != 2 || len(got.Missed) != 1 ||
		!strings.HasSuffix(got.Missed[0].Reason, ". Changed since the approval: tool.sh") {
		t.Errorf("%d runs, %+v", len(s.runs(t)), got.Missed)
	}
	if review().Approved {
		t.Error("a changed program counts as approved")
	}
}
