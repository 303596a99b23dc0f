package provider_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/providertest"
)

// For every reply and limit, the pieces equal the streamed reply, which is a prefix
// of the given one, and the whole of it unless Stop is CutOff.
func TestPlayStreamsAPrefix(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var blocks []provider.Block
		for range rapid.IntRange(0, 4).Draw(rt, "blocks") {
			b := provider.Block{Type: rapid.SampledFrom(
				[]provider.BlockType{provider.Text, provider.Thinking, provider.ToolUse}).Draw(rt, "type")}
			if b.Type == provider.ToolUse {
				b.ToolID, b.ToolName, b.Input = "id", "tool", json.RawMessage(`{"a":1}`)
			} else {
				b.Text = rapid.StringN(0, 80, -1).Draw(rt, "text")
			}
			blocks = append(blocks, b)
		}
		req := provider.Request{MaxTokens: rapid.IntRange(0, 40).Draw(rt, "most")}
		whole := provider.Reply{Blocks: blocks, Stop: provider.Done, Model: "m"}
		r, err := providertest.Collect(t, provider.Play(t.Context(), req, whole))
		if err != nil {
			rt.Fatal(err)
		}
		if r.Usage.Output < 1 || r.Usage.Input < 1 || req.MaxTokens > 0 && r.Usage.Output > int64(req.MaxTokens) {
			rt.Fatalf("usage %+v of at most %d", r.Usage, req.MaxTokens)
		}
		if !strings.HasPrefix(whole.Text(), r.Text()) || !utf8.ValidString(r.Text()) && utf8.ValidString(whole.Text()) {
			rt.Fatalf("%q of %q", r.Text(), whole.Text())
		}
		if cut := len(r.Blocks) < len(blocks) || r.Text() != whole.Text(); cut && r.Stop != provider.CutOff {
			rt.Fatalf("%+v of %+v", r, whole)
		}
		if len(whole.Blocks) != len(blocks) {
			rt.Fatal("what was played has changed")
		}
	})
}

func TestOnlyTransientErrorClassesAreRetryable(t *testing.T) {
	for class, want := range map[ir.Class]bool{
		ir.ClassTimeout: true, ir.ClassRateLimit: true, ir.ClassAPI: true,
		ir.ClassBadRequest: false, ir.ClassNoQuota: false, ir.ClassMissing: false,
	} {
		if got := (&provider.Error{Class: class}).Retryable(); got != want {
			t.Errorf("%s: %t", class, got)
		}
	}
	if len(provider.Classes()) != 6 {
		t.Errorf("got %v", provider.Classes())
	}
}

func TestStreamFillsInWhatTheModelLeftOut(t *testing.T) {
	req := provider.Request{Model: "m", System: "four letters", MaxTokens: 2}
	stream := provider.Stream(t.Context(), &req, func(func(provider.Chunk) bool) (*provider.Reply, error) {
		return &provider.Reply{Blocks: []provider.Block{{Type: provider.Text, Text: strings.Repeat("x", 40)}}}, nil
	})
	for c, err := range stream {
		if err != nil || c.Reply.Usage.Input != 3 || c.Reply.Usage.Output != 2 || c.Reply.Model != "m" {
			t.Errorf("%+v, %v", c.Reply, err)
		}
	}
}
