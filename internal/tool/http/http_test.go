package http_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/netguard"
	"github.com/espalier-run/espalier/internal/tool"
	tools "github.com/espalier-run/espalier/internal/tool/http"
	"github.com/espalier-run/espalier/internal/tool/tooltest"
)

// echo responds with a description of the request.
func echo(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/text":
			fmt.Fprint(w, "plain text")
			return
		case "/no":
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, "too many roses")
			return
		case "/busy":
			w.WriteHeader(http.StatusTooManyRequests)
			return
		case "/broken":
			w.WriteHeader(http.StatusBadGateway)
			return
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("less"))
			return
		case "/again":
			http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
			return
		case "/away":
			http.Redirect(w, r, "http://10.0.0.1/", http.StatusTemporaryRedirect)
			return
		case "/flood":
			for range 1 << 20 {
				if _, err := w.Write(make([]byte, 1024)); err != nil {
					return
				}
			}
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]string{
			"request": r.Method + " " + r.URL.RequestURI(), "body": string(body),
			"auth": r.Header.Get("Authorization") + r.Header.Get("X-Api-Key"), "key": r.Header.Get("Idempotency-Key"),
		})
	}))
	t.Cleanup(s.Close)
	return s
}

func TestToolsMeetTheToolContract(t *testing.T) {
	s := echo(t)
	options := tools.Options{Guard: netguard.Options{Allow: []string{s.Listener.Addr().String()}}}
	declared := tools.Declared{
		Name: "records", Description: "adds a record", Schema: json.RawMessage(`{"type":"object"}`),
		URL: s.URL + "/{path}",
	}
	with := func(input string) tool.Call { return tool.Call{Key: "k1", Input: json.RawMessage(input)} }
	tooltest.Run(t, tooltest.Subject{
		Tool: tools.New(declared, options), Works: with(`{"path":"records"}`),
		Fails: []tooltest.Failure{
			{Call: with(`{"path":"no"}`)},
			{Call: with(`{"path":"busy"}`), Class: ir.ClassRateLimit},
			{Call: with(`{"path":"broken"}`), Class: ir.ClassAPI},
		},
	})
}

func TestCallSendsRequest(t *testing.T) {
	s := echo(t)
	open := netguard.Options{Allow: []string{s.Listener.Addr().String()}}
	for name, c := range map[string]struct {
		d     tools.Declared
		input string
		want  string
		class ir.Class
	}{
		"a body": {
			tools.Declared{URL: s.URL + "/records"},
			`{"a":1,"b":"x"}`,
			`{"auth":"","body":"{\"a\":1,\"b\":\"x\"}","key":"","request":"POST /records"}`, "",
		},
		"a query": {
			tools.Declared{URL: s.URL + "/find?v=2", Method: "get"},
			`{"q":"a b&c","n":3}`,
			`"request":"GET /find?n=3\u0026q=a+b%26c\u0026v=2"`, "",
		},
		"an argument in the path": {
			tools.Declared{URL: s.URL + "/records/{id}", Method: "PUT"},
			`{"id":"a/../b?x","v":1}`,
			`"body":"{\"v\":1}","key":"","request":"PUT /records/a%2F..%2Fb%3Fx"`, "",
		},
		"and in the query": {
			tools.Declared{URL: s.URL + "/r?id={id}", Method: "GET"},
			`{"id":"a&b=c"}`,
			`"request":"GET /r?id=a%26b%3Dc"`, "",
		},
		"one that leads up": {
			tools.Declared{URL: s.URL + "/r/{id}", Method: "GET"},
			`{"id":".."}`,
			"cannot be part of an address", ir.ClassInput,
		},
		"one that is absent": {
			tools.Declared{URL: s.URL + "/r/{id}", Method: "GET"},
			`{}`, `needs the argument "id"`,
			ir.ClassInput,
		},
		"no object": {tools.Declared{URL: s.URL}, `[1]`, "not an object", ir.ClassInput},
		"a bearer": {tools.Declared{
			URL: s.URL,
			Headers: []tools.Header{{
				Name:  "Authorization",
				Value: "Bearer secret://crm",
			}},
		}, `{}`, `"auth":"Bearer [crm]"`, ""},
		"a key": {tools.Declared{
			URL:     s.URL,
			Headers: []tools.Header{{Name: "X-Api-Key", Value: "secret://k"}},
		}, `{}`, `"auth":"[k]"`, ""},
		"a key that is not": {tools.Declared{
			URL: s.URL,
			Headers: []tools.Header{{
				Name:  "X-Api-Key",
				Value: "secret://none",
			}},
		}, `{}`, "no such key", ir.ClassMissing},
		"an idempotency key": {
			tools.Declared{URL: s.URL, IdempotencyHeader: "Idempotency-Key"},
			`{}`, `"key":"k1"`,
			"",
		},
		"text": {tools.Declared{URL: s.URL + "/text", Method: "GET"}, `{}`, `"plain text"`, ""},
		"a no": {
			tools.Declared{URL: s.URL + "/no"},
			`{}`,
			"422 Unprocessable Entity: \\\"too many roses\\\"", "no",
		},
		"too often":         {tools.Declared{URL: s.URL + "/busy"}, `{}`, "429", "RATE_LIMIT"},
		"a broken server":   {tools.Declared{URL: s.URL + "/broken"}, `{}`, "502", "API_ERROR"},
		"an answer cut off": {tools.Declared{URL: s.URL + "/cut"}, `{}`, "was cut off", ir.ClassTool},
		"sent in a circle":  {tools.Declared{URL: s.URL + "/again"}, `{}`, "redirected more than", ir.ClassTool},
		"sent away, inside": {tools.Declared{URL: s.URL + "/away"}, `{}`, "private address", ir.ClassDenied},
		"an endless answer": {tools.Declared{URL: s.URL + "/flood"}, `{}`, "longer than", ir.ClassTool},
		"unused port":       {tools.Declared{URL: "http://127.0.0.1:1/"}, `{}`, "loopback", ir.ClassDenied},
	} {
		t.Run(name, func(t *testing.T) {
			one := tools.New(c.d,
				tools.Options{
					Guard: open, MaxBytes: 1 << 20,
					Value: func(_ context.Context, text string) (string, error) {
						before, name, ok := strings.Cut(text, "secret://")
						if name == "none" {
							return "", errors.New("no such key")
						}
						if !ok {
							return text, nil
						}
						return before + "[" + name + "]", nil
					},
				})
			result, err := one.Call(t.Context(), tool.Call{Key: "k1", Input: json.RawMessage(c.input)})
			got, class := string(result.Output), ir.Class("")
			var failed *tool.Error
			switch {
			case errors.As(err, &failed):
				got, class = failed.Message, failed.Class
			case err != nil:
				t.Fatal(err)
			case result.IsError:
				class = "no"
			}
			if !strings.Contains(got, c.want) || class != c.class {
				t.Errorf("%s %s", class, got)
			}
		})
	}
}

