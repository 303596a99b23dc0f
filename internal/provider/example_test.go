package provider_test

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
)

// unsteady is a model whose first call fails.
type unsteady struct{ calls int }

func (m *unsteady) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	m.calls++
	if m.calls == 1 {
		return func(yield func(provider.Chunk, error) bool) {
			yield(provider.Chunk{}, &provider.Error{Class: ir.ClassRateLimit, Message: "too many requests"})
		}
	}
	hello := provider.Block{Type: provider.Text, Text: "Hello, " + req.Messages[0].Blocks[0].Text + "!"}
	return provider.Play(ctx, req, provider.Reply{Blocks: []provider.Block{hello}, Stop: provider.Done})
}

// A model streams its reply. What all models need, such as retries, wraps the model.
func Example() {
	model := provider.Retry{
		Model: &unsteady{}, Times: 2, Jitter: func() float64 { return 0 },
		Pause: func(context.Context, time.Duration) error { return nil },
	}
	request := provider.Request{Messages: []provider.Message{
		{Role: provider.User, Blocks: []provider.Block{{Type: provider.Text, Text: "Ada"}}},
	}}
	for chunk, err := range model.Generate(context.Background(), request) {
		switch {
		case err != nil:
			fmt.Println(err)
		case chunk.Retried != nil:
			fmt.Printf("%s, again after %s\n", chunk.Retried.Error.Message, chunk.Retried.Wait)
		case chunk.Text != "":
			fmt.Printf("chunk: %s\n", chunk.Text)
		case chunk.Reply != nil:
			fmt.Printf("reply: %s\n", chunk.Reply.Text())
		}
	}
	// Output:
	// too many requests, again after 1s
	// chunk: Hello, Ada!
	// reply: Hello, Ada!
}
