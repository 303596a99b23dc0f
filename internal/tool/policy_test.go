package tool_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/tool"
)

func TestToolNameDropsArguments(t *testing.T) {
	for entry, want := range map[string]string{
		"Read": "Read", "Bash(git status)": "Bash", "Bash (x)": "Bash", "crm.read": "crm.read", "github.*": "github.*",
		"mcp__github__create_issue": "github.create_issue", "mcp__github": "github.*", "mcp__a__b__c": "a.b__c",
	} {
		if got := ir.ToolName(entry); got != want {
			t.Errorf("%s: %s", entry, got)
		}
	}
}

func named(list ...string) []ir.Name {
	var out []ir.Name
	for _, one := range list {
		out = append(out, ir.Name{Name: one})
	}
	return out
}

// Each case has a list entry, a call, and whether the entry allows it in an allowlist and denies it in a denylist.
func TestListEntriesMatchArguments(t *testing.T) {
	for _, c := range []struct {
		entry, tool, input string
		allowed, denied    bool
	}{
		{"Bash", "Bash", `{"command":"rm -rf /"}`, true, true},
		{"Bash(*)", "Bash", `{"command":"rm -rf /"}`, true, true},
		{"Bash(git status)", "Bash", `{"command":"git status"}`, true, true},
		{"Bash(git status)", "Bash", `{"command":"git status --short"}`, false, true},
		{"Bash(git:*)", "Bash", `{"command":"git log -3"}`, true, true},
		{"Bash(git *)", "Bash", `{"command":"git log"}`, true, true},
		{"Bash(git:*)", "Bash", `{"command":"git"}`, true, true},
		{"Bash(git:*)", "Bash", `{"command":"gitk"}`, false, true},
		{"Bash(git:*)", "Bash", `{"command":"ls"}`, false, false},
		{"Bash(git:*)", "Bash", `{"command":"git log; rm -rf /"}`, false, true},
		{"Bash(git:*)", "Bash", `{"command":"git log && rm x"}`, false, true},
		{"Bash(git:*)", "Bash", `{"command":"git log $(rm x)"}`, false, true},
		{"Bash(git:*)", "Bash", "{\"command\":\"git log `rm x`\"}", false, true},
		{"Bash(git:*)", "Bash", `{"command":"git log\nrm x"}`, false, true},
		{"Bash(git:*)", "Bash", `{"command":"git log > x"}`, false, true},
		{"Bash(rm:*)", "Bash", `{"command":"cd x && rm y"}`, false, true},
		{"Bash(git:*)", "Bash", `{"command":7}`, false, true},
		{"Bash(git push:*)", "Bash", `{"command":"git  push"}`, false, true},
		{"Bash(git push:*)", "Bash", `{"command":"g\\it \"push\" x"}`, false, true},
		{"Read(docs/**)", "Read", `{"path":"docs/a/b.md"}`, true, true},
		{"Read(docs/**)", "Read", `{"path":"./docs/a.md"}`, true, true},
		{"Read(docs/**)", "Read", `{"path":"docs/../secret"}`, false, false},
		{"Read(docs/*)", "Read", `{"path":"docs/a/b"}`, false, false},
		{"Read(**)", "Read", `{"path":"../x"}`, false, true},
		{"Read(docs/**)", "Read", `{"path":"/home/me/project/docs/a.md"}`, false, true},
		{"Read(docs/**)", "Read", `{"path":"/home/me/project/src/a.md"}`, false, false},
		{"Read(docs/**)", "Read", `{"path":"Docs/a.md"}`, false, true},
		{"Read(/home/me/project/docs/**)", "Read", `{"path":"docs/a.md"}`, false, true},
		{"Read(/home/me/project/docs/**)", "Read", `{"path":"src/a.md"}`, false, false},
		{"Read(**/*.key)", "Read", `{"path":"docs/a.md"}`, false, false},
		{"Grep(docs/**)", "Grep", `{"pattern":"x","path":"docs"}`, true, true},
		{"Grep(docs/**)", "Grep", `{"pattern":"x"}`, false, true},
		{"Grep(docs/**)", "Grep", `{"pattern":"x","path":"."}`, false, true},
		{"Grep(docs/deep/**)", "Grep", `{"pattern":"x","path":"docs"}`, false, true},
		{"Grep(docs/deep/**)", "Grep", `{"pattern":"x","path":"/home/me/project"}`, false, true},
		{"Grep(docs/deep/**)", "Grep", `{"pattern":"x","path":"docs/flat"}`, false, false},
		{"Glob(**/*.key)", "Glob", `{"pattern":"*","path":"docs"}`, false, true},
		{"http.request(domain:example.org)", "http.request", `{"url":"https://api.example.org/x"}`, true, true},
		{"http.request(domain:example.org)", "http.request", `{"url":"https://example.org.evil.example"}`, false, false},
		{"http.request(domain:example.org)", "http.request", `{"url":"https://evilexample.org"}`, false, false},
		{"http.request(https only)", "http.request", `{"url":"https://x"}`, false, true},
		{"http.request(evil.example)", "http.request", `{"url":"https://evil.example"}`, false, true},
		{"http.request(domain:example.org)", "http.request", `{"url":"https://exa mple.org"}`, false, true},
		{"crm.read(small)", "crm.read", `{}`, false, true},
		{"crm.*", "crm.read", `{}`, true, true},
		{"crm.*", "crmx.read", `{}`, false, false},
		{"crm.*", "crm.records/delete", `{}`, true, true},
		{"fetch.get(domain:example.org)", "fetch.get", `{"url":"https://example.org"}`, true, true},
		{"fetch.get(domain:example.org)", "fetch.get", `{"url":"https://evil.example","URL":"https://example.org"}`, false, false},
		{"mcp__crm__read", "crm.read", `{}`, true, true},
		{"[", "crm.read", `{}`, false, false},
	} {
		input := json.RawMessage(c.input)
		allow := tool.Caller{Program: &ir.Program{Tools: ir.Tools{Allow: named(c.entry)}}}
		if got := allow.Refusal(c.tool, input) == ""; got != c.allowed {
			t.Errorf("allowlist %s, %s %s: allowed %t", c.entry, c.tool, c.input, got)
		}
		agent := tool.Caller{Program: &ir.Program{Tools: ir.Tools{AllowAll: true}}, Agent: &ir.Agent{
			ID: "a", Tools: named("other", c.entry),
		}}
		if got := agent.Refusal(c.tool, input) == ""; got != c.allowed {
			t.Errorf("an agent with %s, %s %s: allowed %t", c.entry, c.tool, c.input, got)
		}
		deny := tool.Caller{Program: &ir.Program{Tools: ir.Tools{AllowAll: true, Deny: named(c.entry)}}}
		if got := deny.Refusal(c.tool, input) != ""; got != c.denied {
			t.Errorf("denylist %s, %s %s: denied %t", c.entry, c.tool, c.input, got)
		}
	}
}

