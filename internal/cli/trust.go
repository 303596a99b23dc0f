package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/trust"
)

func (a *app) trustCommand() *cobra.Command {
	var yes, list, revoke bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "trust [DIR] [--yes] [--json] | --list | --revoke [DIR]",
		Short: "Approve the commands and permissions of a project",
		Long: `Approve what the files of a project may do on this machine: commands of
workflows, and the commands, servers, addresses and permissions in espalier.yaml
and .mcp.json. The command lists all of it and asks; --yes approves without
asking.

An approval holds for the contents that you have seen: a file that changes needs
a new one. Approvals are kept in your own state folder ($XDG_STATE_HOME, or
~/.local/state), never in the project, so that a repository cannot approve
itself.`,
		Example: `  espalier trust                review and approve the project here
  espalier trust --yes ci/proj  approve without asking, as in CI
  espalier trust --list         what is approved on this machine
  espalier trust --revoke       take the approval back`,
		Args: takes(0, 1, "at most one folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			if list {
				return a.listTrust()
			}
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			space, err := a.workspace()
			if err != nil {
				return err
			}
			p, err := space.At(dir)
			if err != nil {
				return usage("Name a folder of a project.", "%v", err)
			}
			if revoke {
				return a.revokeTrust(p.Root)
			}
			return a.approve(p, yes)
		},
	})
	flags := cmd.Flags()
	flags.BoolVar(&yes, "yes", false, "approve without asking")
	flags.BoolVar(&list, "list", false, "list what is approved on this machine")
	flags.BoolVar(&revoke, "revoke", false, "take the approval of a project back")
	exclusive(cmd, "yes", "list")
	exclusive(cmd, "yes", "revoke")
	exclusive(cmd, "list", "revoke")
	return cmd
}

// review is what an approval is about.
type review struct {
	Root     string            `json:"root"`
	Approved bool              `json:"approved"`
	Powers   []config.Power    `json:"configuration"`
	Commands []workflowCommand `json:"commands"`
	// State says that the project has a state folder which another user, or
	// another machine, has made.
	State bool         `json:"state_folder,omitempty"`
	Files []trust.File `json:"files"`
}

func (a *app) approve(p *project.Project, yes bool) error {
	r, err := a.review(p)
	if err != nil {
		return err
	}
	store := trust.Open(a.Getenv)
	switch {
	case len(r.Files) == 0 && !r.State:
		if a.json {
			return a.writeJSON(r)
		}
		a.note("There is nothing to approve in %s.", a.folder(p.Root))
		return nil
	case a.json && !yes:
		return a.writeJSON(r)
	}
	if !a.json {
		a.printReview(r)
	}
	if !yes {
		if !a.IsTerminal(a.Stderr) {
			return usage("Review the list, then use --yes.", "an approval has to be confirmed, and there is no terminal to ask on")
		}
		fmt.Fprint(a.stderr, "Approve all of this? [y/N] ")
		answer, _ := bufio.NewReader(a.Stdin).ReadString('\n') // without an answer nothing is approved
		if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
			return &failure{code: exitNotReady, message: "nothing was approved"}
		}
	}
	if len(r.Files) > 0 {
		if err := store.Approve(trust.Record{Root: p.Root, At: a.Now().UTC(), Files: r.Files}); err != nil {
			return err
		}
	}
	if r.State {
		if err := registry.AdoptStorage(filepath.Join(p.Root, storage), store); err != nil {
			return err
		}
	}
	r.Approved = true
	if a.json {
		return a.writeJSON(r)
	}
	a.note("Approved %s in %s.", plural(len(r.Files), "file"), a.folder(p.Root))
	return nil
}

// review collects what there is to approve in a project.
func (a *app) review(p *project.Project) (review, error) {
	r := review{Root: p.Root, Powers: []config.Power{}, Commands: []workflowCommand{}, Files: []trust.File{}}
	add := func(path, sum string) {
		if !slices.ContainsFunc(r.Files, func(f trust.File) bool { return f.SHA256 == sum }) {
			r.Files = append(r.Files, trust.File{Path: path, SHA256: sum})
		}
	}
	c, problems, err := a.rawConfig(p.Root)
	if err != nil {
		return r, err
	}
	if problems.Errors() {
		return r, &failure{code: exitInvalid, message: "the configuration has errors", help: "Run \"espalier validate " + config.FileName + "\" to see them."}
	}
	r.Powers = append(r.Powers, c.Powers()...)
	for _, f := range []*source.File{c.File, c.MCPFile.File} {
		if f != nil && slices.ContainsFunc(r.Powers, func(p config.Power) bool { return p.MCPFile == (f == c.MCPFile.File) }) {
			add(filepath.Base(f.Path), trust.Sum([]byte(f.Text)))
		}
	}
	var found discovered
	err = a.discoverBelow(&found, p, p.Root, func(home *project.Project, f *source.File) {
		an := analyse(a.reading, home, f)
		if home.Root != p.Root || an.program == nil || an.diagnostics.Errors() {
			return
		}
		needs := slices.DeleteFunc(registry.Commands(an.program), func(c registry.Command) bool { return c.Covered })
		for _, c := range needs {
			r.Commands = append(r.Commands, workflowCommand{an.file.Path, c})
		}
		if len(needs) > 0 {
			for _, one := range commandSources(p.Root, &an) {
				add(one.Path, one.SHA256)
			}
		}
	})
	r.State = registry.ForeignStorage(filepath.Join(p.Root, storage), trust.Open(a.Getenv))
	return r, err
}

