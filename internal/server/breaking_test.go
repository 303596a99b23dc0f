package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// previousAPI is the description of the API before its last change. Only -update changes openapi.json, and it keeps the
// document before here, so that what a change adds is protected from the next one on.
const previousAPI = "testdata/openapi-previous.json"

// updateAPI replaces the description of the API and keeps the one before. It refuses one that breaks programs, unless
// breaking is set; the one before remains the measure then, and has to be changed by hand.
func updateAPI(path, previous string, document []byte, breaking bool) error {
	before, err := os.ReadFile(path)
	if err != nil || bytes.Equal(before, document) {
		return err
	}
	var was, is map[string]any
	if err := errors.Join(json.Unmarshal(before, &was), json.Unmarshal(document, &is)); err != nil {
		return err
	}
	found := breakingChanges(was, is)
	switch {
	case len(found) > 0 && !breaking:
		return fmt.Errorf("the change breaks programs; -breaking writes it nevertheless:\n%s",
			strings.Join(found, "\n"))
	case len(found) == 0:
		if err := os.WriteFile(previous, before, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(path, document, 0o644)
}

// Each update is measured against the document before it, which an update without a change keeps.
func TestUpdatedDescriptionIsMeasuredAgainstTheOneBefore(t *testing.T) {
	dir := t.TempDir()
	path, previous := filepath.Join(dir, "api.json"), filepath.Join(dir, "previous.json")
	document := func(routes ...string) []byte {
		paths := map[string]any{}
		for _, r := range routes {
			paths[r] = map[string]any{"get": map[string]any{}}
		}
		raw, err := json.Marshal(map[string]any{"paths": paths})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	one, two, three := document("/a"), document("/a", "/b"), document("/a", "/b", "/c")
	if err := os.WriteFile(path, one, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		document        []byte
		breaking, fails bool
		now, before     []byte
	}{
		{document: two, now: two, before: one},
		{document: two, now: two, before: one},
		{document: three, now: three, before: two},
		{document: two, fails: true, now: three, before: two}, // /c is younger than the document before
		{document: two, breaking: true, now: two, before: two},
	} {
		if err := updateAPI(path, previous, step.document, step.breaking); (err != nil) != step.fails {
			t.Errorf("%d: %v", i, err)
		}
		now, _ := os.ReadFile(path)
		before, _ := os.ReadFile(previous)
		if !bytes.Equal(now, step.now) || !bytes.Equal(before, step.before) {
			t.Errorf("%d: %s, before %s", i, now, before)
		}
	}
}

// Programs that were written for the API before its last change keep working: no
// route, parameter, field of a response or accepted value is gone, and no request
// needs more than before.
func TestAPIStaysCompatible(t *testing.T) {
	for _, change := range breakingChanges(readAPI(t, previousAPI), readAPI(t, "openapi.json")) {
		t.Error(change)
	}
}

func readAPI(t *testing.T, name string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// breakingChanges compares two descriptions of an API.
func breakingChanges(before, after map[string]any) []string {
	c := &comparison{before: before, after: after, seen: map[string]bool{}}
	for path, was := range object(before, "paths") {
		for method, was := range was.(map[string]any) {
			at := strings.ToUpper(method) + " " + path
			is, ok := object(object(after, "paths"), path)[method].(map[string]any)
			if !ok {
				c.report(at, "the route is gone")
				continue
			}
			c.operation(at, was.(map[string]any), is)
		}
	}
	slices.Sort(c.found)
	return c.found
}

type comparison struct {
	before, after map[string]any
	seen          map[string]bool
	found         []string
}

func (c *comparison) report(at, format string, args ...any) {
	c.found = append(c.found, at+": "+fmt.Sprintf(format, args...))
}

func object(in map[string]any, key string) map[string]any {
	out, _ := in[key].(map[string]any)
	return out
}

func texts(in map[string]any, key string) []string {
	var out []string
	list, _ := in[key].([]any)
	for _, one := range list {
		out = append(out, fmt.Sprint(one))
	}
	return out
}

func (c *comparison) operation(at string, was, is map[string]any) {
	parameters := func(op map[string]any) map[string]map[string]any {
		out := map[string]map[string]any{}
		list, _ := op["parameters"].([]any)
		for _, one := range list {
			p := one.(map[string]any)
			out[fmt.Sprint(p["in"], " ", p["name"])] = p
		}
		return out
	}
	old, now := parameters(was), parameters(is)
	for name, p := range old {
		if now[name] == nil {
			c.report(at, "the parameter %s is gone", name)
			continue
		}
		c.schema(at+" "+name, object(p, "schema"), object(now[name], "schema"), false)
	}
	for name, p := range now {
		if p["required"] == true && (old[name] == nil || old[name]["required"] != true) {
			c.report(at, "the parameter %s is required now", name)
		}
	}
	if body := object(is, "requestBody"); body["required"] == true && object(was, "requestBody")["required"] != true {
		c.report(at, "a body is required now")
	}
	c.content(at+" request", object(was, "requestBody"), object(is, "requestBody"), false)
	for status, response := range object(was, "responses") {
		to := object(object(is, "responses"), status)
		if to == nil {
			c.report(at, "the response %s is gone", status)
			continue
		}
		c.content(at+" "+status, response.(map[string]any), to, true)
	}
}

func (c *comparison) content(at string, was, is map[string]any, response bool) {
	for media, body := range object(was, "content") {
		to := object(object(is, "content"), media)
		if to == nil {
			c.report(at, "%s is gone", media)
			continue
		}
		c.schema(at, object(body.(map[string]any), "schema"), object(to, "schema"), response)
	}
}

// resolve follows a reference.
func resolve(document, schema map[string]any) map[string]any {
	ref, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	return object(object(object(document, "components"), "schemas"), ref[strings.LastIndexByte(ref, '/')+1:])
}

// schema compares what is sent, or what is returned in a response.
func (c *comparison) schema(at string, was, is map[string]any, response bool) {
	key := fmt.Sprint(was["$ref"], is["$ref"], response)
	if was["$ref"] != nil && c.seen[key] {
		return
	}
	c.seen[key] = true
	was, is = resolve(c.before, was), resolve(c.after, is)
	if a, b := fmt.Sprint(was["type"]), fmt.Sprint(is["type"]); a != b && was["type"] != nil {
		c.report(at, "the type %s is %s now", a, b)
		return
	}
	values, allowed := texts(was, "enum"), texts(is, "enum")
	for _, value := range values {
		if len(allowed) > 0 && !slices.Contains(allowed, value) {
			c.report(at, "the value %s is gone", value)
		}
	}
	if !response && len(values) == 0 && len(allowed) > 0 {
		c.report(at, "only some values are accepted now")
	}
	required, needed := texts(was, "required"), texts(is, "required")
	for name, p := range object(was, "properties") {
		to := object(object(is, "properties"), name)
		if to == nil {
			c.report(at, "the field %s is gone", name)
			continue
		}
		if response && slices.Contains(required, name) && !slices.Contains(needed, name) {
			c.report(at, "the field %s may be absent now", name)
		}
		c.schema(at+" "+name, p.(map[string]any), to, response)
	}
	for _, name := range needed {
		if !response && !slices.Contains(required, name) {
			c.report(at, "the field %s is required now", name)
		}
	}
	if items := object(was, "items"); items != nil {
		c.schema(at+"[]", items, object(is, "items"), response)
	}
}

// Each way to break a program is found.
func TestBreakingChangesAreFound(t *testing.T) {
	const base = `{"paths": {"/a": {"get": {
		"parameters": [{"name": "q", "in": "query", "schema": {"type": "string", "enum": ["x", "y"]}}],
		"responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}}},
		"post": {"requestBody": {"content": {"application/json": {"schema": {"type": "object",
			"properties": {"in": {"type": "string"}}}}}}, "responses": {}}}},
		"components": {"schemas": {"A": {"type": "object", "required": ["id"],
			"properties": {"id": {"type": "string"}, "list": {"type": "array", "items": {"type": "integer"}}}}}}}`
	parse := func(text string) (out map[string]any) {
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if found := breakingChanges(parse(base), parse(base)); len(found) > 0 {
		t.Errorf("%q", found)
	}
	for _, change := range []struct{ from, to, want string }{
		{`"/a"`, `"/b"`, "the route is gone"},
		{`"name": "q"`, `"name": "r"`, "the parameter query q is gone"},
		{`"in": "query"`, `"in": "query", "required": true`, "is required now"},
		{`["x", "y"]`, `["x"]`, "the value y is gone"},
		{`"200"`, `"201"`, "the response 200 is gone"},
		{`"list"`, `"lists"`, "the field list is gone"},
		{`"items": {"type": "integer"}`, `"items": {"type": "string"}`, "the type integer is string now"},
		{`"required": ["id"],`, ``, "the field id may be absent now"},
		{`"schema": {"type": "object",`, `"schema": {"type": "object", "required": ["in"],`, "the field in is required now"},
		{`{"in": {"type": "string"}}`, `{"in": {"type": "string", "enum": ["a"]}}`, "only some values are accepted now"},
	} {
		found := breakingChanges(parse(base), parse(strings.Replace(base, change.from, change.to, 1)))
		if !strings.Contains(strings.Join(found, "\n"), change.want) {
			t.Errorf("%s: %q", change.to, found)
		}
	}
	added := strings.Replace(base, `"properties": {"id"`, `"properties": {"new": {"type": "string"}, "id"`, 1)
	if found := breakingChanges(parse(base), parse(added)); len(found) > 0 {
		t.Errorf("a new field: %q", found)
	}
}
