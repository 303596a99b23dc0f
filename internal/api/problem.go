package api

import (
	"cmp"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
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
	Sources     []SourceText       `json:"sources,omitempty" doc:"Texts of the files that the diagnostics refer to, for those who may read them"`
	Missing     []string           `json:"missing,omitempty" doc:"Models, tools and programs that the run needs"`
	Needs       []Need             `json:"needs,omitempty" doc:"What is missing, with the steps that need it and what to do"`
	Startable   bool               `json:"startable,omitempty" doc:"The run could start and fail where it needs what is missing"`
	Commands    []string           `json:"commands,omitempty" doc:"Commands that need consent"`
	Name        string             `json:"name,omitempty" doc:"What the problem is about, such as a workflow or a step"`
	RunID       string             `json:"run_id,omitempty"`
	Request     string             `json:"request_id,omitempty" doc:"Under which the log of the server has the request"`

	Cause error `json:"-"` // for the log, not for the client
}

// SourceText is the text of a file.
type SourceText struct {
	File string `json:"file"`
	Text string `json:"text"`
}

// Need is something that a run lacks.
type Need struct {
	Message string   `json:"message"`
	Steps   []string `json:"steps"`
	Help    string   `json:"help,omitempty"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// Unreachable returns what clients learn about an error of a server that cannot be reached; empty for other errors. The
// error itself may name hosts and users, and belongs into the log.
func Unreachable(err error) (detail, help string) {
	what, help := app.Outage(err)
	if what == "" {
		return "", ""
	}
	return what, cmp.Or(help, "Try again in a moment. The log of the server has the reason.")
}

// Codes name the kinds of errors that have no reason of their own.
var Codes = map[app.ErrorKind]string{
	app.Internal: "internal", app.InvalidRequest: "invalid-request", app.NotFound: "not-found",
	app.InvalidWorkflow: "invalid-workflow", app.NotReady: "not-ready", app.Refused: "refused",
	app.Conflict: "conflict", app.StoreUnavailable: "store-unavailable", app.StoreDamaged: "store-damaged",
	app.StoreFull: "store-full", app.StoreLost: "store-lost", app.Interrupted: "stopping",
	app.EngineUnavailable: "engine-unavailable",
}
