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

// analyseConfig is what can be said about the configuration.
func analyseConfig(f *source.File) analysis {
	_, list := config.Parse(f)
	an := analysis{file: f, format: configSchema, diagnostics: list, files: source.Set{}}
	an.files.Add(f)
	return an
}
