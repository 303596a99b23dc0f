//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

const gatedFlow = `---
name: gated
kind: agent-flow/workflow
version: 1.0.0
description: Asks a person before it answers.
budgets:
  max_steps: 20
input:
  schema:
    type: object
    required: [question]
    properties:
      question: { type: string }
      count: { type: integer, default: 1 }
output:
  schema:
    type: object
    required: [answer]
    properties:
      answer: { type: string }
---

# Gated

## Agents

~~~agent
id: writer
role: Writer
goal: Answer the question
max_tokens: 500
~~~

## Steps

~~~step
id: draft
type: skill
agent: writer
description: Answer the question
reads: [input.question]
writes: [output.answer]
~~~

~~~step
id: check
type: gate
gate_method: human_review
description: Look at the answer
reads: [output.answer]
~~~

~~~step
id: done
type: end
description: The answer is approved
~~~

~~~runtime
human_in_the_loop: true
waitpoints:
  - {id: WP, after_step: draft, event: papers, timeout_seconds: 3600}
~~~
`

const tightFlow = `---
name: tight
kind: agent-flow/workflow
version: 1.0.0
description: Two steps, and a budget for one on some ways.
budgets:
  max_steps: 1
---
~~~step
id: first
type: transform
description: Do something
writes: [state.a]
~~~
~~~step
id: second
type: transform
description: Do something else
when: state.a != null
reads: [state.a]
~~~
`

// terminalScript is what people type, with the exit codes that they get.
var terminalScript = []struct {
	code int
	args string
}{
	{4, "run gated --simulate --input question=why --input count=2 --run-id 11111111-1111-4111-8111-111111111111"},
	{0, "runs"},
	{0, "runs --json"},
	{0, "runs --status waiting"},
	{0, "runs --status finished"},
	{2, "runs --status none"},
	{0, "status 1111"},
	{0, "status 1111 --json"},
	{0, "status 1111 --step draft"},
	{0, "status 1111 --step draft --json"},
	{2, "status 1111 --step nothing"},
	{2, "status 9999"},
	{4, "output 1111"},
	{0, "pause 1111"},
	{0, "status 1111"},
	{4, "resume 1111 --json"},
	{4, "signal 1111 papers --data {\"pages\":2}"},
	{2, "approve 1111 nowhere"},
	{2, "approve 1111 --digest 000000000000"},
	{2, "edit 1111 input.question=1"},
	{0, "edit 1111 output.answer=better"},
	{0, "approve 1111 check --note fine --as Ana"},
	{2, "approve 1111 check"},
	{2, "reject 1111 check"},
	{0, "status 1111 --step check"},
	{0, "resume 1111"},
	{2, "resume 1111 --raise steps=30"},
	{0, "output 1111"},
	{0, "output 1111 answer"},
	{2, "output 1111 nothing"},
	{0, "output 1111 --json"},
	{0, "transcript 1111"},
	{0, "transcript 1111 --pretty"},
	{0, "transcript 1111 --follow"},
	{0, "audit 1111"},
	{0, "audit 1111 --json"},
	{0, "audit verify 1111"},
	{2, "cancel 1111"},
	{2, "run gated --simulate"},
	{2, "run gated --simulate --input question=why --run-id 11111111-1111-4111-8111-111111111111"},
	{4, "run gated --simulate --input question=why --run-id 22222222-1111-4111-8111-111111111111 --json"},
	{4, "signal 2222 papers --json --follow"},
	{1, "reject 2222 --note no --json --follow"},
	{0, "output 2222"},
	{4, "run gated --simulate --input question=why --run-id 33333333-1111-4111-8111-111111111111"},
	{0, "cancel 3333"},
	{0, "status 3333"},
	{5, "run tight --simulate --run-id 44444444-1111-4111-8111-111111111111"},
	{0, "status 4444"},
	{5, "resume 4444"},
	{0, "resume 4444 --raise steps=20"},
	{5, "run tight --simulate --quiet --run-id 66666666-1111-4111-8111-111111111111"},
	{0, "runs"},
	{4, "resume 1111 --from check --json"},
	{4, "run letter --simulate --run-id 55555555-1111-4111-8111-111111111111"},
	{0, "status 5555"},
	{2, "approve 5555 drafts"},
	{0, "approve 5555 draft"},
	{0, "transcript 5555 --pretty"},
	{0, "audit 5555"},
	{3, "run broken --simulate"},
	{3, "run broken --simulate --json"},
	{2, "run missing --simulate"},
}

