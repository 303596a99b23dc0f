package step

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/source"
)

// WorkingDir is the variable that holds the folder in which a run was started.
const WorkingDir = "context.WorkingDir"

// Values are what the step reads, by name, without what is missing.
func (j *Job) Values() expr.Values {
	out := make(expr.Values, len(j.Reads))
	for _, r := range j.Reads {
		if r.Missing {
			continue
		}
		if v, err := expr.Decode(r.Value); err == nil {
			out[r.Path] = v
		}
	}
	return out
}

// Folder is where the run was started, if the step reads that; else the run's
// own folder.
func (j *Job) Folder() string {
	for _, r := range j.Reads {
		if r.Path != WorkingDir {
			continue
		}
		v, _ := expr.Decode(r.Value)
		if dir, ok := v.(string); ok && dir != "" {
			return dir
		}
	}
	return j.Dir
}

// Fill writes a template with what the step reads.
func (j *Job) Fill(template string, values expr.Values) (string, error) {
	if !strings.Contains(template, "{{") {
		return template, nil
	}
	e, err := j.template(template)
	if err != nil {
		return "", err
	}
	text, err := e.Fill(values, expr.TemplateOptions{ReadFile: j.readFile})
	if err != nil {
		return "", Errorf(ClassInput, "step %q: %v", j.Step.ID, err)
	}
	return text, nil
}

func (j *Job) template(text string) (*expr.Expr, error) {
	e, list := expr.ParseValue(expr.AWFTemplate, text, source.Span{})
	if list.Errors() {
		return nil, Errorf(ClassInput, "step %q: %s", j.Step.ID, list[0].Message)
	}
	return e, nil
}

// FillShell writes a template as a command for a shell, which is named by its
// path. What steps gave is data there and no code; so is what else the doubts
// name, and in a run whose input nobody vouches for that input.
func (j *Job) FillShell(template, shell string, values expr.Values, doubts []string) (expr.ShellText, error) {
	if !strings.Contains(template, "{{") {
		return expr.ShellText{Run: template, Read: template}, nil
	}
	e, err := j.template(template)
	if err != nil {
		return expr.ShellText{}, err
	}
	o := expr.ShellOptions{TemplateOptions: expr.TemplateOptions{ReadFile: j.readFile}, Doubts: append([]string{"states", "error"}, doubts...)}
	if j.Untrusted {
		o.Doubts, o.OneWord = append(o.Doubts, "loop", "inputs"), []string{"inputs"}
	}
	name := filepath.Base(shell)
	o.Shell = name
	text, err := e.FillShell(values, o)
	if err != nil {
		return expr.ShellText{}, Errorf(ClassInput, "step %q: %v", j.Step.ID, err)
	}
	if text.Values > 0 && !expr.IsShell(name) {
		return expr.ShellText{}, Errorf(ClassInput, "step %q puts values into a command for %s, and how to do that safely is known for sh and its like only; "+
			"write \"shell: /bin/sh\", or {{raw …}} around values that are code", j.Step.ID, name)
	}
	if j.Untrusted && text.Reader != "" {
		return expr.ShellText{}, Errorf(ClassInput, "step %q puts a value into code for %s, and nobody vouches for the input of this run; let that code read the variables AWF_INPUT_… instead",
			j.Step.ID, text.Reader)
	}
	return text, nil
}

// mostRead is how much of a file a template may take in.
const mostRead = 1 << 20

// readFile reads a file below the folder in which the run was started, and
// nothing outside of it.
func (j *Job) readFile(name string) (string, error) {
	dir, written := j.Folder(), name
	if filepath.IsAbs(name) {
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return "", err
		}
		name = rel
	}
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("%q lies outside of the folder in which the run was started", written)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no file %q in the folder in which the run was started", written)
	case err != nil:
		return "", fmt.Errorf("the file %q cannot be read: %w", written, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%q is not a regular file", written)
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, mostRead+1))
	if err != nil {
		return "", err
	}
	if len(raw) > mostRead {
		return "", fmt.Errorf("the file %q is too long: a template may take in up to 1 MiB", written)
	}
	return string(raw), nil
}
