package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/notify"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/report"
)

const (
	// outboxPrefix precedes the keys of the registers of messages to send.
	outboxPrefix = "outbox/"
	// notifyCursor is the register with the position up to which the journal has been read for notifications.
	notifyCursor = "notify/position"
	// sendLease is how long a process may take to send a message.
	sendLease = time.Minute
	// maxAttempts is how often a message is tried before it is given up, which takes about a day. Pauses are shifted by
	// the number of attempts, so more than 33 would overflow a duration.
	maxAttempts = 24
	// maxPause is the longest pause between two attempts.
	maxPause = 2 * time.Hour
)

// outgoing is a message in the outbox.
type outgoing struct {
	notify.Message
	Target   string    `json:"target"` // name in the configuration
	Attempts int       `json:"attempts,omitempty"`
	Next     time.Time `json:"next,omitzero"` // when to try again
}

// serverURL is an address under which people reach the server of the project.
type serverURL struct {
	address    string
	configured bool // the operator has set it; otherwise it is the address that the server listens on
}

// SetPublicURL sets the address under which people reach the server of the project, for links in notifications.
// configured reports that the operator has set it, as for a server behind a proxy.
func (a *App) SetPublicURL(url string, configured bool) {
	a.publicURL.Store(&serverURL{url, configured})
}

// PublicURL returns the address that the operator has set for the server of the project; empty if there is none.
func (a *App) PublicURL() string {
	if public := a.publicURL.Load(); public != nil && public.configured {
		return public.address
	}
	return ""
}

// runURL returns the address of the page of a run; empty if there is no server.
func (a *App) runURL(id journal.RunID) string {
	base := a.publicURL.Load()
	if base == nil || id == "" {
		return ""
	}
	return base.address + "/runs/" + string(id)
}

// notifier puts messages into the outbox and sends them.
type notifier struct {
	app *App
	env *environment
}

// enqueue puts a message into the outbox, once for each target that wants it. The id makes repeating it harmless.
func (n *notifier) enqueue(ctx context.Context, m notify.Message) error {
	m.Text = n.app.Redact(m.Text)
	for i := range n.env.settings.Notifications {
		target := &n.env.settings.Notifications[i]
		if target.Is.Unapproved || !target.Is.Wants(journal.Attention(m.Kind), m.Workflow) {
			continue
		}
		r := journal.Register{Key: outboxPrefix + target.Name.Value + "/" + m.ID}
		// Version 0 creates the register. A conflict means that it exists: the message is in the outbox already.
		_, err := journal.SaveJSON(ctx, n.env.Store, r, outgoing{Message: m, Target: target.Name.Value})
		if err != nil && !errors.Is(err, journal.ErrConflict) {
			return err
		}
	}
	return nil
}

// collect reads the journal from where the last process has stopped, and puts messages into the outbox. The position
// is saved afterwards: a crash in between repeats messages with the same ids.
func (n *notifier) collect(ctx context.Context) error {
	cursor, err := n.env.Store.Load(ctx, notifyCursor)
	if err != nil {
		return err
	}
	var after journal.Pos
	if cursor.Version == 0 {
		if after, err = n.env.Store.Last(ctx); err != nil { // what happened before is not news
			return err
		}
	} else {
		at, err := strconv.ParseInt(string(cursor.Data), 10, 64)
		if err != nil {
			return err
		}
		after = journal.Pos(at)
	}
	last := after
	for appended, err := range n.env.Shown.Tail(ctx, after) {
		if err != nil {
			return err
		}
		for i := range appended.Events {
			if err := n.fact(ctx, appended.Run, &appended.Events[i]); err != nil {
				return err
			}
		}
		last = appended.Pos
	}
	if cursor.Version != 0 && last == after {
		return nil
	}
	cursor.Data = strconv.AppendInt(nil, int64(last), 10)
	if _, err = n.env.Store.Save(ctx, cursor); errors.Is(err, journal.ErrConflict) {
		return nil // another process has read as far
	}
	return err
}

// fact puts a message into the outbox if a fact needs attention.
func (n *notifier) fact(ctx context.Context, run journal.RunID, e *journal.Event) error {
	kind, text := report.NeedsAttention(e.Fact)
	switch kind {
	case "":
		return nil
	case journal.AttentionReply:
		at, _ := journal.PlaceOf(e.Fact)
		if waits, err := n.waitsForText(ctx, run, at); err != nil || !waits {
			return err
		}
		kind = journal.AttentionWaiting
	}
	entry, err := n.env.Store.Entry(ctx, run)
	if errors.Is(err, journal.ErrUnknownRun) {
		return nil // it was removed
	}
	if err != nil {
		return err
	}
	return n.enqueue(ctx, notify.Message{
		ID: fmt.Sprintf("%s.%d", run, e.Seq), Kind: string(kind), Time: e.At.Time(), Workflow: entry.Name,
		Run: string(run), Text: fmt.Sprintf("Run %s of %s %s", run.Short(), entry.Name, text), URL: n.app.runURL(run),
	})
}