// F26: agents have the tools that they list, and the workflow's lists apply to all.
func TestToolsAreRefusedUnlessAllowed(t *testing.T) {
	worker := ir.Step{ID: "w", Action: ir.Task{Kind: "agent"}}
	inLoop := ir.Step{ID: "l", Action: ir.Task{Kind: "agent"}}
	p := &ir.Program{Tools: ir.Tools{Allow: named("a", "b"), Deny: named("b")}, Blocks: []ir.Block{
		{Steps: []ir.Step{{ID: "top"}, {ID: "fan", Action: ir.Parallel{Branches: []ir.Branch{{Block: 1}}}}}},
		{Steps: []ir.Step{worker, {ID: "loop", Action: ir.Loop{Block: 2}}}},
		{Steps: []ir.Step{inLoop}},
	}}
	agent := &ir.Agent{ID: "x", Tools: named("a", "b", "c")}
	for name, c := range map[string]struct {
		who  tool.Caller
		tool string
		want string
	}{
		"listed and allowed":  {tool.Caller{Program: p, Step: &p.Blocks[0].Steps[0], Agent: agent}, "a", ""},
		"denied":              {tool.Caller{Program: p, Step: &p.Blocks[0].Steps[0], Agent: agent}, "b", "denylist"},
		"not allowed":         {tool.Caller{Program: p, Step: &p.Blocks[0].Steps[0], Agent: agent}, "c", "allowlist"},
		"not listed":          {tool.Caller{Program: p, Step: &p.Blocks[0].Steps[0], Agent: agent}, "d", "has no tool"},
		"a worker":            {tool.Caller{Program: p, Step: &p.Blocks[1].Steps[0], Agent: agent}, "a", "parallel"},
		"a worker in a loop":  {tool.Caller{Program: p, Step: &p.Blocks[2].Steps[0], Agent: agent}, "a", "parallel"},
		"a step names it":     {tool.Caller{Program: p, Step: &p.Blocks[1].Steps[0]}, "a", ""},
		"a step, not allowed": {tool.Caller{Program: p, Step: &p.Blocks[1].Steps[0]}, "c", "allowlist"},
		"a step without an agent": {
			tool.Caller{Program: p, Step: &p.Blocks[0].Steps[0], Agent: &ir.Agent{}}, "a", "this step has no tools",
		},
	} {
		if got := c.who.Refusal(c.tool, json.RawMessage("{}")); (got == "") != (c.want == "") ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

type box map[string]tool.Spec

func (b box) Tool(name string) tool.Tool {
	if spec, ok := b[name]; ok {
		return stub{spec}
	}
	return nil
}

func (b box) Names(pattern string) []string {
	var out []string
	for name := range b {
		if ir.MatchesTool(pattern, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

type stub struct{ spec tool.Spec }

func (s stub) Spec() tool.Spec                                        { return s.spec }
func (stub) Call(context.Context, tool.Call) (r tool.Result, e error) { return }

func TestAdmitRejectsDeniedAndInvalidCalls(t *testing.T) {
	p := &ir.Program{Tools: ir.Tools{AllowAll: true, Deny: named("never")}}
	has := box{"a": {Schema: json.RawMessage(`{"required":["q"]}`)}, "never": {}, "broken": {Schema: json.RawMessage(`{"type":7}`)}, "s.t": {}}
	for _, c := range []struct {
		name, input string
		class       ir.Class
	}{
		{"a", `{"q":1}`, ""},
		{"a", `{}`, ir.ClassInput},
		{"a", ``, ir.ClassInput},
		{"a", `{`, ir.ClassInput},
		{"a", `{"q":1,"q":2}`, ir.ClassInput}, // the tool may read either of them
		{"never", `{"q":1,"q":2}`, ir.ClassDenied},
		{"never", `{}`, ir.ClassDenied},
		{"none", `{}`, ir.ClassMissing},
		{"broken", `{}`, ir.ClassInput},
		{"mcp__s__t", `{}`, ""},
	} {
		found, denial := tool.Admit(has, tool.Caller{Program: p}, c.name, json.RawMessage(c.input))
		if (found == nil) != (denial != nil) || denial != nil && denial.Class != c.class ||
			denial == nil && c.class != "" {
			t.Errorf("%s %s: %+v", c.name, c.input, denial)
		}
	}
	if _, denial := tool.Admit(nil, tool.Caller{Program: p}, "a", nil); denial == nil ||
		denial.Class != ir.ClassMissing {
		t.Errorf("without tools: %+v", denial)
	}
}

func TestAgentsAreOfferedOnlyTheirTools(t *testing.T) {
	has := box{"Bash": {}, "Read": {}, "gh.issue": {}, "gh.pull": {}, "gh.push": {}, "other": {}}
	p := &ir.Program{Tools: ir.Tools{AllowAll: true, Deny: named("gh.push")}}
	agent := &ir.Agent{ID: "x", Tools: named("Bash(git:*)", "Bash(ls)", "mcp__gh", "gh.issue", "missing", "Read")}
	var got []string
	for _, spec := range tool.Offered(has, tool.Caller{Program: p, Agent: agent}) {
		got = append(got, spec.Name)
	}
	if want := []string{"Bash", "gh.issue", "gh.pull", "Read"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := tool.Offered(has, tool.Caller{Program: p}); got != nil {
		t.Errorf("without an agent: %v", got)
	}
}

func TestToolsThatActRepeatOnlyWithKey(t *testing.T) {
	for name, c := range map[string]struct {
		spec tool.Spec
		want bool
	}{
		"reads":              {tool.Spec{}, true},
		"acts":               {tool.Spec{SideEffects: true}, false},
		"acts under its key": {tool.Spec{SideEffects: true, TakesKey: true}, true},
	} {
		if tool.Repeatable(stub{c.spec}, nil) != c.want {
			t.Error(name)
		}
	}
}
