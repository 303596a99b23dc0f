package app_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
)

// A file that is replaced while a person reads the review is not approved: the approval is for what was shown.
func TestApprovalIsForWhatWasShown(t *testing.T) {
	const runs = "```step\nid: run\ntype: transform\ndescription: Say hello\nwrites: [output]\n" +
		"code:\n  language: sh\n  script: sh ../../../%s\n```\n"
	for _, replaced := range []string{"tool.sh", "tool.md", "added.sh", ""} {
		var dir string
		a := project(t, func(o *app.Options) { dir = o.Dir })
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("tool.sh", "printf '\"fine\"'\n")
		write("tool.md", fmt.Sprintf(head, "tool")+fmt.Sprintf(runs, "tool.sh && sh ../../../added.sh"))
		review, err := a.Review(context.Background(), dir, catalog.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		switch replaced {
		case "tool.md":
			write("tool.md", fmt.Sprintf(head, "tool")+fmt.Sprintf(runs, "other.sh"))
		case "":
		default:
			write(replaced, "printf '\"evil\"'\n")
		}
		if err := a.Approve(review); err != nil {
			t.Fatal(err)
		}
		_, err = a.Start(t.Context(), prepare(t, a, "tool", app.RunOptions{}), "", tester)
		var problem *app.Error
		if refused := errors.As(err, &problem) && problem.Reason == app.NeedsConsent; refused != (replaced != "") {
			t.Errorf("%q was replaced: %v", replaced, err)
		}
	}
}
