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
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/shell"
	"github.com/espalier-run/espalier/internal/source"
)

// WorkingDir is the variable that holds the folder in which a run was started.
const WorkingDir = "context.WorkingDir"

// Values returns the values that the step reads, by name, without missing ones.
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

// Folder returns the folder in which the run was started if the step reads it, else the run's own folder.
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

// Fill renders a template with the values that the step reads.
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
		return "", Errorf(ir.ClassInput, "step %q: %v", j.Step.ID, err)
	}
	return text, nil
}

// FillParts renders a template with the values that the step reads, and separates the values from the author's
// text.
func (j *Job) FillParts(template string, values expr.Values) ([]expr.TextPart, error) {
	e, err := j.template(template)
	if err != nil {
		return nil, err
	}
	parts, err := e.FillParts(values, expr.TemplateOptions{ReadFile: j.readFile})
	if err != nil {
		return nil, Errorf(ir.ClassInput, "step %q: %v", j.Step.ID, err)
	}
	return parts, nil
}

// template parses a template.
func (j *Job) template(text string) (*expr.Expr, error) {
	e, list := expr.ParseValue(expr.AWFTemplate, text, source.Span{})
	if list.Errors() {
		return nil, Errorf(ir.ClassInput, "step %q: %s", j.Step.ID, list[0].Message)
	}
	return e, nil
}

// FillPath renders a template as the path of a program or a script. Untrusted values may only be parts of file names
// in it, and only if parts is set. untrustedRoots is as for FillShell.
func (j *Job) FillPath(
	template string, values expr.Values, untrustedRoots []string, parts bool,
) (string, error) {
	path, untrusted, err := j.fillPath(template, values, untrustedRoots)
	for _, v := range untrusted {
		if !parts || !shell.IsFileName(v) {
			return "", Errorf(ir.ClassInput,
				"step %q: a value chooses what is executed: %s. Use {{raw …}} if you trust it", j.Step.ID, template)
		}
	}
	return path, err
}

// FillFolder renders a template as the path of a folder, and reports whether untrusted values are a part of it.
// untrustedRoots is as for FillShell.
func (j *Job) FillFolder(
	template string, values expr.Values, untrustedRoots []string,
) (path string, untrusted bool, err error) {
	path, chosen, err := j.fillPath(template, values, untrustedRoots)
	return path, len(chosen) > 0, err
}

// fillPath renders a template as a path, and returns the untrusted values in it.
func (j *Job) fillPath(
	template string, values expr.Values, untrustedRoots []string,
) (path string, untrusted []string, err error) {
	if !strings.Contains(template, "{{") {
		return template, nil, nil
	}
	e, err := j.template(template)
	if err != nil {
		return "", nil, err
	}
	if path, untrusted, err = e.FillPath(values, j.shellOptions(untrustedRoots)); err != nil {
		return "", nil, Errorf(ir.ClassInput, "step %q: %v", j.Step.ID, err)
	}
	return path, untrusted, nil
}

// shellOptions returns which values of the job are not trusted: the results of steps, those under untrustedRoots and,
// if the input comes from outside of the project, the input and the items of loops.
func (j *Job) shellOptions(untrustedRoots []string) expr.ShellOptions {
	o := expr.ShellOptions{
		TemplateOptions: expr.TemplateOptions{ReadFile: j.readFile},
		Untrusted:       append([]string{"states", "error"}, untrustedRoots...),
	}
	if j.Untrusted {
		o.Untrusted, o.OneWord = append(o.Untrusted, "loop", "inputs"), []string{"inputs"}
	}
	return o
}

// FillShell renders a template as a command for a shell, which is named by its path. The output of steps is data
// there; so are the values under untrustedRoots, such as "loop", and the input of a run that is not trusted. Trusted
// inputs and loop items are data wherever that is possible.
func (j *Job) FillShell(
	template, path string, values expr.Values, untrustedRoots []string,
) (expr.ShellText, error) {
	if !strings.Contains(template, "{{") {
		return expr.ShellText{Command: shell.Command{Text: template}, Read: template}, nil
	}
	e, err := j.template(template)
	if err != nil {
		return expr.ShellText{}, err
	}
	o := j.shellOptions(untrustedRoots)
	if o.Shell = filepath.Base(path); shell.IsShell(o.Shell) {
		o.Trusted = []string{"inputs", "loop"}
	}
	text, err := e.FillShell(values, o)
	if err != nil {
		return expr.ShellText{}, Errorf(ir.ClassInput, "step %q: %v", j.Step.ID, err)
	}
	if len(text.Values) > 0 && !shell.IsShell(o.Shell) {
		return expr.ShellText{}, Errorf(ir.ClassInput,
			"step %q inserts values into a command for %s: this is supported for sh, bash, dash, zsh and ksh only. "+
				"Use \"shell: /bin/sh\", or {{raw …}} for values that are code", j.Step.ID, o.Shell)
	}
	return text, nil
}

// CodeArgument returns the argument of a tool that a shell executes, or "" if there is none. Values that a step inserts
// into it are data, as in commands.
func (j *Job) CodeArgument(name string) string {
	if j.Tools == nil {
		return ""
	}
	found := j.Tools.Tool(ir.ToolName(name))
	if found == nil {
		return ""
	}
	return found.Spec().Code
}

// FillCode renders a template as the code that a tool executes. untrustedRoots is as for FillShell.
func (j *Job) FillCode(template string, values expr.Values, untrustedRoots []string) (string, error) {
	text, err := j.FillShell(template, ir.ToolShell, values, untrustedRoots)
	return text.Standalone(), err
}

// maxRead bounds the size of a file that a template inserts.
const maxRead = 1 << 20

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
	// A clear message for what the root below would refuse.
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("%q lies outside of the folder in which the run was started", written)
	}
	// The root follows no link that leads out of the folder.
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
	raw, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	if err != nil {
		return "", err
	}
	if len(raw) > maxRead {
		return "", fmt.Errorf("the file %q is too long: a template may take in up to 1 MiB", written)
	}
	return string(raw), nil
}
