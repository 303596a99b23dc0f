package web_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

var (
	tags      = regexp.MustCompile(`<[^>]*>`)
	summaries = regexp.MustCompile(`(?s)<summary>.*?</summary>`)
)

// Pages show steps by the names of the file: "gate of analyse", and not the name that the format has generated.
// Addresses and forms have the exact names.
func TestPagesShowTheNamesOfTheFile(t *testing.T) {
	s := newSite(t, writeUp())
	id, _ := s.beginWriteUp("Roses cost 3")
	run, c := string(id), s.client()
	shows := func(path, want string) {
		t.Helper()
		_, page := s.get(c, path)
		if strings.HasSuffix(path, "/transcript") || strings.HasSuffix(path, "/audit") {
			page = strings.Join(summaries.FindAllString(page, -1), "\n") // below them are the records themselves
		}
		text := tags.ReplaceAllString(page, " ")
		if !strings.Contains(text, want) {
			t.Errorf("%s does not show %q", path, want)
		}
		for _, generated := range []string{"analyse:gate", "~1"} {
			if i := strings.Index(text, generated); i >= 0 {
				t.Errorf("%s shows %q: %q", path, generated, strings.TrimSpace(text[max(0, i-60):min(len(text), i+40)]))
			}
		}
	}
	shows("/inbox", "Decision: analyse")
	shows("/inbox/"+run+"/analyse:gate", " analyse ")
	shows("/runs", "Waits for a decision about analyse")
	shows("/runs/"+run, "Decision: analyse")
	shows("/runs/"+run+"?step=analyse:gate", "gate of analyse")
	shows("/runs/"+run+"/transcript", "gate of analyse")
	if _, page := s.get(c, "/runs/"+run); !strings.Contains(page, "?step=analyse%3Agate") {
		t.Error("the page has no link to the gate")
	}

	gate := func() {
		t.Helper()
		status, err := s.app.Status(t.Context(), id)
		if err != nil || len(status.Gates) != 1 || status.Gates[0].Step != "analyse:gate" {
			t.Fatalf("%+v, %v", status, err)
		}
		if _, err := s.app.Send(t.Context(), id, journal.Actor{User: "ann"}, app.Approve{}); err != nil {
			t.Fatal(err)
		}
		s.rest(id)
	}
	gate()
	shows("/inbox", "Approved analyse")
	shows("/inbox/"+run+"/analyse:gate", "Approved")
	shows("/runs/"+run, "gate of analyse")
	shows("/runs/"+run+"/transcript", "gate of analyse")
	shows("/runs/"+run+"/audit", "gate of analyse")

	resumption, err := s.app.PrepareResume(t.Context(), app.ResumeRequest{Run: id, From: "gate of analyse"})
	if err == nil {
		err = s.app.Resume(t.Context(), resumption)
	}
	if err != nil {
		t.Fatal(err)
	}
	first := run
	id = resumption.Run
	s.rest(id)
	shows("/runs/"+string(id), "gate of analyse")
	if _, page := s.get(c, "/runs/"+string(id)); !strings.Contains(page, "from <code>gate of analyse</code>") {
		t.Error("the page does not say which step the run continues from")
	}
	gate()
	shows("/compare?a="+string(id)+"&b="+first, "gate of analyse")
	shows("/runs", "write-up")
}
