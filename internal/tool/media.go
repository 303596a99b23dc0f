package tool

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mime"
	"path"
	"strings"
)

// Media is an image, a sound or another binary file that a tool returns. The output of a Result contains its
// placeholder, not its bytes.
type Media struct {
	Type string // such as image/png
	Data []byte
}

// extensions maps common types to file extensions. The system's own list differs between machines.
var extensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
	"audio/wav": ".wav", "audio/mpeg": ".mp3", "audio/mp3": ".mp3", "audio/ogg": ".ogg", "audio/flac": ".flac",
	"application/pdf": ".pdf",
}

// aliases maps type names that servers use to the names that model providers accept.
var aliases = map[string]string{
	"audio/wave": "audio/wav", "audio/x-wav": "audio/wav", "audio/vnd.wave": "audio/wav", "image/jpg": "image/jpeg",
}

// NewMedia returns media with the type that a server declares.
func NewMedia(kind string, data []byte) Media {
	name, _, err := mime.ParseMediaType(kind)
	if err != nil {
		name = "application/octet-stream"
	}
	name = cmp.Or(aliases[name], name)
	return Media{Type: name, Data: data}
}

// File returns the path of the file with the bytes, relative to the run's folder. It is derived from the bytes.
func (m Media) File() string {
	sum := sha256.Sum256(m.Data)
	extension := cmp.Or(extensions[m.Type], ".bin")
	return path.Join("media", hex.EncodeToString(sum[:8])+extension)
}

// Placeholder returns the text that represents the media in an output.
func (m Media) Placeholder() string {
	kind, _, _ := strings.Cut(m.Type, "/")
	if kind != "image" && kind != "audio" && kind != "video" {
		kind = "file"
	}
	return fmt.Sprintf("[%s %s, %d bytes, kept as %s]", kind, m.Type, len(m.Data), m.File())
}
