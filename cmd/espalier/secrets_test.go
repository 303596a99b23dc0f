//go:build unix

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// plantedSecret is a secret that every encoding changes.
const plantedSecret = `hush&k3y+"9Zq"=vault~42`

// secretForms are what must be found nowhere: the secret in every form, and halves
// of it.
func secretForms() map[string]string {
	quoted, err := json.Marshal(plantedSecret)
	if err != nil {
		panic(err)
	}
	out := map[string]string{
		"plain": plantedSecret, "JSON": strings.Trim(string(quoted), `"`), "query": url.QueryEscape(plantedSecret), "path": url.PathEscape(plantedSecret),
		"first half": plantedSecret[:10], "second half": plantedSecret[len(plantedSecret)-10:],
	}
	for before := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + plantedSecret + "yyy"))
		out[fmt.Sprintf("base64 after %d", before)] = text[4:28]
	}
	return out
}

// everyForm is a text that gives the secret away in many ways.
func everyForm() string {
	e := base64.StdEncoding
	return strings.Join([]string{
		plantedSecret, e.EncodeToString([]byte(plantedSecret)), e.EncodeToString([]byte("u" + plantedSecret)),
		e.EncodeToString([]byte("u:" + plantedSecret + "!")),
		url.QueryEscape(plantedSecret), url.PathEscape(plantedSecret),
		"https://x.example/?k=" + url.QueryEscape(plantedSecret) + "&z=1",
	}, " ")
}

