package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maskingCommand measures only masking.
const maskingCommand = "masking"

// masking measures what three secrets add to a run of a hundred steps, each of which has a reply of four kilobytes. The
// secrets do not occur in the replies: what is measured is the search.
func masking(dir, espalier string) error {
	const steps, rounds, aim = 100, 25, 0.1
	var workflow, script strings.Builder
	workflow.WriteString("---\nname: chain\ndescription: A chain\nkind: agent-flow/workflow\nversion: 1.0.0\n---\n\n")
	script.WriteString("replies:\n")
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, and then some more of it. ", 57)
	for i := range steps {
		fmt.Fprintf(&workflow, "```step\nid: s%d\ntype: transform\ndescription: Write\nreads: [input]\n"+
			"writes: [state.v%d]\n```\n", i, i)
		fmt.Fprintf(&script, "  - {step: s%d, reply: {v%d: %q}}\n", i, i, text)
	}
	settings := "secrets:\n"
	for i, value := range []string{
		"sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz", "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ", "hunter2-äöü/€ \"x\"",
	} {
		name := fmt.Sprint("ESPALIER_BENCH_SECRET_", i)
		if err := os.Setenv(name, value); err != nil {
			return err
		}
		settings += fmt.Sprintf("  s%d: {env: %s}\n", i, name)
	}
	var runs []command
	for name, config := range map[string]string{"plain": "", "masked": settings} {
		root := filepath.Join(dir, name)
		if err := os.Mkdir(root, 0o755); err != nil {
			return err
		}
		for file, content := range map[string]string{
			"chain.md": workflow.String(), "chain.script.yaml": script.String(), "espalier.yaml": config,
		} {
			if err := os.WriteFile(filepath.Join(root, file), []byte(content), 0o644); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"masked", "plain"} {
		root := filepath.Join(dir, name)
		runs = append(runs, command{
			espalier, "run", filepath.Join(root, "chain.md"), "--script", filepath.Join(root, "chain.script.yaml"),
		})
	}
	m, err := byTurns(rounds, runs...)
	if err != nil {
		return err
	}
	share := ratio(m[0].minus(m[1]).cpu, m[0].cpu)
	fmt.Printf("\nmasking three secrets in a run of %d steps with replies of 4 kB, %d rounds\n", steps, rounds)
	fmt.Printf("  with secrets              %s\n", m[0])
	fmt.Printf("  without                   %s\n", m[1])
	fmt.Printf("  masking takes %.1f %% of the run, aim at most %.0f %%: %s\n", 100*share, 100*aim, met(share <= aim))
	return nil
}
