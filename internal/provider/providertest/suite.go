package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	replies "github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/schema"
)

// Subject is a model under test, with its capabilities.
type Subject struct {
	Model provider.Model
	// Offline is the expected Reply.Offline; "" for a real model. An offline
	// model must always send the same reply to the same request.
	Offline journal.Offline
	// NoTools is set if the model never calls a tool.
	NoTools bool
	// Failures are requests that fail, with the expected errors.
	Failures []Failure
}

// Failure is a request that cannot be answered.
type Failure struct {
	Request provider.Request
	Want    provider.Error // Message is not compared
}

// AskText returns a request for a text. Like the other Ask functions, it is part
// of the suite; a model must be able to answer it.
func AskText() provider.Request {
	return ask("text", "Say hello, and tell at some length what an espalier is.")
}

// AskJSON returns a request for an object {"answer": string, "score": 0…10}.
func AskJSON() provider.Request {
	r := ask("json", "Answer with an object that has an answer and a score.")
	r.Schema = json.RawMessage(`{
		"type": "object", "required": ["answer", "score"], "additionalProperties": false,
		"properties": {"answer": {"type": "string"}, "score": {"type": "integer", "minimum": 0, "maximum": 10}}
	}`)
	return r
}

// AskTool returns a request with one tool, which the model must call.
func AskTool() provider.Request {
	r := ask("tool", "Look up the weather in Leeds with the tool, then say it.")
	r.Tools = []provider.Tool{{
		Name: "weather", Description: "The weather in a city",
		Schema: json.RawMessage(`{"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}`),
	}}
	return r
}

// AskShort returns a request for more text than its limit allows: the reply is truncated or very short.
func AskShort() provider.Request {
	r := ask("short", "Recite something that is much longer than a few words.")
	r.MaxTokens = 16 // the least that every server accepts
	return r
}

func ask(step, text string) provider.Request {
	return provider.Request{
		Model: "suite", System: "You take part in a test.", MaxTokens: 1000,
		Messages: []provider.Message{{
			Role:   provider.User,
			Blocks: []provider.Block{{Type: provider.Text, Text: text}},
		}},
		For: provider.Purpose{Workflow: "suite", Step: step, Agent: "tester", Key: step + "#0"},
	}
}

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	t.Run("text", func(t *testing.T) {
		reply := s.answer(t, AskText())
		if reply.Stop != provider.Done || strings.TrimSpace(reply.Text()) == "" {
			t.Errorf("stopped with %q after %q", reply.Stop, reply.Text())
		}
	})
	t.Run("json", func(t *testing.T) {
		req := AskJSON()
		reply := s.answer(t, req)
		if err := Validate(req.Schema, []byte(reply.Text())); err != nil {
			t.Errorf("%s\n%v", reply.Text(), err)
		}
	})
	t.Run("short", func(t *testing.T) { s.answer(t, AskShort()) })
	if !s.NoTools {
		t.Run("tool", s.roundTrip)
	}
	for _, f := range s.Failures {
		t.Run("failure "+f.Request.For.Step, func(t *testing.T) { s.failure(t, f) })
	}
	t.Run("canceled before the call", s.canceledBefore)
	t.Run("canceled during the stream", s.canceledDuring)
	t.Run("consumer stops early", s.consumerStops)
	t.Run("concurrent calls", s.concurrent)
}