func (a *app) printReview(r review) {
	fmt.Fprintf(a.stdout, "%s\n", a.display(r.Root))
	for _, mcp := range []bool{false, true} {
		name := config.FileName
		if mcp {
			name = config.MCPFileName
		}
		for _, p := range r.Powers {
			if p.MCPFile == mcp {
				fmt.Fprintf(a.stdout, "  %s: %s: %s\n", name, p.Where, p.What)
			}
		}
	}
	for _, c := range r.Commands {
		fmt.Fprintf(a.stdout, "  %s: %s\n", c.Workflow, c)
	}
	if r.State {
		fmt.Fprintf(a.stdout, "  %s: a state folder that was not made by you on this machine, with the runs in it\n", storage)
	}
}

// approvedCommands reports whether a person has approved all files that the
// commands of a workflow come from.
func (a *app) approvedCommands(root string, an *analysis) bool {
	if len(registry.Commands(an.program)) == 0 {
		return false
	}
	var sums []string
	for _, f := range commandSources(root, an) {
		sums = append(sums, f.SHA256)
	}
	return a.approved(root, sums...)
}

// commandSources are the files that decide what the commands of a workflow do:
// its own, those that it refers to, and those in the project that a command
// names.
func commandSources(root string, an *analysis) []trust.File {
	var out []trust.File
	add := func(path, sum string) {
		if one := (trust.File{Path: path, SHA256: sum}); !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	for _, f := range definition(an, root).Sources {
		add(f.Path, f.SHA256)
	}
	var children func(p *ir.Program)
	children = func(p *ir.Program) {
		for i := range p.Children {
			for _, f := range p.Children[i].Files {
				add(f.Path, f.SHA256)
			}
			children(&p.Children[i])
		}
	}
	children(an.program)
	folder, err := os.OpenRoot(root)
	if err != nil {
		return out
	}
	defer folder.Close()
	for _, c := range registry.Commands(an.program) {
		for word := range strings.FieldsSeq(c.Text) {
			word = strings.Trim(word, `"'();`)
			if !filepath.IsLocal(word) {
				continue
			}
			if info, err := folder.Stat(word); err != nil || !info.Mode().IsRegular() || info.Size() > maxCommandFile {
				continue
			}
			if raw, err := folder.ReadFile(word); err == nil {
				add(word, trust.Sum(raw))
			}
		}
	}
	return out
}

// maxCommandFile is how large a file may be that an approval of a command that
// names it includes.
const maxCommandFile = 16 << 20

// consentOf is how far a run may use the configuration.
func consentOf(o registry.RunOptions) consent {
	switch {
	case registry.Simulates(o):
		return simulating
	case o.AllowShell:
		return consented
	}
	return approvedOnly
}

func (a *app) listTrust() error {
	records, err := trust.Open(a.Getenv).List()
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(orEmpty(records))
	}
	if len(records) == 0 {
		a.note("Nothing is approved on this machine.")
	}
	for _, r := range records {
		fmt.Fprintf(a.stdout, "%s  (%s)\n", a.display(r.Root), r.At.Local().Format("2006-01-02 15:04"))
		for _, f := range r.Files {
			state := ""
			if raw, err := os.ReadFile(filepath.Join(r.Root, filepath.FromSlash(f.Path))); errors.Is(err, fs.ErrNotExist) {
				state = "  (gone)"
			} else if err == nil && trust.Sum(raw) != f.SHA256 {
				state = "  (changed: no longer approved)"
			}
			fmt.Fprintf(a.stdout, "  %s  %s%s\n", f.SHA256[:12], f.Path, state)
		}
	}
	return nil
}

func (a *app) revokeTrust(root string) error {
	revoked, err := trust.Open(a.Getenv).Revoke(root)
	switch {
	case err != nil:
		return err
	case a.json:
		return a.writeJSON(map[string]any{"root": root, "revoked": revoked})
	case !revoked:
		return usage("\"espalier trust --list\" shows what is approved.", "nothing is approved in %s", a.folder(root))
	}
	a.note("The approval of %s is taken back.", a.folder(root))
	return nil
}
