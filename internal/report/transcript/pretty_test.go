package transcript_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/report/transcript"
)

func TestPretty(t *testing.T) {
	texts := map[string]string{"reference": reference + "damaged\n" + `{"seq":9,"type":"run.paused","path":"x","payload":{"by":"eva"}}` + "\n" + `{"seq":10,"ty`}
	for _, name := range []string{"agent-with-tools", "child", "loop", "retry"} {
		texts[name] = undisturbed(t, recorded(t, name))[string(run)+".jsonl"]
	}
	for name, text := range texts {
		var got bytes.Buffer
		if err := transcript.Pretty(&got, transcript.Read(strings.NewReader(text)), transcript.PrettyOptions{}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name+".pretty")
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		var coloured bytes.Buffer
		if err := transcript.Pretty(&coloured, transcript.Read(strings.NewReader(text)), transcript.PrettyOptions{Colour: true, Full: true}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(coloured.String(), "\x1b[") {
			t.Error("no colours")
		}
	}
}