// runTerminalScript runs the script and returns everything that was printed.
func (p *awfProject) runTerminalScript(dir string, env ...string) (printed []string) {
	p.t.Helper()
	for _, line := range terminalScript {
		cmd := p.command(strings.Fields(line.args)...)
		cmd.Dir = dir
		cmd.Env = append(cmd.Env, env...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			p.t.Fatal(err)
		}
		out := "$ espalier " + line.args + "\n" + stdout.String() + "--\n" + stderr.String()
		if code := cmd.ProcessState.ExitCode(); code != line.code {
			p.t.Errorf("exit code %d, want %d\n%s", code, line.code, out)
		}
		printed = append(printed, withoutTimes(out))
	}
	return printed
}

// changing is what differs between two executions of the same workflow.
var changing = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "CLOCK"},
	{regexp.MustCompile(` *\b[0-9.]+ (ms|s|µs|min [0-9]+ s)\b`), " DURATION"}, // with the padding of a column
	{regexp.MustCompile(`"(ms|[a-z_]*_ms|[a-z_]*_ms_used)": ?[0-9.]+`), `"$1":N`},
	{regexp.MustCompile(`,"ms":N`), ""},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "HASH"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "RUN"},
	{regexp.MustCompile(`(run|approve|reject|status) [0-9a-f]{8}\b`), "$1 RUN"},
	// How a person was identified: a server knows that better.
	{regexp.MustCompile(`,"actor_method":"project-token"`), ""},
	{regexp.MustCompile(`\(project-token, `), "("},
	{regexp.MustCompile(` \(project-token\)`), ""},
}

func withoutTimes(text string) string {
	for _, c := range changing {
		text = c.what.ReplaceAllString(text, c.by)
	}
	return text
}

func newGatedProject(t *testing.T) *awfProject {
	t.Helper()
	p := &awfProject{t: t, dir: t.TempDir()}
	writeApproved(t, filepath.Join(p.dir, "gated.md"), gatedFlow)
	writeApproved(t, filepath.Join(p.dir, "tight.md"), tightFlow)
	broken := strings.ReplaceAll(tightFlow, "name: tight", "name: broken")
	writeApproved(t, filepath.Join(p.dir, "broken.md"), strings.ReplaceAll(broken, "reads: [state.a]",
		"reads: [state.b]\nnext: nowhere"))
	writeApproved(t, filepath.Join(p.dir, "letter.aiflow"), letterFlow)
	writeApproved(t, filepath.Join(p.dir, "espalier.yaml"), "{}\n")
	return p
}

// letterFlow has a gate whose name the format generates.
const letterFlow = `{
  "metadata": {"name": "letter", "version": "1.0.0", "description": "A person approves the draft."},
  "flow": {
    "start": "draft", "variables": {},
    "logic": {"draft": [{"id": "ok", "if": "always", "then": "end", "decisionOwner": "human"}, {"if": "always", "then": "draft"}]}
  },
  "agents": {"draft": {
    "name": "Draft", "role": "Writer", "provider": "openai", "model": "gpt-5-mini", "prompt": "Draft it.",
    "output_format": "text"
  }},
  "tools": {}, "memory": {"enabled": false}
}
`

