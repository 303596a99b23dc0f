package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/diag"
)

type doctorReport struct {
	Outcome  string            `json:"outcome"` // ready, or not ready
	Config   string            `json:"config,omitempty"`
	Findings []registry.Finding `json:"findings"`
}

func (a *app) doctorCommand() *cobra.Command {
	var offline bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "doctor [--offline] [--json]",
		Short: "Say what is configured, reachable and missing",
		Long: `Say what is configured, what can be reached and what is missing, each with what
to do about it. Servers of models are asked for their list of models, which
costs nothing, and collectors of telemetry are sent an empty request; --offline
asks nobody. No key is ever shown.

Ends with 0 when a workflow can ask a model, and with 6 otherwise.`,
		Args: takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			space, err := a.workspace()
			if err != nil {
				return err
			}
			here, err := space.Here()
			if err != nil {
				return err
			}
			settings, list, err := a.readConfig(here.Root, approvedOnly)
			if err != nil {
				return err
			}
			report := doctorReport{Outcome: "ready", Findings: []registry.Finding{}}
			file := registry.Finding{What: "configuration", Name: config.FileName, State: registry.Unset, About: "there is none, which is fine"}
			if settings.File != nil {
				report.Config = settings.File.Path
				file.State, file.About = registry.Fine, settings.File.Path
				if list.Errors() {
					file.State, file.About = registry.Broken, diag.Summary(list)
					file.Fix = fmt.Sprintf("\"espalier validate %s\" shows them.", settings.File.Path)
				}
			}
			report.Findings = append(report.Findings, file)
			if f := mcpFinding(&settings.MCPFile); f != nil {
				report.Findings = append(report.Findings, *f)
			}
			models := registry.NewModels(here.Root, settings, a.Getenv)
			report.Findings = append(report.Findings, models.Examine(context.Background(), !offline)...)
			report.Findings = append(report.Findings, registry.ExamineCommands(settings)...)
			telemetry := registry.ExamineTelemetry(context.Background(), a.Getenv, !offline)
			if slices.ContainsFunc(report.Findings, func(f registry.Finding) bool { return f.State == registry.Missing || f.State == registry.Broken }) {
				report.Outcome = "not ready"
			}
			report.Findings = append(report.Findings, telemetry...) // runs do without it
			if a.json {
				err = a.writeJSON(report)
			} else {
				err = a.printDoctor(report)
			}
			if err == nil && report.Outcome != "ready" {
				err = &failure{code: exitNotReady}
			}
			return err
		},
	})
	cmd.Flags().BoolVar(&offline, "offline", false, "do not ask any server")
	return cmd
}

// mcpFinding is what there is to say about .mcp.json; nil without one.
func mcpFinding(file *config.MCPFile) *registry.Finding {
	f := &registry.Finding{What: "MCP servers", Name: config.MCPFileName, State: registry.Fine}
	switch {
	case file.Err != nil:
		f.State, f.About, f.Fix = registry.Broken, file.Err.Error(), "Make it a file that can be read, or remove it."
	case file.File == nil:
		return nil
	case file.Problems.Errors():
		f.State, f.About = registry.Broken, diag.Summary(file.Problems)
		f.Fix = fmt.Sprintf("\"espalier validate %s\" shows them.", file.File.Path)
	default:
		f.About = file.File.Path
	}
	return f
}

func (a *app) printDoctor(r doctorReport) error {
	t := table{header: []string{"", "WHAT", "NAME", "STATE"}}
	for _, f := range r.Findings {
		t.add(map[string]string{registry.Fine: "+", registry.Unset: "-", registry.Missing: "!", registry.Broken: "!"}[f.State], f.What, f.Name, f.State+": "+f.About)
	}
	if err := t.write(a.stdout, a.columns(), ""); err != nil {
		return err
	}
	for _, f := range r.Findings {
		if f.Fix != "" && f.State != registry.Unset {
			fmt.Fprintf(a.stdout, "\n%s %s: %s\n", f.What, f.Name, f.Fix)
		}
	}
	return nil
}
