package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/redact"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/xslices"
)

// formField is an input of a workflow as a field of a form.
type formField struct {
	Name, ID, Hint string
	Kind           string // text, area, number, switch, choice, select or json
	Required       bool
	Default        string
	Options        []string
	Value          string
	Error          string
	NoFile         bool // the value cannot be a file
}

// property is the part of a JSON Schema that determines a field. Type is any because a schema can list several types;
// such a field takes JSON.
type property struct {
	Type        any               `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Default     json.RawMessage   `json:"default"`
	Enum        []json.RawMessage `json:"enum"`
	MaxLength   *int              `json:"maxLength"`
}

// maxChoices is how many values of an enumeration are shown side by side.
const maxChoices = 4

// formOf returns the fields for the input of a workflow; nil if the input is one text.
func formOf(p *ir.Program) []formField {
	if p == nil || p.Input == nil || len(p.Input.Schema) == 0 {
		return nil
	}
	return fieldsOf(p.Input.Schema)
}

// fieldsOf returns the fields for an object: the required ones first, and otherwise in the order of its schema; nil if
// the schema has no properties.
func fieldsOf(raw json.RawMessage) []formField {
	var schema struct {
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}
	if json.Unmarshal(raw, &schema) != nil {
		return nil
	}
	var out []formField
	for i, name := range propertyOrder(raw) {
		prop := schema.Properties[name]
		f := formField{
			Name: name, ID: "field-" + report.Number(i), Hint: prop.Description,
			Required: slices.Contains(schema.Required, name),
		}
		if len(prop.Default) > 0 {
			f.Default = report.Readable(prop.Default)
		}
		f.Options = xslices.Map(prop.Enum, report.Readable)
		f.Kind = prop.kind(name)
		f.Value = f.Default
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b formField) int { return order(b.Required) - order(a.Required) })
	return out
}

func order(first bool) int {
	if first {
		return 1
	}
	return 0
}

// kind chooses the control for a property. A text is a single line if it is short by its schema, has no description or
// has a name such as customer_id; other texts get an area.
func (p property) kind(name string) string {
	kind, _ := p.Type.(string)
	switch {
	case len(p.Enum) > 0 && len(p.Enum) <= maxChoices:
		return "choice"
	case len(p.Enum) > 0:
		return "select"
	case kind == "boolean":
		return "switch"
	case kind == "integer" || kind == "number":
		return "number"
	case kind == "object" || kind == "array":
		return "json"
	case kind != "string" && p.Type != nil:
		return "json"
	case p.MaxLength != nil && *p.MaxLength <= 120, p.Description == "", strings.HasSuffix(name, "_id"),
		strings.HasSuffix(name, "name"):
		return "text"
	}
	return "area"
}

// propertyOrder returns the names of the properties of a schema in their order. A map of Go would lose it, so the names
// are read token by token.
func propertyOrder(schema json.RawMessage) []string {
	var object map[string]json.RawMessage
	if json.Unmarshal(schema, &object) != nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(object["properties"]))
	if _, err := decoder.Token(); err != nil {
		return nil
	}
	var names []string
	for decoder.More() {
		token, err := decoder.Token()
		name, ok := token.(string)
		var value json.RawMessage
		if err != nil || !ok || decoder.Decode(&value) != nil {
			return names
		}
		names = append(names, name)
	}
	return names
}

// fill puts the members of an earlier input into a form.
func fill(fields []formField, input json.RawMessage) {
	var object map[string]json.RawMessage
	if json.Unmarshal(input, &object) != nil {
		return
	}
	for i := range fields {
		value, ok := object[fields[i].Name]
		switch {
		case ok && redact.Marked(string(value)): // a run would get the replacement as its input
			fields[i].Hint = strings.TrimSpace(fields[i].Hint + " The value is redacted. Enter it again.")
		case ok:
			fields[i].Value = report.Readable(value)
		}
	}
}

// maxForm is how much of a form with files is kept in memory.
const maxForm = 16 << 20

// submitted reads the form of a workflow. The fields keep what was entered, so that the form can be shown again. The
// names of fields have prefixes, "i." for values and "f." for files, so that an input cannot collide with other fields
// of the form. A file wins over a value.
func submitted(r *request, fields []formField) ([]app.Field, error) {
	if err := r.ParseMultipartForm(maxForm); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return nil, invalid("the form cannot be read", "")
	}
	var out []app.Field
	for i := range fields {
		f := &fields[i]
		f.Value = normalized(r.PostFormValue("i." + f.Name))
		if text, err := uploaded(r.MultipartForm, "f."+f.Name); err != nil {
			return nil, err
		} else if text != "" {
			f.Value = text
			out = append(out, app.Field{Name: f.Name, Text: text, Literal: true})
			continue
		}
		// Browsers do not send a check box that is off.
		if f.Kind == "switch" && f.Value == "" {
			f.Value = "false"
		}
		// An empty optional field is not sent, so that the default of the schema applies. Of required fields, only
		// texts are reported here: Prepare reports the others with the schema's own message.
		if f.Value == "" && (!f.Required || f.Kind != "area" && f.Kind != "text") {
			continue
		}
		if f.Value == "" {
			f.Error = f.Name + " is missing."
			continue
		}
		out = append(out, app.Field{Name: f.Name, Text: f.Value})
	}
	return out, nil
}

// uploaded returns the content of a file in a form.
func uploaded(form *multipart.Form, name string) (string, error) {
	if form == nil || len(form.File[name]) == 0 || form.File[name][0].Size == 0 {
		return "", nil
	}
	f, err := form.File[name][0].Open()
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(f)
	return string(raw), err
}

// mark puts the mistakes of an input beside the fields that they are about, and returns the others. Mistakes are
// sentences: a field is recognized by its name at the start or in quotes.
func mark(fields []formField, err error) []string {
	var known *app.Error
	if !errors.As(err, &known) {
		return nil
	}
	details := known.Names
	if len(details) == 0 {
		details = []string{known.Message}
	}
	var rest []string
	for _, line := range details {
		found := false
		for i := range fields {
			if f := &fields[i]; strings.HasPrefix(line, f.Name+":") || strings.HasPrefix(line, f.Name+" ") ||
				strings.Contains(line, `"`+f.Name+`"`) {
				f.Error, found = sentence(strings.TrimPrefix(strings.TrimPrefix(line, f.Name+":"), " ")), true
				break
			}
		}
		if !found {
			rest = append(rest, sentence(line))
		}
	}
	return rest
}
