package transcript_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/report/reporttest"
	"github.com/espalier-run/espalier/internal/report/transcript"
)

func TestPrettyTranscriptsMatchGoldenFiles(t *testing.T) {
	texts := map[string]string{"reference": reference + "damaged\n" +
		`{"seq":9,"type":"run.paused","path":"x","payload":{"by":"eva"}}` + "\n" + `{"seq":10,"ty`}
	for _, name := range []string{"agent-with-tools", "child", "loop", "retry"} {
		texts[name] = undisturbed(t, reporttest.Recorded(t, name))[string(reporttest.Run)+".jsonl"]
	}
	for name, text := range texts {
		var got bytes.Buffer
		if err := transcript.Pretty(&got, transcript.Read(strings.NewReader(text)),
			transcript.PrettyOptions{}); err != nil {
			t.Fatal(err)
		}
		reporttest.Golden(t, filepath.Join("testdata", name+".pretty"), got.String(), *update)
		var colored bytes.Buffer
		if err := transcript.Pretty(&colored, transcript.Read(strings.NewReader(text)),
			transcript.PrettyOptions{Color: true}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(colored.String(), "\x1b[") {
			t.Error("no colors")
		}
	}
}

// Items of a fan-out are open at the same time, and each has its own duration.
func TestPrettyTimesIterations(t *testing.T) {
	line := func(kind, iteration, second string) string {
		return `{"seq":1,"type":"step.` + kind + `","path":"each.w","iteration":` + iteration +
			`,"timestamp":"2026-01-01T00:00:0` + second + `Z","payload":{"name":"w","kind":"agent"}}` + "\n"
	}
	for text, want := range map[string][]string{
		line("started", "0", "1") + line("started", "1", "3") + line("completed", "0", "5") + line("completed", "1",
			"6"): {"done (4.0 s)", "done (3.0 s)"},
		// A retry outside loops: the iteration is that of the last attempt.
		line("started", "0", "1") + line("completed", "2", "5"): {"done (4.0 s)"},
		// Concurrent nested loops: the lines do not identify the iteration.
		line("started", "0", "1") + line("started", "0", "3") + line("completed", "0", "5"): {"done\n"},
	} {
		var got bytes.Buffer
		if err := transcript.Pretty(&got, transcript.Read(strings.NewReader(text)),
			transcript.PrettyOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, one := range want {
			if !strings.Contains(got.String(), one) {
				t.Errorf("%q is not in:\n%s", one, got.String())
			}
		}
	}
}

// Parts of a reply are printed only while they come, or if the whole reply is missing.
func TestPrettyPrintsAReplyOnce(t *testing.T) {
	line := func(block string) string {
		return `{"seq":1,"type":"message.assistant","path":"draft","iteration":0,"timestamp":"2026-01-01T00:00:01Z",` +
			`"payload":{"role":"assistant","blocks":[` + block + "]}}\n"
	}
	parts := line(`{"type":"stream","chunk":"roses "}`) + line(`{"type":"stream","chunk":"and tulips"}`)
	whole := line(`{"type":"text","text":"roses and tulips"}`)
	for _, c := range []struct {
		text  string
		live  bool
		heads int
		want  string
	}{
		{parts + whole, false, 1, "  roses and tulips\n"},
		{parts, false, 1, "  … roses and tulips\n"},
		{parts + whole, true, 3, "  … and tulips\n"},
	} {
		var got bytes.Buffer
		if err := transcript.Pretty(&got, transcript.Read(strings.NewReader(c.text)),
			transcript.PrettyOptions{Live: c.live}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(got.String(), "assistant"); n != c.heads || !strings.Contains(got.String(), c.want) {
			t.Errorf("%d messages, want %d with %q:\n%s", n, c.heads, c.want, got.String())
		}
	}
}
