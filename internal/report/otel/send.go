package otel

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// sender sends one signal to its endpoint.
type sender struct {
	to     *Endpoint
	client *http.Client
}

// newSender returns a sender for an endpoint, or nil if there is none. It has connections of its own, because its TLS
// settings are those of the endpoint.
func newSender(to *Endpoint) *sender {
	if to == nil {
		return nil
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = to.TLS
	return &sender{to: to, client: &http.Client{
		Transport: transport,
		// A collector has no reason to redirect, and headers contain keys.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// close closes idle connections. It may be called for nil.
func (s *sender) close() {
	if s != nil {
		s.client.CloseIdleConnections()
	}
}

// sendError reports why a request failed.
type sendError struct {
	Why string
	// Never reports that sending the same again is useless.
	Never bool
	// Nowhere reports that no collector is at the address.
	Nowhere bool
	// After is the delay that the collector asks for.
	After time.Duration
}

func (e *sendError) Error() string { return e.Why }

// send sends a request, and returns how many of its items were rejected.
func (s *sender) send(ctx context.Context, body []byte) (rejected int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.to.Timeout)
	defer cancel()
	if s.to.Gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(body); err != nil {
			return 0, err
		}
		if err := z.Close(); err != nil {
			return 0, err
		}
		body = b.Bytes()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.to.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if s.to.JSON {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.to.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	req.Header.Set("User-Agent", "espalier")
	for key, value := range s.to.Headers {
		req.Header.Set(key, value)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, &sendError{Why: describe(err)}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch {
	case resp.StatusCode/100 == 2 && err == nil:
		return s.rejected(answer), nil
	case resp.StatusCode/100 == 2:
		return 0, nil // the request succeeded; only the reply was cut off
	}
	failed := &sendError{Why: "it answers " + resp.Status}
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		failed.Never = true
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		failed.Nowhere = true
	}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		failed.After = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(resp.Header.Get("Retry-After")); err == nil {
		failed.After = time.Until(at)
	}
	return 0, failed
}

// describe describes a connection problem without the address, which may contain a password.
func describe(err error) string {
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.As(err, &timeout) && timeout.Timeout() {
		return "it does not answer in time"
	}
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Err != nil {
		err = dial.Err
	}
	return strings.TrimPrefix(err.Error(), "connect: ")
}

// rejected returns how many spans or points a collector has rejected of a request that it accepted.
func (s *sender) rejected(answer []byte) int64 {
	if s.to.JSON {
		var partial struct {
			Partial struct {
				Spans  json.Number `json:"rejectedSpans"`
				Points json.Number `json:"rejectedDataPoints"`
			} `json:"partialSuccess"`
		}
		if json.Unmarshal(answer, &partial) != nil {
			return 0
		}
		spans, _ := partial.Partial.Spans.Int64() // an invalid number counts as 0
		points, _ := partial.Partial.Points.Int64()
		return max(0, spans, points)
	}
	count, _ := protowire.ConsumeVarint(firstField(firstField(answer, protowire.BytesType), protowire.VarintType))
	return max(0, int64(count))
}

// firstField returns the value of field 1 of a protobuf message: encoded if it is a number, nil if it is missing.
func firstField(b []byte, want protowire.Type) []byte {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 {
			return nil
		}
		if number == 1 && kind == want {
			if kind == protowire.BytesType {
				b, _ = protowire.ConsumeBytes(b)
			}
			return b
		}
		b = b[size:]
	}
	return nil
}

// Reach sends an empty request to check that the endpoint exists and accepts the credentials.
func (e *Endpoint) Reach(ctx context.Context) error {
	s := newSender(e)
	defer s.close()
	body := []byte{}
	if e.JSON {
		body = []byte("{}")
	}
	_, err := s.send(ctx, body)
	if failed, ok := errors.AsType[*sendError](err); ok {
		return failed
	}
	if err != nil {
		return fmt.Errorf("the request cannot be made: %s", describe(err))
	}
	return nil
}
