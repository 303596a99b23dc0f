package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/scaffold"
)

// greet prints what is in the project and what to do next, for a person at a terminal.
func (a *invocation) greet() error {
	ctx := context.Background()
	found, err := a.app().Workflows(ctx, a.reading)
	if err != nil {
		return err
	}
	runs, err := a.app().Runs(ctx, app.Filter{Unfinished: true})
	if none, ok := errors.AsType[*app.Error](err); err != nil && (!ok || none.Reason != app.NoRuns) {
		return err
	}
	waiting, err := a.app().CountAsks(ctx)
	if err != nil {
		return err
	}
	w := a.stdout
	fmt.Fprintln(w, "Espalier runs workflows of LLM agents, durably and within a budget.")
	fmt.Fprintln(w)
	t, try := table{}, ""
	if n := len(found.Workflows); n == 0 {
		fmt.Fprintln(w, "There are no workflows in this folder yet.")
		t.add("espalier init", "set up a project with a first workflow")
		t.add("espalier new NAME", "create a workflow from a pattern")
	} else {
		first := shellWord(found.Workflows[0].Name)
		fmt.Fprintf(w, "This folder has %s", plural(n, "workflow"))
		if len(runs) > 0 {
			fmt.Fprintf(w, " and %s", plural(len(runs), "unfinished run"))
		}
		fmt.Fprintln(w, ".")
		if waiting > 0 {
			t.add("espalier runs --open", plural(waiting, "item")+" waiting for you")
		}
		t.add("espalier list", "list the workflows")
		t.add("espalier show "+first, "what the first one does")
		if an, err := a.usable(found.Workflows[0].Path); err == nil {
			try = "espalier run " + first + " --simulate" + sampleInputs(an)
		}
	}
	t.add("espalier doctor", "which models and tools are available")
	t.add("espalier help", "all commands")
	fmt.Fprintln(w)
	a.printTable(&t, "  ")
	if try != "" { // on a line of its own, so that it can be copied
		fmt.Fprintf(w, "\nTo run the first one without a model and without cost:\n  %s\n", diag.Printable(try))
	}
	if len(found.Workflows) > 0 {
		return nil
	}
	return a.offerExample()
}

// offerExample offers to create a workflow in an empty folder and to run it with simulated replies.
func (a *invocation) offerExample() error {
	const name, file = "example", "example.md"
	if _, err := os.Lstat(a.inDir(file)); err == nil {
		return nil
	}
	fmt.Fprintln(a.stdout)
	answer, err := a.ask("Create " + file + " and run it now, simulated and without cost? [y/N] ")
	if err != nil || !isYes(answer) {
		return err
	}
	if _, _, err := a.newWorkflow(name, scaffold.Formats()[0], "gate", "."); err != nil {
		return err
	}
	a.note("\n$ espalier run %s --simulate --input topic=tomatoes", name)
	root := a.root()
	root.SetArgs([]string{"run", name, "--simulate", "--input", "topic=tomatoes"})
	if err := root.Execute(); err != nil {
		return err
	}
	a.note("Next: edit %s, then run it again; \"espalier runs\" lists the runs.", file)
	return nil
}

const upgradeHint = `Install the new version in place of this one: the section "Install it" of README.md. ` +
	`"espalier version" prints the version.`