// Collect reads a stream to its end and checks the rules for streams: nothing follows an error or the reply, an error
// comes alone, and the chunks have the same texts as the reply. Chunks before a retry are void.
func Collect(t testing.TB, stream iter.Seq2[provider.Chunk, error]) (*provider.Reply, error) {
	t.Helper()
	var text, thought strings.Builder
	var reply *provider.Reply
	var failed error
	for c, err := range stream {
		switch {
		case failed != nil:
			t.Fatalf("the stream continues after the error %v", failed)
		case reply != nil:
			t.Fatalf("the stream continues after the reply, with %+v, %v", c, err)
		case err != nil:
			failed = err
			if c != (provider.Chunk{}) {
				t.Errorf("the error %v comes with a piece: %+v", err, c)
			}
		case c.Reply != nil:
			reply = c.Reply
		case c.Retried != nil:
			text.Reset()
			thought.Reset()
		case c.Type == provider.Text:
			text.WriteString(c.Text)
		case c.Type == provider.Thinking:
			thought.WriteString(c.Text)
		}
	}
	if failed != nil {
		return nil, failed
	}
	if reply == nil {
		t.Fatal("the stream ends without a reply or an error")
	}
	if text.String() != reply.AllText() {
		t.Errorf("the text of the chunks is %q, that of the reply %q", text.String(), reply.AllText())
	}
	if got := thinking(reply); thought.String() != got {
		t.Errorf("the thinking of the chunks is %q, that of the reply %q", thought.String(), got)
	}
	return reply, nil
}

func thinking(r *provider.Reply) string {
	var out strings.Builder
	for _, b := range r.Blocks {
		if b.Type == provider.Thinking {
			out.WriteString(b.Text)
		}
	}
	return out.String()
}

// answer makes a request and checks the reply.
func (s Subject) answer(t *testing.T, req provider.Request) *provider.Reply {
	t.Helper()
	before := copied(t, req)
	reply, err := Collect(t, s.Model.Generate(t.Context(), req))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, req, cmpopts.IgnoreUnexported(replies.Contract{})); diff != "" {
		t.Errorf("the request was changed:\n%s", diff)
	}
	Check(t, req, reply)
	if reply.Offline != s.Offline {
		t.Errorf("Offline is %q, want %q", reply.Offline, s.Offline)
	}
	if s.Offline != "" {
		again, err := Collect(t, s.Model.Generate(t.Context(), req))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(reply, again); diff != "" {
			t.Errorf("the same request gets another reply:\n%s", diff)
		}
	}
	return reply
}

func copied(t *testing.T, req provider.Request) provider.Request {
	t.Helper()
	raw, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var out provider.Request
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	// json.Marshal compacts raw JSON; compare the original bytes.
	out.Schema = slices.Clone(req.Schema)
	for i := range req.Tools {
		out.Tools[i].Schema = slices.Clone(req.Tools[i].Schema)
	}
	return out
}

// Check checks the rules for all replies.
func Check(t testing.TB, req provider.Request, r *provider.Reply) {
	t.Helper()
	if !slices.Contains([]provider.StopReason{provider.Done, provider.WantsTool, provider.CutOff, provider.Refused},
		r.Stop) {
		t.Errorf("it stopped because of %q", r.Stop)
	}
	if r.Model == "" {
		t.Error("the reply has no model")
	}
	if r.Usage.Input <= 0 || r.Usage.Output <= 0 || r.Usage.CacheRead < 0 || r.Usage.CacheWrite < 0 {
		t.Errorf("usage %+v", r.Usage)
	}
	if most := int64(req.MaxTokens); most > 0 && r.Usage.Output > most {
		t.Errorf("the reply has %d tokens, more than %d", r.Usage.Output, most)
	}
	calls := 0
	ids := map[string]bool{}
	for _, b := range r.Blocks {
		switch b.Type {
		case provider.Text, provider.Thinking:
		case provider.ToolUse:
			calls++
			if b.ToolID == "" || ids[b.ToolID] {
				t.Errorf("the id %q of a tool call is empty or not unique", b.ToolID)
			}
			ids[b.ToolID] = true
			i := slices.IndexFunc(req.Tools, func(o provider.Tool) bool { return o.Name == b.ToolName })
			if i < 0 {
				t.Errorf("it calls %q, which the request does not offer", b.ToolName)
			} else if err := Validate(req.Tools[i].Schema, b.Input); err != nil {
				t.Errorf("input of %s: %s\n%v", b.ToolName, b.Input, err)
			}
		default:
			t.Errorf("a reply has no %q", b.Type)
		}
	}
	if (r.Stop == provider.WantsTool) != (calls > 0) && r.Stop != provider.CutOff {
		t.Errorf("it stopped because of %q with %d tool calls", r.Stop, calls)
	}
}

