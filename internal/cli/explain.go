package cli

import (
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/explain"
	"github.com/espalier-run/espalier/internal/xslices"
)

func (a *invocation) explainCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "explain [CODE] [--json]",
		Short: "Explain a code such as AF001, with a bad and a good example",
		Long: `Explain the code of a diagnostic: what it means, how to fix it, an example
that produces it and one that does not. Without a code, list all codes; with
letters alone, list the codes that start with them.`,
		Example: `  espalier explain AF001
  espalier explain WF
  espalier explain`,
		Args:              takes(0, 1, "one code"),
		ValidArgsFunction: completeCode,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listCodes(explain.Codes())
			}
			page, ok := explain.Lookup(args[0])
			if !ok {
				if some := codesOf(args[0]); len(some) > 0 {
					return a.listCodes(some)
				}
				help := `"espalier explain" lists all codes.`
				if near := diag.Nearest(strings.ToUpper(args[0]), explain.Codes()); near != "" {
					help = fmt.Sprintf("Did you mean %q? %s", near, help)
				}
				return usage(help, "unknown code %q", args[0])
			}
			return a.print(page, func() { a.printPage(page) })
		},
	})
}

// codesOf returns the codes whose letters these are.
func codesOf(letters string) []string {
	return xslices.Filter(explain.Codes(), func(code string) bool {
		return strings.TrimRight(code, "0123456789") == strings.ToUpper(letters)
	})
}

func (a *invocation) listCodes(codes []string) error {
	type title struct {
		Code  string `json:"code"`
		Title string `json:"title"`
	}
	titles := []title{}
	t := table{}
	for _, code := range codes {
		page, _ := explain.Lookup(code)
		titles = append(titles, title{code, page.Title})
		t.add(code, page.Title)
	}
	return a.print(titles, func() { a.printTable(&t, "") })
}

func (a *invocation) printPage(page explain.Page) {
	out := a.stdout
	fmt.Fprintf(out, "%s\n", a.bold(page.Code+": "+page.Title))
	for paragraph := range strings.SplitSeq(page.Text, "\n\n") {
		fmt.Fprintf(out, "\n%s\n", reflow(paragraph, a.columns()))
	}
	example := func(what string, files []explain.File) {
		fmt.Fprintf(out, "\n%s %s\n\n", a.bold(what+":"), files[0].Path)
		for line := range strings.Lines(strings.TrimRight(files[0].Text, "\n")) {
			fmt.Fprintln(out, strings.TrimRight("    "+line, " \r\n"))
		}
		if len(files) > 1 {
			others := xslices.Map(files[1:], func(f explain.File) string { return path.Clean(f.Path) })
			fmt.Fprintf(out, "\n  together with %s\n", strings.Join(others, ", "))
		}
	}
	example("Bad", page.Bad)
	example("Good", page.Good)
}

// reflow wraps a paragraph of Markdown; what is laid out by hand stays.
func reflow(paragraph string, columns int) string {
	for line := range strings.Lines(paragraph) {
		if strings.ContainsAny(line[:1], " \t-*|>") {
			return strings.TrimRight(paragraph, "\n")
		}
	}
	return strings.Join(wrap(paragraph, columns), "\n")
}
