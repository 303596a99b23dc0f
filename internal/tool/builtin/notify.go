package builtin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/netguard"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/tool"
)

// Backends of notifications.
const (
	notifyLog     = "log"
	notifyDesktop = "desktop"
	notifyWebhook = "webhook"
)

type notice struct {
	Backend  string `json:"backend"`
	Title    string `json:"title"`
	Message  string `json:"message"`
	Priority string `json:"priority"`
	URL      string `json:"webhook_url"`
}

// line returns the notice as one line for terminals and logs.
func (n notice) line() string {
	if n.Title == "" {
		return n.Message
	}
	return n.Title + ": " + n.Message
}

// delivered is the result of the tool.
type delivered struct {
	Backend string `json:"backend"`
	Status  string `json:"status"`
	Code    int    `json:"status_code,omitempty"`
}

// notifyTool returns the tool that notifies a person. Notices in the log may be repeated: the log is a part of the
// result of the call. Others reach a person each time.
func (o Options) notifyTool() tool.Tool {
	return function[notice]{
		spec: tool.Spec{
			Name:        "notify.send",
			Description: "Notify a person in the log of the run, on the desktop, or through a webhook.",
			Target:      "a person", SideEffects: true,
			Schema: schemaOf(`{"type":"object","properties":{
				"backend":{"type":"string","enum":["` + strings.Join([]string{notifyLog, notifyDesktop, notifyWebhook},
				`","`) + `"]},
				"title":{"type":"string"},
				"message":{"type":"string","minLength":1},
				"priority":{"type":"string","enum":["low","default","high"]},
				"webhook_url":{"type":"string","minLength":1,` +
				`"description":"URL of the webhook, which receives title, message and priority as JSON"}},
				"required":["message"],"additionalProperties":false}`),
			Returns: schemaOf(`{"type":"object","properties":{"backend":{"type":"string"},"status":{"const":"sent"}},` +
				`"required":["backend","status"]}`),
		},
		repeatable: func(in notice) bool { return in.Backend == "" || in.Backend == notifyLog },
		call: func(ctx context.Context, call tool.Call, in notice) (any, error) {
			in.Backend, in.Priority = cmp.Or(in.Backend, notifyLog), cmp.Or(in.Priority, "default")
			out := delivered{Backend: in.Backend, Status: "sent"}
			var err error
			switch in.Backend {
			case notifyWebhook:
				out.Code, err = o.post(ctx, call, in)
			case notifyDesktop:
				err = show(ctx, in)
			}
			return resultWithLog{out, in.line()}, err
		},
	}
}

// post sends a notice to a webhook, with the key of the call as Idempotency-Key.
func (o Options) post(ctx context.Context, call tool.Call, in notice) (status int, err error) {
	if in.URL == "" {
		return 0, &tool.Error{Class: ir.ClassInput, Message: `a notice by webhook needs "webhook_url"`}
	}
	u, err := url.Parse(in.URL)
	if err == nil {
		err = netguard.Check(u)
	}
	if err != nil {
		return 0, tool.Errorf(ir.ClassInput, "%q cannot be reached: %v", in.URL, err)
	}
	// Webhooks of chat programs display "text".
	body, err := json.Marshal(map[string]string{
		"title": in.Title, "message": in.Message, "priority": in.Priority,
		"text": in.line(),
	})
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, &tool.Error{Class: ir.ClassInput, Message: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", call.Key)
	tool.SetTraceParent(req.Header, call)
	answer, err := tool.Exchange(netguard.Client(o.Network.Guard), req, o.Network.MaxBytes)
	if err != nil {
		return 0, err
	}
	if answer.Status >= http.StatusBadRequest {
		return answer.Status, toolFailure{answer, answer.Summary()}
	}
	return answer.Status, nil
}

// desktopCommand returns the program of an operating system that displays a notice, with its arguments and its input. A
// model chooses title and message, so neither may be parsed as an option: osascript executes the argument of -e, and
// passes all arguments after "-" to the script unchanged.
func desktopCommand(system string, in notice) (program string, args []string, input string) {
	title := cmp.Or(in.Title, "Espalier")
	if system == "darwin" {
		return "osascript", []string{"-", title, in.Message}, "on run argv\n" +
			"display notification (item 2 of argv) with title (item 1 of argv)\nend run\n"
	}
	urgency := map[string]string{"low": "low", "default": "normal", "high": "critical"}[in.Priority]
	return "notify-send", []string{"--urgency=" + urgency, "--", title, in.Message}, ""
}

// show displays a notice on the desktop.
func show(ctx context.Context, in notice) error {
	program, args, input := desktopCommand(runtime.GOOS, in)
	path, err := exec.LookPath(program)
	if err != nil {
		return tool.Errorf(ir.ClassTool,
			"%s, which shows notices on the desktop, is not installed; use the backend \"log\" or \"webhook\"", program)
	}
	env := process.Environment(os.Environ())
	for _, name := range []string{"DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	outcome, err := process.Run(ctx, process.Command{Path: path, Args: args, Stdin: []byte(input), Env: env})
	if err == nil && outcome.Exit != 0 {
		err = tool.Errorf(ir.ClassTool, "%s failed: %s", program, bytes.TrimSpace(outcome.Stderr))
	}
	return err
}
