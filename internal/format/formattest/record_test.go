package formattest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/graph"
	"github.com/espalier-run/espalier/internal/journal"
)

// record formats the relevant events, one per line. The comment of the archive may request
// more: "show reservations", "show files", or "show picture" for the states and edges in the
// picture of the run; or less: "leave out times", because the duration of commands varies.
func (h *happened) record(t *testing.T, show string) string {
	t.Helper()
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, p := range h.problems {
		if p.Severity == diag.Error {
			say("%s %s: %s", p.Severity, p.Code, p.Message)
		}
	}
	if h.problems.Errors() {
		return b.String()
	}
	var last journal.Millis
	for i, e := range h.events {
		for _, answer := range h.answers[i] {
			say("%s", answer)
		}
		line := line(e.Fact)
		if _, ok := e.Fact.(journal.Reserved); ok && !strings.Contains(show, "show reservations") {
			line = ""
		}
		if line == "" {
			continue
		}
		if last != 0 && e.At != last && !strings.Contains(show, "leave out times") {
			say("… %s", (time.Duration(e.At-last) * time.Millisecond).String())
		}
		last = e.At
		if strings.Contains(show, "leave out times") {
			line = decidedAt.ReplaceAllString(line, `"decided_at":"…"`)
		}
		say("%s", line)
	}
	for _, answer := range h.answers[len(h.events)] {
		say("%s", answer)
	}
	if h.state.Finished == nil {
		say("rests: %s, %s", h.entry.Status, h.entry.Waiting)
	}
	for _, c := range h.children {
		say("child run of %s: %s %s", c.Name, c.Status, c.Outcome)
	}
	h.checkMoves(t)
	if strings.Contains(show, "show picture") {
		for _, line := range h.picture() {
			say("%s", line)
		}
	}
	if strings.Contains(show, "show files") {
		for _, f := range h.made(t) {
			say("%s", f)
		}
	}
	return b.String()
}

// picture returns the states and taken edges of the run's picture.
func (h *happened) picture() []string {
	g := graph.Build(h.program, graph.Options{})
	tracker := g.Track(h.program, "")
	for _, e := range h.events {
		tracker.Apply(e)
	}
	var out []string
	for _, n := range g.Nodes {
		if n.State != "" {
			out = append(out, fmt.Sprintf("picture: %s is %s", n.ID, n.State))
		}
	}
	for _, n := range g.Groups {
		if n.State != "" {
			out = append(out, fmt.Sprintf("picture: %s is %s", n.ID, n.State))
		}
	}
	for _, e := range g.Edges {
		if e.Taken {
			out = append(out, fmt.Sprintf("picture: %s → %s taken (%s)", e.From, e.To, e.Kind))
		}
	}
	return out
}

// checkMoves reports every move of the run from one step of the body to another that has no edge
// in the picture of the workflow.
func (h *happened) checkMoves(t *testing.T) {
	t.Helper()
	g := graph.Build(h.program, graph.Options{})
	ids := map[string]string{}
	for _, n := range g.Nodes {
		if n.Kind != graph.NodeArtifact {
			ids[n.Step] = n.ID
		}
	}
	for _, n := range g.Groups {
		ids[n.Step] = n.ID
	}
	edges := map[[2]string]bool{}
	for _, e := range g.Edges {
		edges[[2]string{e.From, e.To}] = true
	}
	var last journal.Place
	for _, e := range h.events {
		var at journal.Place
		switch x := e.Fact.(type) {
		case journal.StepEntered:
			at = x.Place
		case journal.StepLeft:
			at = x.Place
		case journal.TaskStarted:
			at = x.Place
		case journal.GateOpened:
			at = x.Place
		case journal.Rewound:
			last = journal.Place{}
		}
		if at.Step == "" || at.Frame != "" || at == last {
			continue
		}
		if last.Step != "" && !edges[[2]string{ids[last.Step], ids[at.Step]}] {
			t.Errorf("the picture has no edge from %s to %s, which the run took", last.Step, at.Step)
		}
		last = at
	}
}

