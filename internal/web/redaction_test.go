package web_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// No page shows what a workflow redacts, except those with the product of a run: its output and its files.
func TestEveryPageRedacts(t *testing.T) {
	private := regexp.MustCompile(`ann@example|bob@example|ZX-[0-9]`)
	text := gated + "\n~~~runtime\nhuman_in_the_loop: true\n~~~\n\n" +
		"~~~observability\nredaction: {pii: true, patterns: [\"ZX-[0-9]+\"]}\n~~~\n"
	s := newSite(t, map[string]string{"gated.md": text})
	scripted := app.RunOptions{
		Script: "replies:\n  - {reply: \"Ask bob@example.com about ZX-4444\"}\n", ScriptName: "replies.yaml",
		RecordStream: true,
	}
	asked := app.Field{Name: "question", Text: "Who is ann@example.com, ZX-1111?"}
	waiting, decided := s.begin("gated", scripted, asked), s.begin("gated", scripted, asked)
	s.rest(waiting)
	s.rest(decided)
	by := journal.Actor{User: "tester"}
	for _, m := range []app.Message{
		app.Edit{Variable: "output.answer", Value: json.RawMessage(`"bob@example.com, ZX-2222"`)},
		app.Approve{Note: "bob@example.com, ZX-3333"},
	} {
		if _, err := s.app.Send(t.Context(), decided, by, m); err != nil {
			t.Fatal(err)
		}
	}
	s.rest(decided)
	client, marked, seen := s.client(), 0, map[string]bool{}
	for _, route := range s.pages.Routes() {
		method, pattern, ok := strings.Cut(route.Pattern, " ")
		if !ok {
			method, pattern = http.MethodGet, route.Pattern
		}
		if method != http.MethodGet || strings.HasSuffix(pattern, "/output") ||
			strings.Contains(pattern, "/artifacts") {
			continue
		}
		for _, run := range []journal.RunID{waiting, decided} {
			for _, step := range []string{"draft", "check"} {
				path := strings.NewReplacer("{run}", string(run), "{workflow}", "gated",
					"{step}", step).Replace(pattern)
				for _, query := range []string{
					"", "?step=" + step, "?a=" + string(waiting) + "&b=" + string(decided),
					"?like=" + string(run),
				} {
					if seen[path+query] {
						continue
					}
					seen[path+query] = true
					body := s.read(client, path+query)
					if found := private.FindString(body); found != "" {
						t.Errorf("%s shows %s", path+query, found)
					}
					if strings.Contains(body, "[redacted ") {
						marked++
					}
				}
			}
		}
	}
	// A form with the values of a run must not start another run with the replacements of redacted values.
	form := s.read(client, "/workflows/gated?like="+string(waiting))
	if !strings.Contains(form, "The value is redacted. Enter it again.") {
		t.Error("the form does not ask for the redacted value")
	}
	if strings.Contains(form, "[redacted ") {
		t.Error("the form is filled with a replacement")
	}
	if marked < 20 {
		t.Errorf("only %d pages have redacted content; the test does not test much", marked)
	}
}

// A form that corrects a value is not filled with the replacement of a redacted one, which the step would get as its
// value. A field that is left empty keeps the value.
func TestCorrectionDoesNotSendRedactedValues(t *testing.T) {
	raw, err := os.ReadFile("examples/parcel-refund.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw) + "\n~~~observability\nredaction: {pii: true}\n~~~\n"
	s := newSite(t, map[string]string{"parcel-refund.md": text})
	failed := s.play("parcel-refund", `replies: [{step: read_complaint, reply: ada@mail.example}]
tools:
  mail.send:
    answers:
      - {input: {address: ada@mail.example}, fail: {class: TOOL_ERROR, message: refused}}
      - {output: {sent: true}}
otherwise: simulate
`, app.Field{Name: "complaint", Text: "My parcel never arrived."})
	s.rest(failed)
	client, path := s.client(), "/runs/"+string(failed)
	_, page := s.get(client, path+"?step=send_answer")
	if !strings.Contains(page, `name="set-value" value=""`) || !strings.Contains(page, "The value is redacted.") {
		t.Error("the field of the redacted value is not empty, or does not say why")
	}
	if strings.Contains(page, "<b>Model</b>") || !strings.Contains(page, "<b>Tool call</b>") {
		t.Error("the tool call of a step without a model has the heading of a model")
	}
	retried := func(value string) *app.Run {
		t.Helper()
		response, err := client.PostForm(s.url(path+"/retry"), url.Values{
			"from": {"send_answer"}, "set-name": {"state.address"}, "set-before": {""}, "set-kind": {"text"},
			"set-value": {value},
		})
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		next := response.Request.URL
		if at, err := response.Location(); err == nil {
			next = at
		}
		return s.rest(journal.RunID(filepath.Base(next.Path)))
	}
	if run := retried(""); run.ID == failed || run.Outcome != journal.OutcomeFailed {
		t.Errorf("with an empty field, run %s is %s; the address was to stay as it is", run.ID, run.Outcome)
	}
	if run := retried("bob@mail.example"); run.Outcome != journal.OutcomeOK {
		t.Errorf("with another address, the run is %s", run.Outcome)
	}
}

// read returns a page; of a stream, what it sends within a moment.
func (s *site) read(client *http.Client, path string) string {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(path), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	w, err := client.Do(r)
	if err != nil {
		return ""
	}
	defer w.Body.Close()
	raw, _ := io.ReadAll(w.Body) // a stream ends with the context
	return string(raw)
}
