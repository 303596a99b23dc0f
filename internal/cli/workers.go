package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/journal"
)

// labelsVariable is the environment variable with the labels of this machine, separated by commas.
const labelsVariable = "ESPALIER_LABELS"

// labelsOf returns the labels that the environment gives to this process.
func labelsOf(getenv func(string) string) []string {
	return strings.FieldsFunc(getenv(labelsVariable), func(r rune) bool { return r == ',' || r == ' ' })
}

// addLabels adds the flag that gives a worker labels.
func addLabels(flags *pflag.FlagSet, labels *[]string) {
	flags.StringArrayVar(labels, "label", nil, "a `LABEL` of this worker, besides those in "+labelsVariable+
		"; it drives runs of workflows that need it")
}

// worker returns the option for an application that drives the runs of a project and leaves those to others that need
// labels which it does not have.
func (a *invocation) worker(labels []string) (func(*app.Options), error) {
	labels = slices.Concat(labelsOf(a.Getenv), labels)
	for _, label := range labels {
		if !config.IsLabel(label) {
			return nil, usage(config.LabelForm+".", "%q is not a label", label)
		}
	}
	slices.Sort(labels)
	labels = slices.Compact(labels)
	return func(o *app.Options) { o.Worker, o.Labels = true, labels }, nil
}

func (a *invocation) workersCommand() *cobra.Command {
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "workers [--json]",
		Short: "List workers and other processes that drive runs",
		Long: `List the living processes that use the project's runs: workers ("espalier work"
and "espalier serve") on all machines that share the store, and commands that
drive a run of their own. RUNS is the number of unfinished runs that a process
owns.`,
		RunE: func(*cobra.Command, []string) error { return a.listWorkers() },
	})
	cmd.AddCommand(&cobra.Command{
		Use:   "drain WORKER",
		Short: "Stop a worker after its running steps finish",
		Long: `Ask a worker to stop: it claims no more runs, lets its running steps finish, and
ends with exit code 0. Other workers continue its runs. The worker is named by
the start of its ID.`,
		Args: takes(1, 1, "the ID of a worker"),
		RunE: func(_ *cobra.Command, args []string) error {
			w, err := a.app(recordOnly).Drain(context.Background(), args[0])
			if err != nil {
				return err
			}
			a.note("Worker %s, process %d on %s, stops when its running steps have finished.",
				shortWorker(w), w.PID, w.Host)
			return nil
		},
	})
	return cmd
}

// labelHelp says how to continue a run whose workflow needs labels that this process does not have.
func labelHelp(e *app.Error) string {
	leave := "Add --detach to leave the run to a worker"
	if e.Run != "" {
		leave = "A worker continues the run, after --no-continue with decisions"
	}
	return fmt.Sprintf("%s (espalier work --label %s). If this machine has what the labels name, set %s=%s.",
		leave, strings.Join(e.Names, " --label "), labelsVariable, strings.Join(e.Names, ","))
}

// shortWorker returns as much of a worker's ID as people need.
func shortWorker(w *app.Worker) string { return journal.RunID(w.ID).Short() }

func (a *invocation) listWorkers() error {
	all, err := a.app(recordOnly).Workers(context.Background())
	if err != nil {
		return err
	}
	if a.json {
		return writeLines(a, all, api.NewWorker)
	}
	t := table{
		header: []string{"ID", "HOST", "PROCESS", "KIND", "VERSION", "LABELS", "SINCE", "RUNS", "STATE"},
		whole:  []int{0}, right: []int{2, 7},
	}
	for i := range all {
		w := &all[i]
		kind, state := "command", "alive"
		if w.Works {
			kind = "worker"
		}
		if !w.Seen.IsZero() {
			state = fmt.Sprintf("seen %s", w.Seen.Local().Format(time.TimeOnly))
		}
		if w.Draining {
			state = "draining"
		}
		t.add(shortWorker(w), w.Host, strconv.Itoa(w.PID), kind, w.Version, strings.Join(w.Labels, ","),
			w.Since.Local().Format(time.DateTime), strconv.Itoa(w.Runs), state)
	}
	a.printTable(&t, "")
	if len(all) == 0 {
		a.note("No process drives runs. \"espalier work\" starts a worker.")
	}
	return nil
}
