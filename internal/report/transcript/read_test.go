package transcript_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/report/transcript"
)

// reference is a file of the AWF program, with its order of members, zone and escapes.
const reference = `{"seq":1,"run_id":"53f2","type":"step.started","path":"ask","iteration":0,"timestamp":"2026-01-02T03:04:05.123456789-05:00","payload":{"name":"ask","kind":"agent"}}
{"seq":2,"run_id":"53f2","type":"message.user","path":"agenttools","iteration":0,"timestamp":"2026-01-02T03:04:05-05:00","payload":{"role":"user","blocks":[{"type":"text","fidelity":"router","text":"a \u003e b"}]}}
{"seq":4,"run_id":"53f2","type":"tool.result","path":"","iteration":0,"timestamp":"2026-01-02T03:04:06Z","payload":{"name":"Bash","call_id":"6b9c","input":{"command":"echo tool-ran"},"output":{"Content":[{"Type":"text","Text":"tool-ran\n"}],"IsError":false},"fidelity":"router"}}
{"seq":3,"run_id":"53f2","type":"step.completed","path":"loop:0/loop:1/p","iteration":1,"timestamp":"2026-01-02T03:04:07Z","payload":{"name":"ask","kind":"agent","result":true}}
{"seq":5,"run_id":"17dd","child_run_id":"4b8f","type":"step.call_workflow.completed","path":"call","iteration":0,"timestamp":"2026-01-02T03:04:08Z","payload":{"name":"call","kind":"call_workflow","error":"nope"}}
`

func describe(text string) string {
	var b strings.Builder
	for e, err := range transcript.Read(strings.NewReader(text)) {
		var line *transcript.LineError
		switch {
		case errors.As(err, &line):
			fmt.Fprintf(&b, "line %d torn=%t; ", line.Line, line.Torn)
		case err != nil:
			fmt.Fprintf(&b, "error %v; ", err)
		default:
			fmt.Fprintf(&b, "%d %s %s; ", e.Seq, e.Type, e.Path)
		}
	}
	return strings.TrimSuffix(b.String(), "; ")
}

func TestReadContinuesAfterDamagedLines(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"one", `{"seq":1,"type":"run.started"}` + "\n", "1 run.started "},
		{
			"an unknown type is passed on as it is", `{"seq":1,"type":"run.paused","payload":{"x":1},"extra":[]}` + "\n",
			"1 run.paused ",
		},
		{"even an empty one", `{"type":""}` + "\n", "0  "},
		{
			"damage does not end reading", "{\"seq\":1,\"type\":\"a\"}\nnonsense\n\n{\"seq\":2,\"type\":\"b\"}\n",
			"1 a ; line 2 torn=false; 2 b ",
		},
		{"no type", "{\"seq\":1}\n{\"seq\":2,\"type\":\"b\"}\n", "line 1 torn=false; 2 b "},
		{
			"another form", "[]\n{\"type\":7}\n{\"type\":\"b\",\"seq\":\"x\"}\n",
			"line 1 torn=false; line 2 torn=false; line 3 torn=false",
		},
		{"a torn last line", "{\"seq\":1,\"type\":\"a\"}\n{\"seq\":2,\"ty", "1 a ; line 2 torn=true"},
		{"a last line without its end", "{\"seq\":1,\"type\":\"a\"}", "1 a "},
		{"NUL bytes", "\x00\x00\n{\"seq\":1,\"type\":\"a\"}\n", "line 1 torn=false; 1 a "},
		{"CRLF", "{\"seq\":1,\"type\":\"a\"}\r\n", "1 a "},
		{"a bad time loses nothing", `{"seq":1,"type":"a","timestamp":"yesterday"}`, "1 a "},
		{
			"the reference program", reference,
			"1 step.started ask; 2 message.user agenttools; 4 tool.result ; 3 step.completed loop:0/loop:1/p; 5 " +
				"step.call_workflow.completed call",
		},
	} {
		if got := describe(c.text); got != c.want {
			t.Errorf("%s: got  %q\nwant %q", c.name, got, c.want)
		}
	}
}

func TestPayloadsDecodeByEventType(t *testing.T) {
	var said []string
	for e, err := range transcript.Read(strings.NewReader(reference)) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case transcript.MessageUser:
			m, err := e.Message()
			said = append(said, fmt.Sprint(m.Blocks[0].Text, err))
		case transcript.ToolResult:
			x, err := e.Tool()
			said = append(said, fmt.Sprint(x.Name, string(x.Input), err))
		case transcript.CallCompleted:
			s, err := e.Step()
			said = append(said, fmt.Sprint(s.Error, e.ChildRunID, err, e.Timestamp.UTC()))
		}
	}
	want := `[a > b<nil> Bash{"command":"echo tool-ran"}<nil> nope4b8f<nil> 2026-01-02 03:04:08 +0000 UTC]`
	if got := fmt.Sprint(said); got != want {
		t.Errorf("%s\n%s", got, want)
	}
	e := transcript.Event{Type: "message.user", Payload: []byte(`{"blocks":1}`)}
	if _, err := e.Message(); err == nil {
		t.Error("a payload of another form must be an error")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(reference)
	f.Add("{\"seq\":1,\"type\":\"a\"}\n{\"seq\":2,\"ty")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		for e, err := range transcript.Read(strings.NewReader(text)) {
			n++
			var line *transcript.LineError
			if err != nil && (!errors.As(err, &line) || line.Line < 1 || line.Line > strings.Count(text, "\n")+1) {
				t.Fatal(err)
			}
			e.Message()
			e.Step()
			e.Tool()
		}
		if n > strings.Count(text, "\n")+1 {
			t.Fatalf("%d events and errors", n)
		}
		if err := transcript.Pretty(discard{}, transcript.Read(strings.NewReader(text)),
			transcript.PrettyOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) {
	for _, c := range p {
		if c < ' ' && c != '\n' {
			return 0, fmt.Errorf("the control character %#x would reach the terminal", c)
		}
	}
	return len(p), nil
}
