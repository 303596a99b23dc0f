package transcript_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/report/reporttest"
	"github.com/espalier-run/espalier/internal/report/transcript"
)

// TestKeysAreDocumented compares docs/transcript.md with the transcripts of all recorded runs, and with the types.
func TestKeysAreDocumented(t *testing.T) {
	page := reporttest.ReadDocumented(t)
	for _, r := range reporttest.All(t) {
		for _, text := range undisturbed(t, r) {
			for line := range strings.Lines(text) {
				if missing := page.Check([]byte(line)); len(missing) > 0 {
					t.Errorf("%s: docs/transcript.md lacks %q", r.Name, missing)
				}
			}
		}
	}
	for _, c := range []struct {
		of    any
		kinds []transcript.Type
	}{
		{transcript.Step{}, []transcript.Type{
			transcript.RunStarted, transcript.RunCompleted, transcript.StepStarted, transcript.StepCompleted,
			transcript.HookStarted, transcript.HookCompleted, transcript.CallStarted, transcript.CallCompleted,
		}},
		{transcript.Message{}, []transcript.Type{transcript.MessageUser, transcript.MessageAssistant}},
		{transcript.Tool{}, []transcript.Type{transcript.ToolCall, transcript.ToolResult}},
		{transcript.Block{}, []transcript.Type{
			transcript.BlockText, transcript.BlockThinking, transcript.BlockToolUse, transcript.BlockToolResult,
			transcript.BlockCommand, transcript.BlockStream,
		}},
	} {
		has := keysOf(c.of)
		var documented []string
		for _, kind := range c.kinds {
			documented = append(documented, page.Keys[string(kind)]...)
			for _, key := range page.Keys[string(kind)] {
				if !slices.Contains(has, key) {
					t.Errorf("docs/transcript.md has %s: %s, which does not exist", kind, key)
				}
			}
		}
		for _, key := range has {
			if !slices.Contains(documented, key) {
				t.Errorf("docs/transcript.md lacks %q of %T", key, c.of)
			}
		}
	}
}

// keysOf returns the JSON keys of a struct.
func keysOf(v any) []string {
	var out []string
	for i := range reflect.TypeOf(v).NumField() {
		key, _, _ := strings.Cut(reflect.TypeOf(v).Field(i).Tag.Get("json"), ",")
		out = append(out, key)
	}
	return out
}
