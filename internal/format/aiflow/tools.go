package aiflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// calculator is the format's only built-in tool.
const calculator = "calculator"

// tool compiles a declared tool. It returns false if the tool is invalid, which is only a
// warning for a tool that no agent lists.
func (l *lowering) tool(t *tool) (ir.ToolDef, bool) {
	o := object{node: t.node, shape: toolShape, what: fmt.Sprintf("tool %q", t.id.Value), out: l.out}
	arguments := o.inner("schema", o.what)
	def := ir.ToolDef{
		Name: t.id.Value, Description: o.text("description").Value, Schema: inputSchema(arguments.node),
		Span: t.span,
	}
	o.text("id")
	o.text("name")
	severity := diag.Error
	if !l.listed(t) {
		severity = diag.Warning
	}
	kind := o.text("type")
	defer o.done()
	switch strings.ToLower(kind.Value) {
	case "http", "":
		return def, l.request(&o, &def, severity)
	case "mcp":
		return def, l.served(&o, &def, severity)
	case "project": // configured in espalier.yaml; a run does not start without it
		return def, false
	case "builtin":
		op := o.text("operation")
		if name := o.text("function"); op.Value == "" {
			op = name
		}
		if !slices.Contains([]string{"", calculator, "add", "subtract", "multiply", "divide"},
			strings.ToLower(op.Value)) {
			l.out.Reportf(CodeToolInvalid, severity, op.Span, "Use calculator, add, subtract, multiply or divide.",
				"%q is not a built-in tool.", op.Value)
			return def, false
		}
		def.Builtin = calculator
		if op.Value != "" && !strings.EqualFold(op.Value, calculator) {
			def.Builtin += "." + strings.ToLower(op.Value)
		}
		return def, true
	}
	l.out.Reportf(CodeToolInvalid, severity, kind.Span,
		"Use http, builtin or mcp. For a tool that espalier.yaml configures, use project.", "%q is not a tool type.",
		kind.Value)
	return def, false
}

// served compiles a tool of an MCP server that espalier.yaml configures. This is an extension of the
// format.
func (l *lowering) served(o *object, def *ir.ToolDef, severity diag.Severity) bool {
	server, name := o.text("server"), o.text("tool")
	name.Value = cmp.Or(name.Value, def.Name)
	if server.Value == "" {
		l.out.Reportf(CodeToolInvalid, severity, def.Span,
			"Add \"server\" with the name of a server under \"mcp\" in espalier.yaml.", "Tool %q has no MCP server.",
			def.Name)
		return false
	}
	def.Use = server.Value + "." + name.Value
	return true
}

// request compiles a tool that is an HTTP request.
func (l *lowering) request(o *object, def *ir.ToolDef, severity diag.Severity) bool {
	endpoint := o.text("endpoint")
	if other := o.text("url"); endpoint.Value == "" {
		endpoint = other
	}
	base := o.text("base_url")
	def.URL = absolute(base.Value, endpoint.Value)
	method := o.text("method")
	if def.Method = strings.ToUpper(method.Value); def.Method == "" {
		def.Method = "GET"
	}
	if methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}; !slices.Contains(methods, def.Method) {
		l.out.Reportf(CodeBadValue, severity, method.Span, fmt.Sprintf("Use one of %s.", strings.Join(methods, ", ")),
			"\"method\" of the %s is not valid: %q.", o.what, method.Value)
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
		} else if base.Value != "" {
			at = base.Span
		}
		// Exports of the editor contain such tools. A run does not start without the tool.
		l.out.Warnf(CodeToolInvalid, at,
			fmt.Sprintf("Use an absolute address such as \"https://…\", or configure %s in espalier.yaml.", def.Name),
			"Tool %q has no absolute address, so it cannot be called.", def.Name)
		return false
	}
	return true
}

// absolute returns the address of an endpoint, which may be relative to a base.
func absolute(base, endpoint string) string {
	if u, err := url.Parse(endpoint); base == "" || err == nil && u.IsAbs() {
		return endpoint
	}
	if endpoint == "" {
		return base
	}
	return strings.TrimSuffix(base, "/") + "/" + strings.TrimPrefix(endpoint, "/")
}

// auth converts authentication settings to headers.
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
	a := object{node: n, shape: authShape, what: "auth of the tool", out: l.out}
	kind := a.text("type")
	key, header, token := a.text("key"), a.text("header_key"), a.text("token")
	a.done()
	value := token
	switch strings.ToLower(kind.Value) {
	case "", "none":
		return
	case "api_key":
		name := cmp.Or(header.Value, "X-API-Key")
		value = key
		def.Headers = append(def.Headers, ir.HeaderDef{Name: name, Value: key.Value})
	case "bearer", "oauth2":
		def.Headers = append(def.Headers, ir.HeaderDef{Name: "Authorization", Value: "Bearer " + token.Value})
	default:
		l.out.Errorf(CodeBadValue, kind.Span, "Use none, api_key, bearer or oauth2.", "\"auth\" is not valid: %q.",
			kind.Value)
		return
	}
	if value.Value == "" || asksForSecret(value.Value) {
		l.noSecrets(def, head(n))
		return
	}
	l.out.Warnf(CodeSecretInFile, value.Span,
		fmt.Sprintf("Configure %s in espalier.yaml with secret://NAME as the key, and remove it here.", def.Name),
		"The key of tool %q is stored in plain text.", def.Name)
}

// asksForSecret reports whether a value refers to a secret or an environment variable.
func asksForSecret(value string) bool {
	return strings.Contains(value, "secret://") || strings.Contains(value, "${")
}

// noSecrets rejects references to secrets: a file determines where its requests go, so it must
// not determine which secrets they contain.
func (l *lowering) noSecrets(def *ir.ToolDef, at source.Span) {
	l.out.Errorf(CodeToolInvalid, at,
		fmt.Sprintf("Configure %s in espalier.yaml, with its url and the header for the key, and remove it here.",
			def.Name), "Tool %q requires a key, which a workflow file cannot request.", def.Name)
}

// inputSchema returns the schema of a tool's arguments. Some files only list the types of the
// arguments by name.
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
	return format.JSON(map[string]any{"type": "object", "properties": properties})
}
