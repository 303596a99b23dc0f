package check

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/schema"
)

// schema checks that a contract is a valid JSON Schema; doc is its decoded form.
func (c *checker) schema(contract *ir.Contract, doc any, of string) {
	if len(contract.Schema) == 0 {
		return
	}
	if _, err := schema.Compile(contract.Schema); err != nil {
		problem, ok := errors.AsType[*schema.Error](err)
		if !ok {
			problem = &schema.Error{Message: err.Error()}
		}
		for _, one := range append([]*schema.Error{problem}, problem.Others...) {
			c.badSchema(contract, of, one)
		}
		return
	}
	c.lintSchema(contract, doc, of)
}

// badSchema reports a mistake in a schema at its place in the file, which may be another file.
func (c *checker) badSchema(contract *ir.Contract, of string, problem *schema.Error) {
	where := ""
	if problem.Pointer != "" {
		where = " at " + problem.Pointer
	}
	at := contract.At(problem.Pointer)
	help := "Correct the schema (JSON Schema draft 2020-12)."
	switch {
	case problem.Outside:
		help = "Copy what it refers to under \"$defs\", and refer to it there."
	case len(problem.Allowed) > 0:
		help = cmp.Or(diag.DidYouMean(problem.Got, problem.Allowed), help)
	}
	found := c.add(CodeSchema, diag.Error, at, help, "The schema of %s is not a JSON Schema%s: %s.", of, where,
		problem.Message)
	found.Replace(problem.Got, diag.Nearest(problem.Got, problem.Allowed))
	if at.File != contract.Span.File {
		found.Relate(contract.Span, "the schema is referred to here")
	}
}

// pointerTo returns the JSON pointer of a path.
func pointerTo(path ...string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteByte('/')
		b.WriteString(pointerEscapes.Replace(name))
	}
	return b.String()
}

// pointerEscapes are the escapes of JSON pointers (RFC 6901).
var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// decoded returns a JSON text as Go values, or nil if it is not valid JSON.
func decoded(raw json.RawMessage) any {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}
