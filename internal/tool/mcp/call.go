package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/espalier-run/espalier/internal/tool"
)

// remote is one tool of a server.
type remote struct {
	server *Server
	name   string // as the server calls it
	spec   tool.Spec
	read   reader // nil for a tool of the server itself
}

// request makes a call or a request of a reader.
func (r *remote) request(ctx context.Context, c *mcp.ClientSession, params *mcp.CallToolParams) (
	*mcp.CallToolResult, error,
) {
	if r.read == nil {
		return c.CallTool(ctx, params)
	}
	input, err := json.Marshal(params.Arguments)
	if err != nil {
		return nil, err
	}
	return r.read(ctx, c, input)
}

// remote returns a tool of the server. sent is its schema as the server sent it, if
// that is known.
func (s *Server) remote(t *mcp.Tool, sent json.RawMessage) (*remote, error) {
	r := &remote{server: s, name: t.Name, spec: tool.Spec{
		Name: s.Name + "." + t.Name, Description: t.Description, SideEffects: true,
		Target: fmt.Sprintf("the tool %q of the MCP server %q", t.Name, s.Name), Timeout: longestCall,
	}}
	if a := t.Annotations; a != nil {
		// Hints: a server that lies about them harms only its own user.
		r.spec.SideEffects, r.spec.TakesKey = !a.ReadOnlyHint, a.IdempotentHint
	}
	if r.spec.Schema = sent; sent == nil && t.InputSchema != nil {
		var err error
		if r.spec.Schema, err = json.Marshal(t.InputSchema); err != nil {
			return nil, fmt.Errorf("the schema of the tool %q: %w", t.Name, err)
		}
	}
	return r, nil
}

func (r *remote) Spec() tool.Spec { return r.spec }

// errSlow ends a call without progress.
var errSlow = errors.New("the MCP server did not answer in time")

// Call makes the call. Time begins anew with each sign of progress.
func (r *remote) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	now, err := r.server.session(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return tool.Result{}, &tool.Error{Class: tool.ClassMissing, Message: err.Error()}
	}
	if now.meter != nil {
		now.meter.left.Store(int64(r.server.MaxFlood))
	}
	bounded, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	current := &running{call: call, wait: r.server.Timeout}
	leave, err := r.server.enter(ctx, current)
	if err != nil {
		return tool.Result{}, err
	}
	defer leave()
	idle := time.AfterFunc(r.server.Timeout, func() { stop(errSlow) })
	defer idle.Stop()
	current.idle = idle
	bounded = context.WithValue(bounded, callKey{}, current)
	token := "espalier-" + strconv.FormatInt(r.server.tokens.Add(1), 10)
	r.server.await(token, func(p tool.Progress) {
		idle.Reset(r.server.Timeout)
		if call.Progress != nil {
			call.Progress(p)
		}
	})
	defer r.server.await(token, nil)
	params := &mcp.CallToolParams{
		Name: r.name, Arguments: call.Input, Meta: mcp.Meta{"espalier/idempotency-key": call.Key},
	}
	params.SetProgressToken(token)
	if call.TraceParent != "" {
		params.Meta["traceparent"] = call.TraceParent
	}
	result, err := r.request(bounded, now.client, params)
	switch {
	case err == nil:
		return answer(result)
	case ctx.Err() != nil:
		return tool.Result{}, context.Cause(ctx) // the server has been told
	case errors.Is(context.Cause(bounded), errSlow):
		now.end() // who knows what it still does
		return tool.Result{}, tool.Errorf(tool.ClassTimeout, "the MCP server %q did not answer within %g seconds",
			r.server.Name, r.server.Timeout.Seconds())
	}
	// Only an answer of the server's leaves it as it was. Everything else is a
	// connection that is good for nothing any more.
	if _, ok := errors.AsType[*jsonrpc.Error](err); !ok || errors.Is(err, mcp.ErrConnectionClosed) || now.over() {
		now.end()
		return tool.Result{}, tool.Errorf(tool.ClassTool, "the MCP server %q is gone: %s (%v)", r.server.Name,
			now.last(), err)
	}
	return tool.Result{}, &tool.Error{Class: tool.ClassTool, Message: err.Error()}
}

// await keeps what to do at a sign of progress; nil forgets it.
func (s *Server) await(token string, do func(tool.Progress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if do == nil {
		delete(s.waiting, token)
		return
	}
	s.waiting[token] = do
}

func (s *Server) progress(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
	token, ok := req.Params.ProgressToken.(string)
	if !ok {
		return
	}
	s.mu.Lock()
	do := s.waiting[token]
	s.mu.Unlock()
	if do != nil {
		do(tool.Progress{Done: req.Params.Progress, Total: req.Params.Total, Message: req.Params.Message})
	}
}

// answer turns what a server gives into a result: what it gives in a
// structure, else one text as it is, else all of its pieces.
func answer(r *mcp.CallToolResult) (tool.Result, error) {
	out := tool.Result{IsError: r.IsError}
	content := make([]mcp.Content, len(r.Content))
	for i, c := range r.Content {
		content[i] = withoutBytes(c, &out.Media)
	}
	var text *mcp.TextContent
	if len(content) == 1 {
		text, _ = content[0].(*mcp.TextContent)
	}
	var err error
	switch {
	case r.StructuredContent != nil && !r.IsError:
		out.Output, err = structured(r.StructuredContent, text)
	case text != nil:
		out.Output, err = ofText(text.Text)
	case len(content) == 1:
		out.Output, err = json.Marshal(content[0])
	default:
		out.Output, err = json.Marshal(content)
	}
	return out, err
}

// withoutBytes replaces bytes by a placeholder, and adds them to media.
func withoutBytes(c mcp.Content, media *[]tool.Media) mcp.Content {
	var one tool.Media
	switch c := c.(type) {
	case *mcp.ImageContent:
		one = tool.NewMedia(c.MIMEType, c.Data)
	case *mcp.AudioContent:
		one = tool.NewMedia(c.MIMEType, c.Data)
	case *mcp.EmbeddedResource:
		if c.Resource == nil || c.Resource.Blob == nil {
			return c
		}
		one = tool.NewMedia(c.Resource.MIMEType, c.Resource.Blob)
	default:
		return c
	}
	*media = append(*media, one)
	return &mcp.TextContent{Text: one.Placeholder()}
}

// structured returns a structure as JSON. Servers send it as text as well, in
// which numbers have all their digits: the SDK rounds them.
func structured(value any, text *mcp.TextContent) (json.RawMessage, error) {
	raw, err := json.Marshal(value)
	if err != nil || text == nil {
		return raw, err
	}
	var same, decoded any
	if json.Unmarshal([]byte(text.Text), &same) == nil && json.Unmarshal(raw, &decoded) == nil &&
		reflect.DeepEqual(same, decoded) {
		return json.RawMessage(text.Text), nil
	}
	return raw, nil
}

// ofText returns a text as JSON: itself if it is an object or a list, else a text.
func ofText(text string) (json.RawMessage, error) {
	if len(text) > 0 && (text[0] == '{' || text[0] == '[') && json.Valid([]byte(text)) {
		return json.RawMessage(text), nil
	}
	return json.Marshal(text)
}
