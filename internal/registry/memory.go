package registry

import (
	"path/filepath"

	"github.com/espalier-run/espalier/internal/tool/notebook"
)

// Notebook has the notes of an agent of a workflow for its later runs.
type Notebook = notebook.Book

// Notebooks lists the notebooks of a project.
func Notebooks(root string) ([]Notebook, error) { return notebook.Books(memoryDir(root)) }

// Forget removes the notebooks of a workflow, or of one of its agents. It reports whether there were any.
func Forget(root, workflow, agent string) (bool, error) {
	return notebook.Forget(memoryDir(root), workflow, agent)
}

func memoryDir(root string) string { return filepath.Join(root, storageFolder, notebookFolder) }
