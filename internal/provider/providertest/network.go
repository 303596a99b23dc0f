package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/httptransport"
)

// NetworkModel is a model that is reached over the network.
type NetworkModel interface {
	provider.Model
	Reach(context.Context) error
}

// ambient are the environment variables from which the SDKs read keys and
// addresses.
var ambient = []string{
	"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "OPENAI_API_KEY",
	"OPENAI_BASE_URL", "OPENAI_ORG_ID",
	"OPENAI_PROJECT_ID", "GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI",
	"GOOGLE_CLOUD_PROJECT",
}

// network is a model under test with a server for its protocol.
type network struct {
	*Server
	protocol Protocol
	model    NetworkModel
	open     func(httptransport.Options) NetworkModel
}

// RunNetwork runs the suite and additional tests for a network model, against a test server for its protocol. The
// environment has wrong keys and addresses, so that a request which uses one of them is noticed at the end.
func RunNetwork(t *testing.T, p Protocol, open func(httptransport.Options) NetworkModel) {
	for _, name := range ambient {
		t.Setenv(name, "http://ambient.invalid/")
	}
	s := NewServer(t, p)
	n := &network{Server: s, protocol: p, open: open}
	n.model = open(httptransport.Options{
		BaseURL: s.URL, Key: func(context.Context) (string, error) { return s.Key, nil },
	})
	Run(t, Subject{Model: n.model, Failures: NetworkFailures(p)})
	t.Run("usage", n.usage)
	t.Run("replies without streaming", n.notAStream)
	t.Run("truncated replies", n.truncated)
	t.Run("thinking", n.thinkingBlocks)
	t.Run("options", n.ownOptions)
	t.Run("common options", n.commonOptions)
	t.Run("large numbers", n.largeNumbers)
	t.Run("schemas of tools", func(t *testing.T) { toolSchemas(t, p, s, n.model) })
	t.Run("schemas of replies", func(t *testing.T) { replySchemas(t, p, s, n.model) })
	t.Run("names of tools", n.toolNames)
	t.Run("results of tools", n.toolResults)
	t.Run("irregular conversations", n.irregularConversations)
	t.Run("conversations of other providers", n.foreignConversations)
	t.Run("images and sounds", func(t *testing.T) { media(t, p, s, open) })
	t.Run("keys", n.keys)
	for _, seen := range s.Requests() {
		for name, values := range seen.Header {
			if strings.Contains(strings.Join(values, " "), "ambient") {
				t.Errorf("a value of the environment was sent as %s: %s", name, values)
			}
		}
		if seen.Path == "/elsewhere" {
			t.Error("a redirect was followed")
		}
	}
}

// usage checks how tokens are counted: those of the cache are not part of the input.
func (n *network) usage(t *testing.T) {
	r, err := Collect(t, n.model.Generate(t.Context(), AskText()))
	if err != nil {
		t.Fatal(err)
	}
	want := provider.Usage{Input: 14, Output: 5, CacheRead: 5}
	if n.protocol == Anthropic {
		want = provider.Usage{Input: 11, Output: 5, CacheRead: 5, CacheWrite: 3}
	}
	id := map[Protocol]string{Anthropic: "msg_1", Chat: "c1", Responses: "r1", Gemini: "g1"}[n.protocol]
	if r.Usage != want || r.Model != "suite-1" || r.ID != id {
		t.Errorf("got %+v of %s as %s, want %+v", r.Usage, r.Model, r.ID, want)
	}
}

// notAStream checks that a complete reply gives the same result as a stream: from a server that ignores the request for
// a stream, with the right and with a wrong content type, and if an option asks for it.
func (n *network) notAStream(t *testing.T) {
	for _, ask := range []provider.Request{AskText(), AskJSON(), AskTool(), AskShort()} {
		streamed, err := Collect(t, n.model.Generate(t.Context(), ask))
		if err != nil {
			t.Fatal(err)
		}
		plain := ask
		plain.System += " " + faultPrefix + `{"plain":true}`
		mistyped := ask
		mistyped.System += " " + faultPrefix + `{"plain":true,"mistyped":true}`
		unwanted := ask
		unwanted.Options = json.RawMessage(`{"stream":false}`)
		for _, req := range []provider.Request{plain, mistyped, unwanted} {
			before := len(n.Requests())
			whole, err := Collect(t, n.model.Generate(t.Context(), req))
			if err != nil {
				t.Fatal(err)
			}
			if body := string(n.Requests()[before].Body); n.protocol != Gemini && req.Options != nil &&
				!strings.Contains(body, `"stream":false`) {
				t.Errorf("the request does not disable streaming: %s", body)
			}
			if diff := cmp.Diff(streamed, whole); diff != "" {
				t.Errorf("as one JSON value the reply differs:\n%s", diff)
			}
		}
	}
}

