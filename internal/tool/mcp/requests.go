package mcp

//lint:file-ignore SA1019 Servers use sampling and roots until they follow a later version of the protocol.

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/espalier-run/espalier/internal/tool"
)

// running is a call that a server has not answered yet.
type running struct {
	call tool.Call
	idle *time.Timer // ends a call without progress
	wait time.Duration
}

// callKey is the key of the running call in a context.
type callKey struct{}

var errSeveral = errors.New("several tools of this server are running, so it is unclear which of them asks; " +
	"from now on, they run one after the other: call the tool again")

// enter registers a call. Requests of older servers do not name the call that they belong to, so a server that has sent
// such a request gets its calls one at a time. The caller calls leave when the call has returned.
func (s *Server) enter(ctx context.Context, call *running) (leave func(), err error) {
	for {
		s.mu.Lock()
		if !s.asks || len(s.calls) == 0 {
			break
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer s.mu.Unlock()
	s.calls[call] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, call)
		close(s.changed)
		s.changed = make(chan struct{})
	}, nil
}

// caller returns the call that a request of the server belongs to. The timeout of the call pauses until done is called,
// because a person or a model may take long to answer.
func (s *Server) caller(ctx context.Context) (call *running, done func(), err error) {
	call, _ = ctx.Value(callKey{}).(*running)
	s.mu.Lock()
	defer s.mu.Unlock()
	if call == nil {
		s.asks = true
		if len(s.calls) != 1 {
			return nil, nil, errSeveral
		}
		for call = range s.calls {
		}
	}
	call.idle.Stop()
	return call, func() { call.idle.Reset(call.wait) }, nil
}

// elicit passes a question of the server to a person. A question without an answer is canceled. A question that sends
// the person to a page is declined: the client does not offer that mode, and an answer would be consent to the page.
func (s *Server) elicit(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	call, done, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if call.call.Ask == nil || req.Params.Mode == "url" || req.Params.URL != "" {
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	question := tool.Question{Message: req.Params.Message}
	if req.Params.RequestedSchema != nil {
		if question.Schema, err = json.Marshal(req.Params.RequestedSchema); err != nil {
			return nil, err
		}
	}
	answer, ok := call.call.Ask(question)
	out := &mcp.ElicitResult{Action: "accept"}
	switch {
	case !ok:
		out.Action = "cancel"
	case !answer.Accepted:
		out.Action = "decline"
	case len(answer.Value) > 0:
		err = json.Unmarshal(answer.Value, &out.Content)
	}
	return out, err
}

// sample replies to the server with the model of the call.
func (s *Server) sample(ctx context.Context, req *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	call, done, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if call.call.Sample == nil {
		return nil, errors.New("no model is available")
	}
	sampling := tool.Sampling{System: req.Params.SystemPrompt, MaxTokens: int(req.Params.MaxTokens)}
	for _, m := range req.Params.Messages {
		text, ok := m.Content.(*mcp.TextContent)
		if !ok {
			return nil, errors.New("only text messages are supported")
		}
		sampling.Messages = append(sampling.Messages, tool.SamplingMessage{
			Assistant: m.Role == "assistant", Text: text.Text,
		})
	}
	reply, err := call.call.Sample(ctx, sampling)
	if err != nil {
		return nil, err
	}
	out := &mcp.CreateMessageResult{
		Content: &mcp.TextContent{Text: reply.Text}, Model: reply.Model, Role: "assistant", StopReason: "endTurn",
	}
	if reply.CutOff {
		out.StopReason = "maxTokens"
	}
	return out, nil
}
