package format

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// Match is how sure a format is that a file is written in it.
type Match int

// The degrees. Discovery lists only what is Certain; a file that the user
// named is also tried by the one format that finds it Possible.
const (
	No Match = iota
	Possible
	Certain
)

// Format reads one file format.
type Format interface {
	// Name is the short name used on the command line and in records.
	Name() string
	// Match looks at the file's name and text, cheaply.
	Match(f *source.File) Match
	// Compile reads the file. The program is usable unless the list has an
	// error; it may be nil only then.
	Compile(f *source.File, files Files) (*ir.Program, diag.List)
	// Schemas are JSON Schemas for editors, the main one first.
	Schemas() []Schema
}

// Schema is a JSON Schema for one kind of block of a format.
type Schema struct {
	Block  string
	Schema json.RawMessage
}

// Files reaches the other files of a project, never anything outside it.
// Failures are *source.RefError.
type Files interface {
	// Read follows a reference as written in a file: from that file's
	// folder, then from the project root.
	Read(from *source.File, ref string) (*source.File, error)
	// Skill finds a skill by its bare name among the discovered ones.
	Skill(name string) (*source.File, error)
	// Compile compiles a workflow that another one refers to, in whichever
	// format it is written. A cycle is a diagnostic at the given span.
	Compile(f *source.File, at source.Span) (*ir.Program, diag.List)
}

// Bundler is Files, or a Reader, that also knows the files which lie beside a
// skill. One that reads from memory need not.
type Bundler interface {
	// Bundle names the files that come with a SKILL.md, as ir.Bundle has them.
	Bundle(f *source.File) (dir string, files []string)
}

// Shelves is Files, or a Reader, that also knows the folders outside of a
// project in which AWF looks for files by name: of the kinds "workflows",
// "prompts", "scripts", "templates" and "roles". One that reads from memory need
// not.
type Shelves interface {
	Shelved(kind, name string) (*source.File, error)
}
