package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/xslices"
)

// schemaCommand prints schemas as they are in the program; there is no server for them.
func (a *invocation) schemaCommand() *cobra.Command {
	var output string
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "schema [FORMAT [BLOCK]|config] [-o FILE] [--json]",
		Short: "Print JSON Schemas of a format, for editors",
		Long: `Print the JSON Schema of a format's main part or of one of its blocks, or that
of espalier.yaml, the configuration. Editors use it for completion and
validation. Without a format, list the available schemas.`,
		Example: `  espalier schema agent-flow
  espalier schema agent-flow step
  espalier schema config`,
		Args: takes(0, 2, "a format and a block"),
		ValidArgsFunction: offer(func(args []string) []string {
			switch len(args) {
			case 0:
				return append(withSchemas().Names(), configSchema)
			case 1:
				if f := catalog.Formats().Find(args[0]); f != nil {
					return blocks(f)
				}
			}
			return nil
		}),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listSchemas()
			}
			chosen, err := findSchema(args)
			if err != nil {
				return err
			}
			return a.deliver(output, func(w io.Writer) error {
				var pretty bytes.Buffer
				if err := json.Indent(&pretty, chosen.Schema, "", "  "); err != nil {
					return err
				}
				_, err := fmt.Fprintln(w, strings.TrimRight(pretty.String(), "\n"))
				return err
			})
		},
	})
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this `FILE`")
	return cmd
}

func withSchemas() format.Set {
	return xslices.Filter(catalog.Formats(), func(f format.Format) bool { return len(f.Schemas()) > 0 })
}

func blocks(f format.Format) []string {
	return xslices.Map(f.Schemas(), func(s format.Schema) string { return s.Block })
}

// configSchema is the name of the schema of espalier.yaml.
const configSchema = "config"

// findSchema returns the schema of a format or of one of its blocks; the first one is that of the main part.
func findSchema(args []string) (format.Schema, error) {
	if args[0] == configSchema && len(args) == 1 {
		return format.Schema{Schema: config.Schema()}, nil
	}
	f := catalog.Formats().Find(args[0])
	if f == nil {
		return format.Schema{}, usage(diag.DidYouMean(args[0], append(withSchemas().Names(), configSchema)),
			"unknown format %q", args[0])
	}
	schemas := f.Schemas()
	if len(schemas) == 0 {
		return format.Schema{}, usage(diag.DidYouMean("", withSchemas().Names()), "the format %q has no schemas yet",
			args[0])
	}
	if len(args) == 1 {
		return schemas[0], nil
	}
	for _, s := range schemas {
		if s.Block == args[1] {
			return s, nil
		}
	}
	return format.Schema{}, usage(diag.DidYouMean(args[1], blocks(f)), "%s has no block %q", args[0], args[1])
}

func (a *invocation) listSchemas() error {
	type entry struct {
		Format string   `json:"format"`
		Blocks []string `json:"blocks"`
	}
	list := []entry{}
	t := table{header: []string{"FORMAT", "BLOCKS"}}
	for _, f := range withSchemas() {
		list = append(list, entry{f.Name(), blocks(f)})
		t.add(f.Name(), strings.Join(blocks(f), ", "))
	}
	list = append(list, entry{configSchema, []string{}})
	t.add(configSchema, config.FileName)
	return a.print(list, func() { a.printTable(&t, "") })
}
