package notify_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/notify"
	"github.com/espalier-run/espalier/internal/npmtest"
)

var message = notify.Message{
	ID: "run.7", Kind: "waiting", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Workflow: "report", Run: "run",
	Text: "Run 1234 of report waits for an approval: check", URL: "https://flows.example.org/runs/run",
}

func TestMailArrivesAtARealServer(t *testing.T) {
	next := npmtest.Lines(t, filepath.Join("testdata", "smtp.cjs"), "smtp-server@3.21.1")
	target := notify.Target{
		URL: "smtp://127.0.0.1:" + next() +
			"/?from=espalier@example.org&to=ann@example.org&auth=None&encryption=None&starttls=no",
	}
	if err := target.Send(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	var mail struct {
		From string   `json:"from"`
		To   []string `json:"to"`
		Raw  string   `json:"raw"`
	}
	if err := json.Unmarshal([]byte(next()), &mail); err != nil {
		t.Fatal(err)
	}
	if mail.From != "espalier@example.org" || len(mail.To) != 1 || mail.To[0] != "ann@example.org" {
		t.Errorf("%+v", mail)
	}
	for _, want := range []string{message.Text, message.URL, message.ID} {
		if !strings.Contains(mail.Raw, want) {
			t.Errorf("the mail lacks %q: %s", want, mail.Raw)
		}
	}
}

func TestErrorsOfServicesDoNotContainTheirURL(t *testing.T) {
	target := notify.Target{URL: "smtp://user:hunter22@127.0.0.1:1/?from=a@example.org&to=b@example.org"}
	if err := target.Send(t.Context(), message); err == nil || strings.Contains(err.Error(), "hunter22") {
		t.Error(err)
	}
}

func TestWebhooksAreSignedAsStandardWebhooksVerifies(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	next := npmtest.Lines(t, filepath.Join("testdata", "receiver.cjs"), "standardwebhooks@1.1.1", secret)
	target := notify.Target{Webhook: "http://127.0.0.1:" + next() + "/hook", Secret: secret}
	if err := target.Send(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	var got notify.Message
	if err := json.Unmarshal([]byte(next()), &got); err != nil || got != message {
		t.Errorf("%+v, %v", got, err)
	}
	target.Secret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	if err := target.Send(t.Context(), message); err == nil {
		t.Error("a signature with another secret was accepted")
	}
}

// The receiver of a webhook cannot send the message on, for example to a service of this machine. Errors do not contain
// the address, which may be secret.
func TestWebhooksFollowNoRedirects(t *testing.T) {
	reached := false
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer inner.Close()
	outer := httptest.NewServer(http.RedirectHandler(inner.URL, http.StatusTemporaryRedirect))
	target := notify.Target{Webhook: outer.URL + "/hunter22", Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	if err := target.Send(t.Context(), message); err == nil || reached {
		t.Errorf("%v; the redirect was followed: %t", err, reached)
	}
	outer.Close()
	if err := target.Send(t.Context(), message); err == nil || strings.Contains(err.Error(), "hunter22") {
		t.Error(err)
	}
}