// otherWords are the words that people of other programs try, and what to use instead.
var otherWords = map[string]string{
	"abort":   `"espalier cancel RUN" ends a run.`,
	"accept":  `"espalier approve RUN" approves what a run waits for.`,
	"check":   `"espalier validate" checks workflows, "espalier store check" the store.`,
	"compare": `"espalier serve" compares two runs side by side in the browser, on the page of a run.`,
	"config": `"espalier init" writes an espalier.yaml that lists the settings, ` +
		`"espalier validate espalier.yaml" checks it.`,
	"continue": `"espalier resume RUN" continues a run.`,
	"decide":   `"espalier approve RUN" and "espalier reject RUN" decide what a run waits for.`,
	"delete":   `"espalier runs rm RUN" removes a run.`,
	"demo":     `"espalier init" creates a first workflow, "espalier run WORKFLOW --simulate" runs it without a model.`,
	"deny":     `"espalier reject RUN" rejects what a run waits for.`,
	"describe": `"espalier show WORKFLOW" describes a workflow, "espalier status RUN" a run.`,
	"diff":     `"espalier serve" compares two runs side by side in the browser, on the page of a run.`,
	"draw":     `"espalier graph WORKFLOW" draws a workflow, "espalier graph RUN" a run.`,
	"estimate": `"espalier cost WORKFLOW" prints the worst cost of a run.`,
	"example":  `"espalier init" creates a first workflow, "espalier run WORKFLOW --simulate" runs it without a model.`,
	"export":   `"espalier runs export RUN" writes a run to a file.`,
	"fork":     `"espalier resume RUN --from STEP" starts a new run from a step of a finished run.`,
	"gates": `"espalier runs --status waiting" lists the runs that wait, ` +
		`"espalier status RUN" shows the open gates of one.`,
	"history": `"espalier runs" lists the runs, "espalier transcript RUN --pretty" shows what one did.`,
	"import":  `"espalier runs import FILE" adds a run from a file.`,
	"inbox":   `"espalier runs --status waiting" lists the runs that wait, "espalier status RUN" shows what is asked.`,
	"inspect": `"espalier show WORKFLOW" describes a workflow, "espalier status RUN" a run.`,
	"jobs":    `"espalier runs --open" lists the unfinished runs.`,
	"kill":    `"espalier cancel RUN" ends a run, "espalier pause RUN" stops it so that it can be resumed.`,
	"lint":    `"espalier validate" checks workflows.`,
	"log":     `"espalier transcript RUN --pretty --follow" prints what a run does.`,
	"logs":    `"espalier transcript RUN --pretty --follow" prints what a run does.`,
	"ls":      `"espalier list" lists the workflows, "espalier runs" the runs.`,
	"ps":      `"espalier runs --open" lists the unfinished runs.`,
	"replay": `"espalier run WORKFLOW --script FILE" plays replies from a file, ` +
		`"espalier resume RUN --from STEP" repeats a run from a step.`,
	"rerun": `"espalier run WORKFLOW" starts a new run, ` +
		`"espalier resume RUN --from STEP" repeats a run from a step.`,
	"restart": `"espalier run WORKFLOW" starts a new run, ` +
		`"espalier resume RUN --from STEP" repeats a run from a step.`,
	"retry":    `"espalier resume RUN --from current" repeats the step that failed.`,
	"rm":       `"espalier runs rm RUN" removes a run.`,
	"simulate": `"espalier run WORKFLOW --simulate" runs a workflow with simulated replies.`,
	"start": `"espalier run WORKFLOW" starts a run. ` +
		`With --detach, the run is left to "espalier work" or "espalier serve".`,
	"stop": `"espalier pause RUN" stops a run so that it can be resumed, "espalier cancel RUN" ends it.`,
	"tail": `"espalier transcript RUN --pretty --follow" prints what a run does.`,
	"test": `"espalier run WORKFLOW --script FILE" runs a workflow with replies from a file, ` +
		"--simulate with simulated ones.",
	"ui": `"espalier serve" shows workflows and runs in the browser.`,
	"uninstall": `Delete the program. The section "Where data is stored" of docs/configuration.md lists the rest. ` +
		`"espalier logout" removes stored tokens.`,
	"update":  upgradeHint,
	"upgrade": upgradeHint,
	"verify":  `"espalier audit verify RUN" verifies the record of a run, "espalier validate" checks workflows.`,
	"watch":   `"espalier transcript RUN --pretty --follow" prints what a run does.`,
	"web":     `"espalier serve" shows workflows and runs in the browser.`,
}
