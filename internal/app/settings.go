package app

import (
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/trust"
)

// consent is how much of a configuration may be used.
type consent int

const (
	approvedOnly consent = iota // what a person has approved on this machine
	consented                   // everything: a person has consented for one run
	simulating                  // everything, because nothing is started
)

// consentOf returns how much of the configuration a run may use. Consent to commands in a sandbox is no consent to what
// the configuration starts outside of the sandbox, or opens in it.
func consentOf(o RunOptions) consent {
	switch {
	case registry.Simulates(o):
		return simulating
	case o.AllowShell && !o.Sandbox:
		return consented
	}
	return approvedOnly
}

// settings is a project's configuration, without what may not be used.
type settings struct {
	*config.Config
	consent  consent
	problems diag.List // of the files
	err      error     // why it cannot be used; nil if it can
	ignored  []string  // permissions that do not count, because no person has approved them
	texts    string    // identifies the contents
}

// key identifies settings: equal keys have the same effect.
func (s *settings) key() string {
	return string(rune('0'+s.consent)) + s.texts + strings.Join(s.ignored, " ")
}

// files returns the file of the problems.
func (s *settings) files() source.Set {
	files := source.Set{}
	if s.File != nil {
		files.Add(s.File)
	}
	return files
}

// settings reads the configuration of a project. Errors in it are in the result; see settings.err.
func (a *App) settings(space *project.Workspace, root string, how consent) (*settings, error) {
	c, list, err := rawConfig(space, root)
	if err != nil {
		return nil, err
	}
	s := &settings{Config: c, consent: how, problems: list}
	// The configuration proper is number 0, the file of MCP servers number 1; each needs its own approval.
	for i, f := range []*source.File{c.File, c.MCPFile.File} {
		if f == nil {
			continue
		}
		s.texts += trust.Sum([]byte(f.Text))
		if how != approvedOnly {
			continue
		}
		if a.approved(root, configSources(root, f, c.PrivilegedSettings(), i == 1)...) {
			s.texts += "+"
			continue
		}
		for _, p := range c.DisableUnapproved(i == 1) {
			if strings.HasPrefix(p.Where, "allow.") {
				s.ignored = append(s.ignored, p.Where)
			}
		}
	}
	if how == simulating {
		c.Simulate()
	}
	// Neither a simulation nor consent to commands may send the data of a run to a server that a file names.
	elsewhere := c.Store.URL.Value != "" || c.Objects.Endpoint.Value != "" || c.Engine == config.EngineTemporal
	if elsewhere && !a.approved(root, trust.File{Path: config.FileName, SHA256: trust.Sum([]byte(c.File.Text))}) {
		c.Store.Unapproved, c.Objects.Unapproved, c.Temporal.Unapproved = true, true, true
		s.texts += "-"
	}
	if list.Errors() {
		s.err = &Error{
			Kind: NotReady, Reason: InvalidConfig, Message: "the configuration cannot be used", Name: c.File.Path,
			Diagnostics: list, Files: s.files(),
		}
	}
	return s, nil
}

// configured returns the environment of a project, with as much of its configuration as a run may use. Warnings about
// the configuration are passed to warn.
func (a *App) configured(
	space *project.Workspace, root string, how consent, warn func(Notice),
) (*environment, error) {
	s, err := a.settings(space, root, how)
	if err != nil {
		return nil, err
	}
	if s.err != nil {
		return nil, s.err
	}
	if len(s.problems) > 0 {
		warn(Notice{Diagnostics: s.problems, Files: s.files()})
	}
	return a.environment(root, s)
}

// settingsOrNone returns the approved settings. If the configuration has errors, only its store and its engine count.
func (a *App) settingsOrNone(space *project.Workspace, root string) *settings {
	s, err := a.settings(space, root, approvedOnly)
	switch {
	case err != nil:
		return &settings{Config: &config.Config{}, err: err}
	case s.err != nil:
		only := &config.Config{Store: s.Store, Engine: s.Engine, Temporal: s.Temporal, Secrets: s.Secrets}
		return &settings{Config: only, err: s.err, texts: s.texts}
	}
	return s
}

// approved reports whether a person has approved files of a project.
func (a *App) approved(root string, files ...trust.File) bool {
	ok, err := trust.Open(a.o.Getenv).Has(root, files...)
	if err != nil {
		a.o.Notify(Notice{Text: "Approvals cannot be read, so nothing counts as approved: " + err.Error()})
	}
	return ok
}

// rawConfig reads the configuration of a project as it is written.
func rawConfig(space *project.Workspace, root string) (*config.Config, diag.List, error) {
	return config.Find(func(name string) (*source.File, error) {
		_, f, err := space.File(filepath.Join(root, name))
		return f, err
	})
}

// writtenConfig reads the configuration of a project as it is written, or nil if it cannot be read.
func writtenConfig(p *project.Project) *config.Config {
	atRoot := source.NewFile(config.FileName, "")
	atRoot.Abs = filepath.Join(p.Root, config.FileName)
	f, err := p.Read(atRoot, config.FileName)
	if err != nil {
		return nil // commands that depend on it report the error
	}
	c, _ := config.Parse(f)
	return c
}

// IsConfig reports whether a file is a configuration, by its name.
func IsConfig(path string) bool {
	base := filepath.Base(path)
	return base == config.FileName || base == config.MCPFileName
}

// AnalyzeConfig checks a configuration file.
func AnalyzeConfig(f *source.File) *Analysis {
	an := &Analysis{File: f, Format: "config", Files: source.Set{}}
	if filepath.Base(f.Path) == config.MCPFileName {
		an.Diagnostics = config.ParseMCP(f).Problems
	} else {
		_, an.Diagnostics = config.Parse(f)
	}
	an.Files.Add(f)
	return an
}