// roundTrip returns results for the model's tool calls until it replies.
func (s Subject) roundTrip(t *testing.T) {
	req := AskTool()
	asked := 0
	for turn := range 4 {
		req.For.Turn = turn
		reply := s.answer(t, req)
		if reply.Stop != provider.WantsTool {
			if asked == 0 || reply.Text() == "" {
				t.Errorf("after %d tool calls it replies %q", asked, reply.Text())
			}
			return
		}
		results := provider.Message{Role: provider.User}
		for _, b := range reply.Blocks {
			if b.Type == provider.ToolUse {
				asked++
				results.Blocks = append(results.Blocks, provider.Block{
					Type: provider.ToolResult, ToolID: b.ToolID, ToolName: b.ToolName,
					Content: json.RawMessage(`{"weather":"rain"}`),
				})
			}
		}
		req.Messages = append(req.Messages, provider.Message{Role: provider.Assistant, Blocks: reply.Blocks}, results)
	}
	t.Errorf("it still calls tools after %d calls", asked)
}

func (s Subject) failure(t *testing.T, f Failure) {
	reply, err := Collect(t, s.Model.Generate(t.Context(), f.Request))
	if err == nil {
		t.Fatalf("it answered %q", reply.Text())
	}
	var got *provider.Error
	if !errors.As(err, &got) {
		t.Fatalf("%v is a %T", err, err)
	}
	if got.Class != f.Want.Class || got.Status != f.Want.Status || got.RetryAfter != f.Want.RetryAfter ||
		got.Billable != f.Want.Billable {
		t.Errorf("got %+v, want %+v", got, f.Want)
	}
	if got.Message == "" {
		t.Error("the error has no message")
	}
}

func (s Subject) canceledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Collect(t, s.Model.Generate(ctx, AskText())); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// canceledDuring checks that no reply follows a cancellation.
func (s Subject) canceledDuring(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pieces := 0
	for c, err := range s.Model.Generate(ctx, AskText()) {
		if err != nil {
			if !errors.Is(err, context.Canceled) || pieces == 0 {
				t.Errorf("after %d pieces: %v", pieces, err)
			}
			return
		}
		if c.Reply != nil {
			t.Fatalf("a reply after %d pieces, though the context is canceled", pieces)
		}
		pieces++
		cancel()
	}
	t.Error("the stream ends without an error")
}

func (s Subject) consumerStops(t *testing.T) {
	for range s.Model.Generate(t.Context(), AskText()) {
		break // an implementation that continues to yield panics here
	}
}

// concurrent makes concurrent calls; with -race it finds unsynchronized state.
func (s Subject) concurrent(t *testing.T) {
	var all sync.WaitGroup
	replies := make([]*provider.Reply, 8)
	for i := range replies {
		all.Go(func() {
			for c, err := range s.Model.Generate(t.Context(), AskText()) {
				if err != nil {
					t.Error(err)
				}
				if c.Reply != nil {
					replies[i] = c.Reply
				}
			}
		})
	}
	all.Wait()
	for _, r := range replies {
		if r == nil || s.Offline != "" && !reflect.DeepEqual(r, replies[0]) {
			t.Errorf("got %+v and %+v", replies[0], r)
		}
	}
}

// Validate returns an error if a JSON text does not satisfy a schema. An empty
// schema accepts any JSON.
func Validate(wanted json.RawMessage, text []byte) error {
	if len(wanted) == 0 {
		_, err := schema.Decode(text)
		return err
	}
	s, err := schema.Compile(wanted)
	if err != nil {
		return err
	}
	problems, err := s.Check(text)
	for _, p := range problems {
		err = errors.Join(err, errors.New(p.String()))
	}
	return err
}