// Through a server, "audit" and "audit verify" fail if records do not match the journal, as they do with the store.
func TestAuditThroughAServerFindsChangedRecords(t *testing.T) {
	p := newGatedProject(t)
	p.wantExit(4, "run", "letter", "--simulate", "--run-id", "55555555-1111-4111-8111-111111111111")
	p.wantExit(0, "approve", "5555")
	log := filepath.Join(p.dir, ".espalier", "storage", "audit", "55555555-1111-4111-8111-111111111111.audit.ndjson")
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(p)
	away := &awfProject{t: t, dir: t.TempDir()}
	t.Setenv("ESPALIER_SERVER", s.url)
	t.Setenv("ESPALIER_TOKEN", s.token)
	away.wantExit(0, "audit", "5555")
	away.wantExit(0, "audit", "verify", "5555")
	writeApproved(t, log, strings.Replace(string(raw), `"human_review"`, `"robot_review"`, 1))
	if output := away.wantExit(1, "audit", "verify", "5555"); !strings.Contains(output, "the records are not valid") {
		t.Error(output)
	}
	for _, args := range [][]string{{"audit", "5555"}, {"audit", "5555", "--json"}} {
		if output := away.wantExit(1, args...); !strings.Contains(output, "may have been changed") ||
			!strings.Contains(output, filepath.Dir(log)) {
			t.Errorf("%v: %s", args, output)
		}
	}
	if output := away.wantExit(1, "audit", "verify", "5555"); !strings.Contains(output,
		"the records were regenerated") {
		t.Error(output)
	}
}

// The same commands print the same and end with the same codes, whether they use
// the store, find the running server of the project, or are given the address of
// a server from a folder without a project.
func TestCommandsAreTheSameThroughAServer(t *testing.T) {
	alone := newGatedProject(t)
	store := alone.runTerminalScript(alone.dir)

	local := newGatedProject(t)
	startServer(local)
	found := local.runTerminalScript(local.dir)

	// The server that was found has authenticated who decided.
	if out := local.wantExit(0, "status", "1111", "--step", "check", "--json"); !strings.Contains(out, `"project-token"`) {
		t.Errorf("the decision was not made through the server: %s", out)
	}

	remote := newGatedProject(t)
	r := startServer(remote)
	named := remote.runTerminalScript(t.TempDir(), "ESPALIER_SERVER="+r.url, "ESPALIER_TOKEN="+r.token)

	for _, run := range []string{"1111", "2222", "3333", "4444"} {
		want := alone.journalFacts(run)
		for how, p := range map[string]*awfProject{"a running server": local, "ESPALIER_SERVER": remote} {
			if diff := cmp.Diff(want, p.journalFacts(run)); diff != "" {
				t.Errorf("facts of run %s with the store (-) and with %s (+):\n%s", run, how, diff)
			}
		}
	}
	for i, line := range terminalScript {
		for how, got := range map[string][]string{"a running server": found, "ESPALIER_SERVER": named} {
			if line.code == 4 && strings.Contains(line.args, "--from") || strings.Contains(line.args, "--pretty") {
				// The store is written while the command prints, and --pretty merges two records by their times, which
				// may be equal: the order of two lines is open.
				store[i], got[i] = sortedLines(store[i]), sortedLines(got[i])
			}
			if diff := cmp.Diff(store[i], got[i]); diff != "" {
				t.Errorf("%s: with the store (-) and with %s (+):\n%s", line.args, how, diff)
			}
		}
	}
}

