// Package project finds the files around a workflow: the root of its project, the files that it may read, and the
// skills and workflows that exist.
package project

// Everything that a workflow refers to is read through a root, so that no reference and no symbolic link in a cloned
// repository can reach outside it. Paths that the user typed, and skills in the user's own folders, are not confined.
//
// All reads go through files: the disk, in which some files have unsaved texts. A workspace shows one state of them;
// for another state, such as after an edit, open another workspace.
//
// This package does not depend on the formats: it lists files that could be workflows, and the caller asks the formats
// which of them are.
