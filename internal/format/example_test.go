package format_test

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// todo is a format whose files have one task for an agent per line.
type todo struct{}

func (todo) Name() string             { return "todo" }
func (todo) Schemas() []format.Schema { return nil }

func (todo) Match(f *source.File) format.Match {
	if path.Ext(f.Path) == ".todo" {
		return format.Certain
	}
	return format.No
}

func (todo) Compile(f *source.File, _ format.Files) (*ir.Program, diag.List) {
	var list diag.List
	program := &ir.Program{Format: "todo", Name: f.Path, Agents: []ir.Agent{{ID: "worker"}}, Blocks: []ir.Block{{}}}
	at := 0
	for line := range strings.Lines(f.Text) {
		text, span := strings.TrimSpace(line), f.Span(at, at+len(line))
		at += len(line)
		if text == "" {
			list.Errorf("TODO001", span, "Write a task, or remove the line.", "The line is empty.")
			continue
		}
		quoted, _ := json.Marshal(text)
		task := ir.Task{Kind: "agent", Settings: ir.Settings{{Name: "task", Value: quoted, Span: span}}}
		id := fmt.Sprintf("task_%d", len(program.Blocks[ir.Body].Steps)+1)
		program.Blocks[ir.Body].Steps = append(program.Blocks[ir.Body].Steps, ir.Step{ID: id, Action: task, Span: span})
	}
	return program, list
}

// A format compiles a file to a program and reports mistakes with their places.
func Example() {
	result := format.Set{todo{}}.Compile(source.NewFile("garden.todo", "Water the roses\n\nMow the lawn\n"), nil)
	for _, step := range result.Program.Blocks[ir.Body].Steps {
		fmt.Printf("%s: %s\n", step.ID, step.Task().Settings.Get("task"))
	}
	for _, d := range result.Diagnostics {
		line := result.Files[d.Span.File].Position(d.Span.Start).Line
		fmt.Printf("line %d: %s %s\n", line, d.Message, d.Help)
	}
	// Output:
	// task_1: "Water the roses"
	// task_2: "Mow the lawn"
	// line 2: The line is empty. Write a task, or remove the line.
}
