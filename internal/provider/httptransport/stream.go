package httptransport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
)

// maxLineBytes limits one line of an event stream, in bytes.
const maxLineBytes = 64 << 20

// Events returns the data of each server-sent event, by the rules of the HTML standard: lines of data are joined by
// line feeds, an empty line ends an event, and other fields are ignored. Data at the end of the stream counts although
// the standard drops it: a server may leave out the last empty line.
func Events(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLineBytes)
		var data []byte
		for lines.Scan() {
			line := lines.Bytes()
			if len(line) == 0 {
				if len(data) > 0 && !yield(data, nil) {
					return
				}
				data = nil
				continue
			}
			if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				if data != nil {
					data = append(data, '\n')
				}
				data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, err)
			return
		}
		if len(data) > 0 {
			yield(data, nil)
		}
	}
}

// CheckComplete returns the error of the context, or ErrTruncated if a stream
// ended before the reply was complete.
func CheckComplete(ctx context.Context, complete bool) error {
	if ctx.Err() == nil && !complete {
		return ErrTruncated
	}
	return ctx.Err()
}

// Event returns a server-sent event in its wire format.
func Event(name string, data []byte) []byte {
	var out bytes.Buffer
	if name != "" {
		out.WriteString("event: " + name + "\n")
	}
	for line := range bytes.Lines(data) {
		out.WriteString("data: ")
		out.Write(bytes.TrimRight(line, "\r\n"))
		out.WriteByte('\n')
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// EventStream is an event stream that is written as a whole. Err joins the errors of all events, so that callers check
// once.
type EventStream struct {
	Data []byte
	Err  error
}

// Add adds an event whose data has its type and the fields.
func (s *EventStream) Add(kind string, fields map[string]any) {
	fields["type"] = kind
	data, err := json.Marshal(fields)
	s.Data, s.Err = append(s.Data, Event(kind, data)...), errors.Join(s.Err, err)
}

// DisableStreaming is middleware of an SDK that requests the complete reply at once. The SDKs override the option
// otherwise.
func DisableStreaming(
	req *http.Request, next func(*http.Request) (*http.Response, error),
) (*http.Response, error) {
	if err := disableStreaming(req); err != nil {
		return nil, err
	}
	return next(req)
}

// disableStreaming rewrites the body of a request.
func disableStreaming(req *http.Request) error {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	sent, ok := readObject(body)
	if !ok {
		return errors.New("the request is not a JSON object")
	}
	sent[Stream] = json.RawMessage("false")
	delete(sent, "stream_options")
	body = raw(sent)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return nil
}
