package server

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
)

// cloudEvent is an event in the JSON format of CloudEvents 1.0. Extensions are
// ignored.
type cloudEvent struct {
	SpecVersion     string          `json:"specversion" enum:"1.0"`
	ID              string          `json:"id" minLength:"1" doc:"Identifies the event, together with its source"`
	Source          string          `json:"source" minLength:"1"`
	Type            string          `json:"type" minLength:"1" doc:"The event that workflows name"`
	Time            string          `json:"time,omitempty"`
	DataContentType string          `json:"datacontenttype,omitempty"`
	Data            json.RawMessage `json:"data,omitempty"`
	DataBase64      []byte          `json:"data_base64,omitempty"`
}

const (
	structuredEvent = "application/cloudevents+json"
	eventBatch      = "application/cloudevents-batch+json"
)

// registerCloudEvents registers the route for events. It is described by hand: huma cannot tell the modes of
// CloudEvents apart.
func (s *Server) registerCloudEvents() {
	const path = "/api/v1/events"
	schema := huma.SchemaFromType(s.api.OpenAPI().Components.Schemas, reflect.TypeFor[cloudEvent]())
	result := huma.SchemaFromType(s.api.OpenAPI().Components.Schemas, reflect.TypeFor[app.Delivery]())
	problem := huma.SchemaFromType(s.api.OpenAPI().Components.Schemas, reflect.TypeFor[Problem]())
	failed := func(text string) *huma.Response {
		return &huma.Response{
			Description: text, Content: map[string]*huma.MediaType{"application/problem+json": {Schema: problem}},
		}
	}
	s.describe(huma.Operation{
		Method: http.MethodPost, Path: path, Tags: []string{"Triggers"},
		Summary: "Deliver an event to workflows and runs",
		Description: "Accepts CloudEvents 1.0 over HTTP in structured mode, and in binary mode: attributes in ce- " +
			"headers, data in the body. An event with the same source and ID is delivered once.",
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			structuredEvent: {Schema: schema}, "application/json": {Schema: &huma.Schema{}},
		}},
		Responses: map[string]*huma.Response{
			"202": {
				Description: "The event was delivered",
				Content:     map[string]*huma.MediaType{"application/json": {Schema: result}},
			},
			"401": failed("Unauthorized"), "403": failed("Forbidden"), "409": failed("Conflict"),
			"415": failed("Unsupported Media Type"), "422": failed("Unprocessable Entity"),
		},
	}, identity.Send)
	s.mux.Handle("POST "+path, s.needs(identity.Send, endpoint(s.receiveEvent)))
}

// receiveEvent handles POST /api/v1/events.
func (s *Server) receiveEvent(w http.ResponseWriter, r *http.Request) error {
	e, problem := readCloudEvent(r)
	if problem != nil {
		return problem
	}
	return s.writeDelivery(w, r, func(ctx context.Context) (*app.Delivery, error) {
		e.Token = token(ctx)
		return s.o.App.Receive(ctx, e, actor(ctx))
	})
}

// writeDelivery delivers an event and answers the request with 202. A delivery that has begun is completed even if the
// client leaves: a part of the runs may have the event already. An event that is being delivered by another request is
// refused with Retry-After, so that its sender learns the result later.
func (s *Server) writeDelivery(
	w http.ResponseWriter, r *http.Request, deliver func(context.Context) (*app.Delivery, error),
) error {
	done, err := deliver(context.WithoutCancel(r.Context()))
	if err != nil {
		p := problemOf(r.Context(), err)
		switch {
		case p.Code == string(app.EventUnderWay):
			w.Header().Set("Retry-After", "1")
		case p.Status == api.HTTPStatus(app.NotReady): // senders know that they may try again later
			p.Status, p.Title = http.StatusServiceUnavailable, http.StatusText(http.StatusServiceUnavailable)
		}
		return p
	}
	raw, err := json.Marshal(done)
	if err != nil {
		panic(err) // texts
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	w.Write(append(raw, '\n'))
	return nil
}

// readCloudEvent reads an event in structured or binary mode, as the HTTP binding of CloudEvents 1.0 tells them apart:
// by a media type that starts with application/cloudevents, and else by ce- headers.
func readCloudEvent(r *http.Request) (app.Incoming, *Problem) {
	invalid := func(status int, detail string) (app.Incoming, *Problem) {
		return app.Incoming{}, &Problem{
			Status: status, Code: "invalid-event", Detail: detail,
			Help: "Send a CloudEvent 1.0 as application/cloudevents+json, or with ce- headers.",
		}
	}
	raw, problem := readBody(r)
	if problem != nil {
		return app.Incoming{}, problem
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil && r.Header.Get("Content-Type") != "" {
		return invalid(http.StatusUnsupportedMediaType, "The Content-Type of the request is not valid.")
	}
	var e cloudEvent
	switch {
	case media == eventBatch:
		return invalid(http.StatusUnsupportedMediaType, "Batches of events are not supported.")
	case strings.HasPrefix(media, "application/cloudevents"):
		if media != structuredEvent {
			return invalid(http.StatusUnsupportedMediaType, "Only the JSON format of CloudEvents is supported.")
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return invalid(http.StatusUnprocessableEntity, "The event is not valid JSON: "+err.Error()+".")
		}
		if e.DataBase64 != nil {
			e.Data = asJSON(e.DataContentType, e.DataBase64)
		}
	case r.Header.Get("ce-specversion") != "":
		if e, err = binaryEvent(r.Header); err != nil {
			return invalid(http.StatusUnprocessableEntity, "A ce- header is not valid: "+err.Error()+".")
		}
		e.Data = asJSON(media, raw)
	default:
		return invalid(http.StatusUnsupportedMediaType, "The request is not a CloudEvent.")
	}
	if e.SpecVersion != "1.0" || e.ID == "" || e.Source == "" || e.Type == "" {
		return invalid(http.StatusUnprocessableEntity, "The event needs specversion 1.0, an id, a source and a type.")
	}
	in := app.Incoming{ID: e.ID, Source: e.Source, Type: e.Type, Data: e.Data}
	if e.Time != "" {
		if in.Time, err = time.Parse(time.RFC3339, e.Time); err != nil {
			return invalid(http.StatusUnprocessableEntity, "The time of the event is not valid.")
		}
	}
	return in, nil
}

// binaryEvent reads the attributes of an event from headers, in which characters beyond printable ASCII, spaces, quotes
// and per cent signs are percent-encoded (HTTP binding, section 3.1.3.2).
func binaryEvent(h http.Header) (e cloudEvent, err error) {
	for name, to := range map[string]*string{
		"specversion": &e.SpecVersion, "id": &e.ID, "source": &e.Source, "type": &e.Type, "time": &e.Time,
	} {
		if *to, err = url.PathUnescape(h.Get("ce-" + name)); err != nil {
			return e, err
		}
	}
	return e, nil
}

// asJSON returns data of a media type as JSON: JSON as it is, and everything else as text. Bytes that are not UTF-8
// become U+FFFD. Empty data is nil.
func asJSON(media string, data []byte) json.RawMessage {
	if len(data) == 0 {
		return nil
	}
	if media == "" || media == "application/json" || strings.HasSuffix(media, "+json") {
		if json.Valid(data) {
			return data
		}
	}
	raw, err := json.Marshal(string(data))
	if err != nil {
		panic(err) // texts always encode
	}
	return raw
}
