package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// billedProject is a project with one agent whose model has a price, on a server of the test.
func billedProject(t *testing.T, settings string) (project *awfProject, requests *atomic.Int32) {
	t.Helper()
	requests = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"1","object":"chat.completion","created":1,"model":"small","choices":[{"index":0,`+
			`"message":{"role":"assistant","content":"Good morning."},"finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}`)
	}))
	t.Cleanup(server.Close)
	p := newAWF(t, `  initial: greet
  greet: {type: agent, provider: claude, prompt: Say good morning., on_success: done}
  done: {type: terminal}
`)
	p.writeFile("espalier.yaml", `models:
  default: local/small
  providers:
    local: {api: openai, base_url: "`+server.URL+`/v1"}
prices:
  local/small: {input: 3, output: 15}
`+settings, 0o600)
	return p, requests
}

// The first run of a workflow that costs money says what it can cost, and starts when the person agrees.
func TestFirstRunThatCostsMoneyIsConfirmed(t *testing.T) {
	p, requests := billedProject(t, "")
	run := func() *console { return startOnConsole(t, p.command("run", "flow", "--model", "local/small"), 80, 24) }
	c := run()
	c.waitFor("This run calls local/small. It costs at most $")
	c.waitFor("It stops before it costs more than $5.00")
	c.waitFor("Start it? [y/N] ")
	c.typeText("\n")
	if screen := c.waitExit(6); !strings.Contains(screen, "nothing was started") || requests.Load() != 0 {
		t.Fatalf("%d requests:\n%s", requests.Load(), screen)
	}
	c = run()
	c.waitFor("Start it? [y/N] ")
	c.typeText("\x03")
	if c.waitExit(130); requests.Load() != 0 {
		t.Fatalf("%d requests", requests.Load())
	}
	c = run()
	c.waitFor("Start it? [y/N] ")
	c.typeText("y\n")
	c.waitExit(0)
	if screen := run().waitExit(0); strings.Contains(screen, "Start it?") || requests.Load() != 2 {
		t.Errorf("the second run asks again, %d requests:\n%s", requests.Load(), screen)
	} else if !strings.Contains(screen, "It costs at most $") {
		t.Errorf("the second run does not say what it costs:\n%s", screen)
	}
	quiet := startOnConsole(t, p.command("run", "flow", "--model", "local/small", "-q"), 80, 24)
	if screen := quiet.waitExit(0); strings.Contains(screen, "It costs") {
		t.Errorf("a quiet run says what it costs:\n%s", screen)
	}
}

// A person who has confirmed what a run can cost is asked again if it can cost more, or if that is not known.
func TestHigherCostIsConfirmedAgain(t *testing.T) {
	p, _ := billedProject(t, "defaults: {max_cost: 0}\n")
	run := func(asks bool) {
		t.Helper()
		c := startOnConsole(t, p.command("run", "flow", "--model", "local/small"), 80, 24)
		if asks {
			c.waitFor("Start it? [y/N] ")
			c.typeText("y\n")
		}
		if screen := c.waitExit(0); strings.Contains(screen, "Start it?") != asks {
			t.Errorf("the run asks: %t\n%s", !asks, screen)
		}
	}
	run(true)
	prices := func(price string) {
		t.Helper()
		path := filepath.Join(p.dir, "espalier.yaml")
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, _, _ := strings.Cut(string(raw), "prices:\n")
		p.writeFile("espalier.yaml", before+"prices:\n"+price+"defaults: {max_cost: 0}\n", 0o600)
	}
	prices("  local/small: {input: 30, output: 150}\n")
	run(true)
	run(false)
	prices("  local/small: {input: 3, output: 15}\n") // less than was confirmed
	run(false)
	prices("  local/other: {input: 3, output: 15}\n") // not known
	run(true)
	run(false)
	prices("  local/small: {input: 30, output: 150}\n")
	run(false)
	prices("  local/small: {input: 300, output: 1500}\n")
	run(true)
}

// A person who gives a limit, and a run without a terminal, are not asked.
func TestLimitOfCostIsConsent(t *testing.T) {
	p, _ := billedProject(t, "")
	c := startOnConsole(t, p.command("run", "flow", "--model", "local/small", "--max-cost", "1"), 80, 24)
	if screen := c.waitExit(0); strings.Contains(screen, "Start it?") {
		t.Error(screen)
	}
	p, _ = billedProject(t, "")
	p.wantExit(0, "run", "flow", "--model", "local/small")
}

// Without a terminal, one line says what a run can cost and what its limit is. Only a confirmed run counts as
// confirmed: neither a run without a terminal nor one whose person has set the limit.
func TestCostIsToldWithoutATerminal(t *testing.T) {
	p, requests := billedProject(t, "")
	stderr := func(code int, args ...string) string {
		t.Helper()
		cmd := p.command(append([]string{"run", "flow", "--model", "local/small"}, args...)...)
		var text strings.Builder
		cmd.Stderr = &text
		if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
			t.Fatalf("%v: %v\n%s", args, err, text.String())
		}
		return text.String()
	}
	worst := regexp.MustCompile(`(?m)^This run calls local/small\. It costs at most \$[0-9.]+ \(estimate\)\. ` +
		`It stops before it costs more than \$(\d+\.\d+); --max-cost sets another limit\.$`)
	for limit, args := range map[string][]string{"5.00": {}, "0.50": {"--max-cost", "0.5"}, "5.000": {"--json"}} {
		if found := worst.FindStringSubmatch(stderr(0, args...)); found == nil || !strings.HasPrefix(limit, found[1]) {
			t.Errorf("%v: %q", args, found)
		}
	}
	if text := stderr(0, "-q"); text != "" {
		t.Errorf("with -q: %s", text)
	}
	if text := stderr(0, "--simulate"); strings.Contains(text, "It costs at most") {
		t.Errorf("simulated: %s", text)
	}
	startOnConsole(t, p.command("run", "flow", "--model", "local/small", "--max-cost", "1"), 80, 24).waitExit(0)
	before := requests.Load()
	c := startOnConsole(t, p.command("run", "flow", "--model", "local/small"), 80, 24)
	c.waitFor("Start it? [y/N] ")
	c.typeText("n\n")
	if c.waitExit(6); requests.Load() != before {
		t.Errorf("%d requests after a no", requests.Load()-before)
	}
}

// Runs whose models have prices have a limit: that of the flag, of the workflow, of the configuration, or the built-in.
func TestRunsHaveALimitOfCost(t *testing.T) {
	for _, test := range []struct {
		name, settings string
		flags          []string
		want           string
	}{
		{"built in", "", nil, `"dollars": 5`},
		{"configuration", "defaults: {max_cost: 0.25}\n", nil, `"dollars": 0.25`},
		{"none", "defaults: {max_cost: 0}\n", nil, ""},
		{"flag", "defaults: {max_cost: 0.25}\n", []string{"--max-cost", "9"}, `"dollars": 9`},
		{"simulated", "", []string{"--simulate"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, _ := billedProject(t, test.settings)
			args := append([]string{"run", "flow", "--model", "local/small", "--run-id", awfRunID}, test.flags...)
			p.wantExit(0, args...)
			_, limits, _ := strings.Cut(p.wantExit(0, "status", awfRunID, "--json"), `"limits": {`)
			limits, _, _ = strings.Cut(limits, "}")
			if got := strings.TrimSpace(limits); got != test.want {
				t.Errorf("limits %q, want %q", got, test.want)
			}
		})
	}
}
