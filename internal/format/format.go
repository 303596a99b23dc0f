package format

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// Match is how certain a format is that a file is written in it.
type Match int

// The degrees of certainty. Discovery lists only Certain files. A file that the user names on
// the command line also matches the only format that considers it Possible.
const (
	No Match = iota
	Possible
	Certain
)

// Format compiles one file format.
type Format interface {
	// Name returns the short name used on the command line and in records.
	Name() string
	// Match inspects the file's name and text. It must be cheap: discovery calls it for every file.
	Match(f *source.File) Match
	// Compile compiles the file. The program is usable unless the list contains an error; only then
	// may it be nil.
	Compile(f *source.File, files Files) (*ir.Program, diag.List)
	// Schemas returns JSON Schemas for editors, the main one first.
	Schemas() []Schema
}

// Schema is a JSON Schema for one kind of block of a format.
type Schema struct {
	Block  string
	Schema json.RawMessage
}

// NewSchema returns the JSON Schema of a block, with its title.
func NewSchema(block, title string, schema map[string]any) Schema {
	schema["$schema"], schema["title"] = "https://json-schema.org/draft/2020-12/schema", title
	return Schema{Block: block, Schema: JSON(schema)}
}

// JSON returns plain data as JSON.
func JSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("format: " + err.Error()) // unreachable: plain data encodes
	}
	return raw
}

// Conventional is an optional interface of formats that differ from others in how people use their files.
type Conventional interface{ Conventions() Conventions }

// Conventions are what commands have to know about a format. They are the same for all its files.
type Conventions struct {
	// Files names the files in messages, such as "NOF files".
	Files string
	// NamedByFile says that workflows are called by the names of their files first, and only then by their own.
	NamedByFile bool
	// UnnamedInput says that the only input of a workflow may be a text without a name.
	UnnamedInput bool
	// ProjectOutputs says that runs keep their files in the project instead of the folder of the run.
	ProjectOutputs bool
	// ConsentByName says that the files are lists of commands: naming one is the consent to run them.
	ConsentByName bool
	// Traced says that runs can be exported as a trace, which a viewer of the format reads.
	Traced bool
	// Flags are the options of "espalier run" that only this format has.
	Flags []string
	// Imitates is the program that the format can imitate, as an argument of --compat.
	Imitates string
	// UserFolder is the folder in the user's configuration with files that SearchPath finds.
	UserFolder string
}

// Files gives a format access to the other files of a project, and to nothing outside it.
// Failures are *source.RefError.
type Files interface {
	// Read resolves a reference as written in a file: relative to that file's folder, then to the
	// project root.
	Read(from *source.File, ref string) (*source.File, error)
	// Skill returns the discovered skill with the given name.
	Skill(name string) (*source.File, error)
	// Compile compiles a workflow that another one refers to, in any format. A reference cycle is
	// reported as a diagnostic at the given span.
	Compile(f *source.File, at source.Span) (*ir.Program, diag.List)
}

// Bundler is an optional interface of Files and Reader: it lists the files beside a skill. A
// Reader without a file system does not need it.
type Bundler interface {
	// Bundle returns the folder of a SKILL.md and the files in it, as in ir.Bundle.
	Bundle(f *source.File) (dir string, files []string)
}

// SearchPath is an optional interface of Files and Reader: it looks files up by name in the
// folders where AWF searches, inside and outside the project. The kinds are "workflows",
// "prompts", "scripts", "templates" and "roles". A Reader without a file system does not need
// it.
type SearchPath interface {
	Lookup(kind, name string) (*source.File, error)
	// Names returns the names of the YAML files that Lookup finds, in search order.
	Names(kind string) []string
}
