package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
)

// A decision in one browser reaches the other one: its form is replaced by who decided, without a reload.
func TestTwoBrowsersSeeTheSameDecision(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	first, second := s.open(), s.openAs("legal-ops", identity.Approver)
	item := "/inbox/" + string(id) + "/check"
	first.visit(item)
	second.visit(item)
	second.wait(`document.querySelector("#link").textContent === "Live"`)
	eval[bool](second, "window.sameDocument = true")
	first.set("#note", "Agreed")
	first.click("button[value=approve]")
	first.waitText("#notice", "Approved")
	second.waitText("#decided", "Approved by")
	second.waitText("#decided", "Agreed")
	second.wait(`document.querySelector("#nav-inbox-count").hidden`)
	if !eval[bool](second, "window.sameDocument === true") {
		t.Error("the page was reloaded")
	}
}

// The list of runs updates the rows that are shown, and counts new runs without moving the list.
func TestRunListStaysInPlace(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	old := s.begin("gated", simulate, question)
	s.rest(old)
	b := s.open()
	b.visit("/runs")
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	s.rest(s.begin("gated", simulate, question))
	b.waitText("#new-runs", "1 run started since")
	if n := eval[int](b, `document.querySelectorAll("#runs tr").length`); n != 1 {
		t.Errorf("the list has %d rows", n)
	}
	approve(s, old)
	b.waitText("#run-"+string(old), "Finished")
	b.click("#new-runs a")
	b.wait(`document.querySelectorAll("#runs tr").length === 2`)
}

// The graph of a run follows the run: its nodes change state without a reload.
func TestGraphFollowsTheRun(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	b := s.open()
	b.visit("/runs/" + string(id))
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	b.wait(`document.getElementById("node-check").dataset.state === "waiting"`)
	eval[bool](b, "window.sameDocument = true")
	approve(s, id)
	b.wait(`document.getElementById("node-check").dataset.state === "ok"`)
	b.waitText("#run-state", "Finished")
	b.wait(`!document.querySelector("#asks")`)
	if !eval[bool](b, "window.sameDocument === true") {
		t.Error("the page was reloaded")
	}
}