func TestOnlySafeRequestsAreRepeatable(t *testing.T) {
	no := false
	for name, c := range map[string]struct {
		d          tools.Declared
		repeatable bool
		target     string
	}{
		"GET":       {tools.Declared{URL: "https://a/{id}", Method: "GET"}, true, "GET https://a/{id}"},
		"POST":      {tools.Declared{URL: "https://a"}, false, "POST https://a"},
		"with key":  {tools.Declared{URL: "https://a", IdempotencyHeader: "K"}, true, "POST https://a"},
		"harmless":  {tools.Declared{URL: "https://a", SideEffects: &no}, true, "POST https://a"},
		"DELETE it": {tools.Declared{URL: "https://a", Method: "DELETE"}, false, "DELETE https://a"},
	} {
		one := tools.New(c.d, tools.Options{})
		if tool.Repeatable(one, nil) != c.repeatable || one.Spec().Target != c.target {
			t.Errorf("%s: %+v", name, one.Spec())
		}
	}
}

func TestCanceledCallFails(t *testing.T) {
	reached := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(reached)
		<-r.Context().Done()
	}))
	defer s.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	go func() {
		<-reached
		cancel(why)
	}()
	one := tools.New(tools.Declared{URL: s.URL},
		tools.Options{Guard: netguard.Options{Allow: []string{s.Listener.Addr().String()}}})
	if _, err := one.Call(ctx, tool.Call{Input: json.RawMessage("{}")}); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

// A request belongs to the trace of its run unless its headers set another trace.
func TestTraceParentIsPropagated(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Traceparent")
	}))
	defer s.Close()
	open := tools.Options{Guard: netguard.Options{Allow: []string{s.Listener.Addr().String()}}}
	for want, headers := range map[string][]tools.Header{
		"00-01-02-01": nil,
		"own":         {{Name: "traceparent", Value: "own"}},
	} {
		call := tool.Call{Input: json.RawMessage(`{}`), TraceParent: "00-01-02-01"}
		if _, err := tools.New(tools.Declared{URL: s.URL, Headers: headers}, open).Call(t.Context(),
			call); err != nil || got != want {
			t.Errorf("the header is %q, want %q (%v)", got, want, err)
		}
	}
}
