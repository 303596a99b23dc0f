package node

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// request is the first line that cpython.Host reads. Every further line is a reply.
type request struct {
	Code     []kinds.NodeBlock          `json:"code"`
	Function string                     `json:"function"`
	State    map[string]json.RawMessage `json:"state"`
	Fields   map[string]string          `json:"fields"`
	SDK      bool                       `json:"sdk"`
}

// message is a line that cpython.Host writes: output, a call of an agent, or its end.
type message struct {
	Call     *string         `json:"call"` // key of an agent
	Workload json.RawMessage `json:"workload"`
	Printed  string          `json:"printed"`
	Logged   string          `json:"logged"` // written to standard error
	Done     bool            `json:"done"`
	Value    json.RawMessage `json:"value"`
	Failed   *string         `json:"failed"` // type and text of an exception
	Line     int             `json:"line"`
	Block    int             `json:"block"`
}

const maxLine = 16 << 20

// errEnded means that the program ended without a message about its end.
var errEnded = errors.New("the code ended early")

// converse sends the code and serves its calls until it ends. It returns what the
// function returned.
func (h *host) converse(ctx context.Context, in io.Writer, out io.Reader, t *timer) (json.RawMessage, error) {
	send := func(v any) error {
		if _, err := in.Write(append(step.JSON(v), '\n')); err != nil {
			return errEnded
		}
		return nil
	}
	err := send(request{
		Code: h.set.Code, Function: h.set.Function, State: h.state(), Fields: h.set.Fields,
		SDK: h.set.SDK,
	})
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return nil, step.Errorf(ir.ClassCommand, "the code wrote to the connection with its host: %.100q",
				lines.Text())
		}
		h.printed.add(m.Printed)
		h.logged.add(m.Logged)
		switch {
		case m.Call != nil:
			t.pause()
			r, err := h.call(ctx, *m.Call, m.Workload)
			t.resume()
			if err == nil {
				err = send(r)
			}
			if err != nil {
				return nil, err
			}
		case m.Failed != nil:
			return nil, h.failure(*m.Failed, m.Block, m.Line)
		case m.Done:
			return m.Value, nil
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, step.Errorf(ClassCode,
			"%s: the code printed, returned or passed to an agent more than %d MiB at once",
			h.set.File, maxLine>>20)
	}
	return nil, errEnded
}

// ClassCode is the class of failures of the code itself.
const ClassCode = "CODE_ERROR"

// failure returns the error of an exception, with its place in the file.
func (h *host) failure(what string, block, line int) error {
	where := h.set.File
	if line > 0 && block < len(h.set.Code) {
		where = fmt.Sprintf("%s:%d", where, line+h.set.Code[block].Line-1)
	}
	if h.set.Function != "" {
		where += ": in " + h.set.Function
	}
	return step.Errorf(ClassCode, "%s: %s", where, what)
}

// maxSeconds is how long code can compute. Waiting for agents does not count.
const maxSeconds = 60

// timer ends code that computes for too long.
type timer struct {
	timer   *time.Timer
	left    time.Duration
	running time.Time // since when it runs
}

// newTimer starts a timer that calls stop with the reason.
func (h *host) newTimer(stop func(error)) *timer {
	seconds := cmp.Or(h.set.Seconds, maxSeconds)
	t := &timer{left: time.Duration(seconds * float64(time.Second)), running: time.Now()}
	t.timer = time.AfterFunc(t.left, func() {
		stop(step.Errorf(ir.ClassTimeout,
			"%s: the code of %s was stopped because it computed for more than %g seconds",
			h.set.File, h.name(), seconds))
	})
	return t
}

func (t *timer) pause() {
	t.timer.Stop()
	t.left -= time.Since(t.running)
}

func (t *timer) resume() {
	t.running = time.Now()
	t.timer.Reset(max(t.left, 0))
}
