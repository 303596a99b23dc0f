package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/identity"
)

// TriggerPath names a trigger in an address.
type TriggerPath struct {
	Trigger string `path:"trigger" doc:"Id of the trigger, or its workflow; slashes and # are written %2F and %23"`
}

type triggerList struct {
	Triggers []api.TriggerStatus `json:"triggers"`
}

type triggerTimes struct {
	ID    string   `json:"id"`
	Times []string `json:"times"`
}

// registerTriggers registers the routes of triggers. Pausing needs the permission to manage, which covers triggers.
func (s *Server) registerTriggers() {
	const tag = "Triggers"
	handleJSON(s, http.MethodGet, "/triggers", identity.Read, "List the triggers of workflows", tag,
		func(ctx context.Context, _ *struct{}) (*triggerList, error) {
			found, err := s.o.App.Triggers(ctx)
			if err != nil {
				return nil, err
			}
			list := &triggerList{Triggers: []api.TriggerStatus{}}
			for i := range found {
				list.Triggers = append(list.Triggers, api.NewTrigger(&found[i]))
			}
			return list, nil
		})
	handleJSON(s, http.MethodGet, "/triggers/{trigger}/next", identity.Read, "List when a schedule fires next", tag,
		func(ctx context.Context, in *struct {
			TriggerPath
			Count int `query:"count" minimum:"1" maximum:"1000" default:"5"`
		},
		) (*triggerTimes, error) {
			t, times, err := s.o.App.UpcomingTimes(ctx, in.Trigger, in.Count)
			if err != nil {
				return nil, err
			}
			out := &triggerTimes{ID: t.ID, Times: []string{}}
			for _, at := range times {
				out.Times = append(out.Times, at.Format(time.RFC3339))
			}
			return out, nil
		})
	pause := func(paused bool) func(context.Context, *TriggerPath) (*api.TriggerStatus, error) {
		return func(ctx context.Context, in *TriggerPath) (*api.TriggerStatus, error) {
			t, err := s.o.App.PauseTrigger(ctx, in.Trigger, paused)
			if err != nil {
				return nil, err
			}
			status := api.NewTrigger(&t)
			return &status, nil
		}
	}
	handleJSON(s, http.MethodPost, "/triggers/{trigger}/pause", identity.Manage, "Pause a trigger", tag, pause(true))
	handleJSON(s, http.MethodPost, "/triggers/{trigger}/resume", identity.Manage, "Resume a trigger", tag, pause(false))
	handle(s, http.MethodPost, "/triggers/{trigger}/run", identity.Operate, "Fire a trigger now", tag,
		func(ctx context.Context, in *TriggerPath) (*started, error) {
			id, err := s.o.App.RunTrigger(ctx, in.Trigger, actor(ctx))
			if err != nil {
				return nil, err
			}
			return s.startedRun(ctx, id)
		}, func(op *huma.Operation) { op.DefaultStatus = http.StatusCreated })
}
