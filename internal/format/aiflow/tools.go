package aiflow

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// calculator is the one built-in tool that the format has.
const calculator = "calculator"

// tool is what a declared tool does; false when it cannot be done. What no
// agent lists is only a warning.
func (l *lowering) tool(t *tool) (ir.ToolDef, bool) {
	o := object{node: t.node, what: fmt.Sprintf("tool %q", t.id.Value), out: l.out}
	arguments := o.inner("schema", o.what)
	def := ir.ToolDef{Name: t.id.Value, Description: o.text("description").Value, Schema: inputSchema(arguments.node), Span: t.span}
	o.text("id")
	o.text("name")
	severity := diag.Error
	if !l.listed(t) {
		severity = diag.Warning
	}
	kind := o.text("type")
	defer o.done("category", "icon", "enabled", "parameters", "version")
	switch strings.ToLower(kind.Value) {
	case "http", "":
		return def, l.request(&o, &def, severity)
	case "builtin":
		op := o.text("operation")
		if name := o.text("function"); op.Value == "" {
			op = name
		}
		if !slices.Contains([]string{"", calculator, "add", "subtract", "multiply", "divide"}, strings.ToLower(op.Value)) {
			l.say(CodeToolInvalid, severity, op.Span, "The built-in tool is the calculator: write calculator, add, subtract, multiply or divide.", "There is no built-in tool %q.", op.Value)
			return def, false
		}
		def.Builtin = calculator
		if op.Value != "" && !strings.EqualFold(op.Value, calculator) {
			def.Builtin += "." + strings.ToLower(op.Value)
		}
		return def, true
	}
	at := kind.Span
	l.say(CodeToolInvalid, severity, at, "Write http or builtin, or bind the tool in espalier.yaml and leave it out here.", "There are no tools of the type %q.", kind.Value)
	return def, false
}

// request reads a tool that is an address of the web.
func (l *lowering) request(o *object, def *ir.ToolDef, severity diag.Severity) bool {
	endpoint := o.text("endpoint")
	if other := o.text("url"); endpoint.Value == "" {
		endpoint = other
	}
	def.URL = endpoint.Value
	method := o.text("method")
	if def.Method = strings.ToUpper(method.Value); def.Method == "" {
		def.Method = "GET"
	}
	if methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}; !slices.Contains(methods, def.Method) {
		l.say(CodeBadValue, severity, method.Span, fmt.Sprintf("Write one of %s.", strings.Join(methods, ", ")), "\"method\" of the %s cannot be %q.", o.what, method.Value)
	}
	headers := o.inner("headers", "headers of the "+o.what)
	for _, p := range headers.node.Pairs {
		value := headers.text(p.Key.Value)
		def.Headers = append(def.Headers, ir.HeaderDef{Name: p.Key.Value, Value: value.Value})
		if asksForSecret(value.Value) {
			l.noSecrets(def, value.Span)
		}
	}
	l.auth(o, def)
	if u, err := url.Parse(def.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		at := def.Span
		if endpoint.Value != "" {
			at = endpoint.Span
		}
		l.say(CodeToolInvalid, severity, at, "Write \"endpoint\": \"https://…\".", "The tool %q has no address that can be called.", def.Name)
		return false
	}
	return true
}

// auth makes headers of the ways to say who asks.
func (l *lowering) auth(o *object, def *ir.ToolDef) {
	n := o.get("auth")
	if n == nil {
		return
	}
	if n.Kind < text.List {
		n = &text.Node{Kind: text.Map, Span: n.Span, Pairs: []text.Pair{{Key: n, Value: n}}}
		n.Pairs[0].Key = &text.Node{Kind: text.String, Value: "type", Span: n.Span}
	}
	if n.Kind != text.Map {
		o.wrong("auth", n, "an object")
		return
	}
	a := object{node: n, what: "auth of the tool", out: l.out}
	kind := a.text("type")
	key, header, token := a.text("key"), a.text("header_key"), a.text("token")
	a.done("scopes", "client_id")
	value := token
	switch strings.ToLower(kind.Value) {
	case "", "none":
		return
	case "api_key":
		name := header.Value
		if name == "" {
			name = "X-API-Key"
		}
		value = key
		def.Headers = append(def.Headers, ir.HeaderDef{Name: name, Value: key.Value})
	case "bearer", "oauth2":
		def.Headers = append(def.Headers, ir.HeaderDef{Name: "Authorization", Value: "Bearer " + token.Value})
	default:
		l.say(CodeBadValue, diag.Error, kind.Span, "Write none, api_key, bearer or oauth2.", "\"auth\" cannot be %q.", kind.Value)
		return
	}
	if value.Value == "" || asksForSecret(value.Value) {
		l.noSecrets(def, head(n))
		return
	}
	l.say(CodeSecretInFile, diag.Warning, value.Span, fmt.Sprintf("Bind %s in espalier.yaml, where the key can be secret://NAME, and leave it out here.", def.Name), "The key of the tool %q stands in the file, where everybody can read it.", def.Name)
}

// asksForSecret tells whether a text wants something of the project or of the
// environment put in.
func asksForSecret(value string) bool {
	return strings.Contains(value, "secret://") || strings.Contains(value, "${")
}

// noSecrets refuses that: a file decides where its requests go, so it must not
// decide which secrets go along.
func (l *lowering) noSecrets(def *ir.ToolDef, at source.Span) {
	l.say(CodeToolInvalid, diag.Error, at, fmt.Sprintf("Bind %s in espalier.yaml, with its url and the header that has the key, and leave it out here.", def.Name), "The tool %q needs a key, which a file cannot ask for.", def.Name)
}

// inputSchema is the schema of a tool's arguments. Some files only list the
// types of the arguments by name.
func inputSchema(n *text.Node) json.RawMessage {
	if len(n.Pairs) == 0 {
		return nil
	}
	if n.Get("type") != nil || n.Get("properties") != nil || n.Get("$ref") != nil {
		return n.JSON()
	}
	properties := map[string]any{}
	for _, p := range n.Pairs {
		switch {
		case p.Value.Kind == text.Map:
			properties[p.Key.Value] = p.Value.JSON()
		case slices.Contains([]string{"string", "number", "integer", "boolean", "object", "array"}, p.Value.Value):
			properties[p.Key.Value] = map[string]string{"type": p.Value.Value}
		default:
			properties[p.Key.Value] = map[string]any{}
		}
	}
	return mustJSON(map[string]any{"type": "object", "properties": properties})
}
