package report_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/report"
)

const planted = "ann@example.com"

// plant sets every text and value below v to one that is redacted, and every
// number to 7.
func plant(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"text": "` + planted + `", "n": 7}`))
		return
	case v.Type() == reflect.TypeFor[journal.Value]():
		v.Set(reflect.ValueOf(journal.Value{JSON: json.RawMessage(`["` + planted + `"]`)}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(planted)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Struct:
		for i := range v.NumField() {
			plant(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		plant(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		plant(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		one := reflect.New(v.Type().Elem()).Elem()
		plant(one)
		key := reflect.New(v.Type().Key()).Elem()
		plant(key)
		v.SetMapIndex(key, one)
	}
}

// shows returns the members below v that have the planted text.
func shows(v any) (names []string) {
	raw, err := json.Marshal(v)
	if err != nil {
		return []string{err.Error()}
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return []string{err.Error()}
	}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch x := v.(type) {
		case string:
			if strings.Contains(x, planted) {
				names = append(names, name)
			}
		case []any:
			for _, one := range x {
				walk(name, one)
			}
		case map[string]any:
			for key, one := range x {
				if strings.Contains(key, planted) {
					key = "(" + name + ")" // the keys of variables
				}
				walk(key, one)
			}
		}
	}
	walk("", tree)
	slices.Sort(names)
	return slices.Compact(names)
}

// What a run works on is redacted in every fact and note. What is left are names,
// ids and codes, which are listed here in full.
func TestEveryFactIsRedacted(t *testing.T) {
	rules := report.RulesOf(&ir.Program{Children: []ir.Program{{Audit: &ir.Audit{RedactPII: true}}}})
	kept := map[string]bool{}
	for _, fact := range journal.EveryFact() {
		v := reflect.New(reflect.TypeOf(fact)).Elem()
		plant(v)
		if note, ok := v.Interface().(journal.TaskNoted); ok {
			note.Kind = "other"
			v.Set(reflect.ValueOf(note))
		}
		was, err := json.Marshal(v.Interface())
		if err != nil {
			t.Fatal(err)
		}
		hidden, err := report.RedactFact(rules, v.Interface().(journal.Fact))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range shows(hidden) {
			kept[name] = true
		}
		if again, err := json.Marshal(v.Interface()); err != nil || string(again) != string(was) {
			t.Errorf("%T: the original changed", fact)
		}
	}
	for kind, body := range report.NoteBodies() {
		plant(reflect.ValueOf(body).Elem())
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		hidden, err := report.RedactFact(rules, journal.TaskNoted{Kind: kind, Data: data})
		if err != nil {
			t.Fatal(err)
		}
		note := hidden.(journal.TaskNoted)
		for _, name := range shows(note.Data) {
			kept[name] = true
		}
		if err := json.Unmarshal(note.Data, reflect.New(reflect.TypeOf(body).Elem()).Interface()); err != nil {
			t.Errorf("a redacted note of kind %s cannot be read: %v", kind, err)
		}
	}
	names := slices.Sorted(maps.Keys(kept))
	want := "as bare budget by call call_id child class code definition digest event f fidelity for format from id " +
		"input kind last method missing mode model name of offline outcome owner p parent part path policy program " +
		"provider reducer ref roles run s server signature step stop to tool_id tool_name type under user what"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("these members are not redacted:\n%s\nwant:\n%s", got, want)
	}
}

// Large values and the facts of child workflows are redacted, whichever way they are read.
func TestRedactedJournalRedactsEveryRead(t *testing.T) {
	store := memorytest.New()
	defer store.Close()
	p := &ir.Program{Name: "test", Audit: &ir.Audit{RedactPII: true}}
	large := json.RawMessage(fmt.Sprintf("%q", strings.Repeat("x ", 300_000)+planted))
	blob := func(data []byte) journal.Blob {
		sum := sha256.Sum256(data)
		return journal.Blob{Hash: hex.EncodeToString(sum[:]), Data: data}
	}
	definition, input := blob([]byte("{}")), blob(large)
	if err := journal.Append(t.Context(), store, journal.Batch{
		Run: run, Fence: journal.FirstFence, Blobs: []journal.Blob{definition, input},
		Events: []journal.Event{
			{Seq: 1, Fact: journal.RunStarted{
				Name: "test", Definition: definition.Hash, Input: journal.Value{Hash: input.Hash, Size: len(large)},
			}},
			{Seq: 2, Fact: journal.RunFinished{Outcome: "failed", Error: "no mail for " + planted}},
		},
	}); err != nil {
		t.Fatal(err)
	}
	j := report.NewRedactedJournal(store, func(context.Context, string) (*ir.Program, error) { return p, nil })
	seen := 0
	check := func(e journal.Event, err error) {
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if found := shows(e.Fact); len(found) > 0 {
			t.Errorf("event %d shows it in %v", e.Seq, found)
		}
		if x, ok := e.Fact.(journal.RunStarted); ok && !strings.Contains(string(x.Input.JSON), "[redacted email]") {
			t.Error("the large value is not redacted")
		}
	}
	for e, err := range j.Events(t.Context(), run, 0) {
		check(e, err)
	}
	for a, err := range j.Tail(t.Context(), 0) {
		for _, e := range a.Events {
			check(e, err)
		}
	}
	if seen != 4 {
		t.Errorf("%d events", seen)
	}
}
