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

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/tool"
)

// remoteTool is one tool of a server.
type remoteTool struct {
	server *Server
	name   string // on the server
	spec   tool.Spec
	read   reader // nil if the server itself has the tool
}

// request calls the tool of the server, or its reader.
func (r *remoteTool) request(ctx context.Context, c *mcp.ClientSession, params *mcp.CallToolParams) (
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

// remoteTool returns a tool of the server. sent is its schema as the server sent it; nil if unknown.
func (s *Server) remoteTool(t *mcp.Tool, sent json.RawMessage) (*remoteTool, error) {
	r := &remoteTool{server: s, name: t.Name, spec: tool.Spec{
		Name: s.Name + "." + t.Name, Description: t.Description, SideEffects: true,
		Target: fmt.Sprintf("the tool %q of the MCP server %q", t.Name, s.Name), Timeout: maxCallTime,
	}}
	if a := t.Annotations; a != nil {
		// Hints are not verified: the user has chosen to trust the server.
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

func (r *remoteTool) Spec() tool.Spec { return r.spec }

// errSlow ends a call without progress.
var errSlow = errors.New("the MCP server did not answer in time")

// Call calls the tool. Each progress notification restarts the timeout. After a timeout the session is ended: the state
// of the server is unknown, and a late response must not be mistaken for that of another call. An error that the server
// itself reports leaves the session in use.
func (r *remoteTool) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	sess, err := r.server.session(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return tool.Result{}, &tool.Error{Class: ir.ClassMissing, Message: err.Error()}
	}
	if sess.meter != nil {
		sess.meter.left.Store(int64(r.server.MaxOutput))
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
	r.server.setProgress(token, func(p tool.Progress) {
		idle.Reset(r.server.Timeout)
		if call.Progress != nil {
			call.Progress(p)
		}
	})
	defer r.server.setProgress(token, nil)
	params := &mcp.CallToolParams{
		Name: r.name, Arguments: call.Input, Meta: mcp.Meta{"espalier/idempotency-key": call.Key},
	}
	params.SetProgressToken(token)
	if call.TraceParent != "" {
		params.Meta["traceparent"] = call.TraceParent
	}
	result, err := r.request(bounded, sess.client, params)
	switch {
	case err == nil:
		return toResult(result)
	case ctx.Err() != nil:
		return tool.Result{}, context.Cause(ctx) // the SDK has canceled the call at the server
	case errors.Is(context.Cause(bounded), errSlow):
		sess.end() // state unknown, so close
		return tool.Result{}, tool.Errorf(ir.ClassTimeout, "the MCP server %q did not answer within %g seconds",
			r.server.Name, r.server.Timeout.Seconds())
	}
	// Any non-RPC error closes the session.
	if _, ok := errors.AsType[*jsonrpc.Error](err); !ok || errors.Is(err, mcp.ErrConnectionClosed) || sess.dead() {
		sess.end()
		if sess.proc == nil {
			return tool.Result{}, tool.Errorf(ir.ClassTool, "the MCP server %q does not respond: %v",
				r.server.Name, err)
		}
		return tool.Result{}, tool.Errorf(ir.ClassTool, "the MCP server %q exited: %s (%v)", r.server.Name,
			sess.exitReason(), err)
	}
	return tool.Result{}, &tool.Error{Class: ir.ClassTool, Message: err.Error()}
}

// setProgress sets the handler for the notifications with a progress token; nil removes it.
func (s *Server) setProgress(token string, do func(tool.Progress)) {
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

// toResult converts the result of a server: its structured content, else a single text, else all of its content. A text
// that is JSON becomes JSON, because servers without structured content send it so.
func toResult(r *mcp.CallToolResult) (tool.Result, error) {
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
		out.Output, err = textToJSON(text.Text)
	case len(content) == 1:
		out.Output, err = json.Marshal(content[0])
	default:
		out.Output, err = json.Marshal(content)
	}
	return out, err
}

// withoutBytes replaces binary content with a placeholder and adds its bytes to media.
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

// structured returns structured content as JSON. It prefers the same content sent as text: the SDK decodes numbers into
// float64, which rounds large ones.
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

// textToJSON returns a text that is a JSON object or array unchanged, and any other text as a JSON string.
func textToJSON(text string) (json.RawMessage, error) {
	if len(text) > 0 && (text[0] == '{' || text[0] == '[') && json.Valid([]byte(text)) {
		return json.RawMessage(text), nil
	}
	return json.Marshal(text)
}
