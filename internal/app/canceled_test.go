package app_test

import (
	"context"
	"errors"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
)

// A client that is gone, or an editor that has newer text, does not keep the analysis busy.
func TestAnalysisEndsWithItsContext(t *testing.T) {
	a := app.New(app.Options{Dir: "../../examples"})
	defer a.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	unsaved := map[string]string{"agent-flow/new.md": "---\nname: x\n---\n"}
	for name, analyze := range map[string]func() error{
		"a file": func() error {
			_, err := a.Analyze(ctx, app.AnalyzeRequest{Workflow: "agent-flow/contract-review.md"})
			return err
		},
		"a name": func() error {
			_, err := a.Analyze(ctx, app.AnalyzeRequest{Workflow: "contract-review"})
			return err
		},
		"text": func() error {
			_, err := a.Analyze(ctx, app.AnalyzeRequest{Workflow: "agent-flow/new.md", Unsaved: unsaved})
			return err
		},
		"all workflows": func() error {
			_, err := a.Workflows(ctx, catalog.ReadOptions{})
			return err
		},
		"a folder": func() error {
			_, err := a.Validate(ctx, app.ValidateRequest{Paths: []string{"."}})
			return err
		},
		"several paths": func() error {
			_, err := a.Validate(ctx, app.ValidateRequest{Paths: []string{"agent-flow", "awf"}})
			return err
		},
		"the approvals": func() error {
			_, err := a.Review(ctx, ".", catalog.ReadOptions{})
			return err
		},
	} {
		if err := analyze(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
