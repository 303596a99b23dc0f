package cliagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/providertest"
)

// The test binary runs itself as a fake agent.
const (
	fakeMode = "FAKE_AGENT" // selects the behavior
	fakeFile = "FAKE_FILE"  // file in which the fake agent records its invocation
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeMode); mode != "" {
		os.Exit(fake(mode))
	}
	os.Exit(m.Run())
}

const hello = `{"type":"system","subtype":"init","session_id":"s-1","model":"fake-1"}` + "\n"

func fake(mode string) int {
	switch mode {
	case "answers":
		return answers()
	case "record": // records its invocation
		in, _ := io.ReadAll(os.Stdin)
		received, _ := json.Marshal(map[string]any{"args": os.Args[1:], "stdin": string(in), "env": os.Environ()})
		if err := os.WriteFile(os.Getenv(fakeFile), received, 0o600); err != nil {
			return 1
		}
		fmt.Print(hello, `{"type":"result","subtype":"success","result":"told","session_id":"s-1"}`)
	case "dies":
		fmt.Print(hello, `{"type":"assistant","message":{"content":[{"type":"text","text":"I"}]}}`, "\n")
		fmt.Fprint(os.Stderr, "out of memory")
		return 3
	case "killed":
		fmt.Print(hello)
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		select {}
	case "work": // runs until it is stopped
		fmt.Print(hello,
			`{"type":"assistant","message":{"id":"m1","model":"fake-1",`+
				`"usage":{"input_tokens":200,"output_tokens":40},"content":[{"type":"text","text":"I work"}]}}`, "\n")
		select {}
	case "work and die":
		fmt.Print(hello,
			`{"type":"assistant","message":{"id":"m1","model":"fake-1",`+
				`"usage":{"input_tokens":200,"output_tokens":40},"content":[{"type":"text","text":"I work"}]}}`, "\n")
		return 3
	case "ignore signals": // ignores signals to stop, as does its child
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), fakeMode+"=ignore signals child")
		if err := child.Start(); err != nil {
			return 1
		}
		if err := os.WriteFile(os.Getenv(fakeFile), fmt.Appendf(nil, "%d %d", os.Getpid(), child.Process.Pid),
			0o600); err != nil {
			return 1
		}
		fmt.Print(hello)
		select {}
	case "ignore signals child":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		select {}
	case "stay": // stays alive after its result
		fmt.Print(hello, `{"type":"result","subtype":"success","result":"done","session_id":"s-1"}`, "\n")
		select {}
	case "long":
		fmt.Print(hello, `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"`,
			strings.Repeat("x", 3<<20), `"}]}}`, "\n")
		fmt.Print(`{"type":"result","subtype":"success","result":"`, strings.Repeat("y", 2<<20),
			`","session_id":"s-1"}`)
	case "reads nothing":
		fmt.Print(hello, `{"type":"result","subtype":"success","result":"done","session_id":"s-1"}`)
	case "plain":
		in, _ := io.ReadAll(os.Stdin)
		fmt.Printf("%s|%s", strings.Join(os.Args[1:], " "), in)
	default:
		return 2
	}
	return 0
}

// answers returns an agent that passes the provider test suite.
func answers() int {
	in, _ := io.ReadAll(os.Stdin)
	answer := "Hello. An espalier is a tree that is trained along a frame."
	switch {
	case strings.Contains(string(in), "an answer and a score"):
		answer = `{"answer":"yes","score":7}`
	case strings.Contains(string(in), "much longer than"):
		answer = "Once"
	case strings.Contains(string(in), "overloaded"):
		fmt.Print(hello,
			`{"type":"result","subtype":"success","is_error":true,`+
				`"api_error_status":529,"result":"come back later","session_id":"s-1"}`)
		return 1
	}
	for _, line := range []any{
		map[string]any{
			"type": "assistant",
			"message": map[string]any{
				"id": "m1", "model": "fake-1",
				"content": []any{map[string]string{"type": "thinking", "thinking": "Hm."}},
			},
		},
		map[string]any{
			"type": "assistant",
			"message": map[string]any{
				"id": "m1", "model": "fake-1",
				"content": []any{map[string]string{"type": "text", "text": answer}},
			},
		},
		map[string]any{
			"type": "result", "subtype": "success", "result": answer, "session_id": "s-1",
			"usage": map[string]int{"input_tokens": 20, "output_tokens": 4},
		},
	} {
		raw, _ := json.Marshal(line)
		fmt.Printf("%s\n", raw)
	}
	return 0
}

