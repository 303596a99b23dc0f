package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xslices"
)

// exprCommand evaluates an expression without a workflow. It parses with ParseValue, so that any expression is accepted
// and not only conditions.
func (a *invocation) exprCommand() *cobra.Command {
	var dialect, context, compat string
	var cmd *cobra.Command
	cmd = a.jsonFlag(&cobra.Command{
		Use:   "expr EXPRESSION [--dialect D] [--compat reference] [--context FILE.json] [--json]",
		Short: "Evaluate a condition and show the value of each part",
		Long: `Evaluate a condition the way workflows do, and show the value of each part. The
context is a JSON object with the names that the condition may use; names that
it does not have are null.`,
		Example: `  espalier expr 'len(input.docs) > 1 and input.paid' --context context.json
  espalier expr '"pdf" in ["pdf", "docx"]'`,
		Args:              takes(1, 1, "one expression, in quotes"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			dialects := xslices.Map(expr.Dialects(), func(d expr.Dialect) string { return string(d) })
			if err := oneOf(dialect, dialects, "unknown dialect %q"); err != nil {
				return err
			}
			switch {
			case compat == "":
			case compat != "reference":
				return usage("Use --compat reference.", "unknown program %q for --compat", compat)
			case cmd.Flags().Changed("dialect") && dialect != string(expr.AIFlow):
				return usage("Leave out one of the two.", "--compat reference is for AIFLOW conditions")
			default:
				dialect = string(expr.AIFlowReference)
			}
			env, err := a.readContext(context)
			if err != nil {
				return err
			}
			text := source.NewFile("expression", args[0])
			e, list := expr.ParseValue(expr.Dialect(dialect), args[0], text.Span(0, len(args[0])))
			files := source.Set{text.Path: text}
			switch {
			case list.Errors() && a.json:
				err = a.writeJSON(struct {
					Expression string `json:"expression"`
					diag.Report
				}{args[0], diag.NewReport(files, list)})
			case len(list) > 0:
				err = diag.Printer{Files: files, Color: a.colorErr}.Print(a.paintedErr(), list)
			}
			switch {
			case err != nil:
				return err
			case list.Errors():
				return &failure{code: exitUsage}
			}
			return a.printExpr(e, env)
		},
	})
	cmd.Flags().StringVar(&dialect, "dialect", string(expr.AgentFlow), "evaluate by the rules of this format, `D`")
	cmd.Flags().StringVar(&compat, "compat", "",
		"evaluate as another `PROGRAM` does: reference for AIFLOW conditions")
	cmd.Flags().StringVar(&context, "context", "", "JSON `FILE` with the names that may be used")
	return cmd
}

// readContext reads the names that an expression may use; without a file, there are none and every name is null.
func (a *invocation) readContext(path string) (expr.Values, error) {
	values := expr.Values{}
	if path == "" {
		return values, nil
	}
	f, err := a.app().ReadFile(path)
	var missing *source.RefError
	if errors.As(err, &missing) && missing.Problem == source.RefMissing && len(missing.Near) == 0 {
		return nil, usage("The context is a JSON file; without it every name is null.", "%v", err)
	}
	if err != nil {
		return nil, err
	}
	const help = `Write an object such as {"input": {"tier": "team"}}.`
	var wrongType *json.UnmarshalTypeError
	switch err := json.Unmarshal([]byte(f.Text), &values); {
	case errors.As(err, &wrongType):
		return nil, usage(help, "%s is not a JSON object", path)
	case err != nil:
		return nil, usage(help, "%s is not JSON: %v", path, err)
	}
	return values, nil
}

type exprPart struct {
	Text  string `json:"text"`
	Depth int    `json:"depth"`
	Value any    `json:"value"`
	Error string `json:"error,omitempty"`
}

// printExpr prints the value of an expression and of each part of it. A part that cannot be evaluated has an error; the
// others are printed all the same.
func (a *invocation) printExpr(e *expr.Expr, env expr.Values) error {
	value, failed := e.Eval(env)
	var parts []exprPart
	for _, p := range e.Parts(env) {
		part := exprPart{Text: p.Text, Depth: p.Depth, Value: p.Value}
		if p.Err != nil {
			part.Error = p.Err.Error()
		}
		parts = append(parts, part)
	}
	report := struct {
		Expression string     `json:"expression"`
		Canonical  string     `json:"canonical"`
		Value      any        `json:"value"`
		Error      string     `json:"error,omitempty"`
		Parts      []exprPart `json:"parts"`
	}{Expression: e.Text, Canonical: e.String(), Value: value, Parts: parts}
	if failed != nil {
		report.Error = failed.Error()
	}
	t := table{}
	for _, p := range parts {
		shown := "! " + p.Error
		if p.Error == "" {
			shown = "= " + jsonText(p.Value)
		}
		t.add(strings.Join(strings.Fields(p.Text), " "), shown)
	}
	err := a.print(report, func() { a.printTable(&t, "") })
	return cmp.Or(err, usageIf(failed != nil, "", "the expression has no value")) // the report has the reason
}

func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
