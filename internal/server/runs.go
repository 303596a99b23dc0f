package server

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// RunPath names a run in an address.
type RunPath struct {
	Run string `path:"run" doc:"Id of the run, or a unique prefix of it"`
}

type startBody struct {
	Workflow string         `json:"workflow" doc:"Name or path of the workflow"`
	Input    map[string]any `json:"input,omitempty" doc:"Input of the workflow, as its schema asks for"`
	Simulate bool           `json:"simulate,omitempty" doc:"Simulate the replies of models and tools; nothing is executed"`
	Seed     uint64         `json:"seed,omitempty" doc:"Selects the simulated replies"`
	Model    string         `json:"model,omitempty" doc:"Replaces the models that the steps name"`
	RunID    string         `json:"run_id,omitempty" format:"uuid" doc:"Id of the new run; an existing one is refused"`
}

// runBefore returns the run that a cursor names; empty for the first page.
func runBefore(cursor string) (journal.RunID, error) {
	if _, err := uuid.Parse(cursor); cursor != "" && err != nil {
		return "", errCursor
	}
	return journal.RunID(cursor), nil
}

// pageError returns the error of a page that starts before a run, which can have been removed.
func pageError(before journal.RunID, err error) error {
	if before != "" && errors.Is(err, journal.ErrUnknownRun) {
		return errCursor
	}
	return err
}

type startInput struct {
	Key     string `header:"Idempotency-Key" maxLength:"255" doc:"Repeating a request with the same key starts no second run"`
	Body    startBody
	RawBody []byte
}

type started struct {
	Location string `header:"Location"`
	Body     api.Status
}

type runList struct {
	Runs []api.ListedRun `json:"runs"`
	Next string          `json:"next,omitempty" doc:"Cursor of the next page; absent on the last one"`
}

type stateFilter app.StateFilter

// Schema returns the schema of a filter, so that requests with others are refused.
func (stateFilter) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, filter := range app.StateFilters {
		s.Enum = append(s.Enum, string(filter))
	}
	return s
}

type listInput struct {
	State    stateFilter `query:"state" doc:"Only runs in this state, or with this outcome"`
	Workflow string      `query:"workflow" doc:"Only runs of workflows of this name"`
	Children bool        `query:"children" doc:"Child runs, too"`
	Limit    int         `query:"limit" minimum:"1" maximum:"500" default:"50"`
	Cursor   string      `query:"cursor" doc:"From the previous page"`
}

type inboxItem struct {
	Run       api.Run         `json:"run"`
	Gate      api.Gate        `json:"gate"`
	Simulated journal.Offline `json:"simulated,omitempty" doc:"simulated or scripted, if replies are not from real models"`
	Untrusted bool            `json:"untrusted,omitempty" doc:"The input comes from outside of the project: an event, a webhook or a file"`
}

type inbox struct {
	Items []inboxItem `json:"items"`
	Next  string      `json:"next,omitempty" doc:"Cursor of the next page; absent on the last one"`
}

