package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/text"
)

// Field is one input as a person writes it: text, which becomes what the schema of the input asks for.
type Field struct {
	// Name may be empty for an Agentfile workflow with one input that it can mean.
	Name string
	Text string
	// Literal text is never a reference to a secret: it comes from a file.
	Literal bool
}

// input puts the input together and checks it against its schema. References to secrets are resolved.
func (p *Prepared) input(ctx context.Context, req *PrepareRequest, o *Options) (json.RawMessage, error) {
	program := p.Workflow.Program
	var contract *schema.Schema
	if program.Input != nil && len(program.Input.Schema) > 0 {
		var err error
		if contract, err = schema.Compile(program.Input.Schema); err != nil {
			return nil, err
		}
	}
	if contract == nil && len(req.Input) == 0 && len(req.Fields) == 1 && req.Fields[0].Name == "" {
		return json.Marshal(req.Fields[0].Text) // the input of a skill is text
	}
	// The whole input first, then the fields; defaults are filled in afterwards, and everything is checked at once.
	object := map[string]json.RawMessage{}
	var whole json.RawMessage
	resolve := func(raw json.RawMessage) (json.RawMessage, error) { return p.resolveSecrets(ctx, raw) }
	if len(req.Input) > 0 {
		raw := req.Input
		if !p.Options.Untrusted { // strangers must not name secrets
			var err error
			if raw, err = resolve(raw); err != nil {
				return nil, err
			}
		}
		if json.Unmarshal(raw, &object) != nil {
			whole = raw
		}
	}
	if err := addFields(object, program, contract, req.Fields, resolve); err != nil {
		return nil, err
	}
	if whole == nil {
		raw, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		whole = raw
	}
	if contract == nil {
		return whole, nil
	}
	whole = contract.Fill(whole)
	problems, err := contract.Check(whole)
	if err != nil {
		return nil, err
	}
	problems = append(problems, missingFiles(program.Input.Files, whole, o)...)
	if !req.AllowUndeclared {
		problems = append(problems, undeclared(program, req.Fields, problems)...)
	}
	if len(problems) > 0 {
		return nil, p.mismatch(problems, object)
	}
	return whole, nil
}

// noteLiteral names the inputs that prompts insert and that are missing: the prompts are sent with their names.
func (p *Prepared) noteLiteral(contract *ir.Contract) {
	var given map[string]json.RawMessage
	if contract == nil || json.Unmarshal(p.Input, &given) != nil {
		return
	}
	for _, name := range contract.Inserted {
		if _, ok := given[name]; !ok {
			p.note("warning: missing input: %[1]s. Prompts are sent with {{%[1]s}} as it is.", name)
		}
	}
}

// undeclared returns a problem for each field that the workflow does not declare and that is not reported yet. A JSON
// Schema allows other properties unless it forbids them, but a person who names an input means one that exists. A
// schema with additionalProperties or patternProperties means other names, too.
func undeclared(p *ir.Program, fields []Field, reported []schema.Problem) []schema.Problem {
	var contract struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Additional json.RawMessage            `json:"additionalProperties"`
		Patterns   json.RawMessage            `json:"patternProperties"`
	}
	if json.Unmarshal(p.Input.Schema, &contract) != nil || len(contract.Properties) == 0 ||
		contract.Patterns != nil || contract.Additional != nil && string(contract.Additional) != "false" {
		return nil
	}
	var out []schema.Problem
	for _, f := range fields {
		known := slices.ContainsFunc(reported, func(r schema.Problem) bool { return r.Path == f.Name })
		if f.Name != "" && contract.Properties[f.Name] == nil && !known {
			out = append(out, schema.Problem{Path: f.Name})
		}
	}
	return out
}

// InputOf adds fields to an object, and their texts become what its schema asks for: for the input of a workflow on
// another machine, or for an answer. References to secrets stay as they are.
func InputOf(format string, contract, object json.RawMessage, fields []Field) (json.RawMessage, error) {
	input := map[string]json.RawMessage{}
	if len(object) > 0 && json.Unmarshal(object, &input) != nil {
		return nil, fail(InvalidRequest, InvalidInput, "the input must be a JSON object")
	}
	var compiled *schema.Schema
	if len(contract) > 0 {
		var err error
		if compiled, err = schema.Compile(contract); err != nil {
			return nil, err
		}
	}
	program := &ir.Program{Format: format, Input: &ir.Contract{Schema: contract}}
	keep := func(value json.RawMessage) (json.RawMessage, error) { return value, nil }
	if err := addFields(input, program, compiled, fields, keep); err != nil {
		return nil, err
	}
	return json.Marshal(input)
}

// missingFiles returns a problem for each of these inputs that does not name an existing file. Relative paths start at
// the working folder.
func missingFiles(names []string, input json.RawMessage, o *Options) []schema.Problem {
	var out []schema.Problem
	for _, name := range names {
		var object map[string]json.RawMessage
		var path string
		if json.Unmarshal(input, &object) != nil || json.Unmarshal(object[name], &path) != nil || path == "" {
			continue // the schema reports an input of another type, or one that is missing
		}
		full := path
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			full = filepath.Join(o.Home, rest)
		} else if !filepath.IsAbs(full) {
			full = filepath.Join(o.Dir, full)
		}
		switch info, err := os.Stat(full); {
		case err != nil:
			out = append(out, schema.Problem{Path: name, Message: fmt.Sprintf("there is no file %q", path)})
		case info.IsDir():
			out = append(out, schema.Problem{Path: name, Message: fmt.Sprintf("%q is a folder, not a file", path)})
		}
	}
	return out
}

