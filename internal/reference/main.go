package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/espalier-run/espalier/internal/cli"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/explain"
	"github.com/espalier-run/espalier/internal/xslices"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: reference man|completions|markdown FOLDER"))
	}
	write := map[string]func(dir string) error{"man": man, "completions": completions, "markdown": markdown}[os.Args[1]]
	if write == nil {
		fail(fmt.Errorf("there is nothing called %q to write", os.Args[1]))
	}
	if err := os.MkdirAll(os.Args[2], 0o755); err != nil {
		fail(err)
	}
	if err := write(os.Args[2]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "reference:", err)
	os.Exit(1)
}

// man writes a manual page for each command. The date is constant, so that two builds are equal.
func man(dir string) error {
	root := cli.Commands()
	root.DisableAutoGenTag = true
	date := time.Unix(0, 0).UTC()
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Espalier", Date: &date}, dir)
}

func completions(dir string) error {
	root := cli.Commands()
	for name, shell := range map[string]string{
		"espalier.bash": "bash", "_espalier": "zsh", "espalier.fish": "fish", "espalier.ps1": "powershell",
	} {
		var b bytes.Buffer
		if err := cli.WriteCompletion(&b, root, shell); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// markdown writes the reference pages of the documentation site.
func markdown(dir string) error {
	for name, page := range map[string]func() (string, error){
		"commands.md":      commandsPage,
		"configuration.md": configurationPage,
		"codes.md":         codesPage,
		"http-api.md":      apiPage,
	} {
		text, err := page()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// commandsPage describes each command: what it does, its usage, examples and flags.
func commandsPage() (string, error) {
	var b strings.Builder
	b.WriteString("# Commands\n\nEach command prints the same with `--help`.\n")
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		if c.HasParent() {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n```text\n%s\n```\n", c.CommandPath(), c.Short+".", c.UseLine())
			if c.Long != "" {
				fmt.Fprintf(&b, "\n```text\n%s\n```\n", strings.TrimSpace(c.Long))
			}
			if c.Example != "" {
				fmt.Fprintf(&b, "\nExamples:\n\n```text\n%s\n```\n", strings.TrimRight(c.Example, "\n"))
			}
			if flags := c.NonInheritedFlags().FlagUsagesWrapped(100); flags != "" {
				fmt.Fprintf(&b, "\nFlags:\n\n```text\n%s\n```\n", strings.TrimRight(flags, "\n"))
			}
		}
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	walk(cli.Commands())
	return b.String(), nil
}

// schema is the part of JSON Schema that the configuration uses.
type schema struct {
	Type        any                `json:"type"`
	Description string             `json:"description"`
	Properties  map[string]*schema `json:"properties"`
	Items       *schema            `json:"items"`
	Additional  json.RawMessage    `json:"additionalProperties"`
	Enum        []any              `json:"enum"`
	Default     any                `json:"default"`
}

func (s *schema) kind() string {
	switch {
	case len(s.Enum) > 0:
		texts := xslices.Map(s.Enum, func(v any) string { return fmt.Sprintf("`%v`", v) })
		return strings.Join(texts, ", ")
	case s.Type == nil:
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Type), " ", " or "), "[]")
}

// configurationPage lists the keys of the configuration file.
func configurationPage() (string, error) {
	var root schema
	if err := json.Unmarshal(config.Schema(), &root); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Keys of `%s`\n\n"+
		"NAME stands for a name that you choose, and `[]` for the elements of a list.\n\n"+
		"| key | value | meaning |\n|---|---|---|\n", config.FileName)
	var walk func(path string, s *schema)
	walk = func(path string, s *schema) {
		if path != "" {
			text := strings.ReplaceAll(strings.ReplaceAll(s.Description, "\n", " "), "|", `\|`)
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", path, s.kind(), text)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			walk(strings.TrimPrefix(path+"."+name, "."), s.Properties[name])
		}
		if s.Items != nil && s.Items.Properties != nil {
			walk(path+"[]", s.Items)
		}
		var below schema
		if len(s.Additional) > 0 && s.Additional[0] == '{' && json.Unmarshal(s.Additional, &below) == nil {
			walk(path+".NAME", &below)
		}
	}
	walk("", &root)
	return b.String(), nil
}

// codesPage is the catalog of all diagnostic codes.
func codesPage() (string, error) {
	var b strings.Builder
	b.WriteString("# Diagnostic codes\n\n`espalier explain CODE` prints the same, with complete examples.\n")
	for _, code := range explain.Codes() {
		page, _ := explain.Lookup(code)
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s\n", page.Code, page.Title, page.Text)
	}
	return b.String(), nil
}

// operation is one operation of an OpenAPI document.
type operation struct {
	Summary     string `json:"summary"`
	Description string `json:"description"`
	Parameters  []struct {
		Name        string `json:"name"`
		In          string `json:"in"`
		Description string `json:"description"`
		Required    bool   `json:"required"`
	} `json:"parameters"`
}

// apiPage lists the operations of the HTTP API.
func apiPage() (string, error) {
	var api struct {
		Paths map[string]map[string]operation `json:"paths"`
	}
	text, err := os.ReadFile("internal/server/openapi.json")
	if err != nil {
		return "", err // the program runs in the folder of the module
	}
	if err := json.Unmarshal(text, &api); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# HTTP API\n\nA server has the complete OpenAPI document at `/api/v1/openapi.json`.\n")
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(api.Paths[path])) {
			op := api.Paths[path][method]
			fmt.Fprintf(&b, "\n## %s %s\n\n%s\n", strings.ToUpper(method), path, op.Summary)
			if op.Description != "" {
				fmt.Fprintf(&b, "\n%s\n", op.Description)
			}
			if len(op.Parameters) > 0 {
				b.WriteString("\n| parameter | in | meaning |\n|---|---|---|\n")
			}
			for _, p := range op.Parameters {
				text := strings.ReplaceAll(p.Description, "|", `\|`)
				if p.Required {
					text = strings.TrimSpace(text + " (required)")
				}
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Name, p.In, text)
			}
		}
	}
	return b.String(), nil
}
