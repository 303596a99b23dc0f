package openai_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/openai"
	"github.com/espalier-run/espalier/internal/provider/providertest"
	"github.com/espalier-run/espalier/internal/provider/wire"
)

func TestChat(t *testing.T) {
	providertest.RunNetwork(t, providertest.Chat, func(o wire.Options) providertest.NetworkModel { return openai.NewChat(o) })
}

func TestResponses(t *testing.T) {
	providertest.RunNetwork(t, providertest.Responses, func(o wire.Options) providertest.NetworkModel { return openai.NewResponses(o) })
}

// Servers that merely speak like OpenAI's number calls and name them as they
// please.
func TestCallsOfOtherServers(t *testing.T) {
	for name, c := range map[string]struct{ calls, want string }{
		"all have the index 0": {
			`{"index":0,"id":"a","function":{"name":"one","arguments":""}} {"index":0,"function":{"arguments":"{\"x\":"}} {"index":0,"function":{"arguments":"1}"}} ` +
				`{"index":0,"id":"b","function":{"name":"two","arguments":""}} {"index":0,"function":{"arguments":"{\"x\":"}} {"index":0,"function":{"arguments":"2}"}}`,
			`a one {"x":1}, b two {"x":2}`,
		},
		"in turns": {
			`{"index":0,"id":"a","function":{"name":"one","arguments":"{"}} {"index":1,"id":"b","function":{"name":"two","arguments":"{"}} ` +
				`{"index":0,"function":{"arguments":"}"}} {"index":1,"function":{"arguments":"}"}}`,
			`a one {}, b two {}`,
		},
		"without ids": {
			`{"index":0,"function":{"name":"one","arguments":"{}"}} {"index":1,"function":{"name":"two","arguments":"{}"}}`,
			`call-3-0 one {}, call-3-1 two {}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for call := range strings.FieldsSeq(c.calls) {
					fmt.Fprintf(w, `data: {"model":"m","choices":[{"index":0,"delta":{"tool_calls":[%s]}}]}`+"\n\n", call)
				}
				io.WriteString(w, `data: {"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+"\n\n")
			}))
			defer server.Close()
			req := providertest.AskText()
			req.For.Turn = 3
			reply, err := providertest.Collect(t, openai.NewChat(wire.Options{BaseURL: server.URL}).Generate(t.Context(), req))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range reply.Blocks {
				got = append(got, fmt.Sprintf("%s %s %s", b.ToolID, b.ToolName, b.Input))
			}
			if text := strings.Join(got, ", "); text != c.want || reply.Stop != provider.WantsTool {
				t.Errorf("got %s, stopped by %s; want %s", text, reply.Stop, c.want)
			}
		})
	}
}
