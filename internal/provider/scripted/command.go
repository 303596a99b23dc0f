package scripted

import "github.com/espalier-run/espalier/internal/provider"

// CommandAnswer is what a script has for a command in place of running it.
type CommandAnswer struct {
	Text  string
	Fails bool // the text is why
}

// Command returns the answer of the entry that fits a command best. Only entries
// that name its step, its agent or its key count: the others are for models.
func (s *Script) Command(p provider.Purpose) (CommandAnswer, bool) {
	e := choose(s.replies, originOf(p), func(e *entry) bool {
		return !e.usedUp() && (e.when.step.Value != "" || e.when.agent.Value != "" || e.when.key.Value != "") && (e.reply != nil || e.fail != nil)
	})
	switch {
	case e == nil:
		return CommandAnswer{}, false
	case e.fail != nil:
		return CommandAnswer{Text: e.fail.message, Fails: true}, true
	}
	return CommandAnswer{Text: *e.reply}, true
}
