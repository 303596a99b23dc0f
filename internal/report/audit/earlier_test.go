package audit_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// A record says how a server has identified its actor. Release 0.1.0 did not write it: its logs are accepted, and any
// other difference is still found.
func TestVerifyAcceptsLogsWithoutTheMethodsOfActors(t *testing.T) {
	var e stored
	for _, r := range reporttest.All(t) {
		if r.Name == "interventions" {
			e = evidence(t, r)
		}
	}
	const method = `,"actor_method":"oidc"`
	if n := bytes.Count(e.File, []byte(method)); n != 1 {
		t.Fatalf("%d records have a method: %s", n, e.File)
	}
	older := bytes.Replace(e.File, []byte(method), nil, 1)
	e.File = rechain(older)
	got := verify(t, e)
	if !got.OK || len(got.Notes) == 0 || !strings.Contains(strings.Join(got.Notes, "\n"), "earlier release") {
		t.Errorf("%+v", got)
	}
	for what, changed := range map[string][]byte{
		"another method": bytes.Replace(e.After, []byte(method), []byte(`,"actor_method":"token"`), 1),
		"another actor":  bytes.Replace(older, []byte(`{"actor":"eva"}`), []byte(`{"actor":"bo"}`), 1),
		"a later record": bytes.Replace(older, []byte(`"event":"papers.in"`), []byte(`"event":"papers.out"`), 1),
		"an added field": bytes.Replace(older, []byte(`"event":"papers.in"`), []byte(`"actor_method":"oidc","event":"papers.in"`), 1),
	} {
		if bytes.Equal(changed, older) {
			t.Fatalf("%s: nothing was changed", what)
		}
		e.File = rechain(changed)
		if got := verify(t, e); got.OK || got.Faults[0].Check != audit.CheckJournal {
			t.Errorf("%s: %+v", what, got)
		}
	}
	e.File = older // with the hashes of a log that has the method
	if got := verify(t, e); got.OK || got.Faults[0].Check != audit.CheckChain {
		t.Errorf("the hashes of another log: %+v", got)
	}
}