func fakeAgent(t *testing.T, mode string, env ...string) *Agent {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Agent{
		Name: "fake", Dialect: Claude{}, Program: self, Dir: t.TempDir(), Grace: 50 * time.Millisecond,
		Env: func(context.Context) ([]string, error) {
			return append(env, fakeMode+"="+mode, "GORACE=atexit_sleep_ms=0"), nil
		},
	}
}

func TestAgentProgramsMeetTheModelContract(t *testing.T) {
	overloaded := providertest.AskText()
	overloaded.Messages[0].Blocks[0].Text = "overloaded"
	providertest.Run(t, providertest.Subject{
		Model: fakeAgent(t, "answers"), NoTools: true,
		Failures: []providertest.Failure{{
			Request: overloaded,
			Want:    provider.Error{Class: ir.ClassAPI, Status: 529, Billable: true},
		}},
	})
}

func generate(t *testing.T, a *Agent, req provider.Request) (*provider.Reply, *provider.Error) {
	t.Helper()
	reply, err := collect(t.Context(), a, req)
	var failed *provider.Error
	if err != nil && !errors.As(err, &failed) {
		t.Fatalf("%v is a %T", err, err)
	}
	return reply, failed
}

// collect is providertest.Collect for agents, whose streams also contain tool events.
func collect(ctx context.Context, a *Agent, req provider.Request) (*provider.Reply, error) {
	var reply *provider.Reply
	for c, err := range a.Generate(ctx, req) {
		if err != nil {
			return nil, err
		}
		if c.Reply != nil {
			reply = c.Reply
		}
	}
	return reply, nil
}

// invocation is what a fake agent received.
type invocation struct {
	Args  []string
	Stdin string
	Env   []string
}

