package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Problem is an error of the API.
type Problem = api.Problem

// sources returns the texts of the files that diagnostics refer to, if the identity of the request may read them: the
// command line prints code frames from them. An identity that may only start runs gets the diagnostics alone.
func sources(ctx context.Context, e *app.Error) (out []api.SourceText) {
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
			out = append(out, api.SourceText{File: name, Text: f.Text})
		}
	}
	return out
}

// problemOf returns the problem for an error of an operation, in the form of RFC 9457. An unexpected error is logged;
// the client only learns that there was one. It also adds errors to the log line of the request, so only the goroutine
// of the request calls it.
func problemOf(ctx context.Context, err error) *Problem {
	if own, ok := errors.AsType[*Problem](err); ok {
		p := *own // the value may be shared
		p.Request = requestID(ctx)
		return &p
	}
	p := &Problem{
		Status: http.StatusInternalServerError, Code: api.Codes[app.Internal], Request: requestID(ctx), Cause: err,
	}
	if e := app.AsError(err); e != nil {
		p.Status, p.Code, p.Help, p.Details, p.RunID = api.HTTPStatus(e.Kind), string(e.Reason),
			e.Advice, e.Names, string(e.Run)
		p.Name, p.Startable = e.Name, e.Startable
		p.Code = cmp.Or(p.Code, api.Codes[e.Kind])
		if e.Kind != app.Internal {
			p.Detail, p.Cause = strings.TrimSuffix(e.Message, ":"), nil // Missing has the rest
		}
		if len(e.Diagnostics) > 0 {
			p.Diagnostics, p.Sources = diag.NewReport(e.Files, e.Diagnostics).Diagnostics, sources(ctx, e)
		}
		for _, m := range e.Missing {
			p.Missing = append(p.Missing, m.Text())
			p.Needs = append(p.Needs, api.Need{Message: m.Message, Steps: m.Steps, Help: m.Help})
		}
		p.Commands = xslices.Map(e.Commands, app.Command.String)
	}
	// The store or the server that drives runs does not answer: the client gets advice, and the log the cause.
	if detail, help := api.Unreachable(err); detail != "" {
		p.Detail, p.Help = detail, help
		logEntryOf(ctx).err = err
	}
	if p.Cause != nil {
		logEntryOf(ctx).err = p.Cause
		p.Detail = "The server could not do this. Its log has the reason."
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// newHumaError gives the errors that huma finds itself, such as a body that does not fit its schema, the form of our
// problems. huma calls it without a context when it describes the API.
func newHumaError(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
	p := &Problem{Status: status, Title: http.StatusText(status), Detail: message, Code: "invalid-request"}
	if ctx != nil {
		p.Request = requestID(ctx.Context())
	}
	for _, err := range errs {
		if detail, ok := errors.AsType[*huma.ErrorDetail](err); ok && detail.Location != "" {
			p.Details = append(p.Details, detail.Message+" ("+detail.Location+")") // without the value, which is a map
		} else if err != nil {
			p.Details = append(p.Details, err.Error())
		}
	}
	return p
}

// endpoint handles requests that huma does not serve. It answers a request with the error, if there is one.
type endpoint func(w http.ResponseWriter, r *http.Request) error

// ServeHTTP implements http.Handler.
func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := e(w, r); err != nil {
		writeProblem(w, r, *problemOf(r.Context(), err))
	}
}

// writeProblem answers a request with a problem. The header must not have been written.
func writeProblem(w http.ResponseWriter, r *http.Request, p Problem) {
	p.Title = cmp.Or(p.Title, http.StatusText(p.Status))
	p.Request = requestID(r.Context())
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	w.Write(append(raw, '\n'))
}
