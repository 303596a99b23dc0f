package httptransport

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/provider"
)

// mostMedia is the largest file that is sent: 5 MB in base64, which every
// provider accepts.
const mostMedia = 5 << 20 / 4 * 3

// Images are the types that all models with vision take.
var Images = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// blind and seeing are names of models without and with vision, wherever they
// run. A name that neither knows is taken for one without.
var (
	blind  = regexp.MustCompile(`^(claude-2|claude-instant|o1-mini|o1-preview|o3-mini|gpt-4-0|gpt-4-1106)`)
	seeing = regexp.MustCompile(`^(claude-|gemini-|gpt-4o|gpt-4\.1|gpt-4\.5|gpt-4-turbo|gpt-([5-9]|\d\d)|chatgpt-4o|o[1-9]|gemma-?3|llama-?4|grok-[4-9]|mistral-medium-3|mistral-small-3)|vision|-vl\b|llava|pixtral`)
)

// Sees reports whether models of this name take images.
func Sees(model string) bool {
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	return seeing.MatchString(name) && !blind.MatchString(name)
}

// Takes reports whether media can be sent to a model that takes these types.
func Takes(m provider.Media, types []string) bool {
	return slices.Contains(types, m.Type) && len(m.Data) > 0 && len(m.Data) <= mostMedia
}

// Base64 returns the bytes of media as they are sent.
func Base64(m provider.Media) string { return base64.StdEncoding.EncodeToString(m.Data) }

// DataURL returns media as a URL.
func DataURL(m provider.Media) string { return "data:" + m.Type + ";base64," + Base64(m) }
