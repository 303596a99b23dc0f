package app_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/journal"
)

// The files in testdata/odd are what authors write: unusual and valid ("ok-…"), or invalid. The name of an invalid one
// begins with the code of its first error.
func oddFiles(t *testing.T) map[string]string {
	t.Helper()
	archives, err := filepath.Glob("testdata/odd/*.txtar")
	if err != nil || len(archives) != 4 {
		t.Fatalf("%d archives: %v", len(archives), err)
	}
	out := map[string]string{}
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			out[filepath.Base(strings.TrimSuffix(path, ".txtar"))+"/"+f.Name] = string(f.Data)
		}
	}
	for _, path := range archives {
		format := filepath.Base(strings.TrimSuffix(path, ".txtar"))
		valid, invalid := 0, 0
		for name := range out {
			switch {
			case strings.HasPrefix(name, format+"/ok-"):
				valid++
			case strings.HasPrefix(name, format+"/"):
				invalid++
			}
		}
		if valid < 30 || invalid < 20 {
			t.Errorf("%s has %d valid and %d invalid files", format, valid, invalid)
		}
	}
	return out
}

// analyzeOdd writes a file into a project of its own, and analyzes it.
func analyzeOdd(t *testing.T, name, text string) (*app.App, *app.Analysis, error) {
	t.Helper()
	dir := t.TempDir()
	format, file, _ := strings.Cut(name, "/")
	path := filepath.Join(dir, file)
	switch format {
	case "awf":
		path = filepath.Join(dir, ".awf", "workflows", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
	case "agentfile":
		path = filepath.Join(dir, "workflows", strings.TrimSuffix(file, ".yaml"), "workflow.yaml")
		if err := os.MkdirAll(filepath.Join(filepath.Dir(path), "agents"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "agents", "a.md"),
			[]byte("# A\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	project := app.New(app.Options{Dir: dir})
	t.Cleanup(func() { project.Close() })
	an, err := project.Analyze(context.Background(),
		app.AnalyzeRequest{Workflow: path, Reading: catalog.ReadOptions{Run: true}})
	return project, an, err
}

// TestOddFilesAreValid analyzes unusual files as they are, with a byte order mark, with CRLF, and without a last line
// end. As they are, they also run.
func TestOddFilesAreValid(t *testing.T) {
	for name, text := range oddFiles(t) {
		if !strings.Contains(name, "/ok-") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, text := range map[string]string{
				"bom": "\ufeff" + text, "crlf": strings.ReplaceAll(text, "\n", "\r\n"),
				"end": strings.TrimRight(text, "\n"),
			} {
				if _, an, err := analyzeOdd(t, name, text); err != nil {
					t.Errorf("%s: %v", how, err)
				} else if err := an.Err(); err != nil {
					t.Errorf("%s: %v %v", how, err, an.Diagnostics)
				}
			}
			project, an, err := analyzeOdd(t, name, text)
			if err == nil {
				err = an.Err()
			}
			if err != nil {
				t.Fatalf("%v %v", err, an)
			}
			request := app.PrepareRequest{Workflow: an, Options: app.RunOptions{Simulate: true}}
			if strings.HasPrefix(name, "agentfile/") {
				request.Fields = []app.Field{{Text: "x", Literal: true}}
			}
			prepared, err := project.Prepare(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			id, err := project.Start(t.Context(), prepared, "", journal.Actor{User: "tester"})
			if err != nil {
				t.Fatal(err)
			}
			run, err := project.Wait(t.Context(), id)
			if err != nil || run.Status != journal.Finished {
				t.Fatalf("%+v: %v", run, err)
			}
		})
	}
}

// TestInvalidFilesHaveOneClearError expects the code and a place in the file for each invalid file.
func TestInvalidFilesHaveOneClearError(t *testing.T) {
	for name, text := range oddFiles(t) {
		_, file, _ := strings.Cut(name, "/")
		code, _, _ := strings.Cut(file, "-")
		if code == "ok" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, an, err := analyzeOdd(t, name, text)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range an.Diagnostics {
				if d.Severity != diag.Error {
					continue
				}
				if string(d.Code) != code || d.Span.File == "" || d.Help == "" {
					t.Errorf("%s at %v: %s %s", d.Code, d.Span, d.Message, d.Help)
				}
				return
			}
			t.Error("the file is valid")
		})
	}
}
