package server

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
)

// withGzip compresses responses that are text, for clients that accept it. Live events are not compressed: each has to
// arrive at once, and their media type is not in the list.
func withGzip(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !acceptsGzip(r.Header.Get("Accept-Encoding")) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Add("Vary", "Accept-Encoding")
		c := &compressor{ResponseWriter: w}
		defer c.close()
		next.ServeHTTP(c, r)
	})
}

// acceptsGzip reports whether the value of an Accept-Encoding header allows gzip (RFC 9110, section 12.5.3). A quality
// of zero forbids it; other qualities count as equal. "*" does not count.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		coding, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		q := strings.ReplaceAll(strings.TrimSpace(quality), " ", "")
		return q == "" || strings.Trim(strings.TrimPrefix(q, "q="), "0.") != ""
	}
	return false
}

// minCompressed is how large the first piece of a response must be, in bytes. Below that, gzip gains nothing.
const minCompressed = 1024

// compressed lists the media types that are worth compressing.
var compressed = []string{
	"application/json", "application/problem+json", "application/openapi+json", jsonLines, "image/svg+xml", "text/css",
	"text/html", "text/javascript", "text/plain",
}

// compressor compresses a response whose media type is worth compressing, if its first piece is large enough. It holds
// back the header until then, because Content-Encoding depends on that decision. The caller calls close at the end.
type compressor struct {
	http.ResponseWriter
	status  int
	decided bool
	gz      *gzip.Writer // nil if the response is not compressed
}

// WriteHeader implements http.ResponseWriter.
func (c *compressor) WriteHeader(status int) {
	c.status = cmp.Or(c.status, status)
}

// Write implements http.ResponseWriter.
func (c *compressor) Write(p []byte) (int, error) {
	c.decide(p)
	if c.gz != nil {
		return c.gz.Write(p)
	}
	return c.ResponseWriter.Write(p)
}

// decide chooses on the first write or flush whether to compress, and writes the header. Responses that are encoded
// already, such as static files, pass unchanged. Without a status, net/http writes the header itself.
func (c *compressor) decide(first []byte) {
	if c.decided {
		return
	}
	c.decided = true
	h := c.Header()
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type")) // "" is not compressed
	if len(first) >= minCompressed && h.Get("Content-Encoding") == "" && slices.Contains(compressed, media) {
		h.Set("Content-Encoding", "gzip")
		h.Del("Content-Length")
		c.gz = gzip.NewWriter(c.ResponseWriter)
	}
	if c.status != 0 {
		c.ResponseWriter.WriteHeader(c.status)
	}
}

// FlushError lets http.ResponseController send what has been written.
func (c *compressor) FlushError() error {
	c.decide(nil)
	if c.gz != nil {
		if err := c.gz.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (c *compressor) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *compressor) close() {
	c.decide(nil)
	if c.gz != nil {
		c.gz.Close() // the client may be gone
	}
}

// withETag adds validators to responses of the API, and sends no body to a client that has the current one. The
// permission of a request is checked each time, before this. The response is buffered as a whole, so that the tag is a
// hash of it; streams and files are left out.
func withETag(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/api/v1/") || isStream(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		b := &buffered{ResponseWriter: w}
		next.ServeHTTP(b, r)
		h := w.Header()
		if b.status == 0 || b.status == http.StatusOK {
			sum := sha256.Sum256(b.body.Bytes())
			tag := `W/"` + hex.EncodeToString(sum[:16]) + `"` // weak: the body may be compressed
			h.Set("ETag", tag)
			h.Set("Cache-Control", "private, no-cache")
			if matches(r.Header.Get("If-None-Match"), tag) {
				h.Del("Content-Type")
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		if b.status != 0 {
			w.WriteHeader(b.status)
		}
		w.Write(b.body.Bytes())
	})
}

// isStream reports whether a route of the API streams, or sends whole files.
func isStream(route string) bool {
	return slices.Contains([]string{"events", "progress", "transcript", "audit"}, path.Base(route)) ||
		strings.Contains(route, "/artifacts/")
}

// matches reports whether an If-None-Match header contains a tag, using the weak comparison of RFC 9110.
func matches(header, tag string) bool {
	if strings.TrimSpace(header) == "*" {
		return true
	}
	for part := range strings.SplitSeq(header, ",") {
		if strings.TrimPrefix(strings.TrimSpace(part), "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// buffered holds a response back until its end.
type buffered struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (b *buffered) WriteHeader(status int) {
	b.status = cmp.Or(b.status, status)
}

// Write implements http.ResponseWriter.
func (b *buffered) Write(p []byte) (int, error) { return b.body.Write(p) }

// Unwrap lets http.ResponseController reach the connection.
func (b *buffered) Unwrap() http.ResponseWriter { return b.ResponseWriter }
