package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/espalier-run/espalier/internal/app"
)

// runCLIScript runs a workflow's own script in the place of the workflow, as the agentfile CLI does. There is no run:
// nothing is recorded, and nothing can be resumed.
func (a *invocation) runCLIScript(p *app.Prepared, dry bool) error {
	script, err := a.app().Script(p)
	if err != nil {
		return err
	}
	shown := a.display(script.Path)
	if dry {
		a.note("%s is ready to run. Nothing was started.", p.Workflow.Name())
		fmt.Fprintln(a.stdout, shown)
		return nil
	}
	if err := a.app().SetInput(script, p); err != nil {
		return err
	}
	a.note("Runs %s: bash %s", shown, script.Name)
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	signals, release := a.Signals.handle()
	defer release()
	go func() {
		select {
		case <-signals:
			stop(errInterrupted)
		case <-ctx.Done():
		}
	}()
	end, err := script.Run(ctx, a.stdout, a.stderr)
	failed := &failure{
		code: exitFailed, help: "It is the workflow's own script; without --scripts the workflow runs by itself.",
	}
	switch {
	case errors.Is(err, errInterrupted):
		failed.code, failed.message = ExitInterrupted, shown+" was stopped"
	case err != nil:
		return err
	case end.Signal != "":
		failed.message = fmt.Sprintf("%s was ended by a signal (%s)", shown, end.Signal)
	case end.Exit != 0:
		failed.message = fmt.Sprintf("%s: exit status %d", shown, end.Exit)
	default:
		return nil
	}
	return failed
}

var errInterrupted = errors.New("interrupted")
