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

// A simulated run of a workflow in a folder. A program handles the errors.
func Example() {
	dir := folder()
	defer os.RemoveAll(dir)

	ctx, project := context.Background(), app.New(app.Options{Dir: dir})
	defer project.Close()
	workflow, _ := project.Analyze(ctx, app.AnalyzeRequest{Workflow: "hello"})
	prepared, _ := project.Prepare(ctx, app.PrepareRequest{
		Workflow: workflow, Options: app.RunOptions{Simulate: true}, Fields: []app.Field{{Name: "name", Text: "Ada"}},
	})
	id, _ := project.Start(ctx, prepared, "", journal.Actor{User: "tester"})
	run, _ := project.Wait(ctx, id)
	end, _ := project.Ending(ctx, run)
	fmt.Println(end.Outcome, string(end.Output[:57]))
	// Output: ok {"greeting":"This is a simulated reply for step \"greet\"
}

// folder returns a new folder with the workflow "hello".
func folder() string {
	dir, err := os.MkdirTemp("", "example")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "hello.md"), []byte(hello), 0o600)
	}
	if err != nil {
		panic(err)
	}
	return dir
}

// An editor analyzes what a person types: the texts of open files count instead of the saved ones, and neither the
// files nor their folder need to exist on the disk. Nothing is kept between requests, so that each result is about the
// files as they are, and a context ends a request that is no longer needed.
func ExampleApp_Analyze_unsaved() {
	dir := filepath.Join(os.TempDir(), "a folder that does not exist")
	ctx, project := context.Background(), app.New(app.Options{Dir: dir})
	defer project.Close()
	for _, text := range []string{hello, strings.Replace(hello, "type: transform", "type: transfrom", 1)} {
		workflow, err := project.Analyze(ctx, app.AnalyzeRequest{
			Workflow: "flows/hello.md", Unsaved: map[string]string{"flows/hello.md": text},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(workflow.Counts()["errors"])
		for _, d := range workflow.Diagnostics {
			for _, fix := range d.Fixes {
				fmt.Println(fix.Title)
			}
		}
	}
	// Output:
	// 0
	// 1
	// Replace "transfrom" with "transform"
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

## Steps

` + "```step" + `
id: greet
type: transform
description: Write the greeting
writes: [output.greeting]
` + "```\n"
