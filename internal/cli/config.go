package cli

import (
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/trust"
)

// config reads the settings of a project, shows what is wrong with them, and
// refuses to go on with mistakes.
func (a *app) config(root string, how consent) (*config.Config, error) {
	c, list, err := a.readConfig(root, how)
	if err != nil || len(list) == 0 {
		return c, err
	}
	files := source.Set{}
	files.Add(c.File)
	if err := (diag.Printer{Files: files, Color: a.colorErr}).Print(a.paintedErr(), list); err != nil {
		return nil, err
	}
	if list.Errors() {
		return nil, &failure{code: exitNotReady, message: "the configuration cannot be used", help: "Nothing was started. Mend what is said above; \"espalier validate " + c.File.Path + "\" checks it again."}
	}
	return c, nil
}

// consent is how far a command may use what a configuration says.
type consent int

const (
	approvedOnly consent = iota // what "espalier trust" has approved
	consented                   // all: a person has said so on the command line
	simulating                  // all, because nothing is started
)

// readConfig reads the configuration of a project. What a person has not
// approved is withheld.
func (a *app) readConfig(root string, how consent) (*config.Config, diag.List, error) {
	c, list, err := a.rawConfig(root)
	if err != nil {
		return nil, nil, err
	}
	switch how {
	case simulating:
		c.Simulate()
	case approvedOnly:
		a.withhold(root, c)
	}
	// Neither a simulation nor consent to commands may send a run's data to a server that a file names.
	c.Store.Withheld = c.Store.URL.Value != "" && !a.approved(root, trust.Sum([]byte(c.File.Text)))
	return c, list, nil
}

// withhold takes away what a person has not approved.
func (a *app) withhold(root string, c *config.Config) {
	for _, one := range []struct {
		file *source.File
		mcp  bool
	}{{c.File, false}, {c.MCPFile.File, true}} {
		if one.file == nil || a.approved(root, trust.Sum([]byte(one.file.Text))) {
			continue
		}
		for _, p := range c.Withhold(one.mcp) {
			if strings.HasPrefix(p.Where, "allow.") {
				a.ignored = append(a.ignored, p.Where)
			}
		}
	}
}

// approved reports whether a person has approved contents of a project.
func (a *app) approved(root string, sums ...string) bool {
	ok, err := trust.Open(a.Getenv).Has(root, sums...)
	if err != nil {
		a.note("Approvals cannot be read, so nothing counts as approved: %v", err)
	}
	return ok
}

// noteIgnored says which permissions of the configuration do not count.
func (a *app) noteIgnored() {
	if len(a.ignored) > 0 {
		a.note("%s in %s is not approved on this machine and does not count. %s", strings.Join(a.ignored, ", "), config.FileName, config.Approval)
		a.ignored = nil
	}
}

// rawConfig reads the configuration of a project as it is written.
func (a *app) rawConfig(root string) (*config.Config, diag.List, error) {
	space, err := a.workspace()
	if err != nil {
		return nil, nil, err
	}
	return config.Find(func(name string) (*source.File, error) {
		_, f, err := space.File(filepath.Join(root, name))
		return f, err
	})
}

// isConfig tells whether a file holds settings, by its name.
func isConfig(path string) bool {
	base := filepath.Base(path)
	return base == config.FileName || base == config.MCPFileName
}

// analyseConfig is what can be said about the configuration.
func analyseConfig(f *source.File) analysis {
	an := analysis{file: f, format: configSchema, files: source.Set{}}
	if filepath.Base(f.Path) == config.MCPFileName {
		an.diagnostics = config.ParseMCP(f).Problems
	} else {
		_, an.diagnostics = config.Parse(f)
	}
	an.files.Add(f)
	return an
}
