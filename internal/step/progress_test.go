package step_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/tool"
)

// progressTool is a tool that reports progress.
type progressTool func(report func(tool.Progress))

func (progressTool) Spec() tool.Spec               { return tool.Spec{Name: "slow", Timeout: time.Hour} }
func (t progressTool) Tool(string) tool.Tool       { return t }
func (progressTool) Names(pattern string) []string { return nil }

func (t progressTool) Call(_ context.Context, call tool.Call) (tool.Result, error) {
	t(call.Progress)
	return tool.Result{}, nil
}

// collectProgress calls the tool and returns the recorded progress of the call.
func collectProgress(t *testing.T, slow progressTool, after ...func()) (out []string) {
	synctest.Test(t, func(t *testing.T) {
		log := &steptest.Log{}
		job := &step.Job{Workflow: &ir.Program{Tools: ir.Tools{AllowAll: true}}, Step: &ir.Step{}, Host: step.Host{
			Log: log, Tools: slow,
		}}
		if _, err := job.UseTool(t.Context(), step.ToolCall{Name: "slow", CallID: "c", N: 1}); err != nil {
			t.Fatal(err)
		}
		for _, do := range after {
			do()
		}
		for _, n := range log.Notes {
			var p journal.Progress
			if n.Kind == journal.NoteProgress && json.Unmarshal(n.Data, &p) == nil {
				out = append(out, fmt.Sprintf("%s %s %g/%g %s", p.Name, p.CallID, p.Done, p.Total, p.Message))
			}
		}
	})
	return out
}

// The first progress is noted at once, later ones at increasing intervals.
func TestProgressNotesAreRateLimited(t *testing.T) {
	got := collectProgress(t, func(report func(tool.Progress)) {
		for i := range 25 {
			report(tool.Progress{Done: float64(i), Total: 25, Message: "at it"})
			time.Sleep(110 * time.Millisecond)
		}
	})
	if want := "slow c 0/25 at it,slow c 9/25 at it,slow c 18/25 at it"; strings.Join(got, ",") != want {
		t.Errorf("noted: %q", got)
	}
	hour := collectProgress(t, func(report func(tool.Progress)) {
		for i := range 3600 {
			report(tool.Progress{Done: float64(i)})
			time.Sleep(time.Second)
		}
	})
	if len(hour) < 200 || len(hour) > 400 {
		t.Errorf("an hour leaves %d notes", len(hour))
	}
	long := collectProgress(t, func(report func(tool.Progress)) {
		report(tool.Progress{Message: strings.Repeat("ß", 10_000)})
		time.Sleep(time.Second)
	})
	if len(long) != 1 || len([]rune(long[0])) > 600 {
		t.Errorf("%d notes, %.700q", len(long), long)
	}
}

// A tool that reports faster than notes are written is not delayed, and reports after its end are dropped.
func TestProgressNeverBlocksTheTool(t *testing.T) {
	var late func(tool.Progress)
	got := collectProgress(t, func(report func(tool.Progress)) {
		late = report
		for i := range 100_000 {
			report(tool.Progress{Done: float64(i)})
		}
	}, func() { late(tool.Progress{}) }, func() { late(tool.Progress{}) })
	if len(got) > 1 {
		t.Errorf("noted: %q", got)
	}
}
