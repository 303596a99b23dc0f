package combine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/combine"
	"github.com/espalier-run/espalier/internal/step/steptest"
)

// results returns the results of workers w1, w2, …; an empty one was skipped.
func results(values ...string) func(*step.Job) {
	return func(job *step.Job) {
		for i, v := range values {
			b := step.Branch{Name: fmt.Sprintf("w%d", i+1), Outcome: ir.OK, Value: json.RawMessage(v)}
			if v == "" {
				b.Outcome, b.Value = ir.Skipped, json.RawMessage("null")
			}
			job.Branches = append(job.Branches, b)
		}
	}
}

func by(strategy, conflict string, more ...any) steptest.Settings {
	s := steptest.Settings{"strategy": strategy}
	if conflict != "" {
		s["conflict"] = conflict
	}
	for i := 0; i < len(more); i += 2 {
		s[more[i].(string)] = more[i+1]
	}
	return s
}

var (
	key    = []any{"dedupe_key", []string{"type", "label"}}
	critic = []any{"dedupe_key", []string{"label"}, "critic", "plain"}
)

func TestCombineStepsKeepResultsWhenInterrupted(t *testing.T) {
	const merge = journal.NoteMerge
	asked := []string{journal.NotePrompt, journal.NoteReply, merge}
	steptest.Runs(t, combine.Runner{},
		steptest.Play{
			Name: "F22: by type", Settings: by("combine_by_type", ""), Notes: []string{},
			With: results(`{"type":"risk","items":[1,2],"confidence":1}`, `{"type":"action","items":[3]}`,
				`{"type":"risk","items":[1]}`),
			Value: `{"risk":[1,2,1],"action":[3]}`,
		},
		steptest.Play{
			Name: "F22: by worker when there is no type", Settings: by("combine_by_type", ""),
			With:  results(`"a text"`, `{"file":"x"}`, `[1,2]`),
			Value: `{"w1":["a text"],"w2":[{"file":"x"}],"w3":[1,2]}`,
		},
		steptest.Play{
			Name: "F22: by the items' own types", Settings: by("combine_by_type", ""),
			With:  results(`[{"type":"a","n":1},{"type":"b","n":2}]`),
			Value: `{"a":[{"type":"a","n":1}],"b":[{"type":"b","n":2}]}`,
		},
		steptest.Play{
			Name: "F22: duplicates are dropped", Settings: by("combine_by_type", "", key...), Notes: []string{merge},
			With: results(`{"type":"risk","items":[{"label":"x","p":1.0}]}`,
				`{"type":"risk","items":[{"p":1,"label":"x"},{"label":"y","p":2}]}`),
			Value: `{"risk":[{"label":"x","p":1.0},{"label":"y","p":2}]}`,
		},
		steptest.Play{
			Name: "F22: the same label of another type is another thing", Settings: by("combine_by_type", "", key...),
			Notes: []string{},
			With: results(`{"type":"risk","items":[{"label":"x","p":1}]}`,
				`{"type":"action","items":[{"label":"x","p":2}]}`),
			Value: `{"risk":[{"label":"x","p":1}],"action":[{"label":"x","p":2}]}`,
		},
		steptest.Play{
			Name: "F22: a conflict fails and is recorded", Settings: by("combine_by_type", "", key...),
			Class: ir.ClassMerge, Notes: []string{merge},
			With: results(`{"type":"risk","items":[{"label":"x","p":1}]}`,
				`{"type":"risk","items":[{"label":"x","p":2}]}`),
		},
		steptest.Play{
			Name: "the first wins", Settings: by("combine_by_type", "first_wins", key...), Notes: []string{merge},
			With: results(`{"type":"risk","items":[{"label":"x","p":1}]}`,
				`{"type":"risk","items":[{"label":"x","p":2}]}`),
			Value: `{"risk":[{"label":"x","p":1}]}`,
		},
		steptest.Play{
			Name: "the last wins", Settings: by("combine_by_type", "last_wins", key...), Notes: []string{merge},
			With: results(`{"type":"risk","items":[{"label":"x","p":1}]}`,
				`{"type":"risk","items":[{"label":"x","p":2}]}`, `{"type":"risk","items":[{"label":"x","p":1}]}`),
			Value: `{"risk":[{"label":"x","p":1}]}`,
		},
		steptest.Play{
			Name: "F22: an item without a key field is kept", Settings: by("union", "", key...), Notes: []string{},
			With: results(`[{"a":1}]`, `[{"a":1}]`), Value: `[{"a":1},{"a":1}]`,
		},
		steptest.Play{
			Name: "F22: an item with only a part of the key is kept", Settings: by("combine_by_type", "", key...),
			Notes: []string{},
			With: results(`{"type":"action","items":[{"do":"a"},{"do":"b"},{"do":"b"},{"label":null}]}`,
				`{"type":"action","items":[{"do":"a"}]}`),
			Value: `{"action":[{"do":"a"},{"do":"b"},{"do":"b"},{"label":null},{"do":"a"}]}`,
		},
		steptest.Play{
			Name:     "F22: a key field of the output is not one of its items",
			Settings: by("union", "", "dedupe_key", []string{"label"}),
			With:     results(`{"label":"risks","items":[{"n":1},{"n":2}]}`, `{"label":"risks","items":[{"n":3}]}`),
			Value:    `[{"n":1},{"n":2},{"n":3}]`,
		},
		steptest.Play{
			Name: "F22: the type of the output is the type of its items", Settings: by("union", "", key...),
			Notes: []string{merge},
			With: results(`{"type":"a","items":[{"label":"x"}]}`, `{"type":"a","items":[{"label":"x"}]}`,
				`{"type":"b","items":[{"label":"x"}]}`),
			Value: `[{"label":"x"},{"label":"x"}]`,
		},
		steptest.Play{
			Name: "F22: an item's type counts before that of the output", Settings: by("combine_by_type", "", key...),
			Notes: []string{},
			With: results(`{"type":"risk","items":[{"type":"high","label":"x"},{"type":"low","label":"x"}]}`,
				`{"type":"risk","items":[{"label":"x","n":3}]}`),
			Value: `{"risk":[{"type":"high","label":"x"},{"type":"low","label":"x"},{"label":"x","n":3}]}`,
		},
		steptest.Play{
			Name: "F22: the name of a worker is not a type", Settings: by("combine_by_type", "", key...),
			Notes: []string{},
			With:  results(`[{"label":"x","n":1},{"label":"x","n":2}]`, `[{"label":"x","n":3}]`),
			Value: `{"w1":[{"label":"x","n":1},{"label":"x","n":2}],"w2":[{"label":"x","n":3}]}`,
		},
		steptest.Play{
			Name: "F22: numbers beyond the precision of a float differ", Notes: []string{},
			Settings: by("union", "", "dedupe_key", []string{"id"}),
			With: results(`[{"id":98765432109876543210}]`, `[{"id":98765432109876543211}]`,
				`[{"id":0.10000000000000000001},{"id":0.1}]`),
			Value: `[{"id":98765432109876543210},{"id":98765432109876543211},{"id":0.10000000000000000001},{"id":0.1}]`,
		},
		steptest.Play{
			Name: "F22: forms of one number are equal", Settings: by("union", "", "dedupe_key", []string{"id"}),
			With:  results(`[{"id":100},{"id":0}]`, `[{"id":1e2},{"id":-0.0}]`, `[{"id":1000.0E-1}]`, `[{"id":1.00e+2}]`),
			Value: `[{"id":100},{"id":0}]`,
		},
		steptest.Play{
			Name: "F22: a type without items has an empty list", Settings: by("combine_by_type", ""),
			With:  results(`{"type":"risk","items":[]}`, `{"type":"action","items":[1]}`),
			Value: `{"risk":[],"action":[1]}`,
		},

		steptest.Play{
			Name: "F22: a union of lists keeps all items", Settings: by("union", ""), Notes: []string{},
			With: results(`[1,2]`, `[2,3]`), Value: `[1,2,2,3]`,
		},
		steptest.Play{
			Name: "F22: a union of objects keeps all outputs", Settings: by("union", ""), Notes: []string{},
			With: results(`{"a":1,"b":2}`, `{"b":2,"c":3}`, `{"a":2}`), Value: `[{"a":1,"b":2},{"b":2,"c":3},{"a":2}]`,
		},
		steptest.Play{
			Name: "F22: a union of texts keeps all outputs", Settings: by("union", "send_to_critic", "critic", "plain"),
			Notes: []string{},
			With:  results(`"yes"`, `"no"`, `"yes"`), Value: `["yes","no","yes"]`,
		},
		steptest.Play{
			Name: "a union by key", Settings: by("union", "last_wins", "dedupe_key", []string{"id"}),
			With:  results(`[{"id":1,"v":1},{"id":2,"v":1}]`, `[{"id":1,"v":2}]`),
			Value: `[{"id":1,"v":2},{"id":2,"v":1}]`,
		},
		steptest.Play{
			Name: "a union of envelopes", Settings: by("union", ""),
			With: results(`{"items":[1]}`, `{"items":[2]}`), Value: `[1,2]`,
		},
		steptest.Play{
			Name: "those that were skipped are left out", Settings: by("union", ""),
			With: results(`[1]`, ``, `[2]`), Value: `[1,2]`,
		},
		steptest.Play{Name: "no results", Settings: by("union", ""), With: results(``), Value: `[]`},

		steptest.Play{
			Name: "a vote", Settings: by("vote", ""), Notes: []string{merge},
			With: results(`"yes"`, `"no"`, `"yes"`), Value: `"yes"`,
		},
		steptest.Play{
			Name: "a vote on each key", Settings: by("vote", ""), Notes: []string{merge, merge},
			With: results(`{"a":1,"b":"x"}`, `{"a":2,"b":"x"}`, `{"a":1,"b":"y"}`), Value: `{"a":1,"b":"x"}`,
		},
		steptest.Play{
			Name: "F24: a tie is a conflict", Settings: by("vote", ""), With: results(`"yes"`, `"no"`),
			Class: ir.ClassMerge,
		},
		steptest.Play{
			Name: "F24: a tie is settled", Settings: by("vote", "first_wins"), With: results(`"yes"`, `"no"`),
			Value: `"yes"`,
		},
		steptest.Play{
			Name: "F24: most of several", Settings: by("vote", ""), With: results(`1`, `2`, `3`, `3`),
			Value: `3`,
		},
		steptest.Play{Name: "no votes", Settings: by("vote", ""), With: results(``), Value: `null`},

		steptest.Play{
			Name: "F23: a critic chooses", Settings: by("union", "send_to_critic", critic...), Notes: asked,
			Replies: []steptest.Reply{{Text: `{"1":{"choice":2,"reason":"newer"}}`}},
			With:    results(`[{"label":"x","v":1}]`, `[{"label":"x","v":2}]`), Value: `[{"label":"x","v":2}]`,
		},
		steptest.Play{
			Name: "F23: a critic as strategy", Settings: by("send_to_critic", "", critic...), Notes: asked,
			Replies: []steptest.Reply{{Text: `{"1":{"choice":1,"reason":"older"}}`}},
			With:    results(`[{"label":"x","v":1}]`, `[{"label":"x","v":2}]`), Value: `[{"label":"x","v":1}]`,
		},
		steptest.Play{
			Name: "F23: a critic is asked for all at once", Settings: by("union", "send_to_critic", critic...),
			Replies: []steptest.Reply{
				{Text: `{"1":{"choice":1,"reason":"a"}}`},
				{Text: `{"1":{"choice":1,"reason":"a"},"2":{"choice":3,"reason":"b"}}`},
				{Text: `{"1":{"choice":1,"reason":"a"},"2":{"choice":2,"reason":"b"}}`},
			},
			With:  results(`[{"label":"x","v":1},{"label":"y","v":1}]`, `[{"label":"x","v":2},{"label":"y","v":2}]`),
			Value: `[{"label":"x","v":1},{"label":"y","v":2}]`,
		},
		steptest.Play{
			Name: "F23: a ballot with more than was asked for", Settings: by("union", "send_to_critic", critic...),
			Notes: asked,
			Replies: []steptest.Reply{{Text: "Sorry!\n```json\n{\"summary\":\"Both are " +
				"good.\",\"confidence\":0.9,\"1\":{\"choice\":\"two\",\"reason\":\"newer\",\"sure\":true}}\n```"}},
			With: results(`[{"label":"x","v":1}]`, `[{"label":"x","v":2}]`), Value: `[{"label":"x","v":2}]`,
		},
		steptest.Play{
			Name: "F23: a critic chooses among texts", Settings: by("send_to_critic", "", "critic", "plain"),
			Notes:   asked,
			Replies: []steptest.Reply{{Text: `{"1":{"choice":2,"reason":"newer"}}`}},
			With:    results(`"yes"`, `"no"`, `"yes"`), Value: `"no"`,
		},
		steptest.Play{
			Name:     "F23: a critic chooses among the values of each field",
			Settings: by("send_to_critic", "", "critic", "plain"),
			Notes:    append(asked, merge),
			Replies:  []steptest.Reply{{Text: `{"1":{"choice":2,"reason":"newer"}}`}},
			With:     results(`{"a":1,"b":1}`, `{"a":2,"b":1}`), Value: `{"a":2,"b":1}`,
		},
		steptest.Play{
			Name: "F23: a critic is not asked about equal texts", Settings: by("send_to_critic", "", "critic", "plain"),
			Notes: []string{merge},
			With:  results(`"yes"`, `"yes"`), Value: `"yes"`,
		},
		steptest.Play{
			Name:     "F23: a critic is not asked about lists without a key",
			Settings: by("send_to_critic", "", critic...), Notes: []string{}, With: results(`[1]`, `[2]`),
			Value: `[1,2]`,
		},
		steptest.Play{
			Name: "F23: no such critic", Settings: by("send_to_critic", "", "critic", "missing"),
			With: results(`{"a":1}`, `{"a":2}`), Class: ir.ClassMissing,
		},

		steptest.Play{
			Name: "required fields", Settings: by("union", "", "required_fields", []string{"type", "items"}),
			With: results(`{"type":"a","items":[1]}`, `{"type":"a"}`), Class: ir.ClassInvalid,
		},
	)
}

