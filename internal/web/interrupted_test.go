package web_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/source"
)

// An attempt whose process was killed is interrupted, also in a run that has finished, and pages say how a person has
// resolved the step.
func TestPagesShowInterruptedAttempts(t *testing.T) {
	dir := t.TempDir()
	s := newSite(t, map[string]string{"leave.yaml": leave(dir, "Sends it.")})
	s.stop()
	id := s.abandon(dir)
	s.start()
	s.rest(id)
	by := journal.Actor{User: "ann"}
	if _, err := s.app.Send(t.Context(), id, by, app.Resolve{Step: "send", Answer: journal.AnswerRerun}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.rest(id)
	c := s.client()
	text := func(path string) string {
		_, page := s.get(c, path)
		return strings.Join(strings.Fields(tags.ReplaceAllString(page, " ")), " ")
	}
	run := text("/runs/" + string(id) + "?step=send")
	attempts, _, _ := strings.Cut(run[strings.Index(run, "Ended with"):], "Resolved by")
	if !strings.Contains(attempts, "Interrupted") || strings.Contains(attempts, "Running") {
		t.Errorf("the attempts are %q, want one that is interrupted and none that runs", attempts)
	}
	if want := "Resolved by ann: rerun"; !strings.Contains(run, want) {
		t.Errorf("the page of the run lacks %q", want)
	}
	if want := "Resolved send: rerun"; !strings.Contains(text("/inbox"), want) {
		t.Errorf("the inbox lacks %q", want)
	}
}

// A step is labeled as scripted or simulated only if it is: the commands of a run with a script can be real. A run that
// has finished has no steps left, although it did not take all branches.
func TestPanelsLabelOnlyWhatIsNotReal(t *testing.T) {
	s := newSite(t, map[string]string{
		"tell.yaml": "name: tell\nstates:\n  initial: talk\n  talk: {type: step, command: echo hi, on_success: done, " +
			"on_failure: broken}\n  done: {type: terminal}\n  broken: {type: terminal, status: failure}\n",
	})
	c := s.client()
	for _, simulated := range []bool{false, true} {
		how := app.PrepareRequest{
			Options: app.RunOptions{AllowShell: true}, Script: source.NewFile("replies.yaml", "replies: []\n"),
		}
		if simulated {
			how = app.PrepareRequest{Options: app.RunOptions{Simulate: true}}
		}
		id := s.prepare("tell", how)
		s.rest(id)
		_, page := s.get(c, "/runs/"+string(id)+"?step=talk")
		_, foot, _ := strings.Cut(page, "No tokens used")
		foot, _, _ = strings.Cut(foot, "</div>")
		if strings.Contains(foot, `<span class="tag made">`) != simulated {
			t.Errorf("simulated %v: the panel ends with %q", simulated, foot)
		}
		if !strings.Contains(page, ">2 steps done<") {
			t.Error("the page does not say how many steps were done")
		}
	}
}
