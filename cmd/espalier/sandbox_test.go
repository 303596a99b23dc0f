package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/cli"
	"github.com/espalier-run/espalier/internal/process"
)

// TestUnavailableSandboxStopsTheRun checks that on a machine that cannot confine commands, --sandbox refuses before
// anything starts, whether a script, a tool or an agent runs the command. Workflows without commands run.
func TestUnavailableSandboxStopsTheRun(t *testing.T) {
	head := func(name string) string {
		return "---\nname: " + name + "\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Do something.\n---\n"
	}
	flows := map[string]string{
		"script": head("script") + "```step\nid: act\ntype: transform\ndescription: Act\nwrites: [output.x]\n" +
			"code: {language: sh, script: 'echo x > \"$ESPALIER_MADE\"'}\n```\n",
		"tool": head("tool") + "```step\nid: act\ntype: tool\ndescription: Act\ntool: Bash\nargs: {command: 'true'}\n" +
			"writes: [output.x]\n```\n",
		"agent": head("agent") + "```agent\nid: a\nrole: Acts.\ngoal: Act.\ntools: [Bash]\n```\n```step\nid: act\n" +
			"type: skill\ndescription: Act\nagent: a\nwrites: [output.x]\n```\n",
		"calm": head("calm") + "```step\nid: act\ntype: tool\ndescription: Act\ntool: Read\nargs: {path: calm.md}\n" +
			"writes: [output.x]\n```\n",
	}
	for name, flow := range flows {
		for _, how := range []string{"--sandbox", "--simulate"} {
			dir := t.TempDir()
			writeApproved(t, filepath.Join(dir, name+".md"), flow)
			writeApproved(t, filepath.Join(dir, "act.script.yaml"), "replies: [{step: act, reply: Done.}]\n")
			writeApproved(t, filepath.Join(dir, "espalier.yaml"), "sandbox: true\n")
			var output bytes.Buffer
			args := []string{"run", name + ".md", "--allow-shell", how}
			if name == "agent" && how == "--sandbox" {
				args = append(args, "--script", "act.script.yaml")
			}
			code := cli.Main(cli.Environment{
				Stdin: strings.NewReader(""), Stdout: &output, Stderr: &output, Dir: dir,
				Getenv:   func(name string) string { return map[string]string{"HOME": dir}[name] },
				Confined: func() (process.Confinement, error) { return process.Confinement{}, process.ErrNoSandbox },
			}, args)
			// A simulation runs nothing, so it needs no sandbox.
			refuses := name != "calm" && how == "--sandbox"
			if want := map[bool]int{true: 6, false: 0}[refuses]; code != want ||
				refuses != strings.Contains(output.String(), "install bubblewrap") {
				t.Errorf("%s %s: exit code %d\n%s", name, how, code, output.String())
			}
			if _, err := os.Stat(filepath.Join(dir, ".espalier", "espalier.db")); (err == nil) == refuses {
				t.Errorf("%s %s: started is %t", name, how, err == nil)
			}
		}
	}
}

// What the kernel does not confine is named by doctor, and in the record of a run.
func TestGapsOfTheSandboxAreNamed(t *testing.T) {
	const gap = "Landlock (ABI 5); not confined: signals to your other processes"
	dir := t.TempDir()
	writeApproved(t, filepath.Join(dir, "calm.md"), "---\nname: calm\nkind: agent-flow/workflow\nversion: 1.0.0\n"+
		"description: Do something.\n---\n```step\nid: act\ntype: transform\ndescription: Act\n"+
		"code: {language: sh, script: echo done}\nwrites: [output.x]\n```\n")
	espalier := func(args ...string) string {
		var out bytes.Buffer
		cli.Main(cli.Environment{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Dir: dir,
			Getenv: func(name string) string { return map[string]string{"HOME": dir}[name] },
			Confined: func() (process.Confinement, error) {
				gaps := []string{"signals to your other processes"}
				return process.Confinement{By: "Landlock (ABI 5)", Gaps: gaps}, nil
			},
		}, args)
		return out.String()
	}
	if out := espalier("doctor", "--offline"); !strings.Contains(strings.Join(strings.Fields(out), " "), "ok: "+gap) {
		t.Errorf("doctor:\n%s", out)
	}
	const id = "00000000-0000-4000-8000-0000000000e1"
	out := espalier("run", "calm.md", "--sandbox", "--allow-shell", "--run-id", id)
	if log := espalier("audit", id, "--json"); !strings.Contains(log, `"confinement":"`+gap+`"`) {
		t.Errorf("the record of the run does not name the gap:\n%s%s", out, log)
	}
}
