package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/source"
)

// maxProblem bounds what is read of an error. It may have the texts of files.
const maxProblem = 16 << 20

// problem is an error of the server (RFC 9457).
type problem struct {
	Title       string             `json:"title"`
	Detail      string             `json:"detail"`
	Code        string             `json:"code"`
	Help        string             `json:"help"`
	Details     []string           `json:"details"`
	Diagnostics []diag.ReportEntry `json:"diagnostics"`
	Sources     []struct {
		File string `json:"file"`
		Text string `json:"text"`
	} `json:"sources"`
	Needs []struct {
		Message string   `json:"message"`
		Steps   []string `json:"steps"`
		Help    string   `json:"help"`
	} `json:"needs"`
	Startable bool   `json:"startable"`
	Name      string `json:"name"`
	RunID     string `json:"run_id"`
}

// kinds are the kinds of errors by the code that names only the kind.
var kinds = map[string]app.Kind{
	"internal": app.Internal, "invalid-request": app.InvalidRequest, "not-found": app.NotFound,
	"invalid-workflow": app.InvalidWorkflow, "not-ready": app.NotReady, "refused": app.Refused, "conflict": app.Conflict,
	"store-unavailable": app.StoreUnavailable, "store-damaged": app.StoreDamaged, "store-full": app.StoreFull,
	"store-lost": app.StoreLost, "stopping": app.Interrupted,
}

// statuses are the kinds of errors with a reason of their own.
var statuses = map[int]app.Kind{
	http.StatusUnprocessableEntity: app.InvalidRequest, http.StatusNotFound: app.NotFound,
	http.StatusFailedDependency: app.NotReady, http.StatusConflict: app.Conflict, http.StatusForbidden: app.Refused,
	http.StatusUnauthorized: app.NotReady, http.StatusServiceUnavailable: app.StoreUnavailable,
	http.StatusInsufficientStorage: app.StoreFull,
}

// problem returns the error of a response.
func (c *Client) problem(w *http.Response) error {
	var p problem
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
	if kind, ok := kinds[p.Code]; ok {
		e.Kind, e.Reason = kind, ""
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
	return e
}
