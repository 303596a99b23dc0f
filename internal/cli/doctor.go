package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
)

// doctorCommand reports the state of the installation. What workflows lack is listed only if no other line says it
// already.
func (a *invocation) doctorCommand() *cobra.Command {
	var offline bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "doctor [--offline] [--json]",
		Short: "Report what is configured, reachable and missing",
		Long: `Report what is configured, what can be reached and what is missing, each with
what to do about it. The check lists the models of each server, which costs
nothing, connects to the database and the Temporal server of the project, starts
the MCP servers that you have approved to list their tools, and sends an empty
request to telemetry collectors; --offline skips this. What workflows of the
project lack, such as the key of a model that they name, is listed last. Keys
and passwords are never shown.

The exit code is 0 if a workflow can ask a model and its runs can be stored, and
6 otherwise.`,
		RunE: func(*cobra.Command, []string) error {
			report, err := a.app().Diagnose(context.Background(), !offline)
			if err != nil {
				return err
			}
			servers, err := a.app().DiagnoseServers(context.Background(), !offline)
			if err != nil {
				return err
			}
			workflows, err := a.app().DiagnoseWorkflows(context.Background())
			if err != nil {
				return err
			}
			workflows = slices.DeleteFunc(workflows, func(w app.Component) bool { // another line says so
				return slices.ContainsFunc(report.Components, func(f app.Component) bool {
					return f.About == w.About && f.State == w.State
				})
			})
			report.Components = slices.Concat(report.Components, servers, workflows)
			root, err := a.app().Root()
			if err != nil {
				return err
			}
			for i := range report.Components {
				if f := &report.Components[i]; f.State == app.ComponentBroken && f.Fix == "" { // a file with errors
					f.Fix = fmt.Sprintf("\"espalier validate %s\" shows them.", a.display(filepath.Join(root, f.Name)))
				}
			}
			if err := a.print(report, func() { a.printDoctor(report) }); err != nil || report.Ready() {
				return err
			}
			return &failure{code: ExitNotReady}
		},
	})
	cmd.Flags().BoolVar(&offline, "offline", false, "do not contact any server")
	return cmd
}

func (a *invocation) printDoctor(r *app.Diagnosis) {
	t := table{header: []string{"", "WHAT", "NAME", "STATE"}}
	for _, f := range r.Components {
		t.add(map[string]string{
			app.ComponentOK: "+", app.ComponentUnset: "-", app.ComponentMissing: "!",
			app.ComponentBroken: "!",
		}[f.State], f.What, f.Name, f.State+": "+f.About)
	}
	a.printTable(&t, "")
	for _, f := range r.Components {
		if f.Fix != "" && f.State != app.ComponentUnset {
			fmt.Fprintf(a.stdout, "\n%s %s: %s\n", f.What, f.Name, strings.TrimSuffix(f.Fix, "\n"))
		}
	}
}
