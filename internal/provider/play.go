package provider

import (
	"context"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/price"
)

// Tokens estimates the input tokens of the request: a token for every price.BytesPerToken bytes.
func (r *Request) Tokens() int64 {
	n := len(r.System) + len(r.Schema)
	for _, m := range r.Messages {
		n += size(m.Blocks)
	}
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return int64((n+price.BytesPerToken-1)/price.BytesPerToken) + r.mediaTokens()
}

// mediaTokens returns an upper bound of the input tokens of images and sounds: 2,000 for an image, because providers
// resize larger ones, and one for each 200 bytes of sound.
func (r *Request) mediaTokens() int64 {
	const image, bytesOfSound = 2000, 200 // providers resize larger images; sounds count by the second
	var n int64
	for _, m := range r.Messages {
		for _, b := range m.Blocks {
			for _, one := range b.Media {
				if strings.HasPrefix(one.Type, "image/") {
					n += image
				} else {
					n += int64(len(one.Data)/bytesOfSound) + 1
				}
			}
		}
	}
	return n
}

// MostTokens returns an upper bound of the input tokens of the request. It
// counts a token for every two ASCII characters and for every other byte, and a
// surcharge for the request and for each block and tool.
func (r *Request) MostTokens() int64 {
	const perRequest, perPart = 600, 24
	n := int64(perRequest)
	add := func(texts ...string) {
		n += perPart
		for _, t := range texts {
			plain := 0
			for i := range len(t) {
				if t[i] < utf8.RuneSelf {
					plain++
				}
			}
			n += int64(len(t)-plain) + int64(plain+1)/2
		}
	}
	add(r.System, string(r.Schema))
	for _, m := range r.Messages {
		for _, b := range m.Blocks {
			add(b.Text, b.Signature, b.ToolName, string(b.Input), string(b.Content))
		}
	}
	for _, t := range r.Tools {
		add(t.Name, t.Description, string(t.Schema))
	}
	return n + r.mediaTokens()
}

func size(blocks []Block) int {
	n := 0
	for _, b := range blocks {
		n += b.size()
	}
	return n
}

func (b *Block) size() int { return len(b.Text) + len(b.ToolName) + len(b.Input) + len(b.Content) }

// Play streams a complete reply in pieces, as a model would, and truncates it to
// the token limit of the request. Usage that is zero is estimated.
func Play(ctx context.Context, req Request, reply Reply) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		reply := reply.truncate(req.MaxTokens)
		reply.FillUsage(&req)
		for _, b := range reply.Blocks {
			if b.Type != Text && b.Type != Thinking {
				continue
			}
			for piece := range pieces(b.Text) {
				if err := ctx.Err(); err != nil {
					yield(Chunk{}, err)
					return
				}
				if !yield(Chunk{Type: b.Type, Text: piece}, nil) {
					return
				}
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Chunk{}, err)
			return
		}
		yield(Chunk{Reply: &reply}, nil)
	}
}

// FillUsage estimates the usage if the model did not report it.
func (r *Reply) FillUsage(req *Request) {
	if r.Usage.Input+r.Usage.CacheRead+r.Usage.CacheWrite <= 0 {
		r.Usage.Input = max(1, req.Tokens())
	}
	if r.Usage.Output <= 0 {
		r.Usage.Output = tokensOf(r.Blocks)
		if req.MaxTokens > 0 {
			r.Usage.Output = min(r.Usage.Output, int64(req.MaxTokens))
		}
	}
}

// tokensOf estimates the tokens of blocks. It returns at least 1.
func tokensOf(blocks []Block) int64 {
	return max(1, int64((size(blocks)+price.BytesPerToken-1)/price.BytesPerToken))
}

// truncate returns the reply with at most the given number of tokens, by the estimate of tokensOf; 0 is no limit. It
// cuts texts at characters, but drops a tool call that does not fit, with everything after it.
func (r Reply) truncate(tokens int) Reply {
	if tokens <= 0 || tokensOf(r.Blocks) <= int64(tokens) {
		return r
	}
	room := tokens * price.BytesPerToken
	var kept []Block
	for _, b := range r.Blocks {
		if b.size() <= room {
			kept = append(kept, b)
			room -= b.size()
			continue
		}
		if b.Type == Text || b.Type == Thinking {
			for room > 0 && !utf8.RuneStart(b.Text[room]) {
				room--
			}
			b.Text = b.Text[:room]
			kept = append(kept, b)
		}
		break
	}
	r.Blocks, r.Stop = kept, CutOff
	return r
}

// pieces splits a text as a network would deliver it: after words, a few at a
// time.
func pieces(text string) iter.Seq[string] {
	const about = 24
	return func(yield func(string) bool) {
		for len(text) > about {
			end := about
			for end < len(text) && text[end-1] != ' ' && text[end-1] != '\n' && end < 2*about {
				end++
			}
			for end < len(text) && !utf8.RuneStart(text[end]) {
				end++
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
		if text != "" {
			yield(text)
		}
	}
}
