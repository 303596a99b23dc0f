package plan

import (
	"github.com/espalier-run/espalier/internal/journal"
)

// ask opens the gate before a tool call. The task has stopped; it keeps its place, its attempt and its notes.
func (d *decider) ask(x *Ask) {
	f := d.s.Frames[x.Work.Frame]
	work := x.Work
	opened := journal.GateOpened{
		Place: work.Place, Kind: journal.GateToolCall, Task: &work, Call: x.Call, For: f.For,
		Shows:  make(map[string]journal.Value, len(x.Shows)),
		Digest: journal.GateDigest(d.s.Run, x.Call, journal.GateToolCall, x.Shows),
	}
	for name, raw := range x.Shows {
		opened.Shows[name] = journal.Value{JSON: raw}
	}
	if x.Within > 0 {
		opened.Due = d.now + x.Within
	}
	d.fact(f, opened)
}

// The reasons of decided tool calls, for the records.
const (
	ReasonApproved = "approved"
	ReasonDenied   = "rejected"
	ReasonTimedOut = "timed out"
)

// answerCall records the answer to a tool call and lets the task continue. The answer is a note of the task, so it
// applies to this call only, and once.
func (d *decider) answerCall(f *Frame, answer journal.ToolAnswer, method journal.Method) {
	answer.Call = f.Gate.Call
	_, answer.Digest = d.s.Shown(d.p, f)
	reason := ReasonDenied
	switch {
	case answer.Approved:
		reason = ReasonApproved
	case answer.TimedOut:
		reason = ReasonTimedOut
	}
	work := f.Work()
	d.fact(f, journal.GateDecided{
		Place: f.Place(), Outcome: journal.OutcomeRerun, Method: method, Reason: reason, By: answer.By,
		Note: answer.Note, Digest: answer.Digest,
	})
	d.fact(f, journal.TaskNoted{TaskID: work, N: f.Notes + 1, Kind: journal.NoteToolAnswer, Data: mustJSON(answer)})
}
