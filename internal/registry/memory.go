package registry

import (
	"path/filepath"

	"github.com/espalier-run/espalier/internal/tool/notebook"
)

// Notebook is what an agent of a workflow has noted for its later runs.
type Notebook = notebook.Book

// Notebooks lists the notebooks of a project.
func Notebooks(root string) ([]Notebook, error) { return notebook.Books(memoryDir(root)) }

// Forget removes the notebooks of a workflow, or of one of its agents. It reports whether there were any.
func Forget(root, workflow, agent string) (bool, error) {
	return notebook.Forget(memoryDir(root), workflow, agent)
}

func memoryDir(root string) string { return filepath.Join(root, storageFolder, notebookFolder) }
