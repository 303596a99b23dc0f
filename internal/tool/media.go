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

// Media is an image, a sound or another file that a tool returns. A Result
// refers to it by its placeholder: its bytes are no part of the output.
type Media struct {
	Type string // such as image/png
	Data []byte
}

// extensions are those of common types; the list of the system may differ
// between machines.
var extensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
	"audio/wav": ".wav", "audio/mpeg": ".mp3", "audio/mp3": ".mp3", "audio/ogg": ".ogg", "audio/flac": ".flac",
	"application/pdf": ".pdf",
}

// aliases are names that servers use for types which the providers of models know by another name.
var aliases = map[string]string{
	"audio/wave": "audio/wav", "audio/x-wav": "audio/wav", "audio/vnd.wave": "audio/wav", "image/jpg": "image/jpeg",
}

// NewMedia returns media of the type that a server names.
func NewMedia(kind string, data []byte) Media {
	name, _, err := mime.ParseMediaType(kind)
	if err != nil {
		name = "application/octet-stream"
	}
	name = cmp.Or(aliases[name], name)
	return Media{Type: name, Data: data}
}

// File returns the name of the file that keeps the bytes, relative to the run's
// folder. The same bytes have the same name.
func (m Media) File() string {
	sum := sha256.Sum256(m.Data)
	extension := cmp.Or(extensions[m.Type], ".bin")
	return path.Join("media", hex.EncodeToString(sum[:8])+extension)
}

// Placeholder returns the line that stands for the media where it cannot be
// shown.
func (m Media) Placeholder() string {
	kind, _, _ := strings.Cut(m.Type, "/")
	if kind != "image" && kind != "audio" && kind != "video" {
		kind = "file"
	}
	return fmt.Sprintf("[%s %s, %d bytes, kept as %s]", kind, m.Type, len(m.Data), m.File())
}
