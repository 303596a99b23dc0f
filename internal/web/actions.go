package web

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// action is something that a user does to a run. It returns the name of the notice that follows.
type action func(h *Handler, r *request, run *app.Run) (string, error)

// actions are the actions on runs, by the last part of their address. Each needs the permission to operate; app decides
// whether the run is in a state that allows the action.
var actions = map[string]action{
	"pause": func(h *Handler, r *request, run *app.Run) (string, error) {
		return "paused", h.send(r, run, app.Pause{})
	},
	"cancel": func(h *Handler, r *request, run *app.Run) (string, error) {
		return "cancelled", h.send(r, run, app.Cancel{Reason: r.PostFormValue("reason")})
	},
	"resume": func(h *Handler, r *request, run *app.Run) (string, error) {
		resumption, err := h.o.App.PrepareResume(r.Context(), app.ResumeRequest{Run: run.ID, By: r.actor()})
		if err != nil {
			return "", err
		}
		return "resumed", h.o.App.Resume(r.Context(), resumption)
	},
	"raise": func(h *Handler, r *request, run *app.Run) (string, error) {
		m, err := app.ParseRaise(journal.BudgetName(r.PostFormValue("budget")), r.PostFormValue("to"))
		if err != nil {
			return "", err
		}
		return "raised", h.send(r, run, m)
	},
	"edit": func(h *Handler, r *request, run *app.Run) (string, error) {
		return "edited", h.send(r, run, app.Edit{
			Variable: r.PostFormValue("variable"), Value: app.ValueOfText(r.PostFormValue("value")),
		})
	},
	"signal": func(h *Handler, r *request, run *app.Run) (string, error) {
		var data json.RawMessage
		if text := strings.TrimSpace(r.PostFormValue("data")); text != "" {
			data = app.ValueOfText(text)
		}
		return "signaled", h.send(r, run, app.Signal{
			Event: r.PostFormValue("event"), Data: data, Roles: r.id.ApproverRoles(),
		})
	},
	"reply": func(h *Handler, r *request, run *app.Run) (string, error) {
		text := strings.TrimSpace(r.PostFormValue("text"))
		// An empty reply ends a conversation, so it must not be sent by accident.
		if ended := r.PostFormValue("end") != ""; ended {
			text = ""
		} else if text == "" {
			return "", invalid("the reply is empty", "Write a reply, or end the conversation.")
		}
		data, err := json.Marshal(text)
		if err != nil {
			return "", err
		}
		return "replied", h.send(r, run, app.Signal{
			Event: r.PostFormValue("event"), Step: r.PostFormValue("step"), Data: data,
		})
	},
	"resolve": func(h *Handler, r *request, run *app.Run) (string, error) {
		m := app.Resolve{Step: r.PostFormValue("step"), Answer: journal.Answer(r.PostFormValue("answer"))}
		if m.Answer == journal.AnswerResult {
			m.Value = app.ValueOfText(r.PostFormValue("value"))
		}
		return "resolved", h.send(r, run, m)
	},
}

// notices are what a page says after an action, by the parameter "done" of its address.
var notices = map[string]string{
	"approved": "Approved. The run continues.", "rejected": "Rejected. The decision is recorded.",
	"paused":    "Paused. Running steps finish first; no new step starts.",
	"cancelled": "Canceled. Running steps are stopped.", "resumed": "Resumed.", "raised": "The limit is raised.",
	"edited": "The variable is changed. The change is recorded.", "signaled": "The event is sent.",
	"replied":  "The reply is sent.",
	"resolved": "Recorded. The run continues.", "retried": "This run continues the failed one.",
	"trigger-paused": "Paused. The trigger starts no runs until it is resumed.", "trigger-resumed": "Resumed.",
	"started": "Started.", "simulated": "Started with simulated replies. Nothing is sent and nothing costs money.",
}

func (h *Handler) send(r *request, run *app.Run, m app.Message) error {
	_, err := h.o.App.Send(r.Context(), run.ID, r.actor(), m)
	return err
}

// act performs an action and returns to the page that it came from: the inbox if the form says so, or else the run. No
// other address is accepted from the form.
func (h *Handler) act(r *request, run *app.Run, do action) error {
	done, err := do(h, r, run)
	if err != nil {
		return err
	}
	if r.PostFormValue("return") == "inbox" {
		return h.redirect(r, "/inbox?"+url.Values{"done": {done}, "run": {string(run.ID)}}.Encode())
	}
	return h.redirect(r, runPath(string(run.ID), "?done="+done))
}

// retry continues a finished run from a step, with the variables that the form has changed. The form sends each value
// as it was shown beside the value as it is: only differences become edits, so that an untouched value, which the form
// may have formatted, does not replace the original.
func (h *Handler) retry(r *request, run *app.Run) error {
	req := app.ResumeRequest{Run: run.ID, From: r.PostFormValue("from"), By: r.actor()}
	if r.PostFormValue("unchanged") == "" {
		for i, name := range r.PostForm["set-name"] {
			value, before := nth(r.PostForm["set-value"], i), nth(r.PostForm["set-before"], i)
			if normalized(value) != normalized(before) {
				kind := nth(r.PostForm["set-kind"], i)
				req.Set = append(req.Set, app.Edit{Variable: name, Value: valueOf(kind, value)})
			}
		}
	}
	resumption, err := h.o.App.PrepareResume(r.Context(), req)
	if err != nil {
		return err
	}
	if err := h.o.App.Resume(r.Context(), resumption); err != nil {
		return err
	}
	return h.redirect(r, runPath(string(resumption.Run), "?done=retried"))
}

func nth(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

// normalized returns a text with line ends of one kind: browsers send the lines of a text area with CR LF.
func normalized(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// valueOf returns the value of a field: text stays text, even if it looks like a number.
func valueOf(kind, text string) json.RawMessage {
	if kind == "json" {
		return app.ValueOfText(normalized(text))
	}
	raw, err := json.Marshal(normalized(text))
	if err != nil {
		return json.RawMessage("null") // strings always encode
	}
	return raw
}

// cancelRuns cancels the runs that are selected in the list. Runs that have finished meanwhile are skipped. If one run
// cannot be canceled, those before it are canceled already.
func (h *Handler) cancelRuns(r *request) error {
	if err := r.ParseForm(); err != nil {
		return invalid("the form cannot be read", "")
	}
	cancelled := 0
	for _, id := range r.PostForm["run"] {
		run, err := h.o.App.Find(r.Context(), id)
		if err != nil {
			return err
		}
		if run.Status == journal.Finished {
			continue
		}
		if err := h.send(r, run, app.Cancel{Reason: r.PostFormValue("reason")}); err != nil {
			return err
		}
		cancelled++
	}
	if cancelled == 0 {
		return invalid("no run was canceled", "Select one or more runs that have not finished.")
	}
	return h.redirect(r, "/runs?done=cancelled")
}
