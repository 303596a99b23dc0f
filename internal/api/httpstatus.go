package api

import (
	"net/http"

	"github.com/espalier-run/espalier/internal/app"
)

// statuses maps the kinds of errors to HTTP.
var statuses = map[app.ErrorKind]int{
	app.Internal:          http.StatusInternalServerError,
	app.InvalidRequest:    http.StatusUnprocessableEntity,
	app.NotFound:          http.StatusNotFound,
	app.InvalidWorkflow:   http.StatusUnprocessableEntity,
	app.NotReady:          http.StatusFailedDependency,
	app.Refused:           http.StatusConflict,
	app.Conflict:          http.StatusConflict,
	app.StoreUnavailable:  http.StatusServiceUnavailable,
	app.StoreDamaged:      http.StatusServiceUnavailable,
	app.StoreFull:         http.StatusInsufficientStorage,
	app.StoreLost:         http.StatusServiceUnavailable,
	app.Interrupted:       http.StatusServiceUnavailable,
	app.EngineUnavailable: http.StatusServiceUnavailable,
}

// HTTPStatus returns the status of a response that reports an error of a kind.
func HTTPStatus(kind app.ErrorKind) int { return statuses[kind] }
