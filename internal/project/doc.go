// Package project is the files around a workflow: where the project begins,
// what may be read, which skills and workflows there are.
package project

// Everything that a workflow refers to is read through an os.Root, so that no
// reference and no symbolic link in a cloned repository can reach outside it.
// Only what the user typed, and the skills in the user's own folders, are
// taken at their word.
//
// This package does not know the formats: it lists files that could be
// workflows, and somebody else asks the formats which of them are.
