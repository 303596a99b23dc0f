package formattest

import (
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/auditevent"
)

// F30: required_events accepts every event that the audit log can have.
//
// Spec: Agent Flow §7.2 required-events
func TestRequiredEventsAcceptEveryAuditEvent(t *testing.T) {
	flow := flowHead + stepBlock("one", "transform", "writes: [output.a]") +
		"```observability\nrequired_events: [" + strings.Join(auditevent.All, ", ") + "]\n```\n"
	h := (&trial{files: []txtar.File{{Name: "flow.md", Data: []byte(flow)}}}).run(t)
	for _, d := range h.problems {
		if d.Code == "AF065" {
			t.Errorf("%s", d.Message)
		}
	}
	if got := len(h.program.Audit.RequiredEvents); got != len(auditevent.All) {
		t.Errorf("%d of %d events are required", got, len(auditevent.All))
	}
}
