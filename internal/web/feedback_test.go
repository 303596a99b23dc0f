package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// A cancellation without a run that can be cancelled is refused: nothing happened, and the page does not report success.
func TestCancelWithoutASelectionIsRefused(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	c := s.client()
	finished := s.begin("gated", simulate, question)
	s.rest(finished)
	if _, err := s.app.Send(t.Context(), finished, journal.Actor{User: "tester"}, app.Approve{}); err != nil {
		t.Fatal(err)
	}
	s.rest(finished)
	for _, form := range []url.Values{{}, {"run": {string(finished)}}} {
		response, err := c.PostForm(s.url("/runs/cancel"), form)
		if err != nil {
			t.Fatal(err)
		}
		if response.Body.Close(); response.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%v: %s", form, response.Status)
		}
	}
	if run := s.rest(id); run.Status != journal.Waiting {
		t.Errorf("the run is %s", run.Status)
	}
	b := s.open()
	b.visit("/runs")
	b.click("#cancel-runs summary")
	b.wait(`document.querySelector("#cancel-runs button").disabled`)
	b.click("#run-" + string(id) + " input")
	b.wait(`!document.querySelector("#cancel-runs button").disabled`)
}

// What an action has done stays on the page when the page is updated.
func TestNoticeStaysWhenThePageIsUpdated(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	b := s.open()
	b.visit("/inbox/" + string(id) + "/check")
	b.click("button[value=approve]")
	b.waitText("#notice", "Approved")
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	next := s.begin("gated", simulate, question)
	s.rest(next)
	b.wait(fmt.Sprintf("!!document.querySelector('#inbox-mine a[href*=%q]')", next))
	b.waitText("#notice", "Approved")
}
