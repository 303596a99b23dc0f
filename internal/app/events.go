package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/trigger"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Incoming is an event from outside of the project. Source and ID identify it.
type Incoming struct {
	ID     string
	Source string
	Type   string
	Time   time.Time
	Data   json.RawMessage // JSON; nil if there is none
	// Token is the id of the token that the sender presents, for spending limits; empty if it presents none.
	Token string
}

// Delivery is the result of delivering an event: the runs that it started and woke.
type Delivery struct {
	Duplicate bool            `json:"duplicate,omitempty" doc:"The event was delivered before; the runs are those of then"`
	Started   []journal.RunID `json:"started,omitempty" doc:"Runs of the workflows that subscribe to the event"`
	Woken     []journal.RunID `json:"woken,omitempty" doc:"Runs that waited for the event"`
	Problems  []string        `json:"problems,omitempty" doc:"Why triggers started no run"`
}

// eventPrefix precedes the keys of the registers of events.
const eventPrefix = "event/"

// eventMemory is how long an event is remembered to recognize duplicates.
const eventMemory = 7 * 24 * time.Hour

// deliveryLease is how long a process may take to deliver an event.
const deliveryLease = 30 * time.Second

// eventState is the stored state of an event.
type eventState struct {
	At time.Time `json:"at"`
	// Until is when another process may complete the delivery, if this one has ended.
	Until time.Time `json:"until,omitzero"`
	// Woken are the runs that waited for the event when it arrived.
	Woken   []journal.RunID `json:"woken,omitempty"`
	Started []journal.RunID `json:"started,omitempty"`
	Done    bool            `json:"done,omitempty"`
}

// Receive delivers an event: it starts a run of every workflow that subscribes to its type, and wakes the runs that
// wait for it. An event that was delivered before changes nothing; one whose delivery was interrupted is completed.
func (a *App) Receive(ctx context.Context, e Incoming, by journal.Actor) (*Delivery, error) {
	env, all, err := a.known(ctx)
	if err != nil {
		return nil, err
	}
	subscribed := xslices.Filter(all, func(d *workflowTrigger) bool {
		return d.spec.Kind == ir.OnEvent && !d.spec.Off && d.spec.Event == e.Type
	})
	by.As = fmt.Sprintf("event %s from %s", e.ID, e.Source)
	return a.deliver(ctx, env, e, subscribed, true, by)
}

// ReceiveHook delivers a verified request to a webhook.
func (a *App) ReceiveHook(ctx context.Context, name string, e Incoming) (*Delivery, error) {
	env, all, err := a.known(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(d *workflowTrigger) bool {
		return d.spec.Kind == ir.OnWebhook && d.spec.Event == name
	})
	if at < 0 {
		return nil, fail(NotFound, NoTrigger, "the webhook %q is unknown or starts no workflow", name)
	}
	return a.deliver(ctx, env, e, all[at:at+1], false, triggerActor(all[at]))
}

// deliver starts the runs of triggers for an event and wakes the runs that wait for it, once. The ids of runs are
// derived from the event, and the runs to wake were stored when it was claimed, so that a delivery that was interrupted
// can be repeated.
func (a *App) deliver(
	ctx context.Context, env *environment, e Incoming, triggers []*workflowTrigger, wake bool, by journal.Actor,
) (_ *Delivery, err error) {
	state, register, err := env.claimEvent(ctx, e, wake)
	if err != nil {
		return nil, err
	}
	if state.Done {
		return &Delivery{Started: state.Started, Woken: state.Woken, Duplicate: true}, nil
	}
	out := &Delivery{Woken: state.Woken}
	defer func() {
		if err != nil {
			state.Until = time.Time{} // the sender may try again at once
			_, _ = journal.SaveJSON(context.WithoutCancel(ctx), env.Store, register, state)
		}
	}()
	var failed error
	for _, d := range triggers {
		id := trigger.RunID(d.file, d.name, e.Source, e.ID)
		started, problem, err := a.startForEvent(ctx, env, d, id, e, by)
		switch {
		case started:
			out.Started = append(out.Started, id)
		case err != nil && problem == "":
			return nil, err
		default:
			out.Problems = append(out.Problems, d.id+": "+problem)
			failed = cmp.Or(failed, err)
		}
		if problem != "" && err != nil {
			a.o.Notify(Notice{Text: "Trigger " + d.id + " started no run: " + problem})
		}
	}
	if failed != nil && len(out.Started)+len(out.Woken) == 0 {
		return nil, failed // the sender may send it again when the reason is gone
	}
	for _, id := range state.Woken {
		if err := a.wake(ctx, env, id, e, by); err != nil {
			return nil, err
		}
	}
	state.Started, state.Done = out.Started, true
	_, err = journal.SaveJSON(ctx, env.Store, register, state)
	return out, err
}

