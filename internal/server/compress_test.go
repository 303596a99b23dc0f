package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/journal"
)

// fetch makes a request with headers, and returns the response with its body as
// it was sent.
func (p *project) fetch(path string, header ...string) (*http.Response, []byte) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w, err := (&http.Transport{DisableCompression: true}).RoundTrip(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer w.Body.Close()
	raw, err := io.ReadAll(w.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return w, raw
}

func TestLargeResponsesAreCompressedForClientsThatAskForIt(t *testing.T) {
	p := newProject(t)
	plain, text := p.fetch("/api/v1/openapi.json")
	if plain.Header.Get("Content-Encoding") != "" {
		t.Errorf("%v", plain.Header)
	}
	small, packed := p.fetch("/api/v1/openapi.json", "Accept-Encoding", "br, gzip;q=0.5")
	if small.Header.Get("Content-Encoding") != "gzip" || len(packed) > len(text)/2 {
		t.Fatalf("%d of %d bytes, %v", len(packed), len(text), small.Header)
	}
	unpack, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(unpack); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%v, %d bytes", err, len(got))
	}
	for _, no := range []string{"identity", "gzip;q=0", "gzip; q=0.0", ""} {
		if w, _ := p.fetch("/api/v1/openapi.json", "Accept-Encoding", no); w.Header.Get("Content-Encoding") != "" {
			t.Errorf("%q: %v", no, w.Header)
		}
	}
	if w, _ := p.fetch("/api/v1/me", "Accept-Encoding", "gzip"); w.Header.Get("Content-Encoding") != "" {
		t.Errorf("a small response: %v", w.Header)
	}
}

// Live events are sent at once, also to clients that accept compression.
func TestLiveEventsAreNotCompressed(t *testing.T) {
	p := newProject(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	r.Header.Set("Accept-Encoding", "gzip")
	w, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	first := make([]byte, 6)
	if _, err := io.ReadFull(w.Body, first); err != nil || string(first) != "retry:" ||
		w.Header.Get("Content-Encoding") != "" {
		t.Errorf("%q, %v, %v", first, err, w.Header)
	}
}

func TestUnchangedResponsesHaveNoBody(t *testing.T) {
	p := newProject(t)
	var s api.Status
	start := map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}, "simulate": true}
	p.call("POST", "/api/v1/runs", start, &s, 201)
	gate := p.until(s.ID, journal.StateWaiting).Gates[0]
	path := "/api/v1/runs/" + s.ID
	w, _ := p.fetch(path)
	tag := w.Header.Get("ETag")
	if tag == "" {
		t.Fatal("no ETag")
	}
	for _, header := range []string{tag, "*", `"x", ` + tag, strings.TrimPrefix(tag, "W/")} {
		if w, body := p.fetch(path, "If-None-Match", header); w.StatusCode != 304 || len(body) > 0 {
			t.Errorf("%s: %d %s", header, w.StatusCode, body)
		}
	}
	p.call("POST", path+"/decide", api.DecideBody{Decision: "approve", Digest: gate.Digest}, nil, 200)
	p.until(s.ID, journal.StateFinished)
	if w, _ := p.fetch(path, "If-None-Match", tag); w.StatusCode != 200 || w.Header.Get("ETag") == tag {
		t.Errorf("after a change: %d %s", w.StatusCode, w.Header.Get("ETag"))
	}
	// The tag of a response is no credential.
	p.token = "none"
	if w, _ := p.fetch(path, "If-None-Match", "*"); w.StatusCode != 401 {
		t.Errorf("without a token: %d", w.StatusCode)
	}
}

// A run that reaches the spending limit of the project waits for the next day.
func TestSpendingLimitMakesRunsWait(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,`+
			`"delta":{"role":"assistant","content":"because"},"finish_reason":"stop"}]}`+"\n\n"+
			`data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[],`+
			`"usage":{"prompt_tokens":100,"completion_tokens":400,"total_tokens":500}}`+"\n\ndata: [DONE]\n\n")
	}))
	defer model.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{"gated.md": gated, "espalier.yaml": `
models: {default: till/m, providers: {till: {api: openai, base_url: "` + model.URL + `", max_retries: 0}}}
allow: {hosts: ["127.0.0.1:*"]}
prices: {till/m: {input: 10, output: 100}}
spending: {everything: {dollars_per_day: 0.08}}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := serve(t, dir)
	p.contract = newContract(t, p.server)
	var first, second api.Status
	start := map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}}
	p.call("POST", "/api/v1/runs", start, &first, 201)
	p.until(first.ID, journal.StateWaiting)
	p.call("POST", "/api/v1/runs", start, &second, 201)
	status := p.until(second.ID, journal.StateSleeping)
	if status.Wakes == nil || !status.Wakes.After(time.Now().Add(time.Minute)) {
		t.Errorf("%+v", status)
	}
	var now projectStats
	p.call("GET", "/api/v1/stats", nil, &now, 200)
	if len(now.Spending) != 1 || now.Spending[0].MicroDollars != 100*10+400*100 ||
		now.Runs[journal.StateSleeping] != 1 {
		raw, _ := json.Marshal(now)
		t.Errorf("%s", raw)
	}
}
