package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/diag"
)

//go:embed templates/*.tmpl
var templates embed.FS

// patterns are the beginnings that Agent Flow recommends.
var patterns = []string{"pipeline", "agentic", "fanout"}

func (a *invocation) newCommand() *cobra.Command {
	var pattern, dir string
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "new NAME [--pattern pipeline|agentic|fanout] [-o DIR] [--json]",
		Short: "Create a valid workflow to start from",
		Long: `Write NAME.md, a small valid Agent Flow workflow to begin with:

  pipeline  steps one after the other: validate, process, deliver
  agentic   a specialist works, a reviewer decides whether it may pass
  fanout    specialists side by side, merged, confirmed by a person

A file that is there already is never overwritten.`,
		Example: `  espalier new invoice-check
  espalier new contract-review --pattern fanout -o workflows`,
		Args:              takes(1, 1, "a name"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			name := args[0]
			if err := checkName(name); err != nil {
				return err
			}
			if !slices.Contains(patterns, pattern) {
				return usage(diag.DidYouMean(pattern, patterns), "there is no pattern %q", pattern)
			}
			text, err := fromTemplate(pattern, name)
			if err != nil {
				return err
			}
			path := filepath.Join(dir, name+".md")
			if err := a.createFile(path, text); err != nil {
				return err
			}
			shown := filepath.ToSlash(path)
			if a.json {
				return a.writeJSON(map[string]string{"name": name, "pattern": pattern, "path": shown})
			}
			if _, err := fmt.Fprintln(a.stdout, shown); err != nil {
				return err
			}
			word := shellWord(shown)
			a.note("Next: write down what it does, then \"espalier validate %s\" and \"espalier show %s\".", word, word)
			return nil
		},
	})
	flags := cmd.Flags()
	flags.StringVar(&pattern, "pattern", patterns[0], "one of "+strings.Join(patterns, ", "))
	flags.StringVarP(&dir, "output", "o", ".", "write into this folder, `DIR`")
	cmd.RegisterFlagCompletionFunc("pattern", cobra.FixedCompletions(patterns, cobra.ShellCompDirectiveNoFileComp))
	cmd.MarkFlagDirname("output")
	return cmd
}

func fromTemplate(pattern, name string) (string, error) {
	raw, err := templates.ReadFile("templates/" + pattern + ".md.tmpl")
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(string(raw), "{{NAME}}", name), nil
}

// checkName asks for what Agent Flow and Agent Skills both accept.
func checkName(name string) error {
	const longest = 64
	ok, _ := regexp.MatchString(`^[a-z0-9]+(-[a-z0-9]+)*$`, name)
	switch {
	case !ok:
		help := "Use lower-case letters, digits and single hyphens."
		if better := suggestName(name); better != "" {
			help += fmt.Sprintf(" How about %q?", better)
		}
		return usage(help, "%q cannot be the name of a workflow", name)
	case len(name) > longest:
		return usage(fmt.Sprintf("Use at most %d characters.", longest), "the name is %d characters long", len(name))
	}
	return nil
}

func suggestName(name string) string {
	words := strings.FieldsFunc(strings.ToLower(strings.TrimSuffix(filepath.Base(name), ".md")), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return strings.Join(words, "-")
}

// createFile writes a file that must not be there yet.
func (a *invocation) createFile(path, text string) error {
	made, err := newFile(a.inDir(path), path, text)
	if err == nil && !made {
		return usage("Choose another name, or another folder with -o.", "there is a file %q already",
			filepath.ToSlash(path))
	}
	return err
}

// newFile writes a file, whole or not at all, unless there is one already. name
// is what errors call it.
func newFile(full, name, text string) (made bool, err error) {
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return false, cannotWrite(name, err)
	}
	f, err := os.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, cannotWrite(name, err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(full)
		return false, cannotWrite(name, err)
	}
	return true, nil
}
