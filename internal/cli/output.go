package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/shell"
	"github.com/espalier-run/espalier/internal/terminal"
)

const (
	bold  = "[1m"
	dim   = "[2m"
	red   = "[1;31m"
	reset = "[0m"
)

// wantsColor reports whether text for a stream is colored. It follows NO_COLOR (no-color.org) and CLICOLOR_FORCE, and
// else colors only what a person looks at. NO_COLOR wins.
func (a *invocation) wantsColor(w io.Writer) bool {
	if a.Getenv("NO_COLOR") != "" || a.Getenv("TERM") == "dumb" {
		return false
	}
	if force := a.Getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	return a.IsTerminal(w)
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// terminalSize returns the size of the terminal that a stream is, or zeros if it is none.
func terminalSize(stream any) (columns, rows int) {
	if f, ok := stream.(*os.File); ok {
		if columns, rows, err := term.GetSize(int(f.Fd())); err == nil {
			return columns, rows
		}
	}
	return 0, 0
}

// paint puts text in a style, for the writer that it goes to. The writer makes all escape sequences inert except those
// that its Escape has returned, so a text cannot forge them.
func (a *invocation) paint(on bool, to *terminal.Writer, style, text string) string {
	if !on || text == "" {
		return text
	}
	return to.Escape(style) + terminal.Inert(text) + to.Escape(reset)
}

// dim and bold put text for stdout in a style.
func (a *invocation) dim(text string) string  { return a.paint(a.colorOut, a.screen, dim, text) }
func (a *invocation) bold(text string) string { return a.paint(a.colorOut, a.screen, bold, text) }

// printTable prints a table, as wide as the terminal.
func (a *invocation) printTable(t *table, indent string) {
	t.paint = a.dim
	fmt.Fprint(a.stdout, t.text(a.columns(), indent))
}

// painted is stdout for text that is inert but for colors of our own.
func (a *invocation) painted() io.Writer { return a.screen.Mark(a.stdout) }

// paintedErr is that of stderr.
func (a *invocation) paintedErr() io.Writer { return a.stderr.Mark(a.stderr) }

// columns returns how wide a page may be: as wide as the terminal, between 40 and 160 columns. Without a terminal it is
// 80.
func (a *invocation) columns() int {
	n, _ := strconv.Atoi(a.Getenv("COLUMNS")) // anything else counts as none
	if n <= 0 {
		n, _ = terminalSize(a.Stdout)
	}
	if n <= 0 {
		return 80
	}
	return min(max(n, 40), 160)
}

// print prints a result: with --json the value, and otherwise what text prints. An error of stdout, such as a full
// disk, counts more than what the command found.
func (a *invocation) print(value any, text func()) error {
	if a.json {
		return a.writeJSON(value)
	}
	text()
	if r, ok := a.stdout.(*results); ok {
		return r.err() // counts more than what the command found
	}
	return nil
}

// writeJSON prints a value for machines: indented, without HTML escapes.
func (a *invocation) writeJSON(v any) error {
	return a.deliver("", func(w io.Writer) error { return encode(w, v) })
}

// writeLines prints a list as JSON, one object per line.
func writeLines[T, U any](a *invocation, list []T, object func(*T) U) error {
	lines := json.NewEncoder(terminal.JSON(a.stdout))
	lines.SetEscapeHTML(false)
	for i := range list {
		if err := lines.Encode(object(&list[i])); err != nil {
			return err
		}
	}
	return nil
}

func encode(w io.Writer, v any) error {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := terminal.JSON(w).Write(withoutHTMLEscapes(out.Bytes()))
	return err
}

// escaped matches an escape in JSON as a whole, so that a backslash that is escaped itself does not start another one.
var escaped = lazyregexp.New(`\\(?:u00[0-9a-f]{2}|.)`)

// withoutHTMLEscapes writes >> for \u003e\u003e, which raw values may have.
func withoutHTMLEscapes(p []byte) []byte {
	if !bytes.Contains(p, []byte(`\u00`)) {
		return p
	}
	html := map[string]string{`\u003c`: "<", `\u003e`: ">", `\u0026`: "&"}
	return escaped().ReplaceAllFunc(p, func(escape []byte) []byte {
		return []byte(cmp.Or(html[string(escape)], string(escape)))
	})
}

// deliver writes a result to a file, or to stdout when none is named.
func (a *invocation) deliver(path string, write func(io.Writer) error) error {
	var out bytes.Buffer
	if err := write(&out); err != nil {
		return err
	}
	if path == "" || path == "-" {
		_, err := a.stdout.Write(out.Bytes())
		return err
	}
	return a.replaceFile(path, out.Bytes(), 0o644)
}

// replaceFile writes a file so that others see the old content or the new one, never a part of it: it writes a file
// beside it and renames that. When it fails, nothing is left behind. An existing file keeps its mode, and a symbolic
// link stays one. mode is for a new file.
func (a *invocation) replaceFile(path string, content []byte, mode fs.FileMode) error {
	full, err := a.target(path)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(full); err == nil {
		full = real // a link stays one
	}
	if info, err := os.Stat(full); err == nil {
		if !info.Mode().IsRegular() {
			return usage("Name a file to write to.", "%q is not a regular file", path)
		}
		mode = info.Mode().Perm()
	}
	temp, err := os.CreateTemp(filepath.Dir(full), ".espalier-*")
	if err != nil {
		return cannotWrite(path, err)
	}
	_, err = temp.Write(content)
	err = errors.Join(err, temp.Chmod(mode), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), full)
	}
	if err != nil {
		os.Remove(temp.Name())
		return cannotWrite(path, err)
	}
	return nil
}

// target returns the absolute path of a file that a command writes, after checking that Espalier may write there.
func (a *invocation) target(path string) (string, error) {
	full := a.inDir(path)
	err := a.app().CheckTarget(full)
	if _, known := errors.AsType[*app.Error](err); err != nil && !known {
		err = cannotWrite(path, err)
	}
	return full, err
}

func cannotWrite(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return usage("Create the folder first.", "the folder of %q does not exist", path)
	}
	return fail(ExitNotReady, "Check that the folder may be written to, or name another file with -o.",
		"%q cannot be written: %v", path, bareReason(err))
}

// cannotCreate reports a file of fixed name that cannot be written.
func cannotCreate(path string, err error) error {
	return fail(ExitNotReady, "Check that the folder exists and may be written to.",
		"%q cannot be written: %v", path, bareReason(err))
}

func bareReason(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

func (a *invocation) inDir(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(a.Dir, path)
}

// note prints something for people beside the result, to stderr. Its arguments may come from a file, so they are made
// printable; format is text of the program. While a status area is shown, the lines go above it.
func (a *invocation) note(format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = diag.Printable(text)
		}
	}
	text := a.wrapErr(fmt.Sprintf(format, args...))
	if live := a.live.Load(); live != nil {
		lines := strings.Split(strings.TrimPrefix(text, "\n"), "\n")
		for i, line := range lines {
			lines[i] = diag.Printable(line)
		}
		_ = live.Print(lines...) // as below
		return
	}
	fmt.Fprintln(a.stderr, text)
}

// minutes is the form of a time without seconds.
const minutes = "2006-01-02 15:04"

// shellWord writes a path so that a shell reads it as one argument, in the commands that are suggested.
func shellWord(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return shell.Word(path)
}

// plural writes "1 file", "3 files".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}
