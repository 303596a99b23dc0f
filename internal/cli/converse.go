package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// converse drives a run like drive, and answers steps that wait for text with lines of stdin. An empty line and the
// end of stdin are an empty text.
func (a *invocation) converse(j *app.Journal, id journal.RunID, begin func(ctx context.Context) error) error {
	run, err := a.driveToRest(j, id, begin)
	return a.reply(j, id, run, err)
}

// reply answers a run at rest that waits for text, and reports the state of any other run.
func (a *invocation) reply(j *app.Journal, id journal.RunID, run *app.Run, err error) error {
	for {
		if err != nil || run == nil {
			return err
		}
		gate, err := a.textGate(run)
		if err != nil {
			return err
		}
		if gate == nil {
			return a.reportRun(run)
		}
		text, ok := a.readReply(gate)
		if !ok {
			return a.interrupted(id, nil)
		}
		data, err := json.Marshal(text)
		if err != nil {
			return err
		}
		run, err = a.driveToRest(j, id, func(ctx context.Context) error {
			_, err := a.runs().Send(ctx, id, actor(""), app.Signal{Event: gate.Event, Data: data})
			return err
		})
	}
}

// textGate returns the first gate of a waiting run that a person's text opens, or nil.
func (a *invocation) textGate(run *app.Run) (*app.Gate, error) {
	if run.Status != journal.Waiting {
		return nil, nil
	}
	status, err := a.runs().Status(context.Background(), run.ID)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(status.Gates, func(g app.Gate) bool { return g.Text }); i >= 0 {
		return &status.Gates[i], nil
	}
	return nil, nil
}

// readReply shows what a step has to say and reads one line of stdin. It returns false after a signal.
func (a *invocation) readReply(g *app.Gate) (text string, ok bool) {
	signals, release := a.Signals.handle()
	defer release()
	if !a.json {
		for _, name := range slices.Sorted(maps.Keys(g.Shows)) {
			var shown string
			if json.Unmarshal(g.Shows[name], &shown) != nil {
				shown = string(g.Shows[name])
			}
			a.note("\n%s\n", strings.TrimSpace(shown))
		}
		if f, isFile := a.Stdin.(*os.File); isFile && term.IsTerminal(int(f.Fd())) {
			_, _ = io.WriteString(a.stderr, "> ") // a terminal that is gone ends stdin, too
		}
	}
	if a.lines == nil {
		a.lines = bufio.NewReader(cmp.Or[io.Reader](a.Stdin, strings.NewReader("")))
	}
	read := make(chan string, 1)
	go func() {
		line, err := a.lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		read <- line
	}()
	select {
	case line := <-read:
		return strings.TrimSpace(line), true
	case <-signals:
		return "", false
	}
}
