package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/pgtest"
)

// skews are by how much the clocks of three workers are wrong.
var skews = []time.Duration{-5 * time.Hour, 0, 5 * time.Hour}

// otherClocks keeps workers on PostgreSQL whose clocks are hours apart until a time. They drive runs, waits and a
// schedule of the same project. It checks that every step is done once, that runs and waits have the time of the
// database, and that the schedule fires no more often than its times have passed.
func otherClocks(program, dir string, seed uint64, end time.Time) error {
	server, err := pgtest.Start()
	if errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") == "" {
		fmt.Println("not tried: workers whose clocks differ (PostgreSQL is not installed)")
		return nil
	}
	if err != nil {
		return fmt.Errorf("the PostgreSQL server: %w", err)
	}
	defer server.Remove()
	f := &fleet{
		name: "clocks that differ", random: rand.New(rand.NewPCG(seed, 3)),
		env: []string{"ESPALIER_STORE=" + server.URL("postgres") + "&lease=" + lease.String()},
	}
	if err := f.create(program, dir, "chain.md", "wait.md", "tick.md", "espalier.yaml"); err != nil {
		return err
	}
	if code, out := f.try("trust", "--yes"); code != 0 {
		return fmt.Errorf("the project is not approved: %s", out)
	}
	for i, skew := range skews {
		wall, err := newWall(filepath.Join(dir, fmt.Sprint("clock", i)))
		if err != nil {
			return err
		}
		wall.ahead.Store(int64(skew.Seconds()))
		f.clocks = append(f.clocks, wall)
	}
	began := time.Now()
	defer f.end()
	if err := f.start(len(skews)); err != nil {
		return err
	}
	for i := 0; i < 2 || time.Now().Before(end); i++ {
		if !f.send("run", "wait.md", "--allow-shell", "--detach") {
			return fmt.Errorf("%s: a run was not started", f.name)
		}
		if err := f.advance(); err != nil {
			return err
		}
		time.Sleep(2 * lease) // long enough for a lease to end if a worker renews it in its own time
	}
	code, text := f.try("triggers", "list", "--json")
	if missed := bytes.Contains([]byte(text), []byte(`"reason"`)); code != 0 || missed {
		return fmt.Errorf("%s: the schedule missed times: exit %d: %s", f.name, code, text)
	}
	if code, out := f.try("triggers", "pause", "tick"); code != 0 {
		return fmt.Errorf("%s: the schedule is not paused: %s", f.name, out)
	}
	most := int(time.Since(began)/(2*time.Second)) + 2
	if err := f.report(); err != nil {
		return err
	}
	return f.checkTimes(began, most)
}

// checkTimes checks that runs have started since a time, and at most so many by the schedule.
func (f *fleet) checkTimes(began time.Time, most int) error {
	code, out := f.try("runs", "--limit", "0", "--json")
	if code != 0 {
		return fmt.Errorf("%s: runs: exit %d: %s", f.name, code, out)
	}
	ticks := 0
	for line := range strings.Lines(out) {
		var run struct {
			Workflow string
			Started  time.Time
			Updated  time.Time `json:"updated"`
		}
		if err := json.Unmarshal([]byte(line), &run); err != nil {
			return err
		}
		if run.Started.Before(began.Add(-time.Minute)) || run.Updated.After(time.Now().Add(time.Minute)) {
			return fmt.Errorf("%s: a run has the time of a worker: %s", f.name, line)
		}
		if run.Workflow == "wait" && run.Updated.Sub(run.Started) < 3*time.Second {
			return fmt.Errorf("%s: a wait was too short: %s", f.name, line)
		}
		if run.Workflow == "tick" {
			ticks++
		}
	}
	if ticks == 0 || ticks > most {
		return fmt.Errorf("%s: the schedule has fired %d times; up to %d times have passed", f.name, ticks, most)
	}
	return nil
}
