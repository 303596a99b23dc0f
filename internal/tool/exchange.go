package tool

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/espalier-run/espalier/internal/netguard"
)

// SetTraceParent adds the call's traceparent to a request, unless it has one.
func SetTraceParent(h http.Header, call Call) {
	if call.TraceParent != "" && h.Get("Traceparent") == "" {
		h.Set("Traceparent", call.TraceParent)
	}
}

// maxAnswer is the default limit on the length of an answer.
const maxAnswer = 4 << 20

// Answer is what came back.
type Answer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body"`
	JSON    json.RawMessage   `json:"json,omitempty"` // the body, when it is JSON
}

// Words returns the status, and how the body begins, as people read it.
func (a *Answer) Words() string {
	const most = 300
	text := strings.TrimSpace(fmt.Sprintf("the server answered %d %s", a.Status, http.StatusText(a.Status)))
	body := strings.TrimSpace(cmp.Or(a.Body, string(a.JSON)))
	if len(body) > most {
		body = strings.ToValidUTF8(body[:most], "") + "…"
	}
	if body == "" {
		return text
	}
	return text + ": " + body
}

// Exchange makes a request and reads its answer, up to a size.
func Exchange(client *http.Client, req *http.Request, most int64) (*Answer, error) {
	if most == 0 {
		most = maxAnswer
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, unreachable(err)
	}
	defer resp.Body.Close()
	raw, err := netguard.ReadAll(resp.Body, most)
	switch {
	case errors.Is(err, netguard.ErrTooLong):
		return nil, &Error{Class: ClassTool, Message: fmt.Sprintf("the answer is longer than %d bytes", most)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &Error{Class: ClassTool, Message: fmt.Sprintf("the answer of %s broke off before its end", resp.Request.URL.Host)}
	case err != nil:
		return nil, unreachable(err)
	}
	out := &Answer{Status: resp.StatusCode, Headers: map[string]string{}, Body: strings.ToValidUTF8(string(raw), "�")}
	for name := range resp.Header {
		out.Headers[name] = strings.Join(resp.Header.Values(name), ", ")
	}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") && json.Valid(raw) {
		out.JSON, out.Body = raw, ""
	}
	return out, nil
}

// unreachable says why there is no answer.
func unreachable(err error) error {
	var ours *Error
	var forbidden *netguard.ForbiddenError
	var slow interface{ Timeout() bool }
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &forbidden):
		return &Error{Class: ClassDenied, Message: forbidden.Error() + ", which is not on the open internet and not allowed in the configuration"}
	case errors.As(err, &slow) && slow.Timeout():
		return &Error{Class: ClassTimeout, Message: "there was no answer in time"}
	}
	return &Error{Class: ClassTool, Message: netguard.ErrorText(err)}
}