func quote(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func secretShape() *shape {
	return &shape{
		simulatedUser: simulatedUser{Run: []string{
			"planted.md", "--script", "planted.script.yaml", "--allow-shell", "--input", "token=secret://vault",
		}},
		files: map[string]string{
			"espalier.yaml": "secrets:\n  vault: {env: PLANTED_SECRET}\n",
			"forms.txt":     everyForm(),
			"planted.md": `---
name: planted
kind: agent-flow/workflow
version: 1.0.0
description: Handle a token.
input:
  schema:
    type: object
    required: [token]
    properties: {token: {type: string, pattern: "^hush"}}
output:
  schema:
    type: object
    required: [same]
    properties: {same: {type: string, pattern: "hush"}}
---
` + "```" + `agent
id: helper
role: Helps.
goal: ` + quote("Never say "+everyForm()) + `
tools: ["Bash(dd:*)", vault.read]
` + "```\n```" + `step
id: ask
type: skill
description: Ask about the token.
agent: helper
reads: [input.token]
writes: [state.said]
` + "```\n```" + `step
id: print
type: transform
description: Print what there is, five bytes at a time, and leave a proof.
reads: [input.token, state.said]
writes: [state.printed]
code:
  language: sh
  script: |
    cat > ../../../seen
    sha256sum < ../../../seen >> ../../../proof
    dd bs=5 if=../../../seen 2> /dev/null
    rm ../../../seen
` + "```\n```" + `step
id: break
type: transform
description: Fail with the token in the error.
reads: [input.token]
writes: [state.broken]
on_error: skip
code:
  language: sh
  script: |
    cat >&2
    cat ../../../forms.txt >&2
    exit 3
` + "```\n```" + `step
id: file
type: transform
description: Leave a file with the token in its name.
reads: [state.printed]
writes: [output.same]
output_files: [` + quote("for-"+plantedSecret+".txt") + `]
code:
  language: sh
  script: ` + quote("cat ../../../forms.txt; : "+quote(plantedSecret)) + `
` + "```\n",
			"planted.script.yaml": `replies:
  - step: ask
    turn: 1
    tools:
      - {name: Bash, input: {command: "dd bs=5 status=none if=../../../forms.txt"}}
  - step: ask
    turn: 2
    tools:
      - {name: vault.read, input: {key: ` + quote(plantedSecret) + `}}
  - step: ask
    turn: 3
    reply: ` + quote(everyForm()) + `
tools:
  vault.read:
    - input: {key: ` + quote(plantedSecret) + `}
      output: {found: ` + quote(everyForm()) + `}
`,
		},
	}
}

// TestSecretsStayOut plants a secret wherever a run meets text, in many forms,
// and kills the program at the writes to its journal. The secret is on no
// disk, no screen and in no span, although spans are to tell what was said;
// commands and tools get to see the real one, and every run ends like the
// undisturbed one.
func TestSecretsStayOut(t *testing.T) {
	t.Setenv("PLANTED_SECRET", plantedSecret)
	collector := startCollector(t)
	t.Setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
	s := secretShape()
	calm := s.createProject(t)
	back := s.runProcess(t, calm, s.simulatedUser)
	want := s.collectOutcome(t, calm, back)
	if !strings.HasPrefix(want.status, "finished ok") {
		t.Fatalf("undisturbed: %s\n%s", want.status, s.stderr.String())
	}
	if !strings.Contains(want.output, "[secret vault]") {
		t.Errorf("the output does not tell where the secret was: %s", want.output)
	}
	if strings.Contains(s.stderr.String(), "tool Bash failed") {
		t.Errorf("the tool did not work:\n%s", s.stderr.String())
	}
	proof := checkCommandGotSecret(t, calm)
	checkOutputsHoldNoSecret(t, calm)
	checkFilesHoldNoSecret(t, "undisturbed", calm)
	for stop := 1; stop <= back.Writes; stop++ {
		label := fmt.Sprintf("killed at write %d", stop)
		dir := s.createProject(t)
		one := s.simulatedUser
		one.KillAt, one.After = stop, stop%2 == 0
		if s.runProcess(t, dir, one) != nil {
			t.Fatalf("%s: it was not killed", label)
		}
		checkFilesHoldNoSecret(t, label, dir)
		ended := s.runProcess(t, dir, s.simulatedUser)
		checkFilesHoldNoSecret(t, label+" and resumed", dir)
		if different := s.collectOutcome(t, dir, ended).differences(&want); len(different) > 0 {
			t.Errorf("%s:\n%s", label, strings.Join(different, "\n"))
		}
		if got := checkCommandGotSecret(t, dir); got != proof {
			t.Errorf("%s: the command saw something else than in the undisturbed run", label)
		}
		os.RemoveAll(dir)
	}
	checkNoSecret(t, "the screen", s.stderr.String())
	checkNoSecret(t, "a span", collector.Text())
	masked := map[string]bool{} // by what spans tell of
	for _, span := range collector.Spans() {
		for key, value := range reporttest.Attributes(span.Attributes) {
			masked[key] = masked[key] || strings.Contains(value, "[secret vault]")
		}
		masked["an error"] = masked["an error"] || strings.Contains(span.Status.GetMessage(), "[secret vault]")
	}
	for _, key := range []string{
		"gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments",
		"gen_ai.tool.call.result", "an error",
	} {
		if !masked[key] {
			t.Errorf("no span tells where the secret was in %s: they do not tell what was said", key)
		}
	}
}

// checkNoSecret looks for the secret in a text.
func checkNoSecret(t *testing.T, where, text string) {
	t.Helper()
	for form, needle := range secretForms() {
		if i := strings.Index(text, needle); i >= 0 {
			t.Errorf("%s holds the secret (%s): …%q…", where, form, text[max(0, i-60):min(len(text), i+len(needle)+20)])
		}
	}
}

// checkFilesHoldNoSecret looks for the secret in every byte and every name below .espalier.
func checkFilesHoldNoSecret(t *testing.T, label, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join(dir, ".espalier"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		checkNoSecret(t, label+": the name of "+path, d.Name())
		if !d.Type().IsRegular() {
			return nil
		}
		raw, err := os.ReadFile(path)
		files++
		checkNoSecret(t, label+": "+path, string(raw))
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("%s: looked at %d files: %v", label, files, err)
	}
}

// checkCommandGotSecret checks that the command received the real value, and returns the digest of its input.
func checkCommandGotSecret(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "proof"))
	if err != nil {
		t.Fatal(err)
	}
	given := standardInput(map[string]string{"said": everyForm(), "token": plantedSecret})
	sum := sha256.Sum256(given)
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, hex.EncodeToString(sum[:])) {
			t.Errorf("the command did not receive the real value: %s", line)
		}
	}
	return strings.Fields(string(raw))[0]
}

// standardInput returns what a script reads from its standard input.
func standardInput(reads map[string]string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(reads); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// checkOutputsHoldNoSecret looks for the secret in the output of every command that shows a run.
func checkOutputsHoldNoSecret(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{
		{"status", testRunID},
		{"status", testRunID, "--json"},
		{"status", testRunID, "--step", "print"},
		{"status", testRunID, "--step", "break", "--json"},
		{"transcript", testRunID},
		{"transcript", testRunID, "--pretty"},
		{"output", testRunID},
		{"audit", "verify", testRunID},
		{"runs"},
		{"graph", testRunID},
	} {
		cmd := exec.Command("espalier", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "NO_COLOR=1", "HOME="+dir, "GORACE="+quickExit)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("espalier %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		checkNoSecret(t, "espalier "+strings.Join(args, " "), string(out))
		if args[0] == "transcript" && !bytes.Contains(out, []byte("[secret vault]")) {
			t.Errorf("espalier %s does not tell where the secret was:\n%s", strings.Join(args, " "), out)
		}
	}
}
