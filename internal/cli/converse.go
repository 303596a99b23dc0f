package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/journal"
)

// converse drives a run like drive, and answers it while it waits. Steps that wait for text read lines of stdin; an
// empty line is an empty text, and at the end of stdin the run waits. On a terminal, gates ask for a decision.
func (a *invocation) converse(j *app.Journal, id journal.RunID, begin func(ctx context.Context) error) error {
	a.showID(id)
	run, err := a.driveToRest(j, id, begin)
	return a.answerOrReport(j, id, run, err)
}

// answerOrReport answers a run at rest that waits for something that the user can answer here, until the run needs no
// more answers. Then it reports the state of the run. An answer that came too late, because another process has decided
// meanwhile, is reported and the loop continues. A nil run means that a signal has ended driving and everything is
// reported.
func (a *invocation) answerOrReport(j *app.Journal, id journal.RunID, run *app.Run, err error) error {
	for {
		if err != nil || run == nil {
			return err
		}
		var answer app.Message
		answer, err = a.answer(run)
		if errors.Is(err, errSignal) {
			return a.stoppedWaiting(id)
		}
		if err != nil {
			return err
		}
		if answer == nil && a.wait && (run.Status == journal.Waiting || run.Status == journal.Sleeping) {
			if err := a.awaitMove(run); errors.Is(err, errSignal) {
				return a.stoppedWaiting(id)
			} else if err != nil {
				return err
			}
			run, err = a.driveToRest(j, id, func(context.Context) error { return nil })
			continue
		}
		if answer == nil {
			return a.reportRest(run)
		}
		run, err = a.driveToRest(j, id, func(ctx context.Context) error {
			_, err := a.runs().Send(ctx, id, actor(""), answer)
			if known, ok := errors.AsType[*app.Error](err); ok && known.Reason == app.AlreadyDecided {
				a.note("Your answer was not used: %s.", known.Message)
				return nil
			}
			return err
		})
	}
}

// stoppedWaiting reports the state of a run after a signal at a prompt, or while the command waited with the run.
func (a *invocation) stoppedWaiting(id journal.RunID) error {
	err := a.interrupted(id, nil)
	var end *failure
	if errors.As(err, &end) && end.code == exitWaiting {
		end.code = ExitInterrupted
	}
	return err
}

// answer returns the answer of the user to the first gate of a run that they can answer here, or nil. Approvals of
// --auto-approve are marked as automated in the records.
func (a *invocation) answer(run *app.Run) (app.Message, error) {
	if run.Status != journal.Waiting {
		return nil, nil
	}
	// A person who has seen the question may interrupt it.
	_, release := a.Signals.handle()
	defer release()
	status, err := a.runs().Status(context.Background(), run.ID)
	if err != nil {
		return nil, err
	}
	for i := range status.Gates {
		g := &status.Gates[i]
		switch {
		case g.Kind == journal.AskInput:
			return a.reply(status, g)
		case g.Kind == journal.AskOutcome && a.interactive():
			return a.resolve(status, g)
		case !g.Kind.Approves():
		case a.autoApprove:
			return app.Approve{Step: g.Step, Digest: g.Digest, Automated: true}, nil
		case a.interactive():
			fmt.Fprintln(a.stderr)
			return a.decide(status, g, "")
		}
	}
	return nil, nil
}

// interactive reports whether the user can be asked: stdin and stderr are terminals, and --json is not set.
func (a *invocation) interactive() bool {
	return !a.json && a.IsTerminal(a.Stderr) && a.stdinIsTerminal()
}

// stdinIsTerminal reports whether stdin is a terminal.
func (a *invocation) stdinIsTerminal() bool { return isTerminal(a.Stdin) }

// reply shows the latest reply of a conversation and reads the person's text.
func (a *invocation) reply(s *app.Status, g *app.Gate) (app.Message, error) {
	if !a.json {
		if len(s.Gates) > 1 {
			a.note("\n%s:", s.GateName(g))
		} else {
			a.note("")
		}
		for _, name := range g.Names() {
			a.noteLines(g.Shows[name])
		}
		a.note("")
	}
	text, err := a.ask("> ")
	if err != nil || text == "" && a.stdinEnded && !a.autoApprove {
		return nil, err // the end of stdin is no answer
	}
	data, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	return app.Signal{Event: g.Event, Step: g.Step, Data: data}, nil
}

// isYes reports whether an answer agrees. Anything else does not.
func isYes(answer string) bool {
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}

// askReason asks for the reason of a rejection.
const askReason = "Reason (optional): "

