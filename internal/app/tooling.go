package app

import (
	"cmp"
	"context"
	"slices"

	"github.com/espalier-run/espalier/internal/config"
)

// Tooling lists the tools and servers that the configuration of a project declares. Nothing is started to list them.
type Tooling struct {
	Tools   []ToolBinding      `json:"tools"`
	Servers []ConfiguredServer `json:"servers"`
}

// ToolBinding is a tool of the configuration.
type ToolBinding struct {
	Name string `json:"name"`
	// Calls is the tool or request behind a call; empty if the entry only configures the tool of its name.
	Calls            string `json:"calls,omitempty"`
	RequiresApproval bool   `json:"requires_approval,omitempty"`
	Off              bool   `json:"off,omitempty"`
	Approved         bool   `json:"approved"` // no person has to approve the setting first
}

// ConfiguredServer is an MCP server of the configuration.
type ConfiguredServer struct {
	Name     string `json:"name"`
	File     string `json:"file"` // that declares it
	Runs     string `json:"runs"` // its program, or its address
	Off      bool   `json:"off,omitempty"`
	Approved bool   `json:"approved"`
	Problem  string `json:"problem,omitempty"`
}

// Tooling returns the tools and MCP servers of the project around the working folder, by name.
func (a *App) Tooling(context.Context) (*Tooling, error) {
	s, _, err := a.approvedSettings()
	if err != nil {
		return nil, err
	}
	out := &Tooling{Tools: []ToolBinding{}, Servers: []ConfiguredServer{}}
	for _, t := range s.Tools {
		calls := t.Is.Use.Value
		if t.Is.URL.Value != "" {
			calls = cmp.Or(t.Is.Method, "POST") + " " + t.Is.URL.Value
		}
		out.Tools = append(out.Tools, ToolBinding{
			Name: t.Name.Value, Calls: calls, RequiresApproval: t.Is.RequiresApproval, Off: t.Is.Off,
			Approved: !t.Is.Unapproved,
		})
	}
	known := map[string]bool{}
	for _, list := range []struct {
		file    string
		servers []config.Named[config.Server]
	}{{config.FileName, s.MCP}, {config.MCPFileName, s.MCPFile.Servers}} {
		for _, one := range list.servers {
			if known[one.Name.Value] { // the first file takes precedence
				continue
			}
			known[one.Name.Value] = true
			server := ConfiguredServer{
				Name: one.Name.Value, File: list.file, Runs: one.Is.URL.Value,
				Off: one.Is.Off, Approved: !one.Is.Unapproved,
			}
			if len(one.Is.Command) > 0 {
				server.Runs = one.Is.Command[0].Value
			}
			for _, d := range one.Is.Wrong {
				server.Problem = d.Message
				break
			}
			out.Servers = append(out.Servers, server)
		}
	}
	slices.SortFunc(out.Tools, func(a, b ToolBinding) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(out.Servers, func(a, b ConfiguredServer) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}
