package http_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/netguard"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/tool/builtin"
	tools "github.com/espalier-run/espalier/internal/tool/http"
)

// Declared tools and http.request return a binary body as media with a placeholder, and a text as a text.
func TestBinaryBodiesAreNotText(t *testing.T) {
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	wave := "RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\xff\xfe"
	for name, c := range map[string]struct {
		status     int
		kind, body string
		media      string // the type; empty for a text
		text       string
	}{
		"image":                  {200, "image/png", picture.String(), "image/png", ""},
		"image that is ASCII":    {200, "image/gif", "GIF89a", "image/gif", ""},
		"image without type":     {200, "application/octet-stream", picture.String(), "image/png", ""},
		"sound":                  {200, "audio/mpeg; codecs=mp3", "\xff\xfb\x90\x00", "audio/mpeg", ""},
		"sound by another name":  {200, "audio/x-wav", wave, "audio/wav", ""},
		"sound without type":     {200, "", wave, "audio/wav", ""},
		"archive":                {200, "application/zip", "PK\x03\x04\xff\xfe", "application/zip", ""},
		"document":               {200, "application/pdf", "%PDF-1.7 all ASCII", "application/pdf", ""},
		"unknown bytes":          {200, "application/octet-stream", "\x01\x02\xff", "application/octet-stream", ""},
		"zero bytes in a text":   {200, "text/plain", "a\x00b", "text/plain", ""},
		"other character set":    {200, "text/html; charset=shift_jis", "\x83e\x83X\x83g", "text/html", ""},
		"JSON that is not":       {200, "application/json", "\xff\xfe", "application/json", ""},
		"image of a refusal":     {404, "image/png", picture.String(), "image/png", ""},
		"drawing":                {200, "image/svg+xml", "<svg/>", "", "<svg/>"},
		"text of no type":        {200, "application/octet-stream", "grüße", "", "grüße"},
		"Latin-1":                {200, "text/html; charset=ISO-8859-1", "gr\xfc\xdfe", "", "grüße"},
		"page without a charset": {200, "text/html", "gr\xfc\xdfe", "", "grüße"},
		"nothing":                {200, "image/png", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{c.kind}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer s.Close()
			guard := netguard.Options{Allow: []string{s.Listener.Addr().String()}}
			both := append(builtin.Tools(builtin.Options{Network: builtin.Network{Guard: guard}}),
				tools.New(tools.Declared{Name: "declared", URL: s.URL, Method: "GET"}, tools.Options{Guard: guard}))
			for _, one := range both {
				input := `{}`
				switch one.Spec().Name {
				case "http.request":
					input = `{"url":"` + s.URL + `"}`
				case "declared":
				default:
					continue
				}
				result, err := one.Call(t.Context(), tool.Call{Input: json.RawMessage(input)})
				if err != nil || result.IsError != (c.status >= 400) {
					t.Fatalf("%s: %+v, %v", one.Spec().Name, result, err)
				}
				out := string(result.Output)
				switch {
				case strings.Contains(out, "\uFFFD") || strings.Contains(out, `\ufffd`):
					t.Errorf("%s: replaced characters: %s", one.Spec().Name, out)
				case c.media == "" && (result.Media != nil || !strings.Contains(out, strings.Trim(c.text, "<>"))):
					t.Errorf("%s: %s, %+v", one.Spec().Name, out, result.Media)
				case c.media == "":
				case len(result.Media) != 1 || result.Media[0].Type != c.media || string(result.Media[0].Data) != c.body:
					t.Errorf("%s: the media are %+v", one.Spec().Name, result.Media)
				case !strings.Contains(out, result.Media[0].Placeholder()):
					t.Errorf("%s: %s lacks %s", one.Spec().Name, out, result.Media[0].Placeholder())
				}
			}
		})
	}
}

// A call that fails keeps no file, and its message mentions none.
func TestFailureMentionsNoFile(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("\x89PNG\r\n\x1a\n"))
	}))
	defer s.Close()
	guard := netguard.Options{Allow: []string{s.Listener.Addr().String()}}
	_, err := tools.New(tools.Declared{URL: s.URL}, tools.Options{Guard: guard}).
		Call(t.Context(), tool.Call{Input: json.RawMessage(`{}`)})
	failed, ok := errors.AsType[*tool.Error](err)
	if !ok || failed.Message != "the server answered 502 Bad Gateway" {
		t.Errorf("%v", err)
	}
}