// waitsForText reports whether a run waits for the text of a person at a place. It does not if the text has arrived.
func (n *notifier) waitsForText(ctx context.Context, run journal.RunID, at journal.Place) (bool, error) {
	state, program, _, err := n.env.Engine.Load(ctx, run)
	if errors.Is(err, journal.ErrUnknownRun) {
		return false, nil // it was removed
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(state.OpenGates(), func(f *plan.Frame) bool {
		gate, _ := state.StepOf(program, f).Action.(ir.Gate)
		return f.Place() == at && f.Gate.Kind.Asks(gate.Text) == journal.AskInput
	}), nil
}

// missed puts a message about firings that started no run into the outbox.
func (n *notifier) missed(ctx context.Context, d *workflowTrigger, at time.Time, reason string) error {
	return n.enqueue(ctx, notify.Message{
		ID: fmt.Sprintf("%s.%d", d.id, at.Unix()), Kind: string(journal.AttentionMissed),
		Time: n.env.now().UTC(), Workflow: d.workflow,
		Text: fmt.Sprintf("The trigger %s started no run at %s: %s", d.id, at.Format(time.RFC3339), reason),
	})
}

// send sends the messages that are due. A message stays in the outbox until it was sent, so that it arrives at least
// once.
func (n *notifier) send(ctx context.Context) error {
	all, err := n.env.Store.List(ctx, outboxPrefix)
	if err != nil {
		return err
	}
	for _, r := range all {
		var m outgoing
		if err := r.Decode(&m); err != nil {
			return err
		}
		now := n.env.now()
		if m.Next.After(now) {
			continue
		}
		// Saving the attempt is the claim: only the process whose save succeeds sends. If it dies, the message is due
		// again after the lease.
		m.Attempts++
		m.Next = now.Add(sendLease)
		if r.Version, err = journal.SaveJSON(ctx, n.env.Store, r, &m); errors.Is(err, journal.ErrConflict) {
			continue // another process sends it
		} else if err != nil {
			return err
		}
		r.Data = nil // it was sent, or is given up
		failed := n.deliver(ctx, &m)
		switch {
		case failed == nil:
			_, err = n.env.Store.Save(ctx, r)
		case m.Attempts >= maxAttempts:
			n.app.o.Log.Error("a notification was given up", "id", m.ID, "target", m.Target,
				"error", n.app.Redact(failed.Error()))
			_, err = n.env.Store.Save(ctx, r)
		default:
			n.app.o.Log.Warn("a notification was not sent", "id", m.ID, "target", m.Target,
				"error", n.app.Redact(failed.Error()))
			// The pause doubles from two seconds to maxPause.
			m.Next = now.Add(min(time.Second<<m.Attempts, maxPause))
			_, err = journal.SaveJSON(ctx, n.env.Store, r, &m)
		}
		if err != nil && !errors.Is(err, journal.ErrConflict) {
			return err
		}
	}
	return nil
}

// deliver sends a message to its target, using the current configuration: the address and its approval may have changed
// since the message was put into the outbox.
func (n *notifier) deliver(ctx context.Context, m *outgoing) error {
	for i := range n.env.settings.Notifications {
		one := &n.env.settings.Notifications[i]
		if one.Name.Value != m.Target || one.Is.Unapproved {
			continue
		}
		target := notify.Target{Webhook: one.Is.Webhook.Value}
		var err error
		if target.URL, err = n.env.secretValue(ctx, one.Is.URL.Value); err != nil {
			return err
		}
		if target.Secret, err = n.env.secretValue(ctx, one.Is.Secret.Value); err != nil {
			return err
		}
		return target.Send(ctx, m.Message)
	}
	return errors.New("the configuration has no such target")
}

// serve collects and sends messages until the context ends.
func (n *notifier) serve(ctx context.Context) {
	if len(n.env.settings.Notifications) == 0 {
		return
	}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for ctx.Err() == nil {
		changed := n.env.Store.Changed() // before reading, so that no commit is missed
		if err := errors.Join(n.collect(ctx), n.send(ctx)); err != nil && ctx.Err() == nil {
			n.app.o.Log.Error("notifications", "error", err)
		}
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
		}
	}
}