// line formats one fact; empty if it adds nothing.
func line(fact journal.Fact) string {
	switch x := fact.(type) {
	case journal.RunFinished:
		return join("run", string(x.Outcome), x.Reason, quote(x.Error), "last="+x.Last, value(x.Output))
	case journal.FrameOpened:
		if x.Child != "" {
			return join(x.Frame, "opens child run of", x.Name)
		}
	case journal.FrameClosed:
		return join(x.Frame, "closes", string(x.Outcome), cmp.Or(x.Reason, string(x.Class)), quote(x.Error))
	case journal.StepEntered:
		within := ""
		if x.Limit > 0 {
			within = "within " + (time.Duration(x.Limit) * time.Millisecond).String()
		}
		return join(x.Key(), "enters", x.Mode, fallbackOf(x.For), within)
	case journal.StepLeft:
		return join(x.Key(), string(x.Outcome), string(x.Class), x.Reason, quote(x.Error), fallbackOf(x.For),
			value(x.Value), writes(x.Writes))
	case journal.TaskStarted:
		missing := ""
		if len(x.MissingReads) > 0 {
			missing = "missing " + strings.Join(x.MissingReads, ", ")
		}
		return join(x.TaskID.Key(), "starts", x.Kind, fallbackOf(x.For), missing)
	case journal.TaskEnded:
		again := ""
		if !x.Final {
			again = "not the last attempt"
		}
		return join(x.TaskID.Key(), string(x.Outcome), string(x.Class), quote(x.Error), again,
			value(x.Value), writes(x.Writes))
	case journal.TaskNoted:
		if slices.Contains([]string{journal.NoteMerge, journal.NoteDone, journal.NoteMissingFile}, x.Kind) {
			return join(x.TaskID.Key(), "notes", x.Kind, string(x.Data))
		}
		if x.Kind == journal.NoteToolCall || x.Kind == journal.NoteToolResult {
			var use journal.ToolUse
			if json.Unmarshal(x.Data, &use) == nil {
				return join(x.TaskID.Key(), strings.ReplaceAll(x.Kind, "_", " "), use.Name, string(use.Input),
					string(use.Output), quote(use.Error))
			}
		}
	case journal.Routed:
		var tried []string
		for _, one := range x.Tried {
			tried = append(tried, fmt.Sprintf("%d:%t", one.Edge, one.Held))
		}
		return join(x.Key(), "ways on", strings.Join(tried, " "))
	case journal.TaskLost:
		return join(x.TaskID.Key(), "is lost", string(x.Policy))
	case journal.Reserved:
		return join(x.TaskID.Key(), "reserves", amount(x.Amount))
	case journal.BudgetWait:
		return join(x.TaskID.Key(), "waits for", x.Budget)
	case journal.BudgetRefused:
		return join(x.TaskID.Key(), "is refused", x.Budget)
	case journal.BudgetRaised:
		return join("raised", x.Budget, fmt.Sprint(x.To), by(x.By))
	case journal.RetrySet:
		return join(x.TaskID.Key(), "is planned")
	case journal.TimerFired:
		return join(x.Key(), "timer", x.What)
	case journal.GateOpened:
		return join(x.Key(), "asks", string(x.Kind), x.Event, fallbackOf(x.For))
	case journal.GateApproved:
		return join(x.Key(), "approved", string(x.Method), by(x.By), strings.Join(x.Roles, ","), quote(x.Note))
	case journal.GateDecided:
		notify := ""
		if x.Notify {
			notify = "notifies"
		}
		return join(x.Key(), "decided", string(x.Outcome), string(x.Method), cmp.Or(x.Reason, string(x.Class)),
			by(x.By), quote(x.Note), quote(x.Error), value(x.Value), writes(x.Writes), notify)
	case journal.SignalReceived:
		return join("signalled", x.Event, by(x.By))
	case journal.InputRefused:
		return join("refused", x.Input, x.Code, quote(x.Why))
	case journal.CancelRequested:
		return join(x.Frame, "cancel requested", x.Reason, by(x.By))
	case journal.Paused:
		return join("paused", by(x.By))
	case journal.Continued:
		return join("continued", by(x.By))
	case journal.StateEdited:
		return join("edited", x.Path, value(x.Value), by(x.By))
	}
	return ""
}

func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

func quote(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%q", s)
}

func fallbackOf(s string) string {
	if s == "" {
		return ""
	}
	return "for " + s
}

func by(a journal.Actor) string {
	switch {
	case a == journal.Actor{}:
		return ""
	case a.As != "":
		return "by " + a.User + " as " + a.As
	}
	return "by " + a.User
}

func value(v journal.Value) string {
	if v.Hash != "" {
		return fmt.Sprintf("(%d bytes)", v.Size)
	}
	return string(v.JSON)
}

func writes(list []journal.Write) string {
	var out []string
	for _, w := range list {
		out = append(out, w.Path)
	}
	if len(out) == 0 {
		return ""
	}
	return "→ " + strings.Join(out, ", ")
}

func amount(u journal.Usage) string {
	var out []string
	for _, one := range []struct {
		n    int64
		name string
	}{
		{u.Steps, "steps"},
		{u.ModelCalls, "model calls"},
		{u.ToolCalls, "tool calls"},
		{u.OutputTokens, "output tokens"},
	} {
		switch {
		case one.n > 1000 && one.n%1000 != 0 &&
			one.n != 4096: // the remaining amount, which depends on the exact prompt
			out = append(out, "fewer "+one.name)
		case one.n > 0:
			out = append(out, fmt.Sprintf("%d %s", one.n, one.name))
		}
	}
	return strings.Join(out, ", ")
}
