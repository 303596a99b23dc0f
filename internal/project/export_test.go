package project

// Rooted returns the project that begins at the folder, whatever the folder holds.
func (w *Workspace) Rooted(dir string) (*Project, error) {
	real, err := w.realPath(w.abs(dir))
	if err != nil {
		return nil, err
	}
	return w.at(real)
}
