package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// Continued is a run that starts from a step of another one, and has a folder of its own.
type Continued struct {
	Program *ir.Program
	Root    string // of the project
	Step    string // the first step of the new run
	// Was and Now return the variables of the run that it continues, and those that the new one starts with.
	Was, Now func(path string) json.RawMessage
}

// Inherit copies the files of the earlier run to the folder of the new one, without those that its steps produce again.
// Files of the steps before hold the values that the new run starts with. The folder of the earlier run is not changed.
func (c *Continued) Inherit() error {
	products := c.products()
	if len(products) == 0 {
		return nil
	}
	from, err := c.place(&products[0].where, c.Was)
	if err != nil {
		return err
	}
	to, err := c.place(&products[0].where, c.Now)
	if err != nil || from.runDir() == to.runDir() {
		return err
	}
	if err := from.copyTo(to, products); err != nil {
		return fmt.Errorf("the files of the earlier run cannot be copied: %w", err)
	}
	for _, p := range products {
		if p.value == nil {
			continue
		}
		there, _ := to.files(p.path, p.has) // what cannot be read is written
		for _, name := range slices.Sorted(maps.Keys(p.value)) {
			if text, ok := there[name]; ok && sameText(text, p.value[name]) {
				continue
			}
			if err := to.write(p.path+name, p.value[name]); err != nil {
				return fmt.Errorf("%s of the earlier run cannot be copied: %w", p.path+name, err)
			}
		}
	}
	return nil
}

func (c *Continued) place(w *where, read func(path string) json.RawMessage) (*place, error) {
	return placeOf(c.Root, *w, func(path string) string {
		raw := read(path)
		if len(raw) == 0 {
			return ""
		}
		return ir.PlainText(raw)
	})
}

// inheritable is what a step of the program produces in the run's folder.
type inheritable struct {
	where
	path  string            // empty if the step produces nothing there
	value map[string]string // its files, if the new run inherits them
}

func (p *inheritable) has(name string) bool {
	_, known := p.value[name]
	return known
}

// products returns what the steps of the program produce. A step that produces nothing is included, for its place.
func (c *Continued) products() []*inheritable {
	var out []*inheritable
	again := false
	for i := range c.Program.Blocks[ir.Body].Steps {
		s := &c.Program.Blocks[ir.Body].Steps[i]
		again = again || s.ID == c.Step
		t := s.Task()
		if !writesFiles(t) {
			continue
		}
		p := &inheritable{
			where: whereOf(t), path: setting(t, "produces"),
		}
		if first, _, _ := strings.Cut(path.Clean(p.path), "/"); first != p.layout.Outputs {
			p.path = ""
		}
		if p.path != "" && !again && len(s.Writes) > 0 {
			if raw := c.Now(s.Writes[0].Path); len(raw) > 0 {
				p.value = filesOf(raw)
			}
		}
		out = append(out, p)
	}
	return out
}

// copyTo copies the files of the run's folder to that of another run.
func (p *place) copyTo(to *place, products []*inheritable) error {
	root, err := os.OpenRoot(p.root)
	if err != nil {
		return err
	}
	defer root.Close()
	dir, err := to.makeRunDir()
	if err != nil {
		return err
	}
	target, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer target.Close()
	base, inherits := p.runDir(), p.inherits(products)
	err = fs.WalkDir(root.FS(), base, func(at string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(at, base), "/")
		if err != nil || !d.Type().IsRegular() || name == stateFile || protected.Path(name) != nil || !inherits(name) {
			return err
		}
		return copyFile(root, at, target, name)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the earlier run has written no files, or they were removed
	}
	return err
}

// stateFile is the record of a run for other programs, which each run has for itself.
const stateFile = "execution-state.json"

// inherits returns which files of the run's folder another run inherits: the products of its earlier steps, unless they
// were changed after the run, and files that are no product, such as those that scripts leave for later steps.
func (p *place) inherits(products []*inheritable) func(name string) bool {
	same := map[*inheritable]bool{}
	for _, one := range products {
		if one.value == nil {
			continue
		}
		files, err := p.files(one.path, func(name string) bool {
			return one.has(name) || visible(name) && !common(one.path)
		})
		// A path with the id of the run is another one in the new run.
		same[one] = err == nil && maps.EqualFunc(one.value, files, sameText) && !p.differs(one.path)
	}
	holds := func(one *inheritable, name string) bool {
		_, below := p.locate(one.path)
		switch below, inside := strings.CutPrefix(below, p.runDir()+"/"); {
		case one.path == "":
			return false
		case common(one.path):
			return one.has(name)
		case kinds.IsFolder(one.path):
			return inside && strings.HasPrefix(name, below+"/")
		default:
			return inside && name == below
		}
	}
	return func(name string) bool {
		var owner *inheritable // the innermost one
		for _, one := range products {
			if holds(one, name) && (owner == nil || len(one.path) > len(owner.path) || owner.value == nil) {
				owner = one
			}
		}
		return owner == nil || same[owner]
	}
}

// sameText reports whether two files hold the same text. Files end with a line break that values may lack.
func sameText(a, b string) bool { return strings.TrimRight(a, "\n") == strings.TrimRight(b, "\n") }

func copyFile(from *os.Root, name string, to *os.Root, as string) error {
	in, err := from.Open(filepath.FromSlash(name))
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	as = filepath.FromSlash(as)
	if err := to.MkdirAll(filepath.Dir(as), 0o755); err != nil {
		return err
	}
	out, err := to.OpenFile(as, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
