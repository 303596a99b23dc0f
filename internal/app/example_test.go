package app_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// A simulated run in a temporary folder.
func Example() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	_ = os.WriteFile(filepath.Join(dir, "hello.md"), []byte(hello), 0o600)

	ctx, project := context.Background(), app.New(app.Options{Dir: dir})
	defer project.Close()
	workflow, _ := project.Analyze(ctx, app.AnalyzeRequest{Workflow: "hello"})
	prepared, _ := project.Prepare(ctx, app.PrepareRequest{
		Workflow: workflow, Options: app.RunOptions{Simulate: true}, Fields: []app.Field{{Name: "name", Text: "Ada"}},
	})
	id, err := project.Start(ctx, prepared, "", journal.Actor{User: "tester"})
	if err != nil {
		fmt.Println(err)
		return
	}
	run, _ := project.Wait(ctx, id)
	end, _ := project.Ending(ctx, run)
	output, _, _ := strings.Cut(string(end.Output), ";")
	fmt.Println(end.Outcome, output)
	// Output: ok {"greeting":"This is a simulated reply for step \"greet\"
}

const hello = `---
name: hello
kind: agent-flow/workflow
version: 1.0.0
description: Greets somebody.
input:
  type: object
  properties:
    name: {type: string}
  required: [name]
---
` + "```step" + `
id: greet
type: transform
description: Write the greeting
writes: [output.greeting]
` + "```\n"
