package tool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/netguard"
)

// SetTraceParent adds the call's traceparent to the headers of a request, unless they have one.
func SetTraceParent(h http.Header, call Call) {
	if call.TraceParent != "" && h.Get("Traceparent") == "" {
		h.Set("Traceparent", call.TraceParent)
	}
}

// maxAnswer is the default limit on the size of a response.
const maxAnswer = 4 << 20

// Answer is the response of an HTTP server.
type Answer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body"`
	JSON    json.RawMessage   `json:"json,omitempty"` // the body if it is JSON; Body is empty then
	// Media is the body if it is an image, a sound or another binary file. Body is its placeholder then.
	Media []Media `json:"-"`
}

// Summary returns the status and the start of the body, for messages.
func (a *Answer) Summary() string {
	const most = 300
	text := strings.TrimSpace(fmt.Sprintf("the server answered %d %s", a.Status, http.StatusText(a.Status)))
	body := strings.TrimSpace(cmp.Or(a.Body, string(a.JSON)))
	if a.Media != nil {
		body = ""
	}
	if len(body) > most {
		body = strings.ToValidUTF8(body[:most], "") + "…"
	}
	if body == "" {
		return text
	}
	return text + ": " + body
}

// Exchange sends a request and reads the response up to a size limit in bytes; 0 selects the default. Every response is
// an Answer, also one with an error status; Exchange returns an error for a request without a complete response and for
// a response that is too large, with the class that retries of workflows use.
func Exchange(client *http.Client, req *http.Request, most int64) (*Answer, error) {
	most = cmp.Or(most, maxAnswer)
	resp, err := client.Do(req)
	if err != nil {
		return nil, unreachable(err)
	}
	defer resp.Body.Close()
	raw, err := netguard.ReadAll(resp.Body, most)
	switch {
	case errors.Is(err, netguard.ErrTooLong):
		return nil, &Error{Class: ir.ClassTool, Message: fmt.Sprintf("the response is longer than %d bytes", most)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &Error{Class: ir.ClassTool, Message: fmt.Sprintf("the response of %s was cut off",
			resp.Request.URL.Host)}
	case err != nil:
		return nil, unreachable(err)
	}
	out := &Answer{Status: resp.StatusCode, Headers: map[string]string{}}
	for name := range resp.Header {
		out.Headers[name] = strings.Join(resp.Header.Values(name), ", ")
	}
	kind := resp.Header.Get("Content-Type")
	if strings.Contains(kind, "json") && json.Valid(raw) {
		out.JSON = raw
		return out, nil
	}
	text, ok := bodyText(kind, raw)
	if !ok {
		media := NewMedia(mediaType(kind, raw), raw)
		text, out.Media = media.Placeholder(), []Media{media}
	}
	out.Body = text
	return out, nil
}

// mediaType returns the declared type of a body, or the type that its first bytes suggest if the declaration says
// nothing.
func mediaType(declared string, raw []byte) string {
	name, _, err := mime.ParseMediaType(declared)
	if err != nil || name == "application/octet-stream" {
		return http.DetectContentType(raw)
	}
	return declared
}

// bodyText returns a body as text, and reports false for images, sounds and other binary files. Text that declares no
// character set and is not valid UTF-8 is read as windows-1252, as the HTML standard requires.
func bodyText(declared string, raw []byte) (string, bool) {
	name, params, _ := mime.ParseMediaType(mediaType(declared, raw))
	main, _, _ := strings.Cut(name, "/")
	valid := utf8.Valid(raw) && bytes.IndexByte(raw, 0) < 0
	switch {
	case len(raw) == 0:
		return "", true
	case name == "image/svg+xml":
		return string(raw), valid
	case slices.Contains([]string{"image", "audio", "video", "font"}, main), name == "application/pdf":
		return "", false
	case valid:
		return string(raw), true
	}
	// Browsers use the same default for pages without a character set.
	charset := strings.ToLower(cmp.Or(params["charset"], "windows-1252"))
	western := slices.Contains([]string{"windows-1252", "iso-8859-1", "latin1", "us-ascii"}, charset)
	switch {
	case main != "text" || bytes.IndexByte(raw, 0) >= 0:
		return "", false
	case western:
		text, err := charmap.Windows1252.NewDecoder().Bytes(raw)
		return string(text), err == nil
	case charset == "utf-8":
		return strings.ToValidUTF8(string(raw), "�"), true
	}
	return "", false
}

// unreachable returns the error of a request without a response. A host that is neither public nor allowed is denied,
// which a retry does not change.
func unreachable(err error) error {
	var ours *Error
	var forbidden *netguard.ForbiddenError
	var slow interface{ Timeout() bool }
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &forbidden):
		return &Error{Class: ir.ClassDenied, Message: forbidden.Error() +
			", which is neither public nor allowed in the configuration"}
	case errors.As(err, &slow) && slow.Timeout():
		return &Error{Class: ir.ClassTimeout, Message: "the server did not respond in time"}
	}
	return &Error{Class: ir.ClassTool, Message: netguard.ErrorText(err)}
}
