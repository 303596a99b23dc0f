package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// StartRequest is a run that a server starts.
type StartRequest struct {
	Workflow string          `json:"workflow"`
	Input    json.RawMessage `json:"input,omitempty"`
	Simulate bool            `json:"simulate,omitempty"`
	Seed     uint64          `json:"seed,omitempty"`
	Model    string          `json:"model,omitempty"`
	RunID    journal.RunID   `json:"run_id,omitempty"`
}

// Workflow is a workflow of the project.
type Workflow struct {
	api.Workflow
	InputSchema json.RawMessage    `json:"input_schema"`
	Diagnostics []diag.ReportEntry `json:"diagnostics"`
}

// Workflow describes a workflow, by its name or its path.
func (c *Client) Workflow(ctx context.Context, name string) (Workflow, error) {
	return get[Workflow](ctx, c, "/workflows/"+url.PathEscape(name))
}

// Start starts a run and returns when that is durable.
func (c *Client) Start(ctx context.Context, req StartRequest) (*app.Run, error) {
	s, err := call[api.Status](ctx, c, http.MethodPost, "/runs", req)
	if err != nil {
		return nil, err
	}
	return s.Run.App(), nil
}

// Send sends messages to a run, and returns when they are durable. Each message is a request: after an error, the
// messages before it have been sent. The server records the user of the client; by adds the name that this user claims.
func (c *Client) Send(
	ctx context.Context, id journal.RunID, by journal.Actor, messages ...app.Message,
) (*app.Sent, error) {
	sent := &app.Sent{}
	for _, m := range messages {
		route, in, err := c.message(ctx, id, by, m)
		if err != nil {
			return sent, err
		}
		out, err := call[api.Decided](ctx, c, http.MethodPost, runPath(id, "/"+route), in)
		if err != nil {
			return sent, err
		}
		sent.Edited = append(sent.Edited, out.Edited...)
	}
	return sent, nil
}

// message returns the route of a message and the body of its request.
func (c *Client) message(ctx context.Context, id journal.RunID, by journal.Actor, m app.Message) (string, any, error) {
	switch m := m.(type) {
	case app.Approve:
		digest, err := c.digest(ctx, id, m.Step, m.Digest)
		return "decide", api.DecideBody{
			Step: m.Step, Decision: "approve", Note: m.Note, As: by.As, Digest: digest, Value: m.Value,
			Automated: m.Automated,
		}, err
	case app.Reject:
		digest, err := c.digest(ctx, id, m.Step, m.Digest)
		return "decide", api.DecideBody{
			Step: m.Step, Decision: "reject", Note: m.Note, As: by.As, Digest: digest,
		}, err
	case app.Signal:
		return "signal", api.SignalBody{Event: m.Event, Step: m.Step, Data: m.Data}, nil
	case app.Edit:
		return "edit", api.EditBody(m), nil
	case app.Raise:
		return "raise", api.RaiseBody(m), nil
	case app.Resolve:
		return "resolve", api.ResolveBody(m), nil
	case app.Cancel:
		return "cancel", api.CancelBody{Reason: m.Reason}, nil
	case app.Pause:
		return "pause", nil, nil
	}
	return "", nil, fmt.Errorf("a server takes no %T", m)
}

// noGate is sent as the digest if not exactly one gate is meant. The server refuses the decision with its reason.
const noGate = "none"

// digest returns the digest of what a gate shows, unless the caller has one: the
// server takes no decision without it.
func (c *Client) digest(ctx context.Context, id journal.RunID, step, digest string) (string, error) {
	if digest != "" {
		return digest, nil
	}
	status, err := c.Status(ctx, id)
	if err != nil {
		return "", err
	}
	if open := status.Decisions(step); len(open) == 1 {
		return open[0].Digest, nil
	}
	return noGate, nil
}

// Resumed is a run that continues.
type Resumed struct {
	Run     *app.Run
	Step    string // from which a new run continues a finished one
	Changed []app.ChangedFile
}

// Resume continues a run, and returns when that is durable.
func (c *Client) Resume(ctx context.Context, req app.ResumeRequest) (*Resumed, error) {
	in := api.ResumeBody{From: req.From}
	in.Set = xslices.Map(req.Set, func(one app.Edit) api.EditBody { return api.EditBody(one) })
	for _, m := range req.Messages {
		switch m := m.(type) {
		case app.Raise:
			in.Raise = append(in.Raise, api.RaiseBody(m))
		case app.Resolve:
			in.Resolve = append(in.Resolve, api.ResolveBody(m))
		default:
			return nil, fmt.Errorf("a run is not resumed with a %T", m)
		}
	}
	out, err := call[api.Resumed](ctx, c, http.MethodPost, runPath(req.Run, "/resume"), in)
	if err != nil {
		return nil, err
	}
	return &Resumed{
		Run: out.Run.App(), Step: out.ContinuesFrom,
		Changed: xslices.Map(out.Changed, func(file api.ChangedFile) app.ChangedFile { return app.ChangedFile(file) }),
	}, nil
}