// decide shows what a gate shows, and asks for a decision, with a note unless there is one. It returns nil if the
// person leaves it for later.
func (a *invocation) decide(s *app.Status, g *app.Gate, given string) (app.Message, error) {
	writeGate(a.stderr, s, g)
	for {
		answer, err := a.ask("Approve? [y]es, [n]o, or Enter to decide later: ")
		if err != nil {
			return nil, err
		}
		word, note, _ := strings.Cut(answer, " ")
		note = cmp.Or(strings.TrimSpace(note), given)
		switch strings.ToLower(strings.TrimRight(word, ",:")) {
		case "":
			return nil, nil
		case "y", "yes", "approve":
			message := app.Approve{Step: g.Step, Digest: g.Digest, Note: note}
			if len(g.Shows[app.AnswerSchema]) > 0 {
				value, err := a.ask("Answer, as JSON that fits answer_schema: ")
				if message.Value = json.RawMessage(value); err != nil {
					return nil, err
				}
				return message, nil
			}
			return message, nil
		case "n", "no", "reject":
			if note == "" {
				if note, err = a.ask(askReason); err != nil {
					return nil, err
				}
			}
			return app.Reject{Step: g.Step, Digest: g.Digest, Note: note}, nil
		}
		a.note(
			"%q is not an answer. Type y to approve or n to reject, with a note after it if you like, or press Enter.",
			answer)
	}
}

// resolve asks what to do about a step whose outcome is unknown. It returns nil if the person leaves it for later.
func (a *invocation) resolve(s *app.Status, g *app.Gate) (app.Message, error) {
	name := s.GateName(g)
	a.note("\nIt is unknown whether %s was done.", name)
	if g.Doing != "" {
		a.note("  It was running %s", diag.Printable(g.Doing))
	}
	a.note("If you know its result: espalier resume %s --decide %s", s.ID.Short(), shellWord(name+"=result=JSON"))
	for {
		text, err := a.ask("Type rerun, skip or fail, or press Enter to decide later: ")
		answer := journal.Answer(strings.ToLower(text))
		switch {
		case err != nil || answer == "":
			return nil, err
		case answer != journal.AnswerResult && slices.Contains(journal.OutcomeAnswers, answer):
			return app.Resolve{Step: g.Step, Answer: answer}, nil
		}
		a.note("%q is not an answer.", answer)
	}
}

// noteLines prints a value for a person, a text with its lines.
func (a *invocation) noteLines(value json.RawMessage) {
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		fmt.Fprintln(a.stderr, diag.Printable(strings.TrimRight(line, "\r\n"))) // not wrapped: it may be code
	}
}

// errSignal reports that a signal arrived while a person was asked.
var errSignal = errors.New("interrupted")

// ask reads one line of stdin, without the spaces around it. On a terminal, it writes a prompt first. The end of stdin
// is an empty line, and sets stdinEnded. After a signal, the goroutine that reads stays blocked until the process ends:
// reading a terminal cannot be canceled. So nothing may be asked after errSignal.
func (a *invocation) ask(prompt string) (string, error) {
	signals, release := a.Signals.handle()
	defer release()
	if !a.json && a.stdinIsTerminal() {
		_, _ = io.WriteString(a.stderr, a.wrapErr(prompt)) // a terminal that is gone ends stdin, too
	}
	if a.lines == nil {
		a.lines = bufio.NewReader(cmp.Or[io.Reader](a.Stdin, strings.NewReader("")))
	}
	read := make(chan string, 1)
	go func() {
		line, err := a.lines.ReadString('\n')
		a.stdinEnded = err != nil
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		read <- line
	}()
	select {
	case line := <-read:
		if !strings.HasSuffix(line, "\n") && !a.json && a.stdinIsTerminal() {
			a.note("") // the end of the input leaves the cursor behind the prompt
		}
		return strings.TrimSpace(line), nil
	case <-signals:
		if !a.json && a.stdinIsTerminal() {
			a.note("") // the terminal shows ^C behind the prompt
		}
		return "", errSignal
	}
}

// moveInterval is how often a waiting run is looked at.
const moveInterval = 200 * time.Millisecond

// awaitMove returns when another process has moved a run that waits: when the run has another last fact.
func (a *invocation) awaitMove(run *app.Run) error {
	signals, release := a.Signals.handle()
	defer release()
	tick := time.NewTicker(moveInterval)
	defer tick.Stop()
	for {
		select {
		case <-signals:
			return errSignal
		case <-tick.C:
		}
		now, err := a.runs().Get(context.Background(), run.ID)
		if err != nil || now.Seq != run.Seq {
			return err
		}
	}
}
