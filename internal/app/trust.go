package app

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/trust"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Review is everything in a project that needs the approval of a person on this machine.
type Review struct {
	Root string `json:"root"`
	// Approved reports that a person has approved all of it, as it is now.
	Approved bool                       `json:"approved"`
	Settings []config.PrivilegedSetting `json:"configuration"`
	Commands []WorkflowCommand          `json:"commands"`
	// State reports that the project has a state folder that another user, or another machine, has created.
	State bool         `json:"state_folder,omitempty"`
	Files []trust.File `json:"files"`
}

// Review collects what there is to approve in the project of a folder.
func (a *App) Review(ctx context.Context, dir string, as catalog.ReadOptions) (*Review, error) {
	space, err := a.space()
	if err != nil {
		return nil, err
	}
	defer space.Close()
	p, err := space.At(dir)
	if err != nil {
		return nil, fail(InvalidRequest, "", "%v", err).advise("Name a folder of a project.")
	}
	c, problems, err := rawConfig(space, p.Root)
	if err != nil {
		return nil, err
	}
	if problems.Errors() {
		return nil, &Error{
			Kind: InvalidWorkflow, Reason: InvalidConfig,
			Message: "the configuration has errors", Name: config.FileName,
		}
	}
	r := &Review{Root: p.Root, Commands: []WorkflowCommand{}, Files: []trust.File{}}
	r.Settings = append([]config.PrivilegedSetting{}, c.PrivilegedSettings()...) // JSON has a list, never null
	for i, f := range []*source.File{c.File, c.MCPFile.File} {
		mcpFile := i == 1
		ofFile := func(p config.PrivilegedSetting) bool { return p.MCPFile == mcpFile }
		if f != nil && slices.ContainsFunc(r.Settings, ofFile) {
			for _, one := range configSources(p.Root, f, r.Settings, mcpFile) {
				r.add(one)
			}
		}
	}
	resolver := &resolver{ctx: ctx, space: space, reading: as}
	err = resolver.below(&Discovery{}, p, p.Root, func(home *project.Project, an *Analysis) {
		if home.Root != p.Root || an.Program == nil || an.Diagnostics.Errors() {
			return
		}
		// Commands that naming the workflow covers still need an approval if the workflow may start by itself, or if a
		// run has written a program that they execute.
		unattended := c.Trigger(an.Name()).Schedule.Value != "" ||
			slices.ContainsFunc(an.Program.Triggers, func(t ir.Trigger) bool {
				return t.Kind != ir.OnDemand && !t.Off
			}) ||
			slices.ContainsFunc(c.Webhooks, func(hook config.Named[config.Webhook]) bool {
				return an.isNamed(hook.Is.Workflow.Value, p.Root)
			})
		files := filesOfCommands(p.Root, an)
		written, err := a.writtenPrograms(files)
		unattended = unattended || err != nil || len(written) > 0
		needs := slices.DeleteFunc(an.Commands(), func(c Command) bool { return c.Covered && !unattended })
		for _, c := range needs {
			r.Commands = append(r.Commands, WorkflowCommand{an.File.Path, c})
		}
		if len(needs) > 0 {
			for _, one := range files.sources() {
				r.add(one)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	r.State = registry.ForeignStorage(filepath.Join(p.Root, storageFolder), trust.Open(a.o.Getenv))
	r.Approved = !r.State && a.approved(p.Root, r.Files...)
	return r, nil
}

// add adds a file, once.
func (r *Review) add(file trust.File) {
	if !slices.Contains(r.Files, file) {
		r.Files = append(r.Files, file)
	}
}

// Approve records that a person has approved a review.
func (a *App) Approve(r *Review) error {
	store := trust.Open(a.o.Getenv)
	if len(r.Files) > 0 {
		if err := store.Approve(trust.Record{Root: r.Root, At: a.o.Now().UTC(), Files: r.Files}); err != nil {
			return err
		}
	}
	if r.State {
		if err := registry.AdoptStorage(filepath.Join(r.Root, storageFolder), store); err != nil {
			return err
		}
	}
	r.Approved = true
	return nil
}

// ApprovedProject lists what was approved in a project.
type ApprovedProject struct {
	Root  string         `json:"root"`
	At    time.Time      `json:"approved_at"`
	Files []ApprovedFile `json:"files"`
}

// ApprovedFile is a content that was approved. The approval counts as long as the file has this content.
type ApprovedFile struct {
	trust.File
	State FileState `json:"state"`
}

// FileState says whether an approval of a file still counts.
type FileState string

// The states of approved files.
const (
	FileApproved FileState = "approved"
	FileChanged  FileState = "changed"
	FileGone     FileState = "gone"
)

// Approvals lists what was approved on this machine. It reads the files again to say which approvals still count.
func (a *App) Approvals() ([]ApprovedProject, error) {
	records, err := trust.Open(a.o.Getenv).List()
	if err != nil {
		return nil, err
	}
	list := make([]ApprovedProject, 0, len(records))
	for _, r := range records {
		p := ApprovedProject{Root: r.Root, At: r.At}
		for _, f := range r.Files {
			p.Files = append(p.Files, ApprovedFile{f, stateOfFile(r.Root, f)})
		}
		list = append(list, p)
	}
	return list, nil
}

// stateOfFile compares a file with its approved content. A file that cannot be read has changed.
func stateOfFile(root string, f trust.File) FileState {
	sum, err := trust.SumFile(filepath.Join(root, filepath.FromSlash(f.Path)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return FileGone
	case err != nil || sum != f.SHA256:
		return FileChanged
	}
	return FileApproved
}

// Revoke withdraws the approval of the project of a folder. It reports whether there was one.
func (a *App) Revoke(dir string) (root string, revoked bool, err error) {
	space, err := a.space()
	if err != nil {
		return "", false, err
	}
	defer space.Close()
	p, err := space.At(dir)
	if err != nil {
		return "", false, fail(InvalidRequest, "", "%v", err).advise("Name a folder of a project.")
	}
	revoked, err = trust.Open(a.o.Getenv).Revoke(p.Root)
	return p.Root, revoked, err
}

// approvedCommands reports whether a person has approved all files that the commands of a workflow come from, and
// returns the programs that the commands name: unlike the workflow itself, they are read again whenever a command runs.
// A program that does not exist must not appear during the run. Data may change.
func (a *App) approvedCommands(c *commandFiles) (bool, []trust.File) {
	if len(c.an.Commands()) == 0 || !a.approved(c.root, c.sources()...) {
		return false, nil
	}
	var programs []trust.File
	for _, f := range c.named {
		if isProgram(filepath.Join(c.root, filepath.FromSlash(f.Path))) {
			programs = append(programs, f)
		}
	}
	return true, slices.Concat(programs, c.interpreted, namedByCommands(c.root, c.an, missingPrograms))
}

// changedSince returns the files without approval that the commands of a workflow come from, if a person has approved
// the workflow before: they have changed since then.
func (a *App) changedSince(root string, an *Analysis) []string {
	before, _, err := trust.Open(a.o.Getenv).Record(root)
	files := filesOfCommands(root, an).sources() // the first one is the workflow
	known := func(f trust.File) bool { return f.Path == files[0].Path }
	if err != nil || !slices.ContainsFunc(before.Files, known) {
		return nil
	}
	files = slices.DeleteFunc(files, func(f trust.File) bool { return slices.Contains(before.Files, f) })
	return xslices.Map(files, func(f trust.File) string { return f.Path })
}

// writtenPrograms returns the programs of a workflow's commands that a run has written and that no person has approved.
func (a *App) writtenPrograms(c *commandFiles) ([]trust.File, error) {
	programs := slices.DeleteFunc(c.sources(), func(f trust.File) bool {
		return !slices.Contains(c.interpreted, f) && !isProgram(filepath.Join(c.root, filepath.FromSlash(f.Path))) ||
			a.approved(c.root, f)
	})
	return registry.WrittenByRuns(filepath.Join(c.root, storageFolder), programs)
}

// commandFiles are the files in a project that the commands of a workflow name.
type commandFiles struct {
	root               string
	an                 *Analysis
	named, interpreted []trust.File
}

// filesOfCommands finds the files that the commands of a workflow name, as they are now.
func filesOfCommands(root string, an *Analysis) *commandFiles {
	return &commandFiles{
		root: root, an: an,
		named:       namedByCommands(root, an, namedFiles),
		interpreted: namedByCommands(root, an, interpretedFiles),
	}
}

// sources returns the files that decide what the commands do: the workflow, the files that it refers to, and those
// that a command names.
func (c *commandFiles) sources() []trust.File {
	var out []trust.File
	add := func(one trust.File) {
		if !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	add(trust.File{Path: c.an.placeOf(c.root, c.an.File.Path), SHA256: sha256Hex([]byte(c.an.File.Text))})
	for p := range c.an.Program.All() {
		for _, f := range p.Files {
			add(trust.File{Path: c.an.placeOf(c.root, f.Path), SHA256: f.SHA256})
		}
	}
	for _, f := range slices.Concat(c.named, c.interpreted) {
		add(f)
	}
	return out
}

// namedByCommands returns the files that find returns for the commands of a workflow.
func namedByCommands(
	root string, an *Analysis, find func(root string, folders []string, command string) []trust.File,
) (out []trust.File) {
	home := filepath.Dir(an.File.Abs)
	for _, c := range an.Commands() {
		folders := []string{root, home, filepath.Join(root, c.Dir), filepath.Join(home, c.Dir)}
		out = append(out, find(root, entered(root, folders, c.Text), c.Text)...)
	}
	return out
}

// placeOf returns the path of a file that a workflow was compiled from, relative to the root of the project: the paths
// of a program begin at the working folder.
func (an *Analysis) placeOf(root, path string) string {
	f := an.Files[path]
	if path == an.File.Path {
		f = an.File
	}
	if f == nil || f.Abs == "" {
		return path
	}
	rel, err := filepath.Rel(root, f.Abs)
	if err != nil {
		return path
	}
	return filepath.ToSlash(rel)
}

// configSources returns a configuration file and the files in the project that its commands name.
func configSources(root string, f *source.File, settings []config.PrivilegedSetting, mcpFile bool) []trust.File {
	name := config.FileName
	if mcpFile {
		name = config.MCPFileName
	}
	out := []trust.File{{Path: name, SHA256: trust.Sum([]byte(f.Text))}}
	for _, p := range settings {
		if p.MCPFile == mcpFile && p.Command != "" {
			out = append(out, namedFiles(root, entered(root, []string{root}, p.Command), p.Command)...)
		}
	}
	return out
}

// changes matches a command of the shell, or an option of a program, that enters a folder.
var changes = lazyregexp.New(`(?:\b(?:cd|pushd)\s+(?:--\s+)?|\s(?:-C\s*|--(?:chdir|directory)[=\s]\s*))([^\s;&|()<>]+)`)

// maxChanges limits how many changes of the folder count in a command.
const maxChanges = 16

// entered returns the folders, each once, and those that a command enters from there.
func entered(root string, folders []string, command string) []string {
	all, last := slices.Clone(folders), []string(nil)
	for _, m := range changes().FindAllStringSubmatch(command, maxChanges) {
		to, ok := localPath(root, plainWord.Replace(m[1]))
		if !ok {
			continue
		}
		next := xslices.Map(slices.Concat(folders, last), func(from string) string { return filepath.Join(from, to) })
		all, last = append(all, next...), next
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// plainWord removes what marks quotes and variables from a word of a command.
var plainWord = strings.NewReplacer(`"`, "", "'", "", "$", "", "{", "", "}", "")

// leading matches the start of a path that leads from the folder of a command to another one: "../", "/" after a
// variable in braces, or the name of a variable, as in "PWD/".
var leading = lazyregexp.New(`^(?:(?:\.{0,2}|[A-Z_][A-Z0-9_]*)/)+`)

// programs are the endings of files that a program executes.
var programs = []string{
	".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".awk", ".sed", ".ps1",
}

// isProgram reports whether a file is meant to be executed: by its mode, its ending or its first bytes. A link is what
// it leads to.
func isProgram(path string) bool {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() { // to open a pipe would wait for its other end
		return false
	}
	if info.Mode()&0o111 != 0 || slices.Contains(programs, filepath.Ext(path)) {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var start [2]byte
	_, err = io.ReadFull(f, start[:])
	return err == nil && string(start[:]) == "#!"
}

// namedFiles returns the files that the words of a command name, in any of the folders. A link counts as the file that
// it leads to, wherever that is: its content is what the command runs. Of the files that a word names by a way out of
// the command's folder, and of those that it only writes, only programs count: the others change with every run.
func namedFiles(root string, folders []string, command string) []trust.File {
	var out []trust.File
	read := wordsOf(withoutOutputs(command))
	for _, word := range wordsOf(command) {
		local, ok := localPath(root, word)
		if !ok {
			continue
		}
		for _, folder := range folders {
			full := filepath.Join(folder, local)
			sum, err := trust.SumFile(full)
			if err != nil || sum == "" || (local != word || !slices.Contains(read, word)) && !isProgram(full) {
				continue
			}
			out = append(out, trust.File{Path: pathBelow(root, full), SHA256: sum})
		}
	}
	return out
}

// wordsOf returns everything in a command that can be a path, sorted.
func wordsOf(command string) []string {
	words := slices.Concat(strings.Fields(command), strings.FieldsFunc(command, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("\"'`();&|<>{}$=,", r)
	}))
	for _, m := range quoted().FindAllString(command, -1) { // a path with spaces
		words = append(words, m[1:len(m)-1])
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// outputs matches the target of a redirection that writes, and tee with its files where a command begins. It also
// matches what must not be mistaken for one: text in quotes, escaped characters, and "<>", which reads.
var outputs = lazyregexp.New(`'[^']*'|"(?:\\.|[^"\\])*"|\\.|<>|` +
	`[0-9&]*>>?[|&]?[ \t]*(?:` + outputWord + `)|(?:^|[\n;&|(])[ \t]*tee(?:[ \t]+(?:` + outputWord + `))+`)

// outputWord matches a path in a command.
const outputWord = `"[^"$\x60]*"|'[^']*'|[\w./+:@%-]+`

// withoutOutputs returns a command without the files that it writes by a redirection or with tee.
func withoutOutputs(command string) string {
	return outputs().ReplaceAllStringFunc(command, func(m string) string {
		if strings.HasPrefix(m, "'") || strings.HasPrefix(m, `"`) || strings.HasPrefix(m, `\`) || m == "<>" {
			return m
		}
		return " "
	})
}

var (
	// quoted matches text in quotes.
	quoted = lazyregexp.New(`'[^']*'|"[^"]*"`)
	// interpreted matches an interpreter with its options and the file that it executes.
	interpreted = lazyregexp.New("(?:(?:^|[\n;&|(`\"'])\\s*(?:\\.|source)|(?:^|[\\s;&|(`\"'])(?:\\S*/)?" +
		"(?:(?:ba|da|z|k|a)?sh|python|node|ruby|perl|php|lua)[0-9.]*)\\s+(?:-\\S*\\s+)*([^\\s;&|()<>]+)")
)

// maxMatches limits how many files of a pattern in a command count.
const maxMatches = 1000

// interpretedFiles returns the files that an interpreter in a command executes, whatever their names are. A pattern of
// the shell means all files that it matches if only the last part of the path is one, as in "sh scripts/*": with links
// in the project, other patterns can match too many.
func interpretedFiles(root string, folders []string, command string) []trust.File {
	var out []trust.File
	for _, m := range interpreted().FindAllStringSubmatch(command, -1) {
		local, ok := localPath(root, plainWord.Replace(m[1]))
		if !ok {
			continue
		}
		for _, folder := range folders {
			paths := []string{filepath.Join(folder, local)}
			if strings.ContainsAny(filepath.Base(local), "*?[") {
				paths = matches(filepath.Join(folder, filepath.Dir(local)), filepath.Base(local))
			}
			for _, path := range paths {
				if sum, err := trust.SumFile(path); err == nil && sum != "" {
					out = append(out, trust.File{Path: pathBelow(root, path), SHA256: sum})
				}
			}
		}
	}
	return out
}

// matches returns the files of a folder whose names match a pattern.
func matches(dir, pattern string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if ok, err := filepath.Match(pattern, e.Name()); ok && err == nil && len(out) < maxMatches {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out
}

// localPath returns the path below a folder of the project that a word of a command names.
func localPath(root, word string) (string, bool) {
	local := leading().ReplaceAllString(strings.TrimPrefix(word, root+string(filepath.Separator)), "")
	return local, filepath.IsLocal(local)
}

// pathBelow returns a path in the form of trust.File.
func pathBelow(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil {
		path = rel
	}
	return filepath.ToSlash(path)
}

// missingPrograms returns the files that a command would run and that do not exist.
func missingPrograms(root string, folders []string, command string) []trust.File {
	var out []trust.File
	for _, word := range programWords(command) {
		local, ok := localPath(root, word)
		if !ok {
			continue
		}
		for _, folder := range folders {
			full := filepath.Join(folder, local)
			if _, err := os.Stat(full); errors.Is(err, fs.ErrNotExist) {
				out = append(out, trust.File{Path: pathBelow(root, full), SHA256: trust.Missing})
			}
		}
	}
	return out
}

var (
	// shellTokens matches the ends of simple commands, redirections and words.
	shellTokens = lazyregexp.New("[;&|()\\n`]|[0-9]*[<>]+|[^\\s;&|()<>`]+")
	// prefixes matches words that can come before a simple command: keywords of the shell and assignments.
	prefixes = lazyregexp.New(`^(?:\w+=.*|[{!]|if|then|else|elif|while|until|do)$`)
	// launchers matches interpreters and other programs that run a program, and their options.
	launchers = lazyregexp.New(`^(?:-.*|\.|source|exec|eval|command|builtin|` +
		`env|nice|nohup|sudo|doas|setsid|stdbuf|time|timeout|xargs|find|script|` +
		`(?:.*/)?(?:(?:ba|da|z|k|a|pw)?sh|python|node|deno|bun|ruby|perl|php|lua|awk|osascript)[0-9.]*):?$`)
)

// programWords returns the words of a command that name what it runs: the first word of each simple command if it is a
// path, or what follows an interpreter. It does not return files that the command writes.
func programWords(command string) []string {
	var out []string
	first, launched, target := true, false, false
	for _, token := range shellTokens().FindAllString(command, -1) {
		word := plainWord.Replace(token)
		isPath := strings.Contains(word, "/") || slices.Contains(programs, filepath.Ext(word))
		switch {
		case strings.ContainsAny(token, ";&|()\n`"):
			first, launched = true, false
		case strings.ContainsAny(token, "<>"):
			target = true
			continue
		case target: // of a redirection
		case first && prefixes().MatchString(token):
		case first && launchers().MatchString(strings.Trim(token, `"'`)):
			launched = !strings.HasSuffix(token, ":") // the language of a script
		case first && (launched || isPath):
			out = append(out, word)
			first = launched && !isPath // the argument of an option may come before the program
		default:
			first = false
		}
		target = false
	}
	return out
}
