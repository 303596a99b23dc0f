package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/espalier-run/espalier/internal/cli"
	"github.com/espalier-run/espalier/internal/explain"
	"github.com/espalier-run/espalier/internal/process"
)

// A mistake in the code or the rules of a NOF file stops a run before a model is called. The examples of "espalier
// explain" have one mistake of each code.
func TestMistakesInNOFFilesCostNothing(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		content := `{"recommendations": [], "rules_applied": [], "meta_insight": "fine", "analysis_data": {"spend": 1.0}}`
		_ = json.NewEncoder(w).Encode(map[string]any{
			"choices": []any{map[string]any{
				"message": map[string]string{"role": "assistant", "content": content}, "finish_reason": "stop",
			}},
			"usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 10},
		})
	}))
	defer server.Close()
	try := func(t *testing.T, files []explain.File, args ...string) (code int, output string, called int64) {
		t.Helper()
		dir := t.TempDir()
		name := ""
		for _, f := range files {
			writeApproved(t, filepath.Join(dir, f.Path), f.Text)
			if strings.HasSuffix(f.Path, ".nof.md") {
				name = f.Path
			}
		}
		writeApproved(t, filepath.Join(dir, "espalier.yaml"),
			"models: {default: till/m, providers: {till: {api: openai, base_url: \""+server.URL+"/v1\", max_retries: "+
				"0}}}\ndefaults: {max_cost: 0}\n")
		var out bytes.Buffer
		before := calls.Load()
		code = cli.Main(cli.Environment{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Dir: dir,
			Getenv:   func(name string) string { return map[string]string{"HOME": dir}[name] },
			Confined: func() (process.Confinement, error) { return process.Confinement{}, process.ErrNoSandbox },
		}, append([]string{args[0], name}, args[1:]...))
		return code, out.String(), calls.Load() - before
	}
	var stopped []string
	for _, code := range explain.Codes() {
		page, _ := explain.Lookup(code)
		if !slices.ContainsFunc(page.Bad, func(f explain.File) bool { return strings.HasSuffix(f.Path, ".nof.md") }) {
			continue
		}
		t.Run(code, func(t *testing.T) {
			exit, _, _ := try(t, page.Bad, "validate")
			if exit == 0 && code != "PY002" { // a warning; only a run needs the module of PY002
				return
			}
			stopped = append(stopped, code)
			if exit, output, called := try(t, page.Bad, "run"); exit != 3 || called > 0 ||
				!strings.Contains(output, code) {
				t.Errorf("exit code %d, %d model calls\n%s", exit, called, output)
			}
		})
	}
	for _, code := range []string{
		"NOF018", "NOF020", "NOF021", "NOF022", "NOF024",
		"PY001", "PY002", "PY004", "PY005", "PY007", "PY008",
	} {
		if !slices.Contains(stopped, code) {
			t.Errorf("%s is not an error of a NOF file", code)
		}
	}
	page, _ := explain.Lookup("PY004")
	// The mistakes are in the last node and in the rules, so a run would call the first agent.
	for _, c := range []struct{ old, with, code string }{
		{`{"spend": state["spend"]})`, `{"spend": totl})`, "PY004"},
		{`result.output["recommendations"]`, `result.outpt["recommendations"]`, "PY005"},
		{`{"spend": state["spend"]})`, `{"spend": open("x").read()})`, "PY006"},
		{`{"spend": state["spend"]})`, `{"spend": eval("1")})`, "PY006"},
		{`{"spend": state["spend"]})`, `{}, {}, {})`, "PY007"},
		{`{"recommendations": result`, `{"spend": "high", "recommendations": result`, "PY008"},
		{"`errors` is non-empty", "`errors`", "EXPR019"},
		{"`errors` is non-empty", "`spend < 'x'`", "EXPR022"},
		{"`errors` is non-empty", "`spend <`", "EXPR"},
		{"`errors` is non-empty", "`health_score < 1`", "NOF024"},
	} {
		t.Run(c.with, func(t *testing.T) {
			files := slices.Clone(page.Good)
			at := slices.IndexFunc(files, func(f explain.File) bool { return strings.HasSuffix(f.Path, ".nof.md") })
			if !strings.Contains(files[at].Text, c.old) {
				t.Fatalf("the example does not contain %q", c.old)
			}
			files[at].Text = strings.Replace(files[at].Text, c.old, c.with, 1)
			if exit, output, called := try(t, files, "run"); exit != 3 || called > 0 ||
				!strings.Contains(output, c.code) {
				t.Errorf("exit code %d, %d model calls\n%s", exit, called, output)
			}
		})
	}
	if exit, output, called := try(t, page.Good, "run"); exit != 0 || called != 2 {
		t.Errorf("without a mistake: exit code %d, %d model calls\n%s", exit, called, output)
	}
}
