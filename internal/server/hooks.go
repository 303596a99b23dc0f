package server

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/espalier-run/espalier/internal/app"
)

// receiveHook handles POST /hooks/{name}. The signature of the request takes the place of a token. The raw body is read
// first: signatures are those of its bytes.
func (s *Server) receiveHook(w http.ResponseWriter, r *http.Request) error {
	hook, err := s.o.App.Webhook(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	raw, problem := readBody(r)
	if problem != nil {
		return problem
	}
	e, err := verifyHook(hook, r.Header, raw, s.now())
	if err != nil {
		return &Problem{
			Status: http.StatusUnauthorized, Code: "signature",
			Detail: "The signature of the request is not valid: " + err.Error() + ".",
		}
	}
	e.Source = "/hooks/" + r.PathValue("name")
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // without one, the body may be JSON
	if media == "application/x-www-form-urlencoded" {                // GitHub offers this, too
		if form, err := url.ParseQuery(string(raw)); err == nil && form.Has("payload") {
			media, raw = "application/json", []byte(form.Get("payload"))
		}
	}
	e.Data = asJSON(media, raw)
	return s.writeDelivery(w, r, func(ctx context.Context) (*app.Delivery, error) {
		return s.o.App.ReceiveHook(ctx, r.PathValue("name"), e)
	})
}

// readBody returns the body of a request, or why it cannot be read. http.MaxBytesHandler limits its size.
func readBody(r *http.Request) ([]byte, *Problem) {
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		return raw, nil
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &Problem{
			Status: http.StatusRequestEntityTooLarge, Code: "too-large",
			Detail: fmt.Sprintf("The body of the request is larger than %d MiB.", tooLarge.Limit>>20),
			Help:   "Send a link to the data instead of the data.",
		}
	}
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		return nil, &Problem{
			Status: http.StatusRequestTimeout, Code: "too-slow", Detail: "The body of the request took too long.",
			Help: "Send the request again with the same ID; an event that has already arrived has no effect.",
		}
	}
	return nil, &Problem{
		Status: http.StatusBadRequest, Code: "unreadable", Detail: "The body of the request cannot be read.",
		Help: "Check its Content-Length and Transfer-Encoding.",
	}
}

// verifyHook returns the event of a request whose signature is valid. The id of the event is something that is signed,
// so that a request cannot be replayed under another id: an id is delivered once.
func verifyHook(hook *app.Webhook, h http.Header, body []byte, now time.Time) (app.Incoming, error) {
	e := app.Incoming{Time: now}
	switch hook.Verify {
	// Standard Webhooks: the signature covers webhook-id, webhook-timestamp and the body. The library checks the age
	// with a fixed tolerance; the check below uses the configured one and the clock of the server.
	case app.VerifyStandard:
		verifier, err := webhooks.NewWebhook(hook.Secret)
		if err != nil {
			return e, errors.New("the secret of the webhook is not of the form whsec_BASE64")
		}
		if err := verifier.VerifyIgnoringTimestamp(body, h); err != nil {
			return e, err
		}
		seconds, err := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
		if err != nil {
			return e, errors.New("webhook-timestamp is not a number")
		}
		if age := now.Sub(time.Unix(seconds, 0)); age > hook.Tolerance || age < -hook.Tolerance {
			return e, errors.New("webhook-timestamp is too far from the current time")
		}
		e.ID = h.Get("webhook-id")
	// GitHub signs the body alone, and sends no time that could be checked.
	case app.VerifyGitHub:
		const scheme = "sha256="
		sent, ok := strings.CutPrefix(h.Get("X-Hub-Signature-256"), scheme)
		given, err := hex.DecodeString(sent)
		if !ok || err != nil {
			return e, errors.New("X-Hub-Signature-256 is missing or malformed")
		}
		mac := hmac.New(sha256.New, []byte(hook.Secret))
		mac.Write(body)
		if !hmac.Equal(given, mac.Sum(nil)) {
			return e, errors.New("X-Hub-Signature-256 does not match the body")
		}
		// The id of a delivery is not signed; equal bodies are the same event.
		e.ID, e.Type = hex.EncodeToString(given), h.Get("X-GitHub-Event")
	default:
		// A webhook without verification: anyone can send anything, so the id only helps senders to repeat a request.
		if e.ID = h.Get("webhook-id"); e.ID == "" {
			e.ID = uuid.NewString()
		}
	}
	return e, nil
}
