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

// longestLine bounds one line of an event stream.
const longestLine = 64 << 20

// Events reads the data of a stream of server-sent events.
func Events(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, longestLine)
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

// Ended returns an error if a stream without errors ended before the reply did.
func Ended(ctx context.Context, complete bool) error {
	if ctx.Err() == nil && !complete {
		return BrokeOff()
	}
	return ctx.Err()
}

// Event writes one server-sent event.
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

// Unstreamed rewrites a request so that it asks for the whole reply at once. The
// SDKs set their own value last, whatever the options say.
func Unstreamed(req *http.Request) error {
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
