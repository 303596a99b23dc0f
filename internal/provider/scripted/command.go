package scripted

import "github.com/espalier-run/espalier/internal/provider"

// CommandAnswer is the scripted result of a command, which is used instead of running it.
type CommandAnswer struct {
	Text  string
	Exit  int  // the exit code
	Fails bool // the text is the error message
}

// Command returns the result of the best matching entry. Only entries that name the step, the agent or the key apply;
// the others are for models.
func (s *Script) Command(p provider.Purpose) (CommandAnswer, bool) {
	e := choose(s.replies, originOf(p), func(e *entry) bool {
		return !e.onlyCallsTools() && (e.when.step.Value != "" || e.when.agent.Value != "" || e.when.key.Value != "") &&
			(e.reply != nil || e.fail != nil || e.exit != nil)
	})
	switch {
	case e == nil:
		return CommandAnswer{}, false
	case e.fail != nil:
		return CommandAnswer{Text: e.fail.message, Exit: 1, Fails: true}, true
	}
	var out CommandAnswer
	if e.reply != nil {
		out.Text = *e.reply
	}
	if e.exit != nil {
		out.Exit = *e.exit
	}
	return out, true
}
