package combine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/combine"
	"github.com/espalier-run/espalier/internal/step/steptest"
)

// decision is a merge decision as readers of the records decode it.
type decision struct {
	Key     string
	Kept    json.RawMessage
	From    []string
	Dropped []dropped
	Why     string
}

type dropped struct {
	Value json.RawMessage
	From  []string
}

// output is the result of one worker, and its items.
type output struct {
	value any
	items []any
}

// item is an object with some fields of the key and a content, a text or a number.
var item = rapid.Custom(func(r *rapid.T) any {
	switch rapid.IntRange(0, 4).Draw(r, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"x", "y"}).Draw(r, "text")
	case 1:
		return rapid.IntRange(0, 2).Draw(r, "number")
	}
	return object.Draw(r, "object")
})

var object = rapid.Custom(func(r *rapid.T) map[string]any {
	o := map[string]any{"n": rapid.IntRange(0, 2).Draw(r, "n")}
	for _, field := range []string{"type", "label"} {
		if v := rapid.SampledFrom([]any{"a", "b", "a", "b", "", nil}).Draw(r, field); v != "" {
			o[field] = v
		}
	}
	return o
})

// outputs are lists of items, objects with items, and single items.
var outputs = rapid.Custom(func(r *rapid.T) output {
	items := rapid.SliceOfN(item, 0, 6).Draw(r, "items")
	switch rapid.IntRange(0, 2).Draw(r, "form") {
	case 0:
		return output{items, items}
	case 1:
		o := object.Draw(r, "envelope")
		o["items"] = items
		return output{o, items}
	}
	one := item.Draw(r, "item")
	return output{one, []any{one}}
})

// merged returns the result and the recorded decisions of a merge.
func merged(t *testing.T, r *rapid.T, s steptest.Settings, outs []string, replies ...steptest.Reply) (
	json.RawMessage, []decision, error,
) {
	job := steptest.Play{Settings: s, With: results(outs...)}.
		Job("combine", "", &steptest.Log{}, &steptest.World{Replies: replies})
	result, err := (combine.Runner{}).Run(t.Context(), job)
	var decisions []decision
	for _, n := range result.Notes {
		if n.Kind != journal.NoteMerge {
			continue
		}
		var d decision
		if err := json.Unmarshal(step.JSON(n.Data), &d); err != nil {
			r.Fatalf("the record %s: %v", step.JSON(n.Data), err)
		}
		decisions = append(decisions, d)
	}
	return result.Value, decisions, err
}

// canon returns JSON with sorted keys.
func canon(v any) string {
	var plain any
	if err := json.Unmarshal(step.JSON(v), &plain); err != nil {
		panic(err)
	}
	return string(step.JSON(plain))
}

// Every item that a worker returns is in the result of a union or a combination by type, or recorded with its worker as
// dropped. Without a dedupe key, all of them are in the result.
//
// Spec: Agent Flow §5.3 combine-by-type, §5.3 union
func TestUnionAndCombineByTypeLoseNoItem(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		strategy := rapid.SampledFrom([]string{"union", "combine_by_type"}).Draw(r, "strategy")
		policy := rapid.SampledFrom([]string{"", "first_wins", "last_wins"}).Draw(r, "conflict")
		key := rapid.SampledFrom([][]string{nil, {"label"}, {"type", "label"}}).Draw(r, "dedupe_key")
		settings := by(strategy, policy)
		if key != nil {
			settings["dedupe_key"] = key
		}
		returned, keys := map[string]int{}, map[string][]string{}
		var texts []string
		for i, out := range rapid.SliceOfN(outputs, 1, 4).Draw(r, "outputs") {
			texts = append(texts, string(step.JSON(out.value)))
			for _, item := range out.items {
				returned[fmt.Sprintf("w%d %s", i+1, canon(item))]++
				keys[canon(item)] = append(keys[canon(item)], keyOf(key, out.value, item))
			}
		}
		result, decisions, err := merged(t, r, settings, texts)
		if err != nil && (policy != "" || key == nil) {
			r.Fatal(err)
		}
		if key == nil && len(decisions) > 0 {
			r.Fatalf("decisions without a dedupe key: %v", decisions)
		}
		accounted := map[string]int{} // by content
		for _, d := range decisions {
			for i, dropped := range d.Dropped {
				rival := d.Kept
				if rival == nil {
					rival = d.Dropped[(i+1)%len(d.Dropped)].Value
				}
				if !shareKey(keys[canon(dropped.Value)], keys[canon(rival)]) {
					r.Fatalf("%s is dropped for %s, which has another key", dropped.Value, rival)
				}
				if len(dropped.From) == 0 {
					r.Fatalf("%s is dropped without a worker", dropped.Value)
				}
				for _, worker := range dropped.From {
					if returned[worker+" "+canon(dropped.Value)] == 0 {
						r.Fatalf("worker %s did not return %s", worker, dropped.Value)
					}
				}
				accounted[canon(dropped.Value)] += len(dropped.From)
			}
			accounted[canon(d.Kept)] += max(0, len(d.From)-1) // duplicates of what is kept
			if d.Why != "duplicate" && policy != "" && d.Why != policy {
				r.Fatalf("resolved by %s instead of %s", d.Why, policy)
			}
		}
		if err != nil { // a conflict, which a record describes
			if !slices.ContainsFunc(decisions,
				func(d decision) bool { return d.Why == "fail" && d.Kept == nil && len(d.Dropped) > 1 }) {
				r.Fatalf("no record of the conflict %v", err)
			}
			return
		}
		for _, kept := range resultItems(r, strategy, result) {
			accounted[canon(kept)]++
		}
		content := map[string]int{}
		for key, n := range returned {
			content[key[3:]] += n
		}
		for value := range accounted {
			if content[value] == 0 {
				r.Fatalf("%s is in the result %s, and no worker returned it", value, result)
			}
		}
		for value, n := range content {
			if accounted[value] != n {
				r.Fatalf("%s was returned %d times and accounted for %d times: %s, %v",
					value, n, accounted[value], result, decisions)
			}
		}
	})
}

