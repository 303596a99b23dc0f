package server

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/npmtest"
)

var (
	update   = flag.Bool("update", false, "write openapi.json, and keep the document before as "+previousAPI)
	breaking = flag.Bool("breaking", false, "with -update, write a document that breaks programs")
)

// The description of the API is committed, so that a change of the API shows in
// review.
func TestOpenAPIDescribesEveryRoute(t *testing.T) {
	auth, err := identity.NewAuthenticator(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{App: app.New(app.Options{Dir: t.TempDir()}), Auth: auth, Version: "1"})
	raw, err := s.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	if *update {
		if err := updateAPI("openapi.json", previousAPI, pretty.Bytes(), *breaking); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, pretty.Bytes()) {
		t.Error("openapi.json is not what the server says; run the test with -update and read the difference")
	}
	var document struct {
		OpenAPI string                                `json:"openapi"`
		Paths   map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	if document.OpenAPI != "3.1.0" {
		t.Errorf("OpenAPI %s", document.OpenAPI)
	}
	for _, route := range s.Routes() {
		if _, ok := document.Paths[route.Path][strings.ToLower(route.Method)]; !ok {
			t.Errorf("%s %s is not described", route.Method, route.Path)
		}
	}
}

// contract holds responses against the description of the API, with a validator
// that is not ours.
type contract struct {
	document map[string]any
	schemas  *jsonschema.Compiler
	checked  int
}

func newContract(t *testing.T, s *Server) *contract {
	t.Helper()
	raw, err := s.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	schemas := jsonschema.NewCompiler()
	schemas.AssertFormat()
	if err := schemas.AddResource("openapi.json", document); err != nil {
		t.Fatal(err)
	}
	return &contract{document: document.(map[string]any), schemas: schemas}
}

// check validates the body of a response. Bodies of other types than JSON are
// not looked at.
func (c *contract) check(t *testing.T, method, path string, status int, mediaType string, raw []byte) {
	t.Helper()
	if !strings.Contains(mediaType, "json") || strings.Contains(mediaType, "ndjson") {
		return
	}
	template := c.template(path)
	if template == "" {
		t.Errorf("%s is not described", path)
		return
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	pointer := fmt.Sprintf("openapi.json#/paths/%s/%s/responses/%d/content/%s/schema",
		escape.Replace(template), strings.ToLower(method), status, escape.Replace(mediaType))
	schema, err := c.schemas.Compile(pointer)
	if err != nil {
		t.Errorf("%s %s: no schema for %d %s: %v", method, path, status, mediaType, err)
		return
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s %s: %v\n%s", method, path, err, raw)
	}
	c.checked++
}

// template returns the path of the description that an address belongs to.
func (c *contract) template(path string) string {
	path, _, _ = strings.Cut(path, "?")
	got := strings.Split(path, "/")
	best := ""
	for candidate := range c.document["paths"].(map[string]any) {
		parts := strings.Split(candidate, "/")
		fits := len(parts) == len(got)
		for i := 0; fits && i < len(parts); i++ {
			fits = parts[i] == got[i] || strings.HasPrefix(parts[i], "{")
		}
		if fits && (best == "" || strings.Count(candidate, "{") < strings.Count(best, "{")) {
			best = candidate
		}
	}
	return best
}

// The description passes the rules that a linter of others has for descriptions.
func TestOpenAPIPassesALinter(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	// The summary of an operation says what a description would repeat.
	content := "extends: [\"spectral:oas\"]\nrules: {operation-description: off}\n"
	if err := os.WriteFile(rules, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	spectral := npmtest.Program(t, "@stoplight/spectral-cli@6.15.0", "spectral")
	out, err := exec.Command(spectral, "lint", "--fail-severity", "warn", "-r", rules, "openapi.json").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
