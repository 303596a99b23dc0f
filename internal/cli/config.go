package cli

import (
	"path/filepath"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// config reads the settings of a project, shows what is wrong with them, and
// refuses to go on with mistakes.
func (a *app) config(root string) (*config.Config, error) {
	c, list, err := a.readConfig(root)
	if err != nil || len(list) == 0 {
		return c, err
	}
	files := source.Set{}
	files.Add(c.File)
	if err := (diag.Printer{Files: files, Color: a.colorErr}).Print(a.stderr, list); err != nil {
		return nil, err
	}
	if list.Errors() {
		return nil, &failure{code: exitNotReady, message: "the configuration cannot be used", help: "Nothing was started. Mend what is said above; \"espalier validate " + c.File.Path + "\" checks it again."}
	}
	return c, nil
}

func (a *app) readConfig(root string) (*config.Config, diag.List, error) {
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
