package server

import (
	"encoding/json"
	"net/http"
)

// Problem is an error as RFC 9457 describes it.
type Problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Help says what to do about it.
	Help string `json:"help,omitempty"`
	// Request is the id under which the server's log has the request.
	Request string `json:"request_id,omitempty"`
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