// claimEvent records an event, with the runs that wait for it, and makes this process the one that delivers it. The
// state of an event that was delivered before is Done.
func (env *environment) claimEvent(ctx context.Context, e Incoming, wake bool) (eventState, journal.Register, error) {
	sum := sha256.Sum256([]byte(e.Source + "\x00" + e.ID))
	key := eventPrefix + hex.EncodeToString(sum[:])
	for {
		register, err := env.Store.Load(ctx, key)
		if err != nil {
			return eventState{}, register, err
		}
		state, now := eventState{}, env.now().UTC()
		switch {
		case register.Version != 0:
			if err := register.Decode(&state); err != nil || state.Done {
				return state, register, err
			}
			if state.Until.After(now) {
				return state, register, fail(Conflict, EventUnderWay, "the event is being delivered")
			}
		// Only the first claim looks for waiting runs: a run that starts to wait later must not get an event of before.
		case wake:
			if state.Woken, err = env.waitingFor(ctx, e.Type); err != nil {
				return state, register, err
			}
			fallthrough
		default:
			state.At = now
		}
		state.Until = now.Add(deliveryLease)
		register.Version, err = journal.SaveJSON(ctx, env.Store, register, state)
		if !errors.Is(err, journal.ErrConflict) {
			return state, register, err
		}
	}
}

// forgetEvents removes the events that are older than eventMemory.
func (env *environment) forgetEvents(ctx context.Context) error {
	return journal.RemoveRegisters(ctx, env.Store, eventPrefix, func(r *journal.Register) (bool, error) {
		var state eventState
		err := r.Decode(&state)
		return env.now().Sub(state.At) >= eventMemory, err
	})
}

// waitingFor returns the runs that wait for an event from outside. The turn of a person in a conversation is none.
func (env *environment) waitingFor(ctx context.Context, event string) ([]journal.RunID, error) {
	var out []journal.RunID
	for entry, err := range env.Store.Runs(ctx, Filter{Unfinished: true}) {
		if err != nil {
			return nil, err
		}
		what := entry.Waiting
		if entry.Status == journal.Running || what == (journal.Wait{}) {
			continue
		}
		// The index has the first of several things that a run waits for.
		if what != (journal.Wait{Kind: journal.WaitEvent, Name: event}) && what.More == 0 &&
			entry.Status != journal.PausedAt {
			continue
		}
		state, program, _, err := env.Engine.Load(ctx, entry.ID)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(state.OpenGates(), func(f *plan.Frame) bool {
			gate, _ := state.StepOf(program, f).Action.(ir.Gate)
			return f.Gate.Kind == journal.GateEvent && f.Gate.Event == event && !gate.Text
		}) {
			out = append(out, entry.ID)
		}
	}
	return out, nil
}

// wake sends an event to a run, unless an earlier attempt has.
func (a *App) wake(ctx context.Context, env *environment, id journal.RunID, e Incoming, by journal.Actor) error {
	// The actor names the event, so a fact by it shows that the run got the event before.
	for event, err := range report.Events(ctx, env.Store, id) {
		if err != nil {
			return err
		}
		if (event.Type == report.GateDecided || event.Type == report.SignalReceived) && event.By == by {
			return nil
		}
	}
	env, err := a.environmentFor(ctx, id)
	if err != nil {
		return err
	}
	signal := plan.Signal{Event: e.Type, Data: e.Data, By: by, Automated: true}
	err = env.runError(id, env.Engine.Send(ctx, id, signal, uuid.NewString()))
	if failed, ok := errors.AsType[*Error](err); ok && (failed.Kind == Refused || failed.Reason == RunFinished) {
		return nil // it does not wait any more
	}
	return err
}

// startForEvent starts a run for an event. problem is why there is none, and err its cause unless that is a pause. An
// error without a problem may not repeat.
func (a *App) startForEvent(
	ctx context.Context, env *environment, d *workflowTrigger, id journal.RunID, e Incoming, by journal.Actor,
) (started bool, problem string, err error) {
	state, _, err := env.loadTrigger(ctx, d)
	if err != nil {
		return false, "", err
	}
	// Three outcomes: a run, a problem that would repeat (a pause, or a permanent error), or an error after which the
	// sender tries again. The first two are recorded in the state of the trigger.
	var cause error
	if state.Paused {
		problem = "the trigger was paused"
	} else if cause = a.startMapped(ctx, d, id, e, RunOptions{Simulate: d.settings.Simulate}, by); cause == nil {
		started = true
	} else if isPermanent(cause) {
		problem = a.Redact(Summary(cause))
	} else {
		return false, "", cause
	}
	err = env.changeTrigger(ctx, d, func(state *triggerState) {
		switch {
		case !started:
			state.Miss(env.now().UTC(), problem)
		case !slices.Contains(state.Active, id) && len(state.Active) < maxActive:
			state.Active = append(state.Active, id)
		}
	})
	if err != nil {
		return false, "", err
	}
	return started, problem, cause
}

