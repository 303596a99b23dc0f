package web

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/terminal"
)

// exporter is the content of a page that can be exported as a table. The first row has the names of the columns.
type exporter interface{ table() [][]string }

// exports are the pages that can be exported, as CSV and as JSON, under the address of the page with an extension. The
// list of runs has an export of its own.
func (h *Handler) exports() map[string]func(*request) error {
	return map[string]func(*request) error{
		"inbox": h.inbox, "workflows": h.workflows, "triggers": h.triggers, "compare": h.compare, "system": h.system,
	}
}

// writeTable sends a table as CSV or JSON. Cells of CSV pass through cell, because spreadsheets execute formulas; JSON
// has the values as they are, one object for each row, and escapes what controls a terminal.
func (h *Handler) writeTable(r *request, rows [][]string) error {
	name := strings.TrimPrefix(r.URL.Path, "/")
	r.w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	if strings.HasSuffix(name, ".csv") {
		var out bytes.Buffer
		w := csv.NewWriter(&out)
		for _, row := range rows {
			cells := make([]string, len(row))
			for i := range row {
				cells[i] = cell(row[i])
			}
			if err := w.Write(cells); err != nil {
				return err
			}
		}
		w.Flush()
		h.write(r.w, r.Request, http.StatusOK, "text/csv; charset=utf-8", out.Bytes())
		return w.Error()
	}
	list := []map[string]string{}
	for _, row := range rows[1:] {
		object := map[string]string{}
		for i, value := range row {
			object[rows[0][i]] = value
		}
		list = append(list, object)
	}
	return h.writeJSON(r, list)
}

func (h *Handler) writeJSON(r *request, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	h.write(r.w, r.Request, http.StatusOK, "application/json", terminal.EscapeJSON(raw))
	return nil
}

// at formats a time for an export, as RFC 3339 in UTC; empty if there is none.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// table returns the rows of the export. Programs of users read the columns by their names.
func (p inboxPage) table() [][]string {
	rows := [][]string{{"run_id", "workflow", "step", "kind", "description", "waiting_since", "deadline", "mine"}}
	for _, list := range []struct {
		asks []*ask
		mine string
	}{{p.Mine, "yes"}, {p.Others, "no"}} {
		for _, a := range list.asks {
			rows = append(rows, []string{
				a.Run.ID, a.Run.Workflow, a.key(), string(a.Kind), a.About, at(a.Since), a.Gate.Until, list.mine,
			})
		}
	}
	return rows
}

func (p workflowsPage) table() [][]string {
	rows := [][]string{{"workflow", "path", "format", "errors", "warnings", "starts", "last_run", "last_state"}}
	for _, w := range p.Workflows {
		row := []string{w.Name, w.Path, w.Format, number(w.Errors), number(w.Warnings), strings.Join(w.Triggers, "; ")}
		if w.Last == nil {
			row = append(row, "", "")
		} else {
			row = append(row, w.Last.ID, string(stateOf(w.Last.State, w.Last.Outcome).State))
		}
		rows = append(rows, row)
	}
	return rows
}

func (p triggersPage) table() [][]string {
	rows := [][]string{{"trigger", "workflow", "starts", "next", "state", "webhook", "problem"}}
	for _, t := range p.Triggers {
		state := "active"
		switch {
		case t.Off:
			state = "disabled"
		case t.Paused:
			state = "paused"
		}
		rows = append(rows, []string{t.ID, t.Workflow, t.Words, at(t.Next), state, t.Hook, t.Problem})
	}
	return rows
}

func (p comparePage) table() [][]string {
	rows := [][]string{{"part", "name", "a", "b"}, {"run", "id", p.A.ID, ""}}
	if p.B == nil {
		return rows
	}
	rows[1][3] = p.B.ID
	for _, f := range p.Facts {
		rows = append(rows, []string{"fact", f.Name, f.A, f.B})
	}
	for _, s := range p.Path {
		rows = append(rows, []string{"step", s.Step, string(s.A.State), string(s.B.State)})
	}
	for _, v := range p.Output {
		rows = append(rows, []string{"output", v.Name, string(v.A), string(v.B)})
	}
	return rows
}

func (p systemPage) table() [][]string {
	rows := [][]string{{"state", "what", "name", "about", "fix"}}
	for _, f := range p.Diagnosis.Components {
		rows = append(rows, []string{string(f.State), f.What, f.Name, f.About, f.Fix})
	}
	return rows
}
