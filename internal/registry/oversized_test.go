package registry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/provider/providertest"
)

// Replies of every configured server are limited, not only those of a model that a test wraps.
func TestRepliesOfServersAreLimited(t *testing.T) {
	const event = `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%s}]}` +
		"\n\n"
	for name, c := range map[string]struct {
		delta func(i int) string
		n     int
		want  string
	}{
		"text": {func(int) string { return `{"content":"` + strings.Repeat("x", 1<<20) + `"}` }, 9, "larger than 8 MiB"},
		"tool calls": {func(i int) string {
			return fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"c%d","type":"function","function":{"name":"Read","arguments":"{}"}}]}`,
				i, i)
		}, 501, "more than 500 tool calls"},
		"a usual reply": {func(int) string { return `{"content":"x"}` }, 9, ""},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests++
				w.Header().Set("Content-Type", "text/event-stream")
				for i := range c.n {
					fmt.Fprintf(w, event, c.delta(i))
				}
				fmt.Fprintf(w, strings.Replace(event, `"delta"`, `"finish_reason":"stop","delta"`, 1)+"data: [DONE]\n\n", "{}")
			}))
			defer server.Close()
			m := models(t, "models: {providers: {own: {api: openai, base_url: '"+server.URL+"'}}}", nil)
			s, _ := m.server("own")
			opened, err := m.provider(s)
			if err != nil {
				t.Fatal(err)
			}
			_, err = providertest.Collect(t, opened.Generate(t.Context(), providertest.AskText()))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if requests != 1 {
				t.Errorf("%d requests", requests)
			}
		})
	}
}
