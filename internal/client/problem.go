package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/source"
)

// maxProblem bounds what is read of an error. It may have the texts of files.
const maxProblem = 16 << 20

// statuses are the kinds of errors with a reason of their own.
var statuses = map[int]app.ErrorKind{
	http.StatusUnprocessableEntity: app.InvalidRequest, http.StatusNotFound: app.NotFound,
	http.StatusFailedDependency: app.NotReady, http.StatusConflict: app.Conflict, http.StatusForbidden: app.Refused,
	http.StatusUnauthorized: app.NotReady, http.StatusServiceUnavailable: app.StoreUnavailable,
	http.StatusInsufficientStorage: app.StoreFull,
}

// problem returns the error of a response: the inverse of problemOf in package server. A response that is no problem of
// Espalier comes from another server, or from a proxy whose server is down.
func (c *Client) problem(w *http.Response) error {
	var p api.Problem
	raw, err := io.ReadAll(io.LimitReader(w.Body, maxProblem))
	if err != nil || json.Unmarshal(raw, &p) != nil || p.Title == "" {
		return &app.Error{
			Kind: app.StoreUnavailable, Reason: Unreachable,
			Message: fmt.Sprintf("%s is not an Espalier server: it answers %s", c.base, w.Status),
		}
	}
	e := &app.Error{
		Kind: statuses[w.StatusCode], Reason: app.Reason(p.Code), Message: cmp.Or(p.Detail, p.Title), Advice: p.Help,
		Name:  p.Name,
		Names: p.Details, Run: journal.RunID(p.RunID), Startable: p.Startable,
	}
	for kind, code := range api.Codes {
		if code == p.Code { // it names only the kind
			e.Kind, e.Reason = kind, ""
		}
	}
	switch {
	case w.StatusCode == http.StatusUnauthorized:
		e.Reason = SignIn
		e.Message, e.Advice = fmt.Sprintf("%s does not accept your token", c.base), "Sign in with \"espalier login\"."
	case e.Reason == app.AlreadyDecided || e.Reason == app.GateApproved:
		e.Kind = app.Refused
	case len(p.Diagnostics) > 0:
		e.Diagnostics, e.Files = diag.Report{Diagnostics: p.Diagnostics}.List(), source.Set{}
		for _, one := range p.Sources {
			e.Files.Add(source.NewFile(one.File, one.Text))
		}
	}
	for _, n := range p.Needs {
		one := app.MissingDependency{Steps: n.Steps}
		one.Message, one.Help = n.Message, n.Help
		e.Missing = append(e.Missing, one)
	}
	if len(e.Missing) > 0 {
		e.Message += ":" // the list follows
	}
	return e
}