// approve approves the gate of a run.
func approve(s *site, id journal.RunID) {
	s.t.Helper()
	c := s.client()
	response, err := c.PostForm(s.url("/runs/"+string(id)+"/decide"), url.Values{
		"step": {"check"}, "decision": {"approve"}, "digest": {s.digest(id)},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusSeeOther {
		s.t.Fatalf("approve: %s", response.Status)
	}
}

// digest returns the digest of what the gate of a run shows.
func (s *site) digest(id journal.RunID) string {
	s.t.Helper()
	status, err := s.app.Status(s.t.Context(), id)
	if err != nil || len(status.Gates) == 0 {
		s.t.Fatalf("the run has no gate: %v", err)
	}
	return status.Gates[0].Digest
}

// A page that is open while the server is replaced says that it is not connected, and then catches up.
func TestPageSurvivesARestartOfTheServer(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	b := s.open()
	b.expect("ERR_", "Failed to load resource", "Failed to fetch")
	b.visit("/inbox/" + string(id) + "/check")
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	b.set("#note", "half a sentence")
	s.stop()
	b.wait(`document.querySelector("#link").textContent.startsWith("Not connected")`)
	s.start()
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	if got := eval[string](b, `document.querySelector("#note").value`); got != "half a sentence" {
		t.Errorf("the comment is now %q", got)
	}
	approve(s, id)
	b.waitText("#decided", "Approved by")
}

// A comment survives the end of the session: it is there again after signing in.
func TestExpiredSessionKeepsTheComment(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	token, err := s.auth.Users().Add("legal-ops", false, []identity.Role{identity.Approver}, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := s.open()
	b.expect("401")
	b.visit("/inbox/" + string(id) + "/check")
	b.set("#note", "a long thought")
	b.signOut()
	b.click("button[value=approve]")
	b.waitText("#kept", "a long thought")
	b.set("#token", token)
	b.click("form button")
	b.wait(`document.querySelector("#note")?.value === "a long thought"`)
	b.click("button[value=approve]")
	b.waitText("#notice", "Approved")
	for _, fact := range s.facts(id) {
		if x, ok := fact.(journal.GateDecided); ok && (x.Note != "a long thought" || x.By.User != "legal-ops") {
			t.Errorf("%+v", x)
		}
	}
	b.visit("/login?next=//evil.example/")
	b.set("#token", token)
	b.click("form button")
	b.wait(`location.pathname === "/inbox"`)
}

// Fifty clicks on Approve, and fifty requests at once, make one decision.
func TestFiftyClicksMakeOneDecision(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	clicked, posted := s.begin("gated", simulate, question), s.begin("gated", simulate, question)
	s.rest(clicked)
	s.rest(posted)
	b := s.open()
	b.visit("/inbox/" + string(clicked) + "/check")
	eval[bool](b, `(() => { const b = document.querySelector("button[value=approve]");
		for (let i = 0; i < 50; i++) b.click(); return true; })()`)
	b.waitText("#notice", "Approved")

	form := url.Values{"step": {"check"}, "decision": {"approve"}, "digest": {s.digest(posted)}}
	c := s.client()
	var group sync.WaitGroup
	statuses := make(chan int, 50)
	for range 50 {
		group.Go(func() {
			response, err := c.PostForm(s.url("/runs/"+string(posted)+"/decide"), form)
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
			statuses <- response.StatusCode
		})
	}
	group.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	if count[http.StatusSeeOther] != 1 || count[http.StatusConflict] != 49 {
		t.Errorf("statuses: %v", count)
	}
	for _, id := range []journal.RunID{clicked, posted} {
		s.rest(id)
		decisions := 0
		for _, fact := range s.facts(id) {
			if _, ok := fact.(journal.GateDecided); ok {
				decisions++
			}
		}
		if decisions != 1 {
			t.Errorf("run %s has %d decisions", id, decisions)
		}
	}
}

// Shortcuts move the focus and never decide anything.
func TestShortcutsMoveFocusAndDecideNothing(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	b := s.open()
	b.visit("/inbox")
	b.press("a")
	b.wait(`document.activeElement.value === "approve"`)
	b.press("x")
	b.wait(`document.activeElement.value === "reject"`)
	b.press("j")
	b.wait(`document.activeElement.matches("a.ask")`)
	b.press("?")
	b.wait(`document.querySelector("#keys").open`)
	b.click("#keys button")
	b.press("g")
	b.press("r")
	b.wait(`location.pathname === "/runs"`)
	b.press("/")
	b.wait(`document.activeElement.type === "search"`)
	if run := s.rest(id); run.Status != journal.Waiting {
		t.Errorf("the run is %s", run.Status)
	}
}

// A viewer reads everything and changes nothing: every route that changes something refuses.
func TestViewerChangesNothing(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	before := len(s.facts(id))
	token, err := s.auth.Users().Add("reader", false, []identity.Role{identity.Viewer}, 0)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, route := range s.pages.Routes() {
		method, path, ok := strings.Cut(route.Pattern, " ")
		if !ok || method != http.MethodPost {
			continue
		}
		tried++
		path = strings.NewReplacer("{run}", string(id), "{workflow}", "gated").Replace(path)
		for _, credential := range []string{"", "Bearer " + token} {
			r, err := http.NewRequest(method, s.url(path),
				strings.NewReader("decision=approve&example=contract-review"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if credential != "" {
				r.Header.Set("Authorization", credential)
			}
			response, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			want := http.StatusForbidden
			if credential == "" {
				want = http.StatusUnauthorized
			}
			if response.StatusCode != want {
				t.Errorf("%s with %q: %s, want %d", route.Pattern, credential, response.Status, want)
			}
		}
	}
	if after := len(s.facts(id)); after != before || tried < 8 {
		t.Errorf("the run has %d facts, before %d; %d routes were tried", after, before, tried)
	}
	if runs, err := s.app.Runs(t.Context(), allRuns); err != nil || len(runs) != 1 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}