func run(t *testing.T, s steptest.Settings, with func(*step.Job), replies ...steptest.Reply) (*steptest.Log,
	*steptest.World, step.Result, error,
) {
	t.Helper()
	log, world := &steptest.Log{}, &steptest.World{Replies: replies}
	result, err := steptest.Play{Settings: s, With: with}.Done(t, combine.Runner{}, log, world)
	return log, world, result, err
}

func TestMissingFieldsAreNamed(t *testing.T) {
	_, _, _, err := run(t, by("union", "", "required_fields", []string{"type", "items"}), results(`{"type":"a"}`, `7`))
	for _, want := range []string{
		`worker "w1" has no "items"`, `worker "w2" has no "type"`,
		`worker "w2" has no "items"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}

func TestConflictsAreNamed(t *testing.T) {
	_, _, _, err := run(t, by("vote", ""), results(`{"a":1}`, `{"a":2}`, `{"a":1}`, `{"a":2}`))
	if want := `"a" (w1 and w3: 1; w2 and w4: 2)`; err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

func TestEachDecisionIsRecorded(t *testing.T) {
	log, world, _, err := run(t, by("union", "send_to_critic", critic...),
		results(`[{"label":"x","v":1},{"label":"y"}]`, `[{"label":"x","v":2},{"label":"y"},{"label":"z"}]`),
		steptest.Reply{Text: `{"1":{"choice":2,"reason":"newer"}}`})
	if err != nil {
		t.Fatal(err)
	}
	var got []journal.MergeDecision
	for _, n := range log.Notes {
		if n.Kind == journal.NoteMerge {
			var d journal.MergeDecision
			if err := json.Unmarshal(n.Data, &d); err != nil {
				t.Fatal(err)
			}
			got = append(got, d)
		}
	}
	want := []journal.MergeDecision{
		{
			Key: "x", Kept: json.RawMessage(`{"label":"x","v":2}`), From: []string{"w2"},
			Dropped: []journal.MergeClaim{{Value: json.RawMessage(`{"label":"x","v":1}`), From: []string{"w1"}}},
			Why:     "critic", Reason: "newer",
		},
		{Key: "y", Kept: json.RawMessage(`{"label":"y"}`), From: []string{"w1", "w2"}, Why: "duplicate"},
	}
	if string(step.JSON(got)) != string(step.JSON(want)) {
		t.Errorf("got %s", step.JSON(got))
	}
	if req := world.Requests[0]; req.For.Agent != "plain" || len(req.Schema) == 0 || len(req.Tools) > 0 {
		t.Errorf("%+v", req.For)
	}
}

func TestFailureIsTyped(t *testing.T) {
	_, _, _, err := run(t, by("vote", ""), results(`{"a":1}`, `{"a":2}`))
	var f *step.Error
	if !errors.As(err, &f) || f.Class != ir.ClassMerge {
		t.Error(err)
	}
}