// maxActive bounds the runs that the state of a trigger names.
const maxActive = 100

// TestTrigger starts a simulated run with the input that an event or a request with this data gives it, also if the
// trigger is paused. The run does not count as one of the trigger.
func (a *App) TestTrigger(
	ctx context.Context, name string, data json.RawMessage, by journal.Actor,
) (journal.RunID, error) {
	_, d, err := a.findTrigger(ctx, name, func(t ir.Trigger) bool {
		return t.Kind == ir.OnEvent || t.Kind == ir.OnWebhook
	})
	if err != nil {
		return "", err
	}
	id := NewRunID()
	e := Incoming{ID: string(id), Source: "test", Type: d.spec.Event, Time: a.o.Now(), Data: data}
	return id, a.startMapped(ctx, d, id, e, RunOptions{Simulate: true}, by)
}

// startMapped starts a run whose input is computed from an event, and therefore untrusted.
func (a *App) startMapped(
	ctx context.Context, d *workflowTrigger, id journal.RunID, e Incoming, options RunOptions, by journal.Actor,
) error {
	an, err := d.analysis(ctx, a)
	if err != nil {
		return err
	}
	input, err := d.mapped(an.Program, e)
	if err != nil {
		return err
	}
	options.Untrusted = true
	options.Token = e.Token
	return a.startPrepared(ctx, PrepareRequest{Workflow: an, Input: input, Unattended: true, Options: options}, id, by)
}

// mapped returns the input of a run for an event: what the configuration maps, or else the fields of the event's data
// that the workflow declares as inputs.
func (d *workflowTrigger) mapped(p *ir.Program, e Incoming) (json.RawMessage, error) {
	// The fixed input of the configuration comes first; values of the event replace it.
	input := map[string]any{}
	if len(d.settings.Input) > 0 {
		if err := json.Unmarshal(d.settings.Input, &input); err != nil {
			return nil, err
		}
	}
	var data any
	if len(e.Data) > 0 {
		if err := json.Unmarshal(e.Data, &data); err != nil {
			return nil, fail(InvalidRequest, InvalidInput, "the data of the event is not JSON: %v", err)
		}
	}
	if len(d.settings.Map) == 0 {
		fields, _ := data.(map[string]any)
		for _, name := range declared(p) {
			if value, ok := fields[name]; ok {
				input[name] = value
			}
		}
		if only := OnlyText(p); only != "" && input[only] == nil {
			if text, ok := data.(string); ok {
				input[only] = text
			}
		}
		return json.Marshal(input)
	}
	env := expr.Values{"event": map[string]any{
		"id": e.ID, "source": e.Source, "type": e.Type, "time": e.Time.Format(time.RFC3339), "data": data,
	}}
	for _, m := range d.settings.Map {
		value, err := m.Value.Eval(env)
		if err != nil {
			return nil, fail(InvalidRequest, InvalidInput, "the input %q cannot be computed: %v", m.Input, err)
		}
		if value != nil {
			input[m.Input] = value
		}
	}
	return json.Marshal(input)
}

// Webhook is how requests to a webhook are verified.
type Webhook struct {
	Verify    string // one of the ways below
	Secret    string
	Tolerance time.Duration
}

// The ways to verify requests.
const (
	VerifyStandard = config.VerifyStandard
	VerifyGitHub   = config.VerifyGitHub
	VerifyNothing  = config.VerifyNothing
)

// Webhook returns how requests to a webhook are verified.
func (a *App) Webhook(ctx context.Context, name string) (*Webhook, error) {
	env, err := a.storage(ctx)
	if err != nil {
		return nil, err
	}
	w := env.settings.Webhook(name)
	switch {
	case w == nil:
		return nil, fail(NotFound, NoTrigger, "unknown webhook %q", name)
	case w.Unapproved:
		return nil, fail(NotReady, NeedsConsent, "%s", config.NotApproved(fmt.Sprintf("the webhook %q", name))).
			advise("%s", config.Approval)
	}
	out := &Webhook{Verify: w.Verify, Tolerance: cmp.Or(w.Tolerance, 5*time.Minute)}
	out.Secret, err = env.secretValue(ctx, w.Secret.Value)
	return out, err
}

// secretValue returns the value of a reference to a secret; any other text as it is.
func (env *environment) secretValue(ctx context.Context, text string) (value string, err error) {
	raw, err := json.Marshal(text)
	if err != nil {
		return "", err
	}
	if raw, err = env.models.Secrets.Refer(ctx, raw); err != nil {
		return "", fail(NotReady, MissingSecret, "%v", err)
	}
	return value, json.Unmarshal(raw, &value)
}
