package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
)

func (a *invocation) createCommand() *cobra.Command {
	var req app.GenerateRequest
	script := ""
	cmd := a.jsonFlag(&cobra.Command{
		Use:   `create NAME ["WHAT IT SHOULD DO"] [--model MODEL|--simulate|--script FILE]`,
		Short: "Generate a workflow from a description",
		Long: `Generate a workflow: a built-in workflow asks a model for a design, a
workflow.yaml, agents, skills and scripts. They are staged in
artifacts/NAME/RUN/ with a manifest.json and checked; the model repairs what the
check finds. "espalier promote NAME" then installs the workflow.

The project's own workflows/workflow-creator replaces the built-in one. Without
a description, the newest generation continues where it was interrupted or
failed, with the model that it started with, and is checked again. --simulate
needs no model: the description itself determines the steps.`,
		Example: `  espalier create feedback-digest "Read the feedback, then write a summary"
  espalier create feedback-digest --simulate "Read and sum up the feedback"`,
		Args:              takes(1, 2, "a name, and a description"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			req.Name = args[0]
			if len(args) == 1 && strings.ContainsAny(strings.TrimSpace(req.Name), " \t\n") {
				return usage("Write a name before it: espalier create NAME "+shellWord(req.Name),
					"the description has no name of a workflow before it")
			}
			if err := checkName(req.Name); err != nil {
				return err
			}
			if req.Name[0] < 'a' || req.Name[0] > 'z' {
				return usage("Begin with a letter.", "invalid workflow name %q", req.Name)
			}
			req.Request = strings.TrimSpace(optional(args, 1))
			return a.create(&req, script)
		},
	})
	flags := cmd.Flags()
	flags.BoolVar(&req.Options.Simulate, "simulate", false, "ask no model; derive the workflow from the description")
	flags.StringVar(&script, "script", "", "play replies from this `FILE`")
	exclusive(cmd, "simulate", "script")
	flags.StringVar(&req.Options.Model, "model", "", "the `MODEL` of all steps")
	flags.BoolVar(&req.Options.AllowShell, "allow-shell", false,
		"let scripts of the project's own workflow-creator run")
	return cmd
}

// create generates a workflow by runs of a built-in or own workflow, one after the other, until the check passes or a
// run fails. Each run is driven like any other; a later create continues after the last one.
func (a *invocation) create(req *app.GenerateRequest, script string) (err error) {
	a.remedies, req.By = newGeneration, actor("")
	if script != "" {
		if req.Script, err = a.readScript(script); err != nil {
			return err
		}
	}
	ctx := context.Background()
	g, findings, err := a.app().Generate(ctx, *req)
	if problem := a.findings(findings); problem != nil {
		return problem
	}
	if err != nil {
		return err
	}
	for {
		run, err := g.Next(ctx)
		if err != nil {
			return err
		}
		if run == nil {
			break
		}
		if err := a.drive(g.Journal(), run.ID, run.Start); err != nil {
			return err
		}
	}
	a.note("%s is staged in %s and passes its check. Next: \"espalier promote %s\".", g.Name, a.display(g.Dir), g.Name)
	return nil
}