func invoke(t *testing.T, d Dialect, req provider.Request) invocation {
	t.Helper()
	file := filepath.Join(t.TempDir(), "told")
	a := fakeAgent(t, "record", fakeFile+"="+file)
	a.Dialect, a.Args = claudeOutput{d}, []string{"--more"}
	reply, failed := generate(t, a, req)
	if failed != nil || reply.Text() != "told" {
		t.Fatalf("%+v, %v", reply, failed)
	}
	var out invocation
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// claudeOutput builds calls by one dialect and parses output as Claude's.
type claudeOutput struct{ Dialect }

func (claudeOutput) ParseLine(line []byte, t *Turn) { Claude{}.ParseLine(line, t) }
func (claudeOutput) PlainText() bool                { return false }

// Each program receives the prompt on standard input, whatever its length, only the granted permissions, and only the
// variables that are passed on.
func TestCommandLinesGrantOnlyWhatIsPermitted(t *testing.T) {
	t.Setenv("PRIVATE_TOKEN", "secret")
	req := providertest.AskText()
	req.Model, req.System = "big", "Be kind."
	req.Messages[0].Blocks[0].Text = strings.Repeat("long ", 100_000)
	git := provider.Grant{Tool: "Bash", Only: []string{"Bash(git *)"}, Never: []string{"Bash(git push)"}}
	for _, c := range []struct {
		dialect Dialect
		work    provider.AgentTask
		has     string // parts of the arguments, separated by |
		lacks   string
	}{
		{
			Claude{},
			provider.AgentTask{NewSession: "n-1"},
			"--print| --output-format|stream-json| --permission-mode|dontAsk| " +
				"--setting-sources||--strict-mcp-config| --tools|| --disallowedTools|Read(./.espalier/**)| " +
				"--model|big| --append-system-prompt-file| --session-id|n-1|--more",
			"--allowedTools --max-turns --resume",
		},
		{
			Claude{},
			provider.AgentTask{
				Session: "s-1", Turns: 7, MicroDollars: 1_500_000,
				Grants: []provider.Grant{{Tool: "Read"}, git},
			},
			"--tools|Read,Bash| --allowedTools|Read|Bash(git_*)| |Bash(git_push)| --max-turns|7| " +
				"--max-budget-usd|1.500000| --resume|s-1",
			"--session-id",
		},
		{
			Codex{},
			provider.AgentTask{},
			`exec|--json| --ignore-rules| --sandbox|read-only| --config|web_search="disabled"| --model|big|--more|-`,
			"resume workspace-write",
		},
		{
			Codex{},
			provider.AgentTask{Session: "s-1", Grants: []provider.Grant{{Tool: "Bash"}, {Tool: "WebSearch"}}},
			"exec|--json| --sandbox|workspace-write| --more|resume|s-1|-", "disabled read-only",
		},
		{
			Codex{},
			provider.AgentTask{Grants: []provider.Grant{{Tool: "Read"}, {Tool: "Grep"}}},
			"--sandbox|read-only",
			"workspace-write",
		},
		{
			Gemini{},
			provider.AgentTask{NewSession: "n-1"},
			"--output-format|stream-json| --admin-policy| --model|big|--session-id|n-1|--more", "--resume --yolo",
		},
		{Gemini{}, provider.AgentTask{Session: "s-1"}, "--resume|s-1", "--session-id"},
		{
			Copilot{},
			provider.AgentTask{NewSession: "n-1"},
			"--output-format|json| --no-ask-user|--disable-builtin-mcps| --available-tools=none| " +
				"--model|big|--session-id=n-1|--more", "--allow-all-urls",
		},
		{
			Copilot{},
			provider.AgentTask{Session: "s-1", Grants: []provider.Grant{{Tool: "Read"}, {Tool: "Bash"}}},
			"--available-tools=view,bash,read_bash,stop_bash,list_bash| --resume=s-1", "--session-id",
		},
	} {
		req.Task = &c.work
		got := invoke(t, c.dialect, req)
		args := strings.ReplaceAll(strings.Join(got.Args, "|"), " ", "_")
		rest := args
		for part := range strings.SplitSeq(c.has, " ") {
			_, after, ok := strings.Cut(rest, strings.TrimSuffix(part, "|"))
			if !ok {
				t.Errorf("%T %+v: no %q in %q", c.dialect, c.work, part, args)
				break
			}
			rest = after
		}
		for without := range strings.FieldsSeq(c.lacks) {
			if strings.Contains(args, without) {
				t.Errorf("%T %+v: %q in %q", c.dialect, c.work, without, args)
			}
		}
		if !strings.Contains(got.Stdin, "long long") {
			t.Errorf("%T: received %.40q", c.dialect, got.Stdin)
		}
		if strings.Contains(strings.Join(got.Env, " "), "PRIVATE_TOKEN") {
			t.Errorf("%T sees %q", c.dialect, got.Env)
		}
		_, isClaude := c.dialect.(Claude)
		if inPrompt := strings.Contains(got.Stdin, "Be kind."); inPrompt == (isClaude || c.work.Session != "") {
			t.Errorf("%T: the system prompt is in the prompt: %t", c.dialect, inPrompt)
		}
	}
}

// The policy of gemini denies everything that is not granted.
func TestGeminiPolicyDeniesWhatIsNotGranted(t *testing.T) {
	got := geminiPolicy([]provider.Grant{{Tool: "Edit"}})
	if !strings.Contains(got, "toolName = \"*\"\ndecision = \"deny\"") ||
		!strings.Contains(got, "toolName = \"replace\"\ndecision = \"allow\"") || strings.Contains(got, "shell") {
		t.Error(got)
	}
}

// Restrictions that an agent cannot enforce are reported.
func TestUnenforceableRestrictionsAreReported(t *testing.T) {
	narrow := []provider.Grant{{Tool: "Bash", Only: []string{"Bash(git *)"}}}
	for _, c := range []struct {
		dialect Dialect
		grants  []provider.Grant
		denied  []string
		want    string
	}{
		{Claude{}, narrow, nil, ""},
		{Codex{}, narrow, nil, "Bash(git *)"},
		{Gemini{}, narrow, nil, "Bash(git *)"},
		{Copilot{}, narrow, nil, "Bash(git *)"},
		{Codex{}, nil, []string{"Bash"}, "in a shell"},
		{Gemini{}, nil, []string{"Bash"}, ""},
		{Plain{}, nil, []string{"Bash"}, "denylist"},
		{Plain{}, narrow, nil, "Bash(git *)"},
		{Plain{}, []provider.Grant{{Tool: "Bash"}}, nil, ""},
		{Copilot{}, []provider.Grant{{Tool: "Bash", Never: []string{"Bash(rm *)"}}}, nil, "Bash(rm *)"},
	} {
		info := c.dialect.Info("it")
		got := ""
		if info.Problem != nil {
			got = info.Problem(c.grants, c.denied)
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%T %v: %q", c.dialect, c.grants, got)
		}
		if _, isPlain := c.dialect.(Plain); !info.Acts(narrow) ||
			!isPlain && info.Acts([]provider.Grant{{Tool: "Read"}}) {
			t.Errorf("%T does not know what acts", c.dialect)
		}
	}
}

// A model that looks like an option is rejected, so that a workflow cannot add options to a command line.
func TestModelCannotBeAnOption(t *testing.T) {
	for _, d := range dialects {
		a := fakeAgent(t, "answers")
		a.Dialect = d
		req := providertest.AskText()
		req.Model = "--yolo"
		if _, failed := generate(t, a, req); failed == nil || failed.Class != ir.ClassBadRequest || failed.Billable {
			t.Errorf("%T: %+v", d, failed)
		}
	}
}

func TestFailuresAreClassified(t *testing.T) {
	for mode, want := range map[string]string{
		"dies":   "exited with code 3: out of memory",
		"killed": "signal",
	} {
		_, failed := generate(t, fakeAgent(t, mode), providertest.AskText())
		if failed == nil || failed.Class != ir.ClassAPI || !failed.Billable ||
			!strings.Contains(failed.Message, want) {
			t.Errorf("%s: %+v", mode, failed)
		}
	}
	gone := fakeAgent(t, "answers")
	gone.Program = filepath.Join(t.TempDir(), "no-such-agent")
	if _, failed := generate(t, gone, providertest.AskText()); failed == nil || failed.Billable {
		t.Errorf("no program: %+v", failed)
	}
	reply, failed := generate(t, fakeAgent(t, "long"), providertest.AskText())
	if failed != nil || len(reply.Text()) != 2<<20 {
		t.Errorf("long lines: %v", failed)
	}
	idle := fakeAgent(t, "reads nothing")
	big := providertest.AskText()
	big.Messages[0].Blocks[0].Text = strings.Repeat("x", 4<<20)
	if _, failed := generate(t, idle, big); failed != nil {
		t.Errorf("it reads nothing: %v", failed)
	}
}

// A program that is killed is charged for the usage it had reported.
func TestKilledProgramReportsItsUsage(t *testing.T) {
	want := provider.Usage{Input: 200, Output: 40}
	if _, failed := generate(t, fakeAgent(t, "work and die"), providertest.AskText()); failed == nil ||
		failed.Partial == nil || failed.Partial.Usage != want {
		t.Errorf("died: %+v", failed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var err error
	for c, problem := range fakeAgent(t, "work").Generate(ctx, providertest.AskText()) {
		if c.Type == provider.Text {
			cancel()
		}
		err = problem
	}
	var interrupted *provider.Interrupted
	if !errors.As(err, &interrupted) || !errors.Is(err, context.Canceled) || interrupted.Partial.Usage != want {
		t.Errorf("cancelled: %v", err)
	}
}

// A program that does not exit after its result is stopped.
func TestProgramThatDoesNotExitIsStopped(t *testing.T) {
	a := fakeAgent(t, "stay")
	a.Linger = time.Millisecond
	reply, failed := generate(t, a, providertest.AskText())
	if failed != nil || reply.Text() != "done" {
		t.Errorf("%+v, %v", reply, failed)
	}
}

// A plain-text program receives the prompt in its placeholder or on standard input.
func TestPlainPassesPrompt(t *testing.T) {
	req := providertest.AskText()
	req.System, req.Model = "", "small"
	req.Messages[0].Blocks[0].Text = "Hi"
	for _, c := range []struct {
		dialect     Plain
		model, want string
	}{
		{Plain{Args: []string{"run"}, ModelArgs: []string{"--model", ModelPlace}}, "", "run --more|Hi"},
		{Plain{Args: []string{"-p", PromptPlace, "-m", ModelPlace}}, "small", "-p Hi -m small --more|"},
		{
			Plain{Args: []string{"run"}, ModelArgs: []string{"--model", ModelPlace}},
			"small",
			"run --model small --more|Hi",
		},
	} {
		a := fakeAgent(t, "plain")
		a.Dialect, a.Args, req.Model = c.dialect, []string{"--more"}, c.model
		reply, failed := generate(t, a, req)
		if failed != nil || reply.Text() != c.want {
			t.Errorf("%q, %v, want %q", reply.Text(), failed, c.want)
		}
	}
	nowhere := fakeAgent(t, "plain")
	nowhere.Dialect = Plain{Args: []string{"run"}}
	if _, failed := generate(t, nowhere, req); failed == nil || failed.Class != ir.ClassBadRequest ||
		!strings.Contains(failed.Message, "no placeholder for the model") {
		t.Errorf("a model without a placeholder: %+v", failed)
	}
	req.Model = ""
	req.Messages[0].Blocks[0].Text = "--yes"
	a := fakeAgent(t, "plain")
	a.Dialect = Plain{Args: []string{PromptPlace}}
	if reply, failed := generate(t, a, req); failed != nil || reply.Text() != " --yes|" && reply.Text() != "--yes|" {
		t.Errorf("%+v, %v", reply, failed)
	}
	req.Messages[0].Blocks[0].Text = strings.Repeat("x", 200<<10)
	a = fakeAgent(t, "plain")
	a.Dialect = Plain{Args: []string{PromptPlace}}
	if _, failed := generate(t, a, req); failed == nil || failed.Class != ir.ClassBadRequest {
		t.Errorf("a prompt that is too long: %+v", failed)
	}
}
