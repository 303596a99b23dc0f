package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/trust"
)

// receiver is a webhook that rejects a given number of requests.
type receiver struct {
	mu     sync.Mutex
	bodies []string
	ids    []string
	fail   int
	url    string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, _ := io.ReadAll(q.Body)
	r.bodies, r.ids = append(r.bodies, string(body)), append(r.ids, q.Header.Get("webhook-id"))
	if r.fail > 0 {
		r.fail--
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// notified is a project whose notifications go to a receiver.
func notified(t *testing.T, overlap string) (*triggered, *receiver) {
	t.Helper()
	to := &receiver{}
	server := httptest.NewServer(to)
	t.Cleanup(server.Close)
	to.url = server.URL
	p := newTriggered(t, map[string]string{"gated.md": fmt.Sprintf(scheduled, "gated", "0 * * * *") + waiting})
	text := fmt.Sprintf(simulated, "gated", overlap) + "secrets: {hook: {env: HOOK}}\nnotifications:\n" +
		"  all: {webhook: '" + server.URL + "', secret: 'secret://hook'}\n" +
		"  failures: {webhook: '" + server.URL + "', secret: 'secret://hook', on: failed}\n"
	p.write("espalier.yaml", text)
	p.env = map[string]string{"HOOK": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	p.approve()
	return p, to
}

// waitingRun fires a trigger of a notified project once; the run waits for its gate. No notification is sent yet.
func (p *triggered) waitingRun(t *testing.T) (*triggerService, *notifier) {
	t.Helper()
	s := p.server()
	n := &notifier{s.app, s.env}
	s.at(t, &p.clock, midnight)
	n.round(t)
	s.at(t, &p.clock, hour(1))
	s.rest(t)
	return s, n
}

// approve is the approval of the configuration by a person.
func (p *triggered) approve() {
	p.t.Helper()
	a := p.server().app
	review, err := a.Review(context.Background(), p.dir, catalog.ReadOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	if err := a.Approve(review); err != nil {
		p.t.Fatal(err)
	}
	if list, err := trust.Open(a.o.Getenv).List(); err != nil || len(list) == 0 {
		p.t.Fatalf("%v, %v", list, err)
	}
}

// round collects and sends.
func (n *notifier) round(t *testing.T) {
	t.Helper()
	if err := n.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.send(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestNotificationsArriveAtLeastOnceWithOneID(t *testing.T) {
	p, to := notified(t, "skip")
	s, n := p.waitingRun(t)
	s.app.SetPublicURL("https://flows.example.org/base", true)
	to.fail = 2
	n.round(t)
	for i := range 3 { // another process sends it again, later
		p.clock.set(hour(1).Add(time.Duration(i+1) * time.Minute))
		other := p.server()
		(&notifier{other.app, other.env}).round(t)
	}
	run := s.runs(t)[0].ID
	if len(to.bodies) != 3 || to.ids[0] != to.ids[2] || !strings.HasPrefix(to.ids[0], string(run)) {
		t.Fatalf("%q: %q", to.ids, to.bodies)
	}
	for _, want := range []string{
		`"type":"waiting"`, "waits for an approval: ok", "https://flows.example.org/base/runs/" + string(run),
	} {
		if !strings.Contains(to.bodies[2], want) {
			t.Errorf("no %s in %s", want, to.bodies[2])
		}
	}
	if left, err := s.env.Store.List(t.Context(), outboxPrefix); err != nil || len(left) != 0 {
		t.Errorf("%d messages are left, %v", len(left), err)
	}
}

// A message that cannot be sent is tried again for about a day, with pauses of up to two hours.
func TestFailedNotificationsAreRetriedForADay(t *testing.T) {
	p, to := notified(t, "skip")
	s, n := p.waitingRun(t)
	to.fail = 1000
	n.round(t)
	var pause time.Duration
	for {
		left, err := s.env.Store.List(t.Context(), outboxPrefix)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		var m outgoing
		if err := left[0].Decode(&m); err != nil {
			t.Fatal(err)
		}
		pause = m.Next.Sub(p.clock.Now())
		p.clock.set(m.Next)
		if err := n.send(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	lasted := p.clock.Now().Sub(hour(1))
	if len(to.bodies) != maxAttempts || pause != 2*time.Hour || lasted < 23*time.Hour || lasted > 25*time.Hour {
		t.Errorf("%d attempts in %s, the last pause was %s", len(to.bodies), lasted, pause)
	}
}

func TestMissedFiringsAndWaitingRunsAreNotified(t *testing.T) {
	p, to := notified(t, "skip")
	s, n := p.waitingRun(t)
	s.at(t, &p.clock, hour(2)) // the first run still waits
	n.round(t)
	kinds := func(what string) (n int) {
		for _, b := range to.bodies {
			if strings.Contains(b, `"type":"`+what+`"`) {
				n++
			}
		}
		return n
	}
	if kinds("missed") != 1 || kinds("waiting") != 1 {
		t.Errorf("%q", to.bodies)
	}
	if !slices.ContainsFunc(to.bodies,
		func(b string) bool { return strings.Contains(b, "the previous run had not finished") }) {
		t.Errorf("%q", to.bodies)
	}
	// Another round sends nothing again.
	n.round(t)
	if len(to.bodies) != 2 {
		t.Errorf("%q", to.bodies)
	}
}

// An unapproved configuration sends nothing anywhere.
func TestNotificationsNeedApproval(t *testing.T) {
	p, to := notified(t, "skip")
	p.home = t.TempDir() // another person, who has approved nothing
	p.dir = copyProject(t, p.dir)
	s, n := p.waitingRun(t)
	n.round(t)
	left, err := s.env.Store.List(t.Context(), outboxPrefix)
	if err != nil || len(s.runs(t)) != 1 || len(to.bodies) != 0 || len(left) != 0 {
		t.Errorf("%d runs, sent %q, kept %v, %v", len(s.runs(t)), to.bodies, left, err)
	}
}

// copyProject copies the files of a project without its state.
func copyProject(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{"gated.md", "espalier.yaml"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// The timeout of a waitpoint with notify_then_stop goes to every notification, whatever its reasons; that of one with
// stop goes to none.
//
// Spec: Agent Flow §8.3 timeout-notify
func TestTimeoutsAreNotifiedIfTheWorkflowAsksForIt(t *testing.T) {
	p, to := notified(t, "skip")
	s := p.server()
	n := &notifier{s.app, s.env}
	s.at(t, &p.clock, midnight)
	s.at(t, &p.clock, hour(1))
	s.rest(t)
	n.round(t)
	run, before := s.runs(t)[0].ID, len(to.bodies)
	for i, notify := range []bool{false, true} {
		fact := journal.GateDecided{
			Place: journal.Place{Step: "ok"}, Outcome: journal.OutcomeFailed,
			Error: "no decision within 1 h", Notify: notify,
		}
		if err := n.fact(t.Context(), run, &journal.Event{Seq: journal.Seq(1000 + i), Fact: fact}); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.send(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := to.bodies[before:]
	if len(sent) != 2 || !strings.Contains(sent[0], `"type":"timeout"`) || !strings.Contains(sent[0], "no decision within 1 h") {
		t.Errorf("%q", sent)
	}
}