type inboxInput struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"500" doc:"Of runs; each can ask for several things"`
	Cursor string `query:"cursor" doc:"From the previous page"`
}

// registerRuns registers the routes of runs. Each message to a run is a route of its own, with a body of its own.
func (s *Server) registerRuns() {
	const tag = "Runs"
	created := func(op *huma.Operation) { op.DefaultStatus = http.StatusCreated }
	handle(s, http.MethodPost, "/runs", identity.Start, "Start a run", tag, s.startRun, created)
	handleJSON(s, http.MethodGet, "/runs", identity.Read, "List runs, the newest first", tag, s.listRuns)
	handleJSON(s, http.MethodGet, "/runs/{run}", identity.Read, "Show a run", tag,
		ofRun(s, func(ctx context.Context, r *app.Run) (*api.Status, error) { return s.status(ctx, r.ID) }))
	handleJSON(s, http.MethodGet, "/runs/{run}/output", identity.Read, "Get the output of a finished run", tag,
		ofRun(s, s.o.App.Ending))
	handleJSON(s, http.MethodGet, "/runs/{run}/exhausted", identity.Read, "Get the budget that a run waits for", tag,
		ofRun(s, func(ctx context.Context, r *app.Run) (*app.Exhausted, error) {
			budget, err := s.o.App.Exhausted(ctx, r.ID)
			return &budget, err
		}))
	handleJSON(s, http.MethodGet, "/inbox", identity.Read, "List everything that waits for a person", tag, s.inbox)

	handleJSON(s, http.MethodPost, "/runs/{run}/decide", identity.Decide, "Approve or reject a gate", tag,
		func(ctx context.Context, in *toRun[api.DecideBody]) (*api.Decided, error) {
			return s.decide(ctx, in.Run, &in.Body)
		})
	handleMessage(s, "resolve", "Resolve a step whose outcome is unknown",
		func(_ context.Context, b *api.ResolveBody) app.Message { return b.Message() })
	handleMessage(s, "signal", "Send an event to a run", func(ctx context.Context, b *api.SignalBody) app.Message {
		return app.Signal{
			Event: b.Event, Step: b.Step, Data: b.Data, Roles: approverRoles(ctx), Automated: automated(ctx),
		}
	})
	handleMessage(s, "edit", "Edit a variable of a run",
		func(_ context.Context, b *api.EditBody) app.Message {
			return app.Edit(*b)
		})
	handleMessage(s, "raise", "Raise a budget of a run",
		func(_ context.Context, b *api.RaiseBody) app.Message { return app.Raise(*b) })
	handleJSON(s, http.MethodPost, "/runs/{run}/pause", identity.Operate, "Pause a run before its next step", tag,
		func(ctx context.Context, in *RunPath) (*api.Status, error) {
			return s.send(ctx, in.Run, app.Pause{})
		})
	handleJSON(s, http.MethodPost, "/runs/{run}/cancel", identity.Operate, "Cancel a run", tag,
		func(ctx context.Context, in *toRun[*api.CancelBody]) (*api.Status, error) {
			reason := ""
			if in.Body != nil {
				reason = in.Body.Reason
			}
			return s.send(ctx, in.Run, app.Cancel{Reason: reason})
		})
	handleJSON(s, http.MethodPost, "/runs/{run}/resume", identity.Operate, "Resume a run", tag, s.resumeRun)
	handle(s, http.MethodDelete, "/runs/{run}", identity.Operate, "Remove a finished run", tag,
		ofRun(s, func(ctx context.Context, r *app.Run) (*struct{}, error) {
			return nil, s.o.App.Remove(ctx, r.ID, journal.Removal{By: actor(ctx), At: journal.MillisOf(time.Now())})
		}))
}

// toRun is a request to a run.
type toRun[B any] struct {
	RunPath
	Body B
}

// handleMessage registers a route that sends a message to a run.
func handleMessage[B any](s *Server, name, summary string, message func(ctx context.Context, b *B) app.Message) {
	handleJSON(s, http.MethodPost, "/runs/{run}/"+name, identity.Operate, summary, "Runs",
		func(ctx context.Context, in *toRun[B]) (*api.Status, error) {
			return s.send(ctx, in.Run, message(ctx, &in.Body))
		})
}

// ofRun returns a handler of requests about one run.
func ofRun[Out any](
	s *Server, do func(ctx context.Context, r *app.Run) (*Out, error),
) func(context.Context, *RunPath) (*Out, error) {
	return func(ctx context.Context, in *RunPath) (*Out, error) {
		r, err := s.find(ctx, in.Run)
		if err != nil {
			return nil, err
		}
		return do(ctx, r)
	}
}

// find returns the run that an address names.
func (s *Server) find(ctx context.Context, name string) (*app.Run, error) {
	r, err := s.o.App.Find(ctx, name)
	if err == nil {
		logEntryOf(ctx).run = string(r.ID)
	}
	return r, err
}

func (s *Server) status(ctx context.Context, id journal.RunID) (*api.Status, error) {
	status, err := s.o.App.Status(ctx, id)
	if err != nil {
		return nil, err
	}
	out := api.NewStatus(status)
	return &out, nil
}

// actor returns who makes a request, for the records.
func actor(ctx context.Context) journal.Actor {
	id, _ := IdentityOf(ctx)
	return journal.Actor{User: id.Name, Method: string(id.Method)}
}

// token returns the id of the token that a request has presented; empty if it has presented none.
func token(ctx context.Context) string {
	id, _ := IdentityOf(ctx)
	return id.Token
}

// approverRoles returns the roles under which the identity of a request decides gates that name approvers.
func approverRoles(ctx context.Context) []string {
	id, _ := IdentityOf(ctx)
	return id.ApproverRoles()
}

// automated reports whether the request comes from a program that may not act for a person: a service account without
// the permission to decide.
func automated(ctx context.Context) bool {
	id, _ := IdentityOf(ctx)
	return id.Kind == identity.Service && !id.May(identity.Decide)
}

// startRun starts a run. The run id is derived from the idempotency key and from who asks, so that a repeated request
// finds the run that the first one started, also after a crash or on another server. The store accepts an id only once:
// of two concurrent requests, one gets RunExists and returns the run of the other.
func (s *Server) startRun(ctx context.Context, in *startInput) (*started, error) {
	an, err := s.o.App.Analyze(ctx, app.AnalyzeRequest{
		Workflow: in.Body.Workflow, Reading: catalog.ReadOptions{Run: true}, Listed: true,
	})
	if err != nil {
		return nil, err
	}
	if err := an.Err(); err != nil {
		return nil, err
	}
	untrusted, err := mayStart(ctx, an)
	if err != nil {
		return nil, err
	}
	id, request := journal.RunID(in.Body.RunID), ""
	if parsed, err := uuid.Parse(in.Body.RunID); id != "" && (err != nil || parsed.String() != in.Body.RunID) {
		return nil, &Problem{ // another spelling would name another run
			Status: http.StatusUnprocessableEntity, Code: "run-id", Detail: "run_id is not a UUID in lower case.",
			Help: "Leave it out to use a new one.",
		}
	}
	if in.Key != "" {
		if request, err = fingerprint(in.Key, in.Body); err != nil {
			return nil, err
		}
		id = keyedRun(ctx, in.Key)
		if _, err := s.o.App.Get(ctx, id); err == nil {
			return s.startedAlready(ctx, id, request)
		}
	}
	// A missing input is nil, not null: the workflow may have no input.
	input, err := json.Marshal(in.Body.Input)
	if err != nil {
		return nil, err
	}
	if in.Body.Input == nil {
		input = nil
	}
	prepared, err := s.o.App.Prepare(ctx, app.PrepareRequest{
		Workflow: an, Input: input,
		Options: app.RunOptions{
			Simulate: in.Body.Simulate, Seed: in.Body.Seed, Model: in.Body.Model, Untrusted: untrusted,
			Token: token(ctx), Request: request,
		},
	})
	if err != nil {
		return nil, err
	}
	if err := prepared.Err(); err != nil {
		return nil, err
	}
	id, err = s.o.App.Start(ctx, prepared, id, actor(ctx))
	if taken, ok := errors.AsType[*app.Error](err); ok && taken.Reason == app.RunExists && in.Key != "" {
		return s.startedAlready(ctx, id, request)
	}
	if err != nil {
		return nil, err
	}
	return s.startedRun(ctx, id)
}

// mayStart returns an error unless the identity of a request may start runs of a workflow over the API, and whether its
// input is untrusted. A trigger "api" of the workflow may forbid it, or allow it to identities that may start this
// workflow alone; the input of those is untrusted. Formats with APIOptIn let programs in only if the trigger is there.
func mayStart(ctx context.Context, an *app.Analysis) (untrusted bool, err error) {
	declares := slices.ContainsFunc(an.Program.Triggers, func(t ir.Trigger) bool { return t.Kind == ir.OnAPI })
	allowed := an.Program.StartedBy(ir.OnAPI)
	if declares && !allowed {
		return false, &Problem{
			Status: http.StatusForbidden, Code: "api-off",
			Detail: "The workflow says that it is not started over the API.",
			Help:   "Change api: false in its triggers, or start it from the command line.",
		}
	}
	id, _ := IdentityOf(ctx)
	if an.Program.APIOptIn && !allowed && id.Kind == identity.Service {
		return false, &Problem{
			Status: http.StatusForbidden, Code: "api-off",
			Detail: "The workflow does not allow programs to start it over the API.",
			Help:   "Add api: true to its triggers, or start it as a person.",
		}
	}
	any, this := id.MayStart(an.Name())
	if !any && (!this || !allowed) {
		return false, &Problem{
			Status: http.StatusForbidden, Code: "forbidden",
			Detail: "Your roles do not allow you to start this workflow.",
		}
	}
	return !any, nil
}

func (s *Server) startedRun(ctx context.Context, id journal.RunID) (*started, error) {
	logEntryOf(ctx).run = string(id)
	status, err := s.status(ctx, id)
	if err != nil {
		return nil, err
	}
	return &started{Location: s.base + "/api/v1/runs/" + string(id), Body: *status}, nil
}

// startedAlready returns the run that an earlier request with the same key has started, if it was the same request.
func (s *Server) startedAlready(ctx context.Context, id journal.RunID, request string) (*started, error) {
	status, err := s.o.App.Status(ctx, id)
	if err != nil {
		return nil, err
	}
	if status.Request != "" && status.Request != request { // earlier releases have stored none
		return nil, &Problem{
			Status: http.StatusConflict, Code: "idempotency-key", RunID: string(id),
			Detail: "This Idempotency-Key has started a run with another request.", Help: "Use a key once.",
		}
	}
	return s.startedRun(ctx, id)
}

// fingerprint identifies a request. It is stored with the run, to refuse another request with the same key. The key,
// which is not stored, keeps its content from being guessed by those who can read the journal.
func fingerprint(key string, body startBody) (string, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(raw)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// keyedRun returns the run id for an idempotency key of an identity. The name is part of it, so that users cannot find
// the runs of others by guessing keys.
func keyedRun(ctx context.Context, key string) journal.RunID {
	id, _ := IdentityOf(ctx)
	return journal.DeriveRunID("idempotency key", id.Name, key)
}

// listRuns lists one page of runs, the newest first. It reads one run more than a page has, to know whether there is a
// next page. The cursor is the id of the last run of the page.
func (s *Server) listRuns(ctx context.Context, in *listInput) (*runList, error) {
	before, err := runBefore(in.Cursor)
	if err != nil {
		return nil, err
	}
	filter := app.Filter{Name: in.Workflow, Children: in.Children, Before: before, Limit: in.Limit + 1}
	runs, err := s.o.App.RunsIn(ctx, app.StateFilter(in.State), filter)
	if err != nil {
		return nil, pageError(before, err)
	}
	list := &runList{Runs: []api.ListedRun{}}
	if len(runs) > in.Limit {
		runs = runs[:in.Limit]
		list.Next = string(runs[len(runs)-1].ID)
	}
	for i := range runs {
		root, err := s.o.App.Status(ctx, cmp.Or(runs[i].Root, runs[i].ID))
		if e := app.AsError(err); e != nil && e.Kind == app.StoreUnavailable {
			return nil, err
		} // the status of a run that was removed meanwhile, or cannot be read, is not known
		list.Runs = append(list.Runs, api.NewListedRun(&runs[i], root, time.Now()))
	}
	return list, nil
}

var errCursor = &Problem{
	Status: http.StatusUnprocessableEntity, Title: "Unprocessable Entity", Code: "cursor",
	Detail: "The cursor is not valid any more.", Help: "List again from the beginning.",
}

// send sends messages to a run and returns the state that follows.
func (s *Server) send(ctx context.Context, run string, m ...app.Message) (*api.Status, error) {
	r, err := s.find(ctx, run)
	if err != nil {
		return nil, err
	}
	if _, err := s.o.App.Send(ctx, r.ID, actor(ctx), m...); err != nil {
		return nil, err
	}
	return s.status(ctx, r.ID)
}

// decide sends a decision about a gate. A program decides only with an approver role of its own; being an administrator
// is not enough. in.As names the person that a program acts for, which is recorded beside the program.
func (s *Server) decide(ctx context.Context, run string, in *api.DecideBody) (*api.Decided, error) {
	if id, _ := IdentityOf(ctx); !id.May(identity.Decide) {
		return nil, &Problem{
			Status: http.StatusForbidden, Code: "forbidden", Title: http.StatusText(http.StatusForbidden),
			Detail: "Your roles do not allow you to decide gates: a program needs the role approver.",
		}
	}
	r, err := s.find(ctx, run)
	if err != nil {
		return nil, err
	}
	by := actor(ctx)
	by.As = in.As
	roles := approverRoles(ctx)
	var message app.Message = app.Approve{
		Step: in.Step, Note: in.Note, Digest: in.Digest, Roles: roles, Value: in.Value, Automated: in.Automated,
	}
	if in.Decision == "reject" {
		message = app.Reject{Step: in.Step, Note: in.Note, Digest: in.Digest, Roles: roles}
	}
	sent, err := s.o.App.Send(ctx, r.ID, by, message)
	if err != nil {
		return nil, err
	}
	status, err := s.status(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return &api.Decided{Status: *status, Edited: sent.Edited}, nil
}

// resumeRun resumes a run, after it has raised budgets and resolved steps, or continues a finished one as a new run if
// from names a step.
func (s *Server) resumeRun(ctx context.Context, in *toRun[*api.ResumeBody]) (*api.Resumed, error) {
	r, err := s.find(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	req := app.ResumeRequest{Run: r.ID, By: actor(ctx)}
	if in.Body != nil {
		req.From = in.Body.From
		req.Set = xslices.Map(in.Body.Set, func(edit api.EditBody) app.Edit { return app.Edit(edit) })
		for _, raise := range in.Body.Raise {
			req.Messages = append(req.Messages, app.Raise(raise))
		}
		for _, resolve := range in.Body.Resolve {
			req.Messages = append(req.Messages, resolve.Message())
		}
	}
	resumption, err := s.o.App.PrepareResume(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := s.o.App.Resume(ctx, resumption); err != nil {
		return nil, err
	}
	status, err := s.status(ctx, resumption.Run)
	if err != nil {
		return nil, err
	}
	out := &api.Resumed{Status: *status, ContinuesFrom: resumption.Step}
	for _, file := range resumption.Changed {
		out.Changed = append(out.Changed, api.ChangedFile(file))
	}
	return out, nil
}

// inbox lists one page of the runs that wait for people, the newest first.
func (s *Server) inbox(ctx context.Context, in *inboxInput) (*inbox, error) {
	before, err := runBefore(in.Cursor)
	if err != nil {
		return nil, err
	}
	out := &inbox{Items: []inboxItem{}}
	for range maxEmptyPages {
		runs, next, err := s.o.App.Inbox(ctx, before, in.Limit)
		if err != nil {
			return nil, pageError(before, err)
		}
		for _, full := range runs {
			out.add(full)
		}
		if out.Next, before = string(next), next; next == "" || len(out.Items) > 0 {
			break
		}
	}
	return out, nil
}

// maxEmptyPages is how many pages of runs that ask people for nothing a response covers at most.
const maxEmptyPages = 5

// add adds what waits for people in a run. Events can come from programs.
func (i *inbox) add(s *app.Status) {
	st := api.NewStatus(s)
	for _, g := range s.Asks() {
		if g.Kind != journal.AskEvent {
			i.Items = append(i.Items, inboxItem{
				Run: st.Run, Gate: api.NewGate(g), Simulated: st.Simulated, Untrusted: st.Untrusted,
			})
		}
	}
}
