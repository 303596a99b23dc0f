package app

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
)

// A run that retention removes leaves a tombstone with its id, the actor, the time and the reason.
func TestRetentionLeavesTombstones(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"espalier.yaml": "retention: {older_than: 30d}\n",
		"flow.md": "---\nname: flow\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: d\n---\n" +
			"```step\nid: s\ntype: transform\ndescription: d\nwrites: [output.x]\n```\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	later := time.Now().Add(31 * 24 * time.Hour)
	a := New(Options{
		Dir: dir, Relaxed: true, Getenv: func(string) string { return "" }, Now: func() time.Time { return later },
		Notify: func(Notice) { cancel() }, // the first round is over
	})
	t.Cleanup(func() { _ = a.Close() })
	an, err := a.Analyze(ctx, AnalyzeRequest{Workflow: "flow"})
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := a.Prepare(ctx, PrepareRequest{Workflow: an, Options: RunOptions{Simulate: true}})
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Start(ctx, prepared, "", journal.Actor{User: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Wait(ctx, id); err != nil {
		t.Fatal(err)
	}
	env, err := a.runs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a.retain(ctx, env)
	var got []journal.Tombstone
	for link, err := range env.Store.(journal.ChainReader).Tombstones(t.Context()) {
		var one journal.Tombstone
		if err != nil || json.Unmarshal(link.Body, &one) != nil {
			t.Fatal(err, string(link.Body))
		}
		got = append(got, one)
	}
	if len(got) != 1 || got[0].Run != id || got[0].By.User != "retention" || got[0].By.Method != "retention" ||
		got[0].At != journal.MillisOf(later) || got[0].Why == "" || got[0].Hash == "" {
		t.Errorf("%+v", got)
	}
}
