package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
)

// reviewed has a fan-out, a step that calls a workflow, and a gate that reads a value which there is not.
var reviewed = map[string]string{
	"reviewed.md": `---
name: reviewed
kind: agent-flow/workflow
version: 1.0.0
description: Reviews something.
input:
  schema: {type: object, properties: {never: {type: string}}}
---
~~~agent
id: reader
role: Reads.
goal: Read.
max_tokens: 500
~~~
~~~bundle
name: readers
version: 1.0.0
workers:
  - {id: policy, agent: reader}
  - {id: tone, agent: reader}
merge: {strategy: union}
~~~
~~~step
id: review
type: parallel
description: Two read it.
bundle: readers
writes: [state.zeal]
~~~
~~~step
id: assess
type: skill
description: Call the other workflow.
skill_ref: inner.md
writes: [state.mood]
~~~
~~~step
id: check
type: gate
description: Is it good?
gate_method: human_review
reads: [state.zeal, input.never, state.mood]
writes: [state.decision]
~~~
~~~step
id: done
type: end
description: The end.
reads: [state.zeal]
~~~
`,
	"inner.md": `---
name: inner
kind: agent-flow/workflow
version: 1.0.0
description: Is called.
---
~~~agent
id: writer
role: Writes.
goal: Write.
max_tokens: 500
~~~
~~~step
id: judge
type: skill
agent: writer
description: Judge it.
writes: [output.text]
~~~
`,
}

var (
	total = regexp.MustCompile(`id="t-sum">([^<,]*) of active time`)
	meter = regexp.MustCompile(`id="budget-seconds">.*?<dd><b>([^<]*)</b>`)
)

// Pages name workers and steps of called workflows as commands do, count active time once, and show the values at a
// gate in the order of the file.
func TestPagesNamePlacesAndCountTimeOnce(t *testing.T) {
	s := newSite(t, reviewed)
	id := s.begin("reviewed", app.RunOptions{Simulate: true})
	s.rest(id)
	c := s.client()
	_, page := s.get(c, "/runs/"+string(id))
	text := tags.ReplaceAllString(page, " ")
	for _, want := range []string{
		" review.policy ", " review.tone ", " assess › judge ", "Decision: check", " Review ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page of the run does not show %q", want)
		}
	}
	sum, active := total.FindStringSubmatch(page), meter.FindStringSubmatch(page)
	if sum == nil || active == nil || sum[1] != active[1] {
		t.Errorf("the timeline says %q, the budget says %q", sum, active)
	}
	_, page = s.get(c, "/workflows/reviewed")
	if !strings.Contains(page, "4 steps, 1 agent") {
		t.Error("the page of the workflow counts other steps than a run has")
	}
	_, page = s.get(c, "/inbox")
	text = tags.ReplaceAllString(page, " ")
	last := 0
	for _, want := range []string{
		"People with the role approver (you are one)", "state.zeal", "written by  review ", "input.never", "(no value)",
		"state.mood", "written by  assess ",
	} {
		i := strings.Index(text[last:], want)
		if i < 0 {
			t.Fatalf("no %q after %q in the inbox: %s", want, text[max(0, last-40):last], text[last:])
		}
		last += i
	}

	form := url.Values{
		"step": {"check"}, "decision": {"approve"}, "digest": {s.digest(id)}, "comment": {"Fine."},
	}
	response, err := c.PostForm(s.url("/runs/"+string(id)+"/decide"), form)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("a decision with an unknown field: %s", response.Status)
	}
	if status, err := s.app.Status(t.Context(), id); err != nil || len(status.Gates) != 1 {
		t.Errorf("a decision with an unknown field was accepted: %v", err)
	}
}