// addFields adds fields to an input. resolve resolves the references to secrets in a value.
func addFields(
	object map[string]json.RawMessage, p *ir.Program, contract *schema.Schema, fields []Field,
	resolve func(json.RawMessage) (json.RawMessage, error),
) (err error) {
	for _, f := range fields {
		if f.Name == "" {
			only, err := unnamed(p, fields)
			if err != nil {
				return err
			}
			object[only] = valueOf(contract, only, f.Text)
			continue
		}
		value := valueOf(contract, f.Name, f.Text)
		if !f.Literal {
			if value, err = resolve(value); err != nil {
				return err
			}
		}
		object[f.Name] = value
	}
	return nil
}

// unnamed returns the input that a field without a name means. In formats without a short form, a word without "=" is
// more likely the name of an input than its value.
func unnamed(p *ir.Program, fields []Field) (string, error) {
	if only := OnlyText(p); catalog.Formats().Conventions(p.Format).UnnamedInput && only != "" && len(fields) == 1 {
		return only, nil
	}
	written := fields[slices.IndexFunc(fields, func(f Field) bool { return f.Name == "" })].Text
	e := fail(InvalidRequest, UnnamedInput, "the input %q has no name; the workflow declares %s", written,
		declares(p))
	e.Name, e.Names = written, declared(p)
	return "", e
}

// declares returns the inputs of a workflow as a part of a sentence.
func declares(p *ir.Program) string {
	return cmp.Or(diag.Enumerate(declared(p)), "no inputs")
}

// mismatch explains why an input does not match its schema.
func (p *Prepared) mismatch(problems []schema.Problem, object map[string]json.RawMessage) error {
	reason, secrets := InvalidInput, p.env.models.Secrets
	names := declared(p.Workflow.Program)
	lines := make([]string, len(problems))
	var missing []string
	for i, problem := range problems {
		_, named := object[problem.Path]
		lacks := slices.IndexFunc(names, func(name string) bool {
			return problem.Path == "" && problem.Message == fmt.Sprintf("must have the property %q", name)
		})
		switch lines[i] = secrets.Show(problem.String()); {
		case lacks >= 0:
			missing = append(missing, names[lacks])
			lines[i] = "missing required input: " + names[lacks]
		case problem.Path == "":
			lines[i] = "it " + lines[i]
		case named && !slices.Contains(names, problem.Path):
			lines[i], reason = secrets.Show(problem.Path)+": the workflow declares no such input", UndeclaredInput
			if near := diag.Nearest(problem.Path, names); near != "" {
				lines[i] += fmt.Sprintf(". Did you mean %q?", near)
			}
		}
	}
	separator, known := " ", ""
	if len(lines) > 1 {
		separator = "\n  "
	}
	if reason == UndeclaredInput {
		known = "\nThe workflow declares " + declares(p.Workflow.Program) + "."
	}
	e := fail(InvalidRequest, reason, "the input does not match its schema:%s%s%s", separator,
		strings.Join(lines, "\n  "), known)
	if len(missing) == len(problems) {
		what := "missing required input"
		if len(missing) > 1 {
			what += "s"
		}
		e = fail(InvalidRequest, reason, "%s: %s", what, diag.Enumerate(missing))
	}
	e.Name, e.Names = p.Workflow.File.Path, lines
	return e
}

// resolveSecrets replaces references to secrets by their values.
func (p *Prepared) resolveSecrets(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	out, err := p.env.models.Secrets.Refer(ctx, raw)
	if missing, ok := errors.AsType[*secret.Error](err); ok {
		return nil, fail(NotReady, MissingSecret, "%v", missing).advise("%s", missing.Help)
	}
	return out, err
}

// valueOf converts the text of an input to what its schema asks for. It stays text if that is allowed or nothing fits.
func valueOf(contract *schema.Schema, name, written string) json.RawMessage {
	if contract != nil {
		types := contract.Types(name)
		switch n, err := strconv.ParseInt(written, 10, 64); {
		case len(types) == 0 || slices.Contains(types, "string"):
		case err == nil && slices.Contains(types, "integer"): // 007, too
			return strconv.AppendInt(nil, n, 10)
		case slices.Equal(types, []string{"boolean"}):
			if yes, ok := text.ParseBool(written); ok {
				return strconv.AppendBool(nil, yes)
			}
		case json.Valid([]byte(written)):
			return json.RawMessage(written)
		}
	}
	raw, err := json.Marshal(written)
	if err != nil {
		return json.RawMessage("null") // strings always encode
	}
	return raw
}

// declared returns the names of the inputs of a workflow.
func declared(p *ir.Program) []string {
	var contract struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if p.Input == nil || json.Unmarshal(p.Input.Schema, &contract) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(contract.Properties))
}

// OnlyText returns the one input that a workflow requires, or the only one that it has, if that is text: it need not
// be named then. It returns "" if there is none.
func OnlyText(p *ir.Program) string {
	var contract struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if p.Input == nil || json.Unmarshal(p.Input.Schema, &contract) != nil {
		return ""
	}
	if len(contract.Required) == 0 && len(contract.Properties) == 1 {
		contract.Required = slices.Collect(maps.Keys(contract.Properties))
	}
	if len(contract.Required) != 1 {
		return ""
	}
	if only := contract.Required[0]; contract.Properties[only].Type == "string" {
		return only
	}
	return ""
}
