package mcp

import (
	"net/http"
	"testing"
)

type answering func(*http.Request)

func (f answering) RoundTrip(req *http.Request) (*http.Response, error) {
	f(req)
	return &http.Response{Body: http.NoBody}, nil
}

// Headers are sent only to the server's own host, and never over plain HTTP if its URL has https.
func TestHeadersAreSentOnlyToTheServer(t *testing.T) {
	for _, c := range []struct {
		server, asked string
		want          bool
	}{
		{"https://mcp.example/x", "https://mcp.example/y", true},
		{"https://mcp.example/x", "https://other.example/x", false},
		{"https://mcp.example/x", "http://mcp.example/x", false},
		{"http://localhost:8080/x", "http://localhost:8080/x", true},
		{"http://localhost:8080/x", "http://localhost:8081/x", false},
		{"http://mcp.example/x", "https://mcp.example/x", true},
	} {
		server, err := http.NewRequest(http.MethodGet, c.server, nil)
		if err != nil {
			t.Fatal(err)
		}
		asked, err := http.NewRequest(http.MethodGet, c.asked, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		through := &withHeaders{server: server.URL, headers: http.Header{"X-Key": {"secret"}}, next: answering(
			func(req *http.Request) { got = req.Header.Get("X-Key") })}
		resp, err := through.RoundTrip(asked)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if (got != "") != c.want || asked.Header.Get("X-Key") != "" {
			t.Errorf("%s, asked %s: %q", c.server, c.asked, got)
		}
	}
}
