package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/journal"
)

// private are the values that the workflow of the test redacts.
var private = regexp.MustCompile(`ann@example|bob@example|ZX-[0-9]`)

// No route shows what a workflow redacts, except those that return the product of a run: its output and its files.
func TestEveryRouteRedacts(t *testing.T) {
	dir := t.TempDir()
	text := strings.ReplaceAll(gated, "~~~", "```") + "\n```runtime\nhuman_in_the_loop: true\n```\n\n" +
		"```observability\nredaction: {pii: true, patterns: [\"ZX-[0-9]+\"]}\n```\n"
	if err := os.WriteFile(filepath.Join(dir, "gated.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	script := "replies:\n  - {reply: \"Ask bob@example.com about ZX-4444\"}\n"
	p := serve(t, dir)
	by := journal.Actor{User: "tester"}
	var runs []string
	for range 2 {
		an, err := p.app.Analyze(t.Context(), app.AnalyzeRequest{
			Workflow: "gated", Reading: catalog.ReadOptions{Run: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		prepared, err := p.app.Prepare(t.Context(), app.PrepareRequest{
			Workflow: an, Input: json.RawMessage(`{"question": "Who is ann@example.com, ZX-1111?"}`),
			Options: app.RunOptions{Script: script, ScriptName: "replies.yaml", RecordStream: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := prepared.Err(); err != nil {
			t.Fatal(err)
		}
		id, err := p.app.Start(t.Context(), prepared, app.NewRunID(), by)
		if err != nil {
			t.Fatal(err)
		}
		p.until(string(id), journal.StateWaiting)
		runs = append(runs, string(id))
	}
	edit := app.Edit{Variable: "output.answer", Value: json.RawMessage(`"bob@example.com, ZX-2222"`)}
	if _, err := p.app.Send(t.Context(), journal.RunID(runs[0]), by, edit); err != nil {
		t.Fatal(err)
	}
	if _, err := p.app.Send(t.Context(), journal.RunID(runs[0]), by,
		app.Approve{Note: "bob@example.com, ZX-3333"}); err != nil {
		t.Fatal(err)
	}
	p.until(runs[0], journal.StateFinished)
	marked := 0
	for _, route := range p.server.Routes() {
		if route.Method != http.MethodGet || strings.HasSuffix(route.Path, "/output") ||
			strings.Contains(route.Path, "/artifacts") {
			continue
		}
		for _, run := range runs {
			for _, step := range []string{"draft", "check"} {
				path := strings.NewReplacer("{workflow}", "gated", "{run}", run, "{step}", step).Replace(route.Path)
				body := p.read(path)
				if found := private.FindString(body); found != "" {
					t.Errorf("%s shows %s", path, found)
				}
				if strings.Contains(body, "[redacted ") {
					marked++
				}
			}
		}
	}
	if marked < 10 {
		t.Errorf("only %d responses have redacted content; the test does not test much", marked)
	}
	if found := private.FindString(p.log.String()); found != "" {
		t.Errorf("the log shows %s", found)
	}
}

// read returns what a route responds; of a stream, what it sends within a second.
func (p *project) read(path string) string {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	r.Header.Set("Last-Event-ID", "0")
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(path, err)
	}
	defer w.Body.Close()
	raw, _ := io.ReadAll(w.Body) // a stream ends with the context
	return string(raw)
}
