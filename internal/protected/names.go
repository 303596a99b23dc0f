package protected

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/espalier-run/espalier/internal/lazyregexp"
)

// plainDotfiles lists names that begin with a dot and configure no program that
// executes code.
var plainDotfiles = []string{
	".dockerignore", ".editorconfig", ".env.example", ".env.sample", ".env.template", ".gitkeep", ".keep", ".nojekyll",
	".npmignore", ".well-known",
}

// visible lists names without a dot that programs read as configuration or
// instructions by default.
var visible = []string{
	// Espalier.
	"espalier.yaml", "espalier.yml", "agentfile.yaml", "agentfile.yml",
	// A folder with HEAD, objects and refs is a bare git repository, and its
	// file config can name commands.
	"head",
	// Coding agents.
	"agent.md", "agents.md", "agents.override.md", "claude.md", "claude.local.md", "copilot-instructions.md",
	"crush.json", "crush.md", "crush.local.md", "gemini.md", "opencode.json", "opencode.jsonc", "qwen.md", "replit.md",
	"warp.md",
	// Programs that run when a folder is entered, a commit is made or another
	// program starts.
	"bunfig.toml", "desktop.ini", "gnumakefile", "hk.pkl", "lefthook-local.json", "lefthook-local.toml",
	"lefthook-local.yaml", "lefthook-local.yml", "lefthook.json", "lefthook.toml", "lefthook.yaml", "lefthook.yml",
	"mise.local.toml", "mise.toml", "pip.conf", "pip.ini", "prek.toml", "pyvenv.cfg", "sitecustomize.py",
	"usercustomize.py", "_exrc", "_netrc", "_vimrc",
	// Continuous integration runs these when they are pushed.
	"appveyor.yml", "azure-pipelines.yaml", "azure-pipelines.yml", "bitbucket-pipelines.yml", "bitrise.yml",
	"buildspec.yml", "cloudbuild.yaml", "cloudbuild.yml", "codemagic.yaml", "jenkinsfile",
}

// shortName matches the 8.3 names that Windows gives to long ones: GIT~1 is
// .git.
var shortName = lazyregexp.New(`^[^.~]{1,6}~[0-9]{1,6}(\.[^.]{0,3})?$`)

// Name reports whether a path component names configuration, in any spelling that a file system treats as the same.
func Name(component string) bool {
	if component == "." || component == ".." {
		return false
	}
	name := Fold(component)
	if name == "" { // a file system may ignore all its characters
		return true
	}
	if strings.HasPrefix(name, ".") {
		return !slices.Contains(plainDotfiles, name)
	}
	return slices.Contains(visible, name) || shortName().MatchString(name)
}

// Fold returns the form of a component that all its spellings share: NTFS
// ignores case, what follows a colon, and dots and spaces at the end; HFS+ and
// APFS ignore case, composition and, in part, invisible characters.
func Fold(component string) string {
	name, _, _ := strings.Cut(norm.NFKD.String(component), ":")
	name = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || unicode.In(r, ignorable...) {
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, name)
	return strings.TrimRight(name, ". ")
}

// ignorable are the characters that some file systems ignore.
var ignorable = []*unicode.RangeTable{
	unicode.C, unicode.Mn, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector,
}

// Error reports a path that a run must not write.
type Error struct {
	Path      string
	Component string // the part of it that names configuration; "" when the whole file is protected
	Consent   bool   // naming the file is consent to its commands
}

func (e *Error) Error() string {
	if e.Consent {
		return fmt.Sprintf("%q cannot be written: it is a workflow, and naming it runs its commands without further "+
			"consent",
			e.Path)
	}
	if e.Component == "" {
		return fmt.Sprintf("%q cannot be written: it is a file of the running workflow", e.Path)
	}
	return fmt.Sprintf("%q cannot be written: programs read %q as configuration", e.Path, e.Component)
}

// Path returns an *Error when a component of a path names configuration. Both
// kinds of slashes separate components.
func Path(path string) error {
	for component := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if Name(component) {
			return &Error{Path: path, Component: component}
		}
	}
	return nil
}

// Definition reports whether a file or folder directly below the folder of a workflow is part of its definition. Only a
// person changes it, with "espalier promote" or an editor.
func Definition(component string) bool { return slices.Contains(definition, Fold(component)) }

var definition = []string{"workflow.yaml", "workflow.yml", "workflow_status.json", "agents", "skills", "scripts"}
