package api_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// enum returns the values that the form documents for a field.
func enum(form any, field string) []string {
	f, _ := reflect.TypeOf(form).FieldByName(field)
	return strings.Split(f.Tag.Get("enum"), ",")
}

// The API documents every state that a run can have, and no other.
func TestEnumHasTheStatesOfRuns(t *testing.T) {
	want := xslices.Map(journal.RunStates, func(s journal.State) string { return string(s) })
	got := enum(api.Run{}, "State")
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A client that decodes a form and encodes what it got has the same form again:
// nothing that a renderer prints is lost on the way.
func TestFormsSurviveAClient(t *testing.T) {
	kinds := enum(api.Gate{}, "Kind")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z]{0,5}`)
		number := rapid.Int64Range(0, 1<<40)
		usage := func() map[string]any {
			micro := number.Draw(t, "micro")
			return map[string]any{
				"steps": number.Draw(t, "n"), "model_calls": number.Draw(t, "n"), "tool_calls": number.Draw(t, "n"),
				"input_tokens": number.Draw(t, "n"), "output_tokens": number.Draw(t, "n"), "micro_dollars": micro,
				"dollars": float64(micro) / 1e6,
			}
		}
		state := rapid.SampledFrom(journal.RunStates).Draw(t, "state")
		seq := rapid.Int64Range(4, 1000).Draw(t, "seq")
		if state == journal.StateQueued {
			seq = 3
		}
		gate := map[string]any{
			"step": text.Draw(t, "step"), "kind": rapid.SampledFrom(kinds).Draw(t, "kind"),
			"shows": map[string]any{"draft": text.Draw(t, "draft")},
			"files": map[string]any{"draft": text.Draw(t, "file")},
		}
		if required := rapid.IntRange(0, 3).Draw(t, "required"); required > 0 {
			approvers := map[string]any{
				"required": required, "missing": required - 1, "roles": []any{text.Draw(t, "role")}, "four_eyes": true,
				"starter":   text.Draw(t, "starter"),
				"approvals": []any{map[string]any{"user": text.Draw(t, "user"), "at": "2026-01-02T03:04:05Z"}},
			}
			if rapid.Bool().Draw(t, "escalates") {
				approvers["escalates"], approvers["escalates_to"] = "2026-01-03T03:04:05Z", []any{"lead"}
			}
			gate["approvers"] = approvers
		}
		in := map[string]any{
			"run_id": text.Draw(t, "id"), "workflow": text.Draw(t, "workflow"), "state": state, "seq": seq,
			"started": "2026-01-02T03:04:05.678Z", "updated": "2026-01-02T03:04:06Z",
			"used": usage(), "reserved": usage(),
			"limits": map[string]any{"steps": number.Draw(t, "n"), "dollars": float64(number.Draw(t, "n")) / 1e6},
			"gates":  []any{gate},
		}
		for _, name := range []string{
			"format", "outcome", "reason", "error", "waiting_for", "parent_run_id", "simulated",
		} {
			if s := text.Draw(t, name); s != "" {
				in[name] = s
			}
		}
		if state == journal.StateUnknown { // which clients know by what the run waits for
			in["waiting_for"] = journal.Wait{Kind: journal.WaitOutcome, Name: "send"}.Label()
		}
		for _, name := range []string{"untrusted", "held"} {
			if rapid.Bool().Draw(t, name) {
				in[name] = true
			}
		}
		if state != journal.StateFinished && rapid.Bool().Draw(t, "wakes") {
			in["wakes"] = "2026-02-02T03:04:05Z"
		}
		if name := text.Draw(t, "driver"); name != "" {
			in["driver"], in["driver_stopping"] = name, rapid.Bool().Draw(t, "stopping")
			if rapid.Bool().Draw(t, "since") {
				in["driver_since"] = "2026-02-02T03:04:05Z"
			}
		}
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var form api.Status
		if err := json.Unmarshal(raw, &form); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(form, api.NewStatus(form.App())); diff != "" {
			t.Errorf("%s\n%s", raw, diff)
		}
		if diff := cmp.Diff(form.Run, api.NewRun(form.Run.App())); diff != "" {
			t.Error(diff)
		}
	})
}
