package journal_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/journal"
)

// FuzzReadNote checks that ReadNote accepts exactly what encoding/json accepts,
// whatever wrote the note.
func FuzzReadNote(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","call_id":"b","input":{"a":1},"output":[1,2],"error":"x"}`,
		`{"call_id":"b","name":"a","later":{}}`, `{"name":"a","name":"b"}`, `{"Name":"x"}`,
		`{"system":"","blocks":[],"resumes":true}`,
		`{"blocks":[{"type":"text","text":"é\n"}],"usage":{"input":1,"output":2}}`, `{"blocks":null}`,
		`{"blocks":[null]}`,
		`{"class":"a","message":"b","status":3,"wait_ms":4}`, `{"status":01}`, `{"status":-0}`, `{"status":1e2}`,
		`{"status":9999999999999999999}`,
		`{"key":"k","kept":null,"from":["a"],"dropped":[1,null],"why":"duplicate"}`, `{"done":0.5,"total":1}`,
		`{"done":1e400}`,
		`{"command":"\u0000","script":"x"}`, `{"name":"\ud800"}`, "{\"by\":\"\xff\"}", `{"by":"x"} `, `{"by":"x",}`,
		`{"input":}`, `{"input":1 }`, `{"name":null}`, `null`, `{`, ``,
	} {
		f.Add(seed)
	}
	notes := []any{
		journal.Prompt{},
		journal.Reply{},
		journal.ToolUse{},
		journal.Progress{},
		journal.ToolAnswer{},
		journal.Command{},
		journal.Stream{},
		journal.Output{},
		journal.ModelError{},
		journal.ModelRetry{},
		journal.MergeDecision{},
		journal.AgentWork{},
		journal.LogLine{},
		journal.DoneBy{},
		journal.MissingFile{},
		journal.Call{},
		journal.CallEnd{},
	}
	f.Fuzz(func(t *testing.T, data string) {
		for _, note := range notes {
			want, got := reflect.New(reflect.TypeOf(note)), reflect.New(reflect.TypeOf(note))
			wrong := json.Unmarshal([]byte(data), want.Interface())
			if err := journal.ReadNote(json.RawMessage(data), got.Interface()); (err == nil) != (wrong == nil) {
				t.Errorf("%T, %q: %v, not %v", note, data, err, wrong)
			}
			if d := cmp.Diff(want.Interface(), got.Interface()); d != "" {
				t.Errorf("%T, %q:\n%s", note, data, d)
			}
		}
	})
}