// keyOf returns the dedupe key of an item, or "" if the item lacks a field of it.
func keyOf(key []string, output, item any) string {
	own, _ := item.(map[string]any)
	all, _ := output.(map[string]any)
	var values []any
	for _, field := range key {
		value := own[field]
		if field == "type" && value == nil && all["items"] != nil {
			value = all["type"]
		}
		if value == nil {
			return ""
		}
		values = append(values, value)
	}
	return canon(values)
}

// shareKey reports whether a key is in both lists.
func shareKey(a, b []string) bool {
	return slices.ContainsFunc(a, func(key string) bool { return key != "" && slices.Contains(b, key) })
}

func resultItems(r *rapid.T, strategy string, result json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if strategy == "union" {
		if err := json.Unmarshal(result, &list); err != nil {
			r.Fatal(err)
		}
		return list
	}
	var groups map[string][]json.RawMessage
	if err := json.Unmarshal(result, &groups); err != nil {
		r.Fatal(err)
	}
	for _, group := range groups {
		list = append(list, group...)
	}
	return list
}

// What a vote, first_wins, last_wins or a critic does not keep is recorded with the workers that returned it, and
// merging is deterministic.
//
// Spec: Agent Flow §12.3 auditable-merge
func TestDiscardedValuesAreRecordedWithTheirWorkers(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		settings := by("vote", rapid.SampledFrom([]string{"first_wins", "last_wins"}).Draw(r, "conflict"))
		var replies []steptest.Reply
		if rapid.Bool().Draw(r, "critic") {
			settings = by("send_to_critic", "", "critic", "plain")
			replies = []steptest.Reply{{Text: `{"1":{"choice":2,"reason":"better"}}`}}
		}
		texts := rapid.SliceOfN(rapid.SampledFrom([]string{`"x"`, `"y"`, `"z"`}), 1, 5).Draw(r, "outputs")
		result, decisions, err := merged(t, r, settings, texts, replies...)
		if err != nil {
			r.Fatal(err)
		}
		again, _, err := merged(t, r, settings, texts, replies...)
		if err != nil || string(again) != string(result) {
			r.Fatalf("%s, then %s, %v", result, again, err)
		}
		for i, text := range texts {
			worker := fmt.Sprintf("w%d", i+1)
			if text == string(result) {
				continue
			}
			if len(decisions) != 1 {
				r.Fatalf("%d decisions", len(decisions))
			}
			found := false
			for _, d := range decisions[0].Dropped {
				found = found || string(d.Value) == text && slices.Contains(d.From, worker)
			}
			if !found {
				r.Fatalf("%s of %s is not in %+v", text, worker, decisions[0])
			}
		}
	})
}

// A vote over objects compares them field by field. A value that is not in the result is recorded with its worker.
func TestDiscardedFieldsAreRecordedWithTheirWorkers(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		settings := by("vote", rapid.SampledFrom([]string{"first_wins", "last_wins"}).Draw(r, "conflict"))
		fields := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.IntRange(0, 2))
		outs := rapid.SliceOfN(fields, 1, 5).Draw(r, "outputs")
		var texts []string
		for _, out := range outs {
			texts = append(texts, string(step.JSON(out)))
		}
		result, decisions, err := merged(t, r, settings, texts)
		if err != nil {
			r.Fatal(err)
		}
		var kept map[string]int
		if err := json.Unmarshal(result, &kept); err != nil {
			r.Fatal(err)
		}
		for i, out := range outs {
			for name, value := range out {
				recorded := slices.ContainsFunc(decisions, func(d decision) bool {
					return d.Key == name && slices.ContainsFunc(d.Dropped, func(c dropped) bool {
						return canon(c.Value) == canon(value) && slices.Contains(c.From, fmt.Sprintf("w%d", i+1))
					})
				})
				if _, ok := kept[name]; !ok || (kept[name] != value) != recorded {
					r.Fatalf("%s: %d of w%d: kept %v, records %+v", name, value, i+1, kept, decisions)
				}
			}
		}
	})
}
