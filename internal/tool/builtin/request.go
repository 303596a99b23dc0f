package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/netguard"
	"github.com/espalier-run/espalier/internal/tool"
)

// Network configures which hosts requests may reach.
type Network struct {
	// Guard allows hosts in addition to public addresses.
	Guard netguard.Options
	// MaxBytes limits the size of a response; 0 selects the default.
	MaxBytes int64
}

var methods = []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"}

// requestTool returns the tool that makes an HTTP request. Only calls with a safe method may be repeated. Each redirect
// is checked against the lists of the workflow: its allowlist has the address of the call, not the one that a server
// redirects to.
func (o Options) requestTool() tool.Tool {
	type input struct {
		URL     string            `json:"url"`
		Method  string            `json:"method"`
		Headers map[string]string `json:"headers"`
		Body    json.RawMessage   `json:"body"`
		Timeout int               `json:"timeout_seconds"`
	}
	method := func(in input) string {
		if in.Method == "" {
			return http.MethodGet
		}
		return strings.ToUpper(in.Method)
	}
	return function[input]{
		spec: tool.Spec{
			Name:        "http.request",
			Description: "Make an HTTP request to a public address and return the status, headers and body.",
			Target:      "the open internet", SideEffects: true, Timeout: (maxSeconds + 30) * time.Second,
			Schema: schemaOf(fmt.Sprintf(`{"type":"object","properties":{
				"url":{"type":"string","minLength":1},
				"method":{"type":"string","enum":["%s"]},
				"headers":{"type":"object","additionalProperties":{"type":"string"}},
				"body":{"description":"A string is sent as it is, anything else as JSON"},
				"timeout_seconds":{"type":"integer","minimum":1,"maximum":%d}},
				"required":["url"],"additionalProperties":false}`, strings.Join(methods, `","`), maxSeconds)),
			Returns: schemaOf(`{"type":"object","properties":{"status":{"type":"integer","examples":[200]},` +
				`"headers":{"type":"object","additionalProperties":{"type":"string"}},"body":{"type":"string"}},` +
				`"required":["status","body"]}`),
		},
		repeatable: func(in input) bool { return slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, method(in)) },
		call: func(ctx context.Context, call tool.Call, in input) (any, error) {
			u, err := url.Parse(in.URL)
			if err == nil {
				err = netguard.Check(u)
			}
			if err != nil {
				return nil, tool.Errorf(ir.ClassInput, "%q cannot be reached: %v", in.URL, err)
			}
			var body io.Reader
			header := http.Header{}
			if len(in.Body) > 0 && string(in.Body) != "null" {
				var text string
				if json.Unmarshal(in.Body, &text) == nil {
					body = strings.NewReader(text)
					header.Set("Content-Type", "text/plain; charset=utf-8")
				} else {
					body = bytes.NewReader(in.Body)
					header.Set("Content-Type", "application/json")
				}
			}
			for name, value := range in.Headers {
				header.Set(name, value)
			}
			req, err := http.NewRequestWithContext(ctx, method(in), u.String(), body)
			if err != nil {
				return nil, &tool.Error{Class: ir.ClassInput, Message: err.Error()}
			}
			req.Header = header
			tool.SetTraceParent(req.Header, call)
			guard := o.Network.Guard
			if in.Timeout > 0 {
				guard.Timeout = time.Duration(in.Timeout) * time.Second
			}
			client := netguard.Client(guard)
			follow := client.CheckRedirect
			client.CheckRedirect = func(next *http.Request, via []*http.Request) error {
				if call.MayReach != nil && !call.MayReach(next.URL.String()) {
					return tool.Errorf(ir.ClassDenied, "redirect to %s denied by the tool allowlist", next.URL.Host)
				}
				return follow(next, via)
			}
			answer, err := tool.Exchange(client, req, o.Network.MaxBytes)
			if err != nil {
				return nil, err
			}
			if answer.Status >= http.StatusBadRequest {
				return nil, toolFailure{answer, answer.Summary()}
			}
			return answer, nil
		},
	}
}
