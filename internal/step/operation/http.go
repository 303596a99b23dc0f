package operation

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/tool"
)

// httpRequest is an operation with its own names: workflows set "timeout" and "retryable_status_codes", and
// read "status_code". Every response is a result, unless its status is retryable.
const httpRequest = "http.request"

const (
	methodInput  = "method"
	headersInput = "headers"
	timeoutInput = "timeout"
	retryInput   = "retryable_status_codes"
)

// requested converts the inputs of a request to those of the tool.
func requested(in map[string]any) error {
	delete(in, retryInput)
	if method, ok := in[methodInput].(string); ok {
		in[methodInput] = strings.ToUpper(strings.TrimSpace(method))
	}
	if headers, ok := in[headersInput].(map[string]any); ok {
		for name, value := range headers {
			switch value.(type) {
			case json.Number, bool: // YAML reads 1.0 and yes as such
				headers[name] = fmt.Sprint(value)
			}
		}
	}
	limit, ok := in[timeoutInput]
	if !ok {
		return nil
	}
	delete(in, timeoutInput)
	text := strings.TrimSpace(fmt.Sprint(limit))
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		var d time.Duration
		d, err = time.ParseDuration(text)
		seconds = d.Seconds()
	}
	if err != nil || seconds < 0 {
		return step.Errorf(ir.ClassInput, "the timeout of a request is %q, not seconds or a duration", text)
	}
	if seconds > 0 { // 0 means the default
		in["timeout_seconds"] = int(math.Ceil(seconds))
	}
	return nil
}

// response is the server's response as the workflow reads it.
type response struct {
	Status    int               `json:"status_code"`
	Body      string            `json:"body"`
	Headers   map[string]string `json:"headers"`
	Truncated bool              `json:"body_truncated"` // always false: a body that is too long is a failure
}

// answered returns the use of the tool as the workflow sees it; codes are the retryable statuses.
func answered(use journal.ToolUse, codes []int) journal.ToolUse {
	var answer tool.Answer
	if use.Class != "" || json.Unmarshal(use.Output, &answer) != nil || answer.Status == 0 {
		return use // there was no response, or a script replaced it
	}
	out := response{Status: answer.Status, Body: answer.Body, Headers: answer.Headers}
	if out.Body == "" {
		out.Body = string(answer.JSON)
	}
	if out.Headers == nil {
		out.Headers = map[string]string{}
	}
	use.Output, use.Error = step.JSON(out), ""
	if slices.Contains(codes, answer.Status) {
		use.Error = fmt.Sprintf("the server answered with status %d", answer.Status)
	}
	return use
}

// retried returns the retryable statuses: a list or a single one, as numbers or texts.
func retried(job *step.Job, set settings) ([]int, error) {
	var in map[string]json.RawMessage
	if json.Unmarshal(set.Inputs, &in) != nil || len(in[retryInput]) == 0 {
		return nil, nil
	}
	codes, err := filled(job, in[retryInput], "", nil)
	if err != nil {
		return nil, err
	}
	list, ok := codes.([]any)
	if !ok && codes != nil {
		list = []any{codes}
	}
	var out []int
	for _, code := range list {
		for text := range strings.SplitSeq(strings.Trim(fmt.Sprint(code), "[] "), ",") {
			text = strings.TrimSpace(text)
			if text == "" {
				continue // a template with an empty result
			}
			n, err := strconv.Atoi(text)
			if err != nil {
				return nil, step.Errorf(ir.ClassInput, "%s of a request are %q, not numbers such as 503",
					retryInput, fmt.Sprint(code))
			}
			out = append(out, n)
		}
	}
	return out, nil
}
