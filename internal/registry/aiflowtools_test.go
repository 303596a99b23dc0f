package registry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// AIFLOW files can declare requests with every kind of credentials, and the calculator under any name. Private
// addresses need the permission of the project.
func TestToolsOfAnAIFLOWFile(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]string{
			"request": r.Method + " " + r.URL.RequestURI(),
			"key":     r.Header.Get("X-Token") + r.Header.Get("Authorization"),
		})
	}))
	defer web.Close()
	file := fmt.Sprintf(`{"metadata":{"name":"f","version":"1.0.0"},"flow":{"start":"a"},
"agents":{"a":{"name":"A","role":"R","provider":"openai","model":"m","prompt":"Do it now.","tools":["open","keyed","bearer","sum","calc"]}},
"tools":{
  "open":{"type":"http","endpoint":"%[1]s/find","schema":{"q":"string"}},
  "keyed":{"type":"http","endpoint":"%[1]s/k","method":"POST","auth":{"type":"api_key","key":"k1","header_key":"X-Token"}},
  "bearer":{"type":"http","url":"%[1]s/b","auth":{"type":"oauth2","token":"t1"}},
  "sum":{"type":"builtin","operation":"add"},
  "calc":{"type":"builtin"}
},"memory":{"enabled":false}}`, web.URL)
	result := catalog.Formats().Compile(source.NewFile("flow.aiflow", file), nil)
	if result.Diagnostics.Errors() {
		t.Fatal(result.Diagnostics)
	}
	host, err := url.Parse(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	box := toolbox{Tools: projectTools(t, "allow: {hosts: [\""+host.Host+"\"]}\n", ""), program: result.Program}
	for name, c := range map[string]struct{ input, want string }{
		"open":   {`{"q":"a b"}`, `{"key":"","request":"GET /find?q=a+b"}`},
		"keyed":  {`{"n":1}`, `{"key":"k1","request":"POST /k"}`},
		"bearer": {`{}`, `{"key":"Bearer t1","request":"GET /b"}`},
		"sum":    {`{"a":1,"b":2}`, `3`},
		"calc":   {`{"expression":"2*(3+4)"}`, `14`},
	} {
		if got, class := use(t, box, name, c.input); strings.TrimSpace(got) != c.want || class != "" {
			t.Errorf("%s: %s %s", name, got, class)
		}
	}
	box.Tools = projectTools(t, "", "")
	if _, class := use(t, box, "open", `{}`); class != ir.ClassDenied {
		t.Errorf("a private address is reached: %q", class)
	}
}