// A person who follows a transcript sees at once that the run waits, with the store and through a server.
func TestFollowedTranscriptShowsThatTheRunWaits(t *testing.T) {
	for _, how := range []string{"store", "server"} {
		t.Run(how, func(t *testing.T) {
			p := newGatedProject(t)
			p.wantExit(4, "run", "gated", "--simulate", "--input", "question=why", "--run-id", awfRunID)
			cmd := p.command("transcript", awfRunID, "--follow", "--pretty")
			if how == "server" {
				s := startServer(p)
				cmd.Env = append(cmd.Env, "ESPALIER_SERVER="+s.url, "ESPALIER_TOKEN="+s.token)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() }).Stop() // instead of waiting forever
			lines := newLines(stdout)
			lines.skipTo(t, "WP  waiting for event papers")
			p.wantExit(4, "signal", awfRunID, "papers")
			lines.skipTo(t, "check  waiting for approval")
			p.wantExit(0, "approve", awfRunID)
			lines.skipTo(t, "check  approved by")
			lines.skipTo(t, "workflow gated done")
			for lines.Scan() {
				if strings.Contains(lines.Text(), "waiting") {
					t.Errorf("it is printed again: %s", lines.Text())
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

var dueTime = regexp.MustCompile(`"due":\d+`)

// journalFacts returns the facts of a run, without times and without how a person was identified: a server knows that
// better.
func (p *awfProject) journalFacts(prefix string) (facts []string) {
	p.t.Helper()
	s, err := sqlite.Open(filepath.Join(p.dir, ".espalier", "espalier.db"), sqlite.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Close()
	run := journal.RunID(strings.Repeat(prefix, 2) + "-1111-4111-8111-111111111111")
	for e, err := range s.Events(p.t.Context(), run, 0) {
		if err != nil {
			p.t.Fatal(err)
		}
		raw, err := json.Marshal(e.Fact)
		if err != nil {
			p.t.Fatal(err)
		}
		text := strings.ReplaceAll(withoutTimes(string(raw)), `,"method":"project-token"`, "")
		facts = append(facts, fmt.Sprintf("%T %s", e.Fact, dueTime.ReplaceAllString(text, `"due":TIME`)))
	}
	if len(facts) == 0 {
		p.t.Fatalf("run %s has no facts", prefix)
	}
	return facts
}

func sortedLines(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// A person on another machine signs in once. What they do is recorded under the
// name of their account, not of the user on their own machine.
func TestLoginStoresATokenForAServer(t *testing.T) {
	p := newGatedProject(t)
	s := startServer(p)
	added := p.wantExit(0, "user", "add", "ana", "--role", "operator", "--role", "approver", "--json")
	var account struct{ Token string }
	if err := json.Unmarshal([]byte(added), &account); err != nil {
		t.Fatalf("%s: %v", added, err)
	}
	away := &awfProject{t: t, dir: t.TempDir()}
	ask := func(stdin string, code int, args ...string) string {
		t.Helper()
		cmd := away.command(args...)
		cmd.Env = append(cmd.Env, "XDG_CONFIG_HOME=", "ESPALIER_SERVER="+s.url)
		cmd.Stdin = strings.NewReader(stdin)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("%v: exit %d, want %d\n%s", args, got, code, out)
		}
		return string(out)
	}
	if out := ask("", 6, "runs"); !strings.Contains(out, "espalier login") {
		t.Errorf("without a token: %s", out)
	}
	ask("wrong", 6, "login")
	if out := ask(account.Token+"\n", 0, "login"); !strings.Contains(out, "as ana (operator, approver)") {
		t.Error(out)
	}
	stored := filepath.Join(away.dir, ".config/espalier/logins.json")
	if info, err := os.Stat(stored); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	ask("", 4, "run", "gated", "--simulate", "--input", "question=why", "--run-id", awfRunID)
	ask("", 4, "signal", awfRunID, "papers")
	ask("", 0, "approve", awfRunID, "--as", "Eve")
	decided := ask("", 0, "status", awfRunID, "--step", "check", "--json")
	for _, want := range []string{`"user": "ana"`, `"established": "token"`, `"as": "Eve"`} {
		if !strings.Contains(decided, want) {
			t.Errorf("%s is missing in %s", want, decided)
		}
	}
	if out := ask("", 2, "run", "gated", "--allow-shell"); !strings.Contains(out, "does not work with a server") {
		t.Error(out)
	}
	ask("", 0, "logout")
	ask("", 6, "runs")
}

// A program on the port of a server that is gone does not get the token.
func TestTokenIsNotSentToAnotherProgram(t *testing.T) {
	p := newGatedProject(t)
	s := startServer(p)
	p.wantExit(4, "run", "gated", "--simulate", "--input", "question=why", "--run-id", awfRunID)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.cmd.Wait()
	address := strings.TrimPrefix(s.url, "http://")
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 10)
	impostor := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + r.Header.Get("Authorization")
		io.WriteString(w, `{"proof": "00"}`)
	})}
	go impostor.Serve(l)
	defer impostor.Close()
	p.wantExit(4, "signal", awfRunID, "papers")
	if got := <-asked; got != "/.well-known/espalier" || len(asked) > 0 {
		t.Errorf("the other program was asked for %q and %d more", got, len(asked))
	}
}

// A server that was killed leaves its file behind. Commands use the store then.
func TestCommandsWorkWithoutAKilledServer(t *testing.T) {
	p := newGatedProject(t)
	s := startServer(p)
	p.wantExit(4, "run", "gated", "--simulate", "--input", "question=why", "--run-id", awfRunID)
	file := filepath.Join(p.dir, ".espalier", "server.json")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.cmd.Wait()
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	p.wantExit(4, "signal", awfRunID, "papers")
	s = startServer(p)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.cmd.Wait()
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a server that has stopped left its file: %v", err)
	}
}

// SIGHUP reloads the configuration: the process and its port stay, requests that
// are made meanwhile are answered, and a configuration with errors changes
// nothing.
func TestServerReloadsItsConfiguration(t *testing.T) {
	p := newGatedProject(t)
	asked := make(chan string, 100)
	provider := func(name string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked <- name
			w.WriteHeader(http.StatusNotFound)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	file := filepath.Join(p.dir, "oidc.json")
	use := func(issuer string) {
		writeApproved(t, file, `{"issuer": "`+issuer+`", "client_id": "x", "roles": {"all": ["viewer"]}}`)
	}
	use(provider("first"))
	lines, log := io.Pipe()
	defer lines.Close()
	s := startServerTo(p, log, "--oidc", "oidc.json")
	printed := bufio.NewScanner(lines)
	hup := func(config, want string) {
		t.Helper()
		writeApproved(t, filepath.Join(p.dir, "espalier.yaml"), config)
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for printed.Scan() {
			if strings.Contains(printed.Text(), want) {
				return
			}
		}
		t.Fatalf("%q was not printed", want)
	}
	signIn := func(want string) {
		t.Helper()
		done := make(chan struct{})
		go func() { // the server logs requests
			defer close(done)
			s.call("GET", "/login/oidc", "", http.StatusBadGateway)
		}()
		for printed.Scan() {
			if strings.Contains(printed.Text(), "path=/login/oidc") {
				break
			}
		}
		<-done
		if got := <-asked; got != want {
			t.Errorf("the provider is the %s, want the %s", got, want)
		}
	}
	signIn("first")
	hup("sandbox: maybe\n", "The configuration was not reloaded")
	signIn("first")
	use(provider("second"))
	hup("sandbox: false\n", "The configuration is reloaded")
	signIn("second")
	go io.Copy(io.Discard, lines)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d", code)
	}
}

// A change of the configuration, of its approval, of the file of a secret or of the file of --oidc is noticed without a
// signal. The
// server and the worker keep what they have if the new configuration has errors.
func TestServerAndWorkerReloadWhenTheirFilesChange(t *testing.T) {
	const reloaded, refused = "Interrupt to stop", "The configuration was not reloaded"
	for name, args := range map[string][]string{
		"serve": {"serve", "--addr", "127.0.0.1:0", "--oidc", "oidc.json"}, "work": {"work"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newGatedProject(t)
			writeApproved(t, filepath.Join(p.dir, "espalier.yaml"), "secrets: {key: {file: key.txt}}\n")
			writeApproved(t, filepath.Join(p.dir, "key.txt"), "first")
			const oidc = `{"issuer": "https://a.example", "client_id": "x", "roles": {"all": ["viewer"]}}`
			writeApproved(t, filepath.Join(p.dir, "oidc.json"), oidc)
			cmd := p.command(args...)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() }) // unless it has ended
			printed := bufio.NewScanner(stderr)
			until := func(want string) {
				t.Helper()
				all := ""
				for printed.Scan() {
					if all += printed.Text() + "\n"; strings.Contains(printed.Text(), want) {
						return
					}
				}
				t.Fatalf("%q was not printed: %s", want, all)
			}
			until("Interrupt to stop")
			for _, change := range []struct{ file, text, want string }{
				{"key.txt", "other", reloaded},
				{"oidc.json", strings.ReplaceAll(oidc, "a.example", "b.example"), reloaded},
				{"espalier.yaml", "sandbox: maybe\n", refused},
				{"espalier.yaml", "sandbox: false\n", reloaded},
				{".mcp.json", `{"mcpServers": {}}`, reloaded},
				{".mcp.json", `{"mcpServers": {"crm": {"url": "https://crm.example"}}}`, reloaded},
				{"", "", reloaded}, // the approval of the last change
			} {
				if name == "work" && change.file == "oidc.json" {
					continue
				}
				switch path := filepath.Join(p.dir, change.file); {
				case change.file == "":
					approve(t, filepath.Join(p.dir, ".mcp.json"))
				case strings.Contains(change.text, "crm"):
					if err := os.WriteFile(path, []byte(change.text), 0o600); err != nil { // without an approval
						t.Fatal(err)
					}
				default:
					writeApproved(t, path, change.text)
				}
				if change.want == reloaded && name == "serve" {
					change.want = "The configuration is reloaded"
				}
				until(change.want)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			last := ""
			for printed.Scan() {
				last += printed.Text() + "\n"
			}
			_ = cmd.Wait() // how it ended is looked at
			if code := cmd.ProcessState.ExitCode(); code != 130 {
				t.Errorf("exit code %d: %s", code, last)
			}
		})
	}
}

