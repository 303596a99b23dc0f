package httptransport

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// endlessServer answers every request with a body that never ends.
type endlessServer struct{ kind, begin, piece string }

func (s endlessServer) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {s.kind}}, Request: req,
		Body: io.NopCloser(io.MultiReader(strings.NewReader(s.begin), repeated(s.piece))),
	}, nil
}

// repeated is a reader that repeats a text forever.
type repeated string

func (r repeated) Read(p []byte) (int, error) { return copy(p, r), nil }

func TestEndlessBodiesFail(t *testing.T) {
	piece := strings.Repeat("data: {}\n\n", 10_000)
	for name, server := range map[string]endlessServer{
		"stream":           {"text/event-stream", "", piece},
		"whole reply":      {"application/json", `{"a":"`, strings.Repeat("x", 100_000)},
		"stream as a text": {"text/plain", "", piece},
	} {
		t.Run(name, func(t *testing.T) {
			client := Options{Base: server}.Client(Auth{}, func(body []byte) ([]byte, error) { return body, nil })
			resp, err := client.Post("http://models.example/v1", "application/json", strings.NewReader("{}"))
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			if err == nil || !strings.Contains(err.Error(), "longer than 64 MiB") {
				t.Error(err)
			}
		})
	}
}