func (n *network) truncated(t *testing.T) {
	if r, err := Collect(t, n.model.Generate(t.Context(), AskShort())); err != nil || r.Stop != provider.CutOff {
		t.Errorf("%+v, %v", r, err)
	}
}

func (n *network) thinkingBlocks(t *testing.T) {
	r, err := Collect(t, n.model.Generate(t.Context(), AskTool()))
	if err != nil || thinking(r) != thought {
		t.Errorf("%+v, %v", r, err)
	}
}

// ownOptions checks that options of an agent are sent, and that those which would change the model, the tools or the
// limit of tokens are refused before a request is made.
func (n *network) ownOptions(t *testing.T) {
	req := AskText()
	req.Options = json.RawMessage(`{"temperature":0.5}`)
	before := len(n.Requests())
	if _, err := Collect(t, n.model.Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	if body := string(n.Requests()[before].Body); !strings.Contains(body, `"temperature":0.5`) {
		t.Error(body)
	}
	limit := map[Protocol]string{
		Anthropic: "max_tokens", Chat: "max_tokens", Responses: "max_output_tokens",
		Gemini: "maxOutputTokens",
	}[n.protocol]
	for _, bad := range []string{
		`{"model":"other"}`, `[1]`, `{"tools.0.name":"other"}`,
		`{"` + limit + `":1000000}`, `{"max_output_tokens":1000000,"max_tokens":1000000}`, // in every spelling
	} {
		req.Options = json.RawMessage(bad)
		before := len(n.Requests())
		_, err := Collect(t, n.model.Generate(t.Context(), req))
		var failed *provider.Error
		if !errors.As(err, &failed) || failed.Class != ir.ClassBadRequest || len(n.Requests()) != before {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// commonOptions checks that common options are sent under the names of the protocol, and left out if it has none.
func (n *network) commonOptions(t *testing.T) {
	// The server rejects options that its protocol does not have.
	req := AskText()
	for _, stop := range []string{`"END"`, `["END","."]`} {
		req.Options = json.RawMessage(`{"temperature":0.5,"top_p":0.25,"top_k":40,"stop":` + stop +
			`,"seed":7,"presence_penalty":0.5,"frequency_penalty":0.75}`)
		list := stop
		if n.protocol != Chat && stop[0] == '"' {
			list = "[" + stop + "]"
		}
		want := map[Protocol][]string{
			Anthropic: {`"temperature":0.5`, `"top_p":0.25`, `"top_k":40`, `"stop_sequences":` + list},
			Chat: {
				`"temperature":0.5`, `"top_p":0.25`, `"top_k":40`, `"stop":` + list, `"seed":7`,
				`"presence_penalty":0.5`, `"frequency_penalty":0.75`,
			},
			Responses: {`"temperature":0.5`, `"top_p":0.25`},
			Gemini: {
				`"temperature":0.5`, `"topP":0.25`, `"topK":40`, `"stopSequences":` + list, `"seed":7`,
				`"presencePenalty":0.5`, `"frequencyPenalty":0.75`,
			},
		}[n.protocol]
		before := len(n.Requests())
		if _, err := Collect(t, n.model.Generate(t.Context(), req)); err != nil {
			t.Fatal(err)
		}
		for _, one := range want {
			if body := string(n.Requests()[before].Body); !strings.Contains(body, one) {
				t.Errorf("%s is missing: %s", one, body)
			}
		}
	}
}

func (n *network) largeNumbers(t *testing.T) {
	// Numbers in schemas, tool inputs and tool results are not rounded.
	const large = "9007199254740993"
	req := AskText()
	req.Tools = []provider.Tool{{
		Name:   "count",
		Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","maximum":` + large + `}}}`),
	}}
	req.Messages = append(req.Messages,
		provider.Message{
			Role: provider.Assistant,
			Blocks: []provider.Block{{
				Type: provider.ToolUse, ToolID: "t1", ToolName: "count",
				Input: json.RawMessage(`{"n":` + large + `}`),
			}},
		},
		provider.Message{
			Role: provider.User,
			Blocks: []provider.Block{{
				Type: provider.ToolResult, ToolID: "t1", ToolName: "count",
				Content: json.RawMessage(`{"n":` + large + `}`),
			}},
		},
	)
	before := len(n.Requests())
	if _, err := Collect(t, n.model.Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	if body := string(n.Requests()[before].Body); strings.Count(body, large) != 3 {
		t.Errorf("a number was rounded: %s", body)
	}
}

// toolNames checks names that servers reject, and names that become equal when they are rewritten.
func (n *network) toolNames(t *testing.T) {
	req := AskTool()
	req.Tools = []provider.Tool{
		{Name: "mcp.weather"},
		{Name: "mcp/weather"},
		{Name: "mcp_weather"},
		{Name: "mcp_weather_2"},
		{Name: "mcp-weather"},
		{Name: "mcp. weather"},
		{Name: "wetter.größe"},
		{Name: strings.Repeat("x", 64)},
		{Name: strings.Repeat("x", 63) + "."},
		{Name: strings.Repeat("x", 80)},
		{Name: "1st"},
		{Name: "weather", Schema: AskTool().Tools[0].Schema},
		{Name: "odd", Schema: json.RawMessage(`{"type":"object","properties":[]}`)},
		{Name: "odder", Schema: json.RawMessage(`{"type":"string"}`)},
	}
	r, err := Collect(t, n.model.Generate(t.Context(), req))
	if err != nil {
		t.Fatal(err)
	}
	Check(t, req, r)
}

// toolResults checks that the blocks of a result become texts, and that errors name tools by the server's names.
func (n *network) toolResults(t *testing.T) {
	const message = `agent "a" may call the tool "http.request" only as in http.request(https://a.example/*)`
	denied, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	const blocks = `[{"type":"text","text":"called \"pic\""},{"type":"text","text":"[image]"},` +
		`{"type":"resource","resource":{"uri":"file:///a.txt","text":"inside"}},` +
		`{"type":"resource_link","uri":"file:///b.txt","name":"b"}]`
	req := AskText()
	req.Tools = []provider.Tool{{Name: "http.request"}}
	req.Messages = append(req.Messages,
		provider.Message{Role: provider.Assistant, Blocks: []provider.Block{
			{Type: provider.ToolUse, ToolID: "t1", ToolName: "http.request", Input: json.RawMessage(`{}`)},
			{Type: provider.ToolUse, ToolID: "t2", ToolName: "http.request", Input: json.RawMessage(`{}`)},
			{Type: provider.ToolUse, ToolID: "t3", ToolName: "http.request", Input: json.RawMessage(`{}`)},
		}},
		provider.Message{Role: provider.User, Blocks: []provider.Block{
			{Type: provider.ToolResult, ToolID: "t1", ToolName: "http.request", Content: denied, IsError: true},
			{Type: provider.ToolResult, ToolID: "t2", ToolName: "http.request", Content: json.RawMessage(blocks)},
			{Type: provider.ToolResult, ToolID: "t3", ToolName: "http.request", Content: json.RawMessage(`[{"type":"a"}]`)},
		}},
	)
	before := len(n.Requests())
	if _, err := Collect(t, n.model.Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	var sent any
	if err := json.Unmarshal(n.Requests()[before].Body, &sent); err != nil {
		t.Fatal(err)
	}
	got := texts(sent)
	known := strings.ReplaceAll(message, "http.request", "http_request")
	want := []string{`called "pic"`, "[image]", "[resource file:///a.txt]\ninside", "[resource file:///b.txt, b]"}
	if n.protocol == Chat || n.protocol == Gemini {
		want = []string{strings.Join(want, "\n\n")}
	}
	if n.protocol != Gemini {
		want = append(want, `[{"type":"a"}]`)
	}
	if n.protocol == Chat || n.protocol == Responses {
		known = "Error: " + known
	}
	for _, one := range append(want, known) {
		if !slices.Contains(got, one) {
			t.Errorf("%q is missing: %q", one, got)
		}
	}
}

// texts returns all texts of a JSON value.
func texts(value any) []string {
	var out []string
	switch value := value.(type) {
	case string:
		out = append(out, value)
	case []any:
		for _, one := range value {
			out = append(out, texts(one)...)
		}
	case map[string]any:
		for _, one := range value {
			out = append(out, texts(one)...)
		}
	}
	return out
}

// irregularConversations checks conversations that the rules of servers do not allow as they are: empty texts,
// consecutive messages of one role, results after texts, and inputs that are no objects.
func (n *network) irregularConversations(t *testing.T) {
	req := AskText()
	req.Tools = []provider.Tool{{Name: "a.b"}}
	req.Messages = append(req.Messages,
		provider.Message{
			Role:   provider.Assistant,
			Blocks: []provider.Block{{Type: provider.Thinking, Text: "without a signature"}},
		},
		provider.Message{Role: provider.User, Blocks: []provider.Block{{Type: provider.Text, Text: "Again."}}},
		provider.Message{Role: provider.Assistant, Blocks: []provider.Block{
			{Type: provider.Text, Text: ""},
			{Type: provider.ToolUse, ToolID: "t1", ToolName: "a.b", Input: json.RawMessage(`"no object"`)},
			{Type: provider.ToolUse, ToolID: "t2", ToolName: "a.b", Input: json.RawMessage(`{}`)},
		}},
		provider.Message{Role: provider.User, Blocks: []provider.Block{
			{Type: provider.Text, Text: "Go on."},
			{
				Type: provider.ToolResult, ToolID: "t1", ToolName: "a.b", Content: json.RawMessage(`"broken"`),
				IsError: true,
			},
			{Type: provider.ToolResult, ToolID: "t2", ToolName: "a.b", Content: json.RawMessage(`""`)},
		}},
	)
	if _, err := Collect(t, n.model.Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
}

// foreignConversations checks that a conversation with thoughts, signatures and IDs of another provider can continue.
func (n *network) foreignConversations(t *testing.T) {
	req := AskText()
	req.Tools = []provider.Tool{{Name: "a.b"}}
	for _, thought := range []provider.Block{
		{Type: provider.Thinking, Text: "of OpenAI", Signature: `{"id":"rs_1","encrypted_content":"e"}`},
		{Type: provider.Thinking, Text: "of a server without signatures"},
	} {
		req.Messages = append(slices.Clone(req.Messages[:1]),
			provider.Message{Role: provider.Assistant, Blocks: []provider.Block{
				thought,
				{Type: provider.ToolUse, ToolID: "functions.a.b:0", ToolName: "a.b", Input: json.RawMessage(`{}`)},
				{Type: provider.ToolUse, ToolID: "functions.a-b:0", ToolName: "a.b", Input: json.RawMessage(`{}`)},
				{Type: provider.ToolUse, ToolID: "é", ToolName: "other/tool", Input: json.RawMessage(`{}`)},
			}},
			provider.Message{Role: provider.User, Blocks: []provider.Block{
				{
					Type: provider.ToolResult, ToolID: "functions.a.b:0", ToolName: "a.b",
					Content: json.RawMessage(`"one"`),
				},
				{
					Type: provider.ToolResult, ToolID: "functions.a-b:0", ToolName: "a.b",
					Content: json.RawMessage(`"two"`),
				},
				{Type: provider.ToolResult, ToolID: "é", ToolName: "other/tool", Content: json.RawMessage(`"three"`)},
			}},
		)
		if _, err := Collect(t, n.model.Generate(t.Context(), req)); err != nil {
			t.Fatal(err)
		}
	}
}

// keys checks when keys are read and sent. It removes the server's key, so it runs last.
func (n *network) keys(t *testing.T) {
	if err := n.model.Reach(t.Context()); err != nil {
		t.Error(err)
	}
	wrong := func(context.Context) (string, error) { return "wrong", nil }
	if err := n.open(httptransport.Options{BaseURL: n.URL, Key: wrong}).Reach(t.Context()); err == nil {
		t.Error("a wrong key is accepted")
	}
	none := n.open(httptransport.Options{
		BaseURL: n.URL,
		Key:     func(context.Context) (string, error) { return "", errors.New("locked") },
	})
	_, err := Collect(t, none.Generate(t.Context(), AskText()))
	var failed *provider.Error
	if !errors.As(err, &failed) || failed.Class != ir.ClassMissing || !strings.Contains(failed.Message, "locked") {
		t.Errorf("got %v", err)
	}
	n.Key = ""
	keyless := n.open(httptransport.Options{
		BaseURL: n.URL,
		Headers: func(context.Context) (map[string]string, error) { return map[string]string{"X-Team": "roses"}, nil },
	})
	before := len(n.Requests())
	if _, err := Collect(t, keyless.Generate(t.Context(), AskText())); err != nil {
		t.Error(err)
	}
	if got := n.Requests()[before].Header.Get("X-Team"); got != "roses" {
		t.Errorf("the header is %q", got)
	}
}
