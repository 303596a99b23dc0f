package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/espalier-run/espalier/internal/trust"
)

// approve approves a configuration file, as "espalier trust" does, in a project that is also the home folder. It
// ignores other files.
func approve(t *testing.T, file string) {
	t.Helper()
	names := []string{"espalier.yaml", ".mcp.json"}
	if !slices.Contains(names, filepath.Base(file)) {
		return
	}
	root, err := filepath.EvalSymlinks(filepath.Dir(file))
	if err != nil {
		t.Fatal(err)
	}
	r := trust.Record{Root: root}
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		r.Files = append(r.Files, trust.File{Path: name, SHA256: trust.Sum(raw)})
	}
	if err := trust.Open(func(name string) string { return map[string]string{"HOME": root}[name] }).
		Approve(r); err != nil {
		t.Fatal(err)
	}
}
