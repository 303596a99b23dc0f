package tool_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/tool"
)

func names(list string) []ir.Name {
	var out []ir.Name
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, ir.Name{Name: one})
		}
	}
	return out
}

// An external agent is granted the calls that Refusal allows.
func TestGrantsFollowRefusal(t *testing.T) {
	own := []string{"Read", "Write", "Bash"}
	for _, c := range []struct {
		agent, allow, deny string
		granted, foreign   string
	}{
		{"Read, Bash", "*", "", "{Read [] []} {Bash [] []}", ""},
		{"Read, Bash", "Read", "", "{Read [] []}", ""},
		{"Read, Bash", "*", "Bash", "{Read [] []}", ""},
		{"", "*", "", "", ""},
		{"*", "Read, Write", "", "{Read [] []} {Write [] []}", ""},
		{"Bash(git *)", "*", "", "{Bash [Bash(git *)] []}", ""},
		{"Bash(git *), Bash", "*", "", "{Bash [] []}", ""},
		{"Bash", "Bash(git *)", "", "{Bash [Bash(git *)] []}", ""},
		{"Bash(git *), Bash(ls)", "Bash(git *)", "", "{Bash [Bash(git *)] []}", ""},
		{"Bash(npm *)", "Bash(git *)", "", "", ""},
		{"Bash", "*", "Bash(rm *), Write", "{Bash [] [Bash(rm *)]}", ""},
		{"Read, crm.read, mcp__crm__write, github.*", "*", "", "{Read [] []}", "crm.read crm.write"},
		{"crm.read", "Read", "", "", ""}, // not allowed
	} {
		p := &ir.Program{Tools: ir.Tools{AllowAll: c.allow == "*", Allow: names(c.allow), Deny: names(c.deny)}}
		who := tool.Caller{Program: p, Step: &ir.Step{}, Agent: &ir.Agent{ID: "a", Tools: names(c.agent)}}
		var got []string
		for _, g := range tool.Granted(who, own) {
			got = append(got, fmt.Sprint(g))
		}
		if granted := strings.Join(got, " "); granted != c.granted {
			t.Errorf("%+v: granted %s", c, granted)
		}
		if foreign := strings.Join(tool.Foreign(who, own), " "); foreign != c.foreign {
			t.Errorf("%+v: foreign %s", c, foreign)
		}
	}
	if tool.Granted(tool.Caller{Program: &ir.Program{}, Step: &ir.Step{}}, own) != nil ||
		tool.Foreign(tool.Caller{}, own) != nil {
		t.Error("a caller without an agent has grants")
	}
}