// A secret whose file changes is used with its new value by the next request, without a restart.
func TestServerUsesAChangedSecret(t *testing.T) {
	sent := make(chan string, 10)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent <- r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,`+
			`"delta":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	defer model.Close()
	p := slowProject(t, model.URL, "")
	writeApproved(t, filepath.Join(p.dir, "espalier.yaml"),
		"models: {default: till/m, providers: {till: {api: openai, "+
			"base_url: \""+model.URL+"\", key: \"secret://key\"}}}\nsecrets: {key: {file: key.txt}}\n")
	writeApproved(t, filepath.Join(p.dir, "key.txt"), "the-first-key")
	p.wantExit(0, "trust", "--yes")
	s := startServer(p)
	for _, key := range []string{"the-first-key", "the-other-key"} {
		writeApproved(t, filepath.Join(p.dir, "key.txt"), key)
		s.call("POST", "/api/v1/runs", `{"workflow": "slow", "input": {"who": "Ann"}}`, 201)
		if got := <-sent; got != "Bearer "+key {
			t.Errorf("%s was sent, and not %s", got, key)
		}
	}
}

// A server uses an MCP server that a person approves while it runs, without a restart.
func TestServerUsesALaterApproval(t *testing.T) {
	remote := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "crm", Version: "1"}, nil)
		mcp.AddTool(s, &mcp.Tool{Name: "greet"},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, map[string]string, error) {
				return nil, map[string]string{"said": "hello"}, nil
			})
		return s
	}, &mcp.StreamableHTTPOptions{Stateless: true}))
	defer remote.Close()
	p := &awfProject{t: t, dir: t.TempDir()}
	p.writeFile("greet.md", "---\nname: greet\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Greets.\n---\n"+
		"```step\nid: check\ntype: gate\ngate_method: human_review\ndescription: Check\n```\n"+
		"```step\nid: greet\ntype: tool\ntool: crm.greet\ndescription: Greet\nwrites: [output.said]\n```\n", 0o600)
	// file would approve it.
	if err := os.WriteFile(filepath.Join(p.dir, "espalier.yaml"), []byte("mcp: {crm: {url: \""+remote.URL+"\"}}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(p)
	if _, code := s.request("POST", "/api/v1/runs", `{"workflow": "greet"}`); code != http.StatusFailedDependency {
		t.Fatalf("before the approval: %d", code)
	}
	p.wantExit(0, "trust", "--yes")
	for range 3 {
		run := s.call("POST", "/api/v1/runs", `{"workflow": "greet"}`, 201)["run_id"].(string)
		s.waitForState(run, "waiting")
		status := s.call("GET", "/api/v1/runs/"+run, "", 200)
		s.call("POST", "/api/v1/runs/"+run+"/decide", `{"step": "check", "decision": "approve", "digest": "`+
			digestOf(status)+`"}`, 200)
		s.waitForState(run, "finished")
		if got := s.call("GET", "/api/v1/runs/"+run, "", 200); got["outcome"] != "ok" {
			t.Errorf("%v", got)
		}
	}
}
