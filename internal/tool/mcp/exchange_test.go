//go:build unix

package mcp_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/npmtest"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/tool/mcp"
)

// startEverything starts a server that asks clients questions.
func startEverything(t *testing.T, sampling bool) (*mcp.Server, string) {
	t.Helper()
	dir := t.TempDir()
	s := mcp.New(mcp.Config{
		Name: "everything", Command: []string{npmtest.Program(t, everything, "mcp-server-everything"), "stdio"},
		Dir: dir, Sampling: sampling,
	})
	t.Cleanup(s.Close)
	return s, dir
}

func TestQuestionOfAServerIsAnsweredByAPerson(t *testing.T) {
	s, _ := startEverything(t, false)
	elicits := find(t, s, "everything.trigger-elicitation-request")
	for _, c := range []struct {
		response tool.Response
		answered bool
		want     string
	}{
		{tool.Response{Accepted: true, Value: json.RawMessage(`{"name":"Ada","integer":7}`)}, true, `\"name\": \"Ada\"`},
		{tool.Response{}, true, `\"action\": \"decline\"`},
		{tool.Response{}, false, `\"action\": \"cancel\"`},
	} {
		var asked tool.Question
		result, err := elicits.Call(t.Context(), tool.Call{
			Input: json.RawMessage(`{}`), Ask: func(q tool.Question) (tool.Response, bool) {
				asked = q
				return c.response, c.answered
			},
		})
		if err != nil || !strings.Contains(string(result.Output), c.want) {
			t.Errorf("%+v: %v, %s", c.response, err, result.Output)
		}
		if !strings.HasPrefix(asked.Message, "Please provide inputs") ||
			!strings.Contains(string(asked.Schema), "legal name") {
			t.Errorf("asked %+v", asked)
		}
	}
	result, err := elicits.Call(t.Context(), tool.Call{Input: json.RawMessage(`{}`)})
	if err != nil || !strings.Contains(string(result.Output), "decline") {
		t.Errorf("without a person: %v, %s", err, result.Output)
	}
}

func TestServerSamplesOnlyIfAllowed(t *testing.T) {
	s, _ := startEverything(t, true)
	var asked tool.Sampling
	result, err := find(t, s, "everything.trigger-sampling-request").Call(t.Context(), tool.Call{
		Input: json.RawMessage(`{"prompt":"a haiku","maxTokens":50}`),
		Sample: func(_ context.Context, request tool.Sampling) (tool.Sample, error) {
			asked = request
			return tool.Sample{Model: "m1", Text: "autumn moonlight", CutOff: true}, nil
		},
	})
	for _, want := range []string{"autumn moonlight", "m1", "maxTokens"} {
		if err != nil || !strings.Contains(string(result.Output), want) {
			t.Errorf("%v, %s", err, result.Output)
		}
	}
	if asked.MaxTokens != 50 || len(asked.Messages) != 1 || !strings.Contains(asked.Messages[0].Text, "a haiku") ||
		asked.System != "You are a helpful test server." {
		t.Errorf("asked %+v", asked)
	}
	without, _ := startEverything(t, false)
	tools, err := without.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range tools {
		if strings.Contains(one.Spec().Name, "sampling") {
			t.Errorf("the server offers %s to a client that allows no sampling", one.Spec().Name)
		}
	}
}

func TestRootOfAServerIsTheProject(t *testing.T) {
	s, dir := startEverything(t, false)
	got, class := call(t, s, "everything.get-roots-list", `{}`)
	if class != "" || !strings.Contains(got, "file://"+filepath.ToSlash(dir)) {
		t.Errorf("%s %s", class, got)
	}
}

// A server that uses the roots instead of its arguments gets the folders of the arguments, not the whole project.
func TestRootsOfAServerAreTheFoldersOfItsArguments(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"data/open": "roses", "closed": "thorns"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := npmtest.Program(t, "@modelcontextprotocol/server-filesystem@2026.8.31", "mcp-server-filesystem")
	s := mcp.New(mcp.Config{Name: "files", Command: []string{program, "data"}, Dir: dir})
	t.Cleanup(s.Close)
	for name, want := range map[string]string{"data/open": "roses", "closed": "Access denied"} {
		path, err := json.Marshal(map[string]string{"path": filepath.Join(dir, name)})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := call(t, s, "files.read_text_file", string(path)); !strings.Contains(got, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestResourcesAndPromptsAreReadByTools(t *testing.T) {
	s, _ := startEverything(t, false)
	for _, c := range []struct{ tool, input, want string }{
		{"list_resources", `{}`, `demo://resource/static/document/architecture.md`},
		{"list_resources", `{}`, `demo://resource/dynamic/text/{resourceId}`},
		{"read_resource", `{"uri":"demo://resource/dynamic/text/1"}`, `Resource 1`},
		{"read_resource", `{"uri":"demo://resource/dynamic/blob/1"}`, `kept as media`},
		{"list_prompts", `{}`, `args-prompt`},
		{"get_prompt", `{"name":"args-prompt","arguments":{"city":"Lyon"}}`, `Lyon`},
	} {
		one := find(t, s, "everything."+c.tool)
		if problems := tool.BadInput(one.Spec(), json.RawMessage(c.input)); len(problems) > 0 {
			t.Errorf("%s: %v", c.tool, problems)
		}
		if one.Spec().SideEffects {
			t.Errorf("%s has side effects", c.tool)
		}
		if got, class := call(t, s, "everything."+c.tool, c.input); class != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s %s", c.tool, c.input, class, got)
		}
	}
	if got, class := call(t, s, "everything.read_resource", `{"uri":"demo://nowhere"}`); class != ir.ClassTool {
		t.Errorf("%s %s", class, got)
	}
}

// Requests of a server do not say which call they belong to. When several calls run, the question is refused, and
// later calls run one after the other.
func TestQuestionDuringSeveralCallsIsRefused(t *testing.T) {
	s, _ := startEverything(t, false)
	long, elicits := find(t, s, "everything.trigger-long-running-operation"),
		find(t, s, "everything.trigger-elicitation-request")
	started := make(chan struct{})
	var once sync.Once
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = long.Call(ctx, tool.Call{
			Input: json.RawMessage(`{"duration":600,"steps":6000}`), Progress: func(tool.Progress) { once.Do(func() { close(started) }) },
		})
	}()
	<-started
	asked := func(tool.Question) (tool.Response, bool) {
		return tool.Response{Accepted: true, Value: json.RawMessage(`{"name":"Ada"}`)}, true
	}
	result, err := elicits.Call(t.Context(), tool.Call{Input: json.RawMessage(`{}`), Ask: asked})
	if err == nil && !result.IsError {
		t.Errorf("a question of an unknown call was answered: %s", result.Output)
	}
	cancel()
	<-ended
	result, err = elicits.Call(t.Context(), tool.Call{Input: json.RawMessage(`{}`), Ask: asked})
	if err != nil || !strings.Contains(string(result.Output), "Ada") {
		t.Errorf("%v, %s", err, result.Output)
	}
}
