package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
)

// Consent to unapproved entries of the configuration is given for one run until its next resting point. When
// the run continues later, in this process or another, it uses what a person has approved.
func TestConsentEndsWhenTheRunRests(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"espalier.yaml": "allow:\n  shell: true\n",
		"gated.md": "---\nname: gated\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: A test.\n---\n" +
			"```step\nid: ok\ntype: gate\ngate_method: human_review\ndescription: May we\nwrites: [state.ok]\n```\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := New(Options{Dir: dir, Home: home, Getenv: func(name string) string {
		return map[string]string{"HOME": home}[name]
	}})
	defer a.Close()
	ctx := t.Context()
	an, err := a.Analyze(ctx, AnalyzeRequest{Workflow: "gated"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Prepare(ctx, PrepareRequest{Workflow: an, Options: RunOptions{AllowShell: true}})
	if err != nil {
		t.Fatal(err)
	}
	if !p.env.settings.Allow.Shell {
		t.Error("the run has not got what was consented to")
	}
	id, err := a.Start(ctx, p, "", journal.Actor{User: "tester"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Wait(ctx, id); err != nil {
		t.Fatal(err)
	}
	later, err := a.environmentFor(ctx, id)
	if err != nil || later == p.env || later.settings.Allow.Shell {
		t.Errorf("consent extends to %+v, %v", later.settings, err)
	}
}
