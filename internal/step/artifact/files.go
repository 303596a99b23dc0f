package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/step"
)

// place resolves the paths of a task by the layout of its workflow.
type place struct {
	where
	root, run string // of this run; root is absolute
	names     *strings.Replacer
	keep      protected.Files
}

func newPlace(job *step.Job) (*place, error) {
	root := job.Project
	if root == "" { // without a project, everything is in the run's folder
		root = job.Dir
	}
	w := whereOf(job.Task)
	p, err := placeOf(root, w, func(path string) string {
		for _, r := range job.Reads {
			if r.Path == path && !r.Missing {
				return ir.PlainText(r.Value)
			}
		}
		if path == w.layout.Run {
			return string(job.Run)
		}
		return ""
	})
	if err != nil {
		return nil, step.Errorf(ir.ClassInput, "step %q cannot run: %v", job.Step.ID, err)
	}
	p.keep = job.ProtectedFiles()
	return p, nil
}

func placeOf(root string, w where, read func(path string) string) (*place, error) {
	p := &place{where: w, root: root, run: read(w.layout.Run)}
	// Both become parts of paths: nothing that a run writes leaves its folder.
	if p.run != "" && !plainName().MatchString(p.run) || strings.ContainsAny(p.workflow, `/\`) || p.workflow == ".." {
		return nil, fmt.Errorf("%q is not the name of a run's folder", path.Join(p.workflow, p.run))
	}
	var names []string
	for _, one := range w.layout.Placeholders {
		value := forRun(one.Default, p.run)
		// A workflow that generates another one receives its name as an input.
		if given := read(one.Read); plainName().MatchString(given) {
			value = given
		}
		names = append(names, "{"+one.Name+"}", value)
	}
	p.names = strings.NewReplacer(names...)
	return p, nil
}

var plainName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// fill replaces placeholders.
func (p *place) fill(name string) string { return p.names.Replace(name) }

// runDir returns the run's folder, relative to the root.
func (p *place) runDir() string { return path.Clean(forRun(p.layout.Dir, p.run)) }

// locate returns the folder that a path is confined to, and the path below it.
func (p *place) locate(name string) (base, below string) {
	name = path.Clean(p.fill(name))
	first, rest, _ := strings.Cut(name, "/")
	switch {
	case first == p.layout.Outputs:
		return p.root, path.Join(p.runDir(), rest)
	case slices.Contains(p.layout.Shared, first):
		return p.root, name
	}
	return p.folder, name
}

func (p *place) open(base string) (*os.Root, error) {
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(base)
}

// write writes a file atomically.
func (p *place) write(name, text string) error {
	base, below := p.locate(name)
	root, err := p.open(base)
	if err != nil {
		return err
	}
	defer root.Close()
	resolved, err := protected.Resolve(root, below)
	if err != nil {
		return err
	}
	if p.defines(base, resolved) {
		return fmt.Errorf("%q cannot be written: it is part of a workflow's definition. Write to outputs/ or "+
			"artifacts/, and use \"espalier promote\"", name)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return protected.WriteFile(root, below, []byte(text), protected.Options{File: 0o644, Folder: 0o755, Keep: p.keep})
}

// defines reports whether a path below a folder is part of a workflow's definition. Only the command promote, which a
// person runs, writes such files.
func (p *place) defines(base, name string) bool {
	isDefinition := func(folder string) bool {
		below, err := filepath.Rel(folder, filepath.Join(base, filepath.FromSlash(name)))
		if err != nil {
			return false
		}
		first, _, _ := strings.Cut(filepath.ToSlash(below), "/")
		return protected.Definition(first)
	}
	if isDefinition(p.folder) {
		return true
	}
	parts := strings.Split(name, "/")
	return base == p.root && len(parts) > 2 && protected.Fold(parts[0]) == "workflows" &&
		isDefinition(filepath.Join(p.root, parts[0], parts[1]))
}

// maxRead is the maximum size of an input file.
const maxRead = 1 << 20

// read returns the content of a file, or the files of a folder.
func (p *place) read(name string) (string, error) {
	base, below := p.locate(name)
	root, err := os.OpenRoot(base)
	if err != nil {
		return "", err
	}
	defer root.Close()
	below = filepath.FromSlash(below)
	info, err := root.Stat(below)
	if err != nil {
		return "", err
	}
	if info.Mode().IsRegular() {
		return readFile(root, below)
	}
	if !info.IsDir() {
		return "", errors.New("neither a file nor a folder")
	}
	files, err := walk(root, below, visible)
	return joined(p.fill(name), files), err
}

func readFile(root *os.Root, name string) (string, error) {
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	if err == nil && len(raw) > maxRead {
		err = errors.New("it is larger than 1 MiB")
	}
	return strings.ToValidUTF8(string(raw), "�"), err
}

var (
	// Models write the markers as headings, too: "## FILE: name.md".
	fileMark = lazyregexp.New(`^\s*=?#{2,4}\s*FILE:\s*(.+?)\s*(#{2,4})?\s*$`)
	endMark  = lazyregexp.New(`^\s*=?#{2,4}\s*END\s*(#{2,4})?\s*$`)
)

// split splits a reply into the files of a folder. A reply without markers is index.md.
func split(text, folder string) (files map[string]string, problems []string) {
	files = map[string]string{}
	name, open := "", false
	heading := false // the marker of the open file is a heading, and so is its end
	var body strings.Builder
	put := func() {
		if open && name != "" {
			files[name] = strings.Trim(body.String(), "\n") + "\n"
		}
		name, open = "", false
		body.Reset()
	}
	for line := range strings.Lines(text) {
		bare := strings.TrimRight(line, "\r\n")
		m, end := fileMark().FindStringSubmatch(bare), endMark().FindStringSubmatch(bare)
		switch {
		case m != nil:
			put()
			open, heading = true, m[2] == ""
			var problem string
			if name, problem = partName(m[1], folder); problem != "" {
				problems = append(problems, problem)
			} else if _, twice := files[name]; twice {
				problems = append(problems, fmt.Sprintf("there are two files called %q", name))
			}
		case end != nil && (end[1] != "" || heading):
			put()
		case open:
			body.WriteString(strings.TrimRight(line, "\r\n") + "\n")
		}
	}
	if open {
		problems = append(problems, fmt.Sprintf("the file %q does not end with ##END##", name))
	}
	put()
	if len(files) == 0 && len(problems) == 0 {
		files["index.md"] = text
	}
	return files, problems
}

// partName returns the name of a file in its folder. It removes the folder's name, which models often repeat, and
// rejects paths that lead out of the folder.
func partName(name, folder string) (clean, problem string) {
	clean = strings.Trim(name, "`\"' ")
	if strings.HasPrefix(clean, "/") || strings.ContainsAny(clean, "\\:\x00") {
		return "", fmt.Sprintf("invalid file name %q: write a name inside the folder, such as notes.md",
			name)
	}
	clean = path.Clean(clean)
	clean = strings.TrimPrefix(clean, path.Clean(folder)+"/")
	clean = strings.TrimPrefix(clean, path.Base(path.Clean(folder))+"/")
	if !filepath.IsLocal(filepath.FromSlash(clean)) || clean == "." {
		return "", fmt.Sprintf("%q leads out of the folder: write a name inside it, such as notes.md", name)
	}
	if err := protected.Path(clean); err != nil {
		return "", err.Error() + ". Choose another name, such as notes.md"
	}
	return clean, ""
}

var onlyFence = lazyregexp.New("(?s)^\\s*```([A-Za-z0-9_+-]*)[ \t]*\n(.*)\n?```\\s*$")

// unfenced removes a code fence around the whole reply. Models add one around YAML, JSON and scripts, and the file must
// not contain it.
func unfenced(name, text string) string {
	m := onlyFence().FindStringSubmatch(text)
	if m == nil || strings.Contains(m[2], "\n```") {
		return fencedPart(name, text)
	}
	switch path.Ext(name) {
	case ".md", ".markdown", "":
		if !strings.EqualFold(m[1], "markdown") && !strings.EqualFold(m[1], "md") {
			return text
		}
	}
	return strings.TrimRight(m[2], "\n") + "\n"
}

var anyFence = lazyregexp.New("(?ms)^```[A-Za-z0-9_+-]*[ \t]*\n(.*?)\n?^```[ \t]*$")

// fencedPart returns the only fenced block of a reply for a file that is no prose: what is around it is meant for the
// reader.
func fencedPart(name, text string) string {
	switch path.Ext(name) {
	case ".md", ".markdown", ".txt", "":
		return text
	}
	if found := anyFence().FindAllStringSubmatch(text, -1); len(found) == 1 {
		return strings.TrimRight(found[0][1], "\n") + "\n"
	}
	return text
}

// filesOf returns the files that a step has produced, keyed by their paths below its own.
func filesOf(value json.RawMessage) map[string]string {
	var files map[string]string
	if json.Unmarshal(value, &files) == nil && files != nil {
		return files
	}
	return map[string]string{"": ir.PlainText(value)}
}
