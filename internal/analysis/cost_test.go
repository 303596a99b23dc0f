package analysis_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
)

// The cost of a file stands for the time that it takes, which differs between machines and from run to run. It is the
// memory that checking the file and rendering its diagnostics allocates, in bytes. It counts copies of the text, which
// is how most work grows with the square of a size; FuzzNestingWork counts nested blocks.
const (
	costOfAnyFile = 4 << 20
	costPerByte   = 8 << 10
)

// FuzzCostPerByte asserts that a byte of a hostile file costs a bounded amount of work, from reading the file to the
// last diagnostic that is shown.
func FuzzCostPerByte(f *testing.F) {
	names := []string{"flow.md", "flow.yaml", "flow.nof.md", "flow.aiflow", "SKILL.md", "workflow.yaml"}
	head := "---\nname: x\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: d\n---\n"
	for i := range names {
		for _, text := range []string{
			strings.Repeat("- ", 20_000), strings.Repeat("> ", 20_000), strings.Repeat("[", 20_000),
			strings.Repeat("{a: ", 10_000), strings.Repeat("a: &b [*b]\n", 3000), strings.Repeat("x: [}\t", 5000),
			head + "```step\n" + strings.Repeat("id: [a, ", 5000) + "\n```\n",
			head + strings.Repeat("```step\nid: a\ntype: gate\n```\n", 1000),
			"name: x\nstates:\n  initial: a\n" + strings.Repeat("  a: {type: step, command: \"{{.x}}\"}\n", 500),
			"name: x\nstates: {initial: a, " + strings.Repeat("a: {type: stop, b: 1}, ", 2000) + "}\n",
			head + strings.Repeat("- ", 10_000), head + strings.Repeat("> - ", 5000) + "\n",
			"@agent x\n" + strings.Repeat("@flow a -> b\n", 2000),
			// Errors on one line.
			"{" + strings.Repeat("a: &", 3000) + "}", "name: x\nstates: {" + strings.Repeat("}", 12_000),
			strings.Repeat("| a ", 10_000), strings.Repeat("#", 20_000), strings.Repeat("`", 20_001),
		} {
			f.Add(uint8(i), text)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		name, text := names[int(which)%len(names)], strings.ToValidUTF8(text, "?") // other text is not read at all
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := result(t, root, name, map[string]string{name: text})
		var out bytes.Buffer
		if err := (diag.Printer{Files: r.Files}).Print(&out, r.Diagnostics.Sorted().Capped()); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		cost := after.TotalAlloc - before.TotalAlloc
		if cost > costOfAnyFile+costPerByte*uint64(len(text)) {
			t.Errorf("%d bytes of %s cost %d bytes", len(text), name, cost)
		}
	})
}
