package httptransport

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/provider"
)

// maxMedia is the maximum size of a file in bytes: 5 MiB in base64, which every provider accepts. Base64 makes four
// bytes of three.
const maxMedia = 5 << 20 / 4 * 3

// Images are the types that all models with vision accept.
var Images = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// withVision matches the names of models that accept images, except for those
// that withoutVision matches. Models with other names get no images.
var (
	withoutVision = regexp.MustCompile(`^(claude-2|claude-instant|o1-mini|o1-preview|o3-mini|gpt-4-0|gpt-4-1106)`)
	withVision    = regexp.MustCompile(`^(claude-|gemini-|gpt-4o|gpt-4\.1|gpt-4\.5|gpt-4-turbo|gpt-([5-9]|\d\d)|chatgpt-4o|o[1-9]|gemma-?3|llama-?4|grok-[4-9]|mistral-medium-3|mistral-small-3)|vision|-vl\b|llava|pixtral`)
)

// HasVision reports whether models of this name accept images.
func HasVision(model string) bool {
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	return withVision.MatchString(name) && !withoutVision.MatchString(name)
}

// AcceptsMedia reports whether media can be sent to a model that accepts these types.
func AcceptsMedia(m provider.Media, types []string) bool {
	return slices.Contains(types, m.Type) && len(m.Data) > 0 && len(m.Data) <= maxMedia
}

// Base64 returns the data of media in base64.
func Base64(m provider.Media) string { return base64.StdEncoding.EncodeToString(m.Data) }

// DataURL returns media as a data URL.
func DataURL(m provider.Media) string { return "data:" + m.Type + ";base64," + Base64(m) }
