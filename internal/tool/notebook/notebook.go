package notebook

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/xslices"
)

// The names of the tools.
const (
	Read = "notebook.read"
	Add  = "notebook.add"
)

const (
	maxNotes      = 100  // the newest notes, which notebook.read returns
	maxNoteLength = 4000 // bytes
)

// Note is one entry of a notebook. A notebook is a file with a JSON object on each line.
type Note struct {
	At   time.Time `json:"at"`
	Key  string    `json:"key"` // of the call that added it
	Text string    `json:"note"`
}

// Book is the notebook of one agent of a workflow.
type Book struct {
	Workflow string `json:"workflow"`
	Agent    string `json:"agent"`
	Notes    []Note `json:"notes"`
}

// Tools returns the tools for notebooks in a folder.
func Tools(dir string) []tool.Tool { return []tool.Tool{reader{dir}, adder{dir}} }

type reader struct{ dir string }

func (reader) Spec() tool.Spec {
	return tool.Spec{
		Name: Read, Description: "Return your notes from earlier runs, oldest first.",
		Schema:  json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
		Returns: json.RawMessage(`{"type":"array","items":{"type":"string"}}`),
	}
}

func (r reader) Call(_ context.Context, call tool.Call) (tool.Result, error) {
	notes, err := read(r.dir, file(call.For.Workflow, call.For.Agent))
	if err != nil {
		return tool.Result{}, failed(err)
	}
	recent := notes[max(0, len(notes)-maxNotes):]
	texts := append([]string{}, xslices.Map(recent, func(n Note) string { return n.Text })...)
	out, err := json.Marshal(texts)
	return tool.Result{Output: out}, err
}

type adder struct{ dir string }

func (adder) Spec() tool.Spec {
	return tool.Spec{
		Name: Add, Description: "Keep a note for your later runs.", SideEffects: true, TakesKey: true,
		Schema: json.RawMessage(fmt.Sprintf(
			`{"type":"object","properties":{"note":{"type":"string","minLength":1,"maxLength":%d}},"required":["note"],"additionalProperties":false}`, maxNoteLength)),
		Returns: json.RawMessage(`{"type":"object","properties":{"kept":{"const":true}},"required":["kept"]}`),
	}
}

func (a adder) Call(_ context.Context, call tool.Call) (tool.Result, error) {
	var in struct {
		Note string `json:"note"`
	}
	if err := json.Unmarshal(call.Input, &in); err != nil || in.Note == "" || len(in.Note) > maxNoteLength {
		return tool.Result{}, tool.Errorf(ir.ClassInput, "a note is a text of at most %d bytes", maxNoteLength)
	}
	name := file(call.For.Workflow, call.For.Agent)
	notes, err := read(a.dir, name)
	if err != nil {
		return tool.Result{}, failed(err)
	}
	for _, n := range notes {
		if n.Key == call.Key {
			return tool.Result{Output: json.RawMessage(`{"kept":true}`)}, nil
		}
	}
	line, err := json.Marshal(Note{At: time.Now().UTC().Truncate(time.Second), Key: call.Key, Text: in.Note})
	if err != nil {
		return tool.Result{}, err
	}
	if err := write(a.dir, name, line); err != nil {
		return tool.Result{}, failed(err)
	}
	return tool.Result{Output: json.RawMessage(`{"kept":true}`)}, nil
}

func failed(err error) error {
	return tool.Errorf(ir.ClassTool, "the notebook cannot be used: %v", err)
}

// write appends a line. If a crash has left an incomplete line, write starts a new one, so that only the incomplete
// note is lost.
func write(dir, name string, line []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := check(root, name); err != nil {
		return err
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	text := append(line, '\n')
	if size, err := f.Seek(0, 2); err == nil && size > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, size-1); err == nil && last[0] != '\n' {
			text = append([]byte("\n"), text...)
		}
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// check returns an error if the path of a notebook names configuration or has a link, which Espalier never creates.
func check(root *os.Root, name string) error {
	at, err := protected.Resolve(root, name)
	if err != nil {
		return err
	}
	info, err := root.Lstat(name)
	if at != filepath.ToSlash(name) || err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%q is not a regular file, or is below a link", name)
	}
	return nil
}

// file returns the path of an agent's notebook below the folder of notebooks. It escapes both names, so that each is
// one path element and never names configuration.
func file(workflow, agent string) string {
	return filepath.Join(segment(workflow, ""), segment(agent, ".jsonl"))
}

func segment(name, extension string) string {
	if name == "" {
		return "_" + extension
	}
	escaped := url.PathEscape(name) + extension
	if !protected.Name(escaped) && strings.Trim(escaped, ".") != "" {
		return escaped
	}
	var b strings.Builder
	for i := range len(name) {
		fmt.Fprintf(&b, "%%%02X", name[i])
	}
	return b.String() + extension
}

// read reads a notebook. It skips lines that are not notes.
func read(dir, name string) ([]Note, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := check(root, name); err != nil {
		return nil, err
	}
	raw, err := root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Note
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var n Note
		if json.Unmarshal(lines.Bytes(), &n) == nil && n.Text != "" {
			out = append(out, n)
		}
	}
	return out, lines.Err()
}

// Books returns all notebooks in a folder, in the order of workflows and agents.
func Books(dir string) ([]Book, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*", "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var out []Book
	for _, name := range names {
		workflow, err := url.PathUnescape(filepath.Base(filepath.Dir(name)))
		if err != nil {
			continue // not a notebook
		}
		agent, err := url.PathUnescape(strings.TrimSuffix(filepath.Base(name), ".jsonl"))
		if err != nil {
			continue
		}
		notes, err := read(dir, filepath.Join(filepath.Base(filepath.Dir(name)), filepath.Base(name)))
		if err != nil {
			return nil, err
		}
		out = append(out, Book{Workflow: workflow, Agent: agent, Notes: notes})
	}
	return out, nil
}

// Forget removes the notebooks of a workflow, or of one of its agents if agent is not empty. It reports whether there
// were any.
func Forget(dir, workflow, agent string) (bool, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer root.Close()
	name := segment(workflow, "")
	if agent != "" {
		name = file(workflow, agent)
	}
	if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, root.RemoveAll(name)
}
