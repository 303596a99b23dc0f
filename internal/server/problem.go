package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/identity"
)

// Problem is an error as RFC 9457 describes it, with members of our own.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   string `json:"code,omitempty" doc:"Tells problems of one status apart; stable"`
	Help   string `json:"help,omitempty" doc:"What to do about it"`
	// Details are single mistakes, such as the fields of an input that do not fit.
	Details     []string           `json:"details,omitempty"`
	Diagnostics []diag.ReportEntry `json:"diagnostics,omitempty" doc:"Mistakes in the workflow, with their places"`
	Sources     []sourceText       `json:"sources,omitempty" doc:"Texts of the files that the diagnostics refer to, for those who may read them"`
	Missing     []string           `json:"missing,omitempty" doc:"Models, tools and programs that the run needs"`
	Needs       []need             `json:"needs,omitempty" doc:"What is missing, with the steps that need it and what to do"`
	Startable   bool               `json:"startable,omitempty" doc:"The run could start and fail where it needs what is missing"`
	Commands    []string           `json:"commands,omitempty" doc:"Commands that need consent"`
	Name        string             `json:"name,omitempty" doc:"What the problem is about, such as a workflow or a step"`
	RunID       string             `json:"run_id,omitempty"`
	Request     string             `json:"request_id,omitempty" doc:"Under which the log of the server has the request"`

	cause error // for the log, not for the client
}

// sourceText is the text of a file.
type sourceText struct {
	File string `json:"file"`
	Text string `json:"text"`
}

// sources returns the texts of the files that diagnostics refer to, if the identity of the request may read them.
func sources(ctx context.Context, e *app.Error) (out []sourceText) {
	if permit(ctx, identity.Read) != nil {
		return nil
	}
	named := map[string]bool{}
	for _, d := range e.Diagnostics {
		named[d.Span.File] = true
		for _, other := range d.Related {
			named[other.Span.File] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if f := e.Files[name]; f != nil {
			out = append(out, sourceText{name, f.Text})
		}
	}
	return out
}

// need is something that a run lacks.
type need struct {
	Message string   `json:"message"`
	Steps   []string `json:"steps"`
	Help    string   `json:"help,omitempty"`
}

func (p *Problem) Error() string { return p.Detail }

func (p *Problem) Unwrap() error { return p.cause }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// codes name the kinds of errors that have no reason of their own.
var codes = map[app.Kind]string{
	app.Internal: "internal", app.InvalidRequest: "invalid-request", app.NotFound: "not-found",
	app.InvalidWorkflow: "invalid-workflow", app.NotReady: "not-ready", app.Refused: "refused", app.Conflict: "conflict",
	app.StoreUnavailable: "store-unavailable", app.StoreDamaged: "store-damaged", app.StoreFull: "store-full",
	app.StoreLost: "store-lost", app.Interrupted: "stopping",
}

// problemOf returns the problem for an error of an operation. An unexpected
// error is logged; the client only learns that there was one.
func problemOf(ctx context.Context, err error) *Problem {
	var own *Problem
	if errors.As(err, &own) {
		p := *own // the value may be shared
		p.Request = requestID(ctx)
		return &p
	}
	p := &Problem{Status: http.StatusInternalServerError, Code: codes[app.Internal], Request: requestID(ctx), cause: err}
	var e *app.Error
	if errors.As(err, &e) {
		p.Status, p.Code, p.Help, p.Details, p.RunID = api.HTTPStatus(e.Kind), string(e.Reason), e.Advice, e.Names, string(e.Run)
		p.Name, p.Startable = e.Name, e.Startable
		if p.Code == "" {
			p.Code = codes[e.Kind]
		}
		if e.Kind != app.Internal {
			p.Detail, p.cause = e.Message, nil
		}
		if len(e.Diagnostics) > 0 {
			p.Diagnostics, p.Sources = diag.NewReport(e.Files, e.Diagnostics).Diagnostics, sources(ctx, e)
		}
		for _, m := range e.Missing {
			p.Missing = append(p.Missing, m.Text())
			p.Needs = append(p.Needs, need{m.Message, m.Steps, m.Help})
		}
		for _, c := range e.Commands {
			p.Commands = append(p.Commands, c.String())
		}
	}
	if p.cause != nil {
		logEntryOf(ctx).err = p.cause
		p.Detail = "The server could not do this. Its log has the reason."
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// newHumaError gives the errors that huma finds itself, such as a body that does
// not fit its schema, the form of our problems.
func newHumaError(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
	p := &Problem{Status: status, Title: http.StatusText(status), Detail: message, Code: "invalid-request"}
	if ctx != nil {
		p.Request = requestID(ctx.Context())
	}
	for _, err := range errs {
		if err != nil {
			p.Details = append(p.Details, err.Error())
		}
	}
	return p
}

func writeProblem(w http.ResponseWriter, r *http.Request, p Problem) {
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	p.Request = requestID(r.Context())
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	w.Write(append(raw, '\n'))
}
