package providertest

import (
	"encoding/json"
	"errors"
	"iter"
	"runtime"
	"testing"

	"github.com/espalier-run/espalier/internal/provider"
)

// critic records failures instead of failing the test.
type critic struct {
	testing.TB
	complained bool
}

func (c *critic) Helper()               {}
func (c *critic) Error(...any)          { c.complained = true }
func (c *critic) Errorf(string, ...any) { c.complained = true }
func (c *critic) Fatal(...any)          { c.complained = true; runtime.Goexit() }
func (c *critic) Fatalf(string, ...any) { c.complained = true; runtime.Goexit() }

func complains(do func(t testing.TB)) bool {
	c := &critic{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(c)
	}()
	<-done
	return c.complained
}

type event struct {
	chunk provider.Chunk
	err   error
}

func stream(events ...event) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		for _, e := range events {
			if !yield(e.chunk, e.err) {
				return
			}
		}
	}
}

func TestCollectFindsBrokenStreams(t *testing.T) {
	textChunk := event{chunk: provider.Chunk{Type: provider.Text, Text: "hello"}}
	thought := event{chunk: provider.Chunk{Type: provider.Thinking, Text: "hm"}}
	end := event{chunk: provider.Chunk{Reply: &provider.Reply{Blocks: []provider.Block{{
		Type: provider.Text,
		Text: "hello",
	}}}}}
	failed := event{err: errors.New("broken")}
	for name, c := range map[string]struct {
		events []event
		broken bool
	}{
		"good":               {[]event{textChunk, end}, false},
		"failed":             {[]event{textChunk, failed}, false},
		"no end":             {[]event{textChunk}, true},
		"nothing":            {nil, true},
		"two ends":           {[]event{textChunk, end, end}, true},
		"after the end":      {[]event{textChunk, end, textChunk}, true},
		"error after end":    {[]event{textChunk, end, failed}, true},
		"after the error":    {[]event{failed, textChunk}, true},
		"piece with error":   {[]event{{chunk: textChunk.chunk, err: failed.err}}, true},
		"too few pieces":     {[]event{end}, true},
		"too many pieces":    {[]event{textChunk, textChunk, end}, true},
		"thinking forgotten": {[]event{thought, textChunk, end}, true},
	} {
		if got := complains(func(t testing.TB) { _, _ = Collect(t, stream(c.events...)) }); got != c.broken {
			t.Errorf("%s: complains %t", name, got)
		}
	}
}

func TestCheckFindsBadReplies(t *testing.T) {
	req := AskTool()
	use := func(id, name, input string) provider.Block {
		return provider.Block{Type: provider.ToolUse, ToolID: id, ToolName: name, Input: json.RawMessage(input)}
	}
	good := func() provider.Reply {
		return provider.Reply{
			Blocks: []provider.Block{use("1", "weather", `{"city":"Leeds"}`)}, Stop: provider.WantsTool, Model: "m",
			Usage: provider.Usage{Input: 1, Output: 1},
		}
	}
	for name, c := range map[string]struct {
		change func(*provider.Reply)
		bad    bool
	}{
		"good":          {func(*provider.Reply) {}, false},
		"no model":      {func(r *provider.Reply) { r.Model = "" }, true},
		"no usage":      {func(r *provider.Reply) { r.Usage = provider.Usage{} }, true},
		"too long":      {func(r *provider.Reply) { r.Usage.Output = 1001 }, true},
		"unknown stop":  {func(r *provider.Reply) { r.Stop = "end_turn" }, true},
		"wrong stop":    {func(r *provider.Reply) { r.Stop = provider.Done }, true},
		"no call":       {func(r *provider.Reply) { r.Blocks = nil }, true},
		"no id":         {func(r *provider.Reply) { r.Blocks[0].ToolID = "" }, true},
		"same id":       {func(r *provider.Reply) { r.Blocks = append(r.Blocks, r.Blocks[0]) }, true},
		"not offered":   {func(r *provider.Reply) { r.Blocks[0].ToolName = "shell" }, true},
		"bad input":     {func(r *provider.Reply) { r.Blocks[0].Input = json.RawMessage(`{"city":5}`) }, true},
		"broken input":  {func(r *provider.Reply) { r.Blocks[0].Input = json.RawMessage(`{"city"`) }, true},
		"a tool result": {func(r *provider.Reply) { r.Blocks[0].Type = provider.ToolResult }, true},
	} {
		r := good()
		c.change(&r)
		if got := complains(func(t testing.TB) { Check(t, req, &r) }); got != c.bad {
			t.Errorf("%s: complains %t", name, got)
		}
	}
}
