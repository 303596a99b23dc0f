package http

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/netguard"
	"github.com/espalier-run/espalier/internal/tool"
)

// Declared is the declaration of a tool in the configuration.
type Declared struct {
	Name        string
	Description string
	Schema      json.RawMessage
	URL         string // {name} after the host is replaced with an argument
	Method      string // empty selects POST
	Headers     []Header
	// IdempotencyHeader is the header that carries the key of the call.
	IdempotencyHeader string
	SideEffects       *bool // nil: derived from the method
	Timeout           time.Duration
}

// Header is a header of the request. Its value may refer to a secret, which is resolved for each request.
type Header struct{ Name, Value string }

// Options configures which hosts requests may reach, and the source of secrets.
type Options struct {
	Guard netguard.Options
	// Value replaces references to secrets and variables in a text; nil leaves texts unchanged.
	Value func(ctx context.Context, text string) (string, error)
	// MaxBytes limits the size of a response; 0 selects the default.
	MaxBytes int64
}

// New returns the declared tool.
func New(d Declared, o Options) tool.Tool {
	d.Method = cmp.Or(d.Method, http.MethodPost)
	d.Method = strings.ToUpper(d.Method)
	return declared{d, o}
}

type declared struct {
	Declared
	o Options
}

func (d declared) Spec() tool.Spec {
	effects := d.Method != http.MethodGet && d.Method != http.MethodHead
	if d.SideEffects != nil {
		effects = *d.SideEffects
	}
	return tool.Spec{
		Name: d.Name, Description: d.Description, Schema: d.Schema, SideEffects: effects,
		TakesKey: d.IdempotencyHeader != "",
		Target:   d.Method + " " + d.URL, Timeout: d.Timeout,
	}
}

// Call sends the request. Its result is the body of the response: unchanged if it is JSON, a placeholder with media if
// it is a binary file, otherwise a string. Statuses that a retry may change (429 and 5xx) end the call with an error;
// other statuses from 400 on are results, from which a model can learn.
func (d declared) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	req, err := d.request(ctx, call)
	if err != nil {
		return tool.Result{}, err
	}
	guard := d.o.Guard
	if d.Timeout > 0 {
		guard.Timeout = d.Timeout
	}
	answer, err := tool.Exchange(netguard.Client(guard), req, d.o.MaxBytes)
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return tool.Result{}, err
	}
	body := answer.JSON
	if body == nil {
		if body, err = json.Marshal(answer.Body); err != nil {
			return tool.Result{}, err
		}
	}
	switch {
	case answer.Status == http.StatusTooManyRequests:
		return tool.Result{}, &tool.Error{Class: ir.ClassRateLimit, Message: failure(answer, body)}
	case answer.Status >= http.StatusInternalServerError:
		return tool.Result{}, &tool.Error{Class: ir.ClassAPI, Message: failure(answer, body)}
	case answer.Status >= http.StatusBadRequest:
		message, err := json.Marshal(status(answer, body))
		return tool.Result{Output: message, IsError: true, Media: answer.Media}, err
	}
	return tool.Result{Output: body, Media: answer.Media}, nil
}

// failure describes a response that ends the call. Its media are not kept, so the text does not mention them.
func failure(a *tool.Answer, body json.RawMessage) string {
	if a.Media != nil {
		return a.Summary()
	}
	return status(a, body)
}

// status describes the response of a server that rejects the request.
func status(a *tool.Answer, body json.RawMessage) string {
	const most = 2000
	text := string(body)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return fmt.Sprintf("the server answered %d %s: %s", a.Status, http.StatusText(a.Status), text)
}

// request builds the request. Arguments go into the path if the URL names them, otherwise into the query of a GET or
// DELETE request or into the body of others.
func (d declared) request(ctx context.Context, call tool.Call) (*http.Request, error) {
	args := map[string]json.RawMessage{}
	if err := json.Unmarshal(call.Input, &args); err != nil {
		return nil, &tool.Error{Class: ir.ClassInput, Message: "the arguments are not an object"}
	}
	u, err := fillURL(d.URL, args)
	if err != nil {
		return nil, &tool.Error{Class: ir.ClassInput, Message: err.Error()}
	}
	var body io.Reader
	if d.Method == http.MethodGet || d.Method == http.MethodHead || d.Method == http.MethodDelete {
		query := u.Query()
		for _, name := range slices.Sorted(maps.Keys(args)) {
			query.Set(name, ir.PlainText(args[name]))
		}
		u.RawQuery = query.Encode()
	} else {
		raw, err := json.Marshal(args)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, d.Method, u.String(), body)
	if err != nil {
		return nil, &tool.Error{Class: ir.ClassInput, Message: err.Error()}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	tool.SetTraceParent(req.Header, call)
	for _, h := range d.Headers {
		value := h.Value
		if d.o.Value != nil {
			if value, err = d.o.Value(ctx, value); err != nil {
				return nil, tool.Errorf(ir.ClassMissing, "the header %s: %v", h.Name, err)
			}
		}
		req.Header.Set(h.Name, value)
	}
	if d.IdempotencyHeader != "" {
		req.Header.Set(d.IdempotencyHeader, call.Key)
	}
	return req, nil
}

// fillURL inserts arguments into a URL and removes them from args. Values are escaped, and "." and ".." are refused, so
// that an argument cannot lead to another path or host.
func fillURL(text string, args map[string]json.RawMessage) (*url.URL, error) {
	whole := text
	path, query, hasQuery := strings.Cut(text, "?")
	fill := func(part string, escape func(string) string) (string, error) {
		var out strings.Builder
		for {
			before, inner, opened := strings.Cut(part, "{")
			name, after, closed := strings.Cut(inner, "}")
			out.WriteString(before)
			if !opened || !closed {
				return out.String(), nil
			}
			raw, ok := args[name]
			value := ir.PlainText(raw)
			switch {
			case !ok:
				return "", fmt.Errorf("the address %s needs the argument %q", whole, name)
			case value == "" || value == "." || value == "..":
				return "", fmt.Errorf("the argument %q cannot be part of an address: %q", name, value)
			}
			out.WriteString(escape(value))
			part = after
		}
	}
	used := placeholders(text)
	path, err := fill(path, url.PathEscape)
	if err != nil {
		return nil, err
	}
	if hasQuery {
		if query, err = fill(query, url.QueryEscape); err != nil {
			return nil, err
		}
		path += "?" + query
	}
	for _, name := range used {
		delete(args, name)
	}
	u, err := url.Parse(path)
	if err == nil {
		err = netguard.Check(u)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the address %s cannot be reached", whole), err)
	}
	return u, nil
}

// placeholders returns the names of the arguments in a URL.
func placeholders(text string) []string {
	var out []string
	for {
		_, inner, opened := strings.Cut(text, "{")
		name, after, closed := strings.Cut(inner, "}")
		if !opened || !closed {
			return out
		}
		out = append(out, name)
		text = after
	}
}
