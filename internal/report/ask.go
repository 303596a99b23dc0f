package report

import (
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/shell"
)

// Ask has the words for what a run asks for, and the commands that answer it.
type Ask struct {
	Waiting string // what the run does
	Aim     string // what the command is for
	Command string
	Other   string // the opposite of Command, if there is one
	Remark  string // on other forms of Command
}

// asks are the words for each kind. Commands have places for the run, and for the step or the event.
var asks = map[journal.AskKind]Ask{
	journal.AskApproval:     approval,
	journal.AskToolApproval: approval,
	journal.AskEvent:        {Waiting: "waiting for event", Aim: "To send the event", Command: "espalier signal %s %s"},
	journal.AskInput: {
		Waiting: "waiting for a reply", Aim: "To reply", Command: "espalier signal %s %s --text TEXT",
	},
	journal.AskOutcome: {
		Waiting: "waiting for a decision", Aim: "To decide", Command: "espalier resume %s --decide %s",
		Remark: "(instead of rerun: skip, fail or result=JSON)",
	},
}

var approval = Ask{
	Waiting: "waiting for approval", Aim: "To decide",
	Command: "espalier approve %s %s", Other: "espalier reject %s %s",
}

// AskOf returns the words for what a run asks for at a step, which commands about its only gate need not name. event is
// the event that it waits for, if any, with the options that select its receiver.
func AskOf(kind journal.AskKind, run journal.RunID, step, event string) Ask {
	a, target := asks[kind], event
	switch kind {
	case journal.AskApproval, journal.AskToolApproval:
		if target = step; step != "" {
			target = shell.Word(step)
		}
	case journal.AskOutcome:
		target = shell.Word(step + "=" + string(journal.AnswerRerun))
	}
	for _, command := range []*string{&a.Command, &a.Other} {
		if *command != "" {
			*command = strings.TrimSpace(fmt.Sprintf(*command, run.Short(), target))
		}
	}
	return a
}
