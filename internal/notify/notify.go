package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/nicholas-fedor/shoutrrr"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Message is something that people should know.
type Message struct {
	ID       string    `json:"id"`   // the same for every attempt to send it
	Kind     string    `json:"type"` // waiting, failed, budget or missed
	Time     time.Time `json:"time"`
	Workflow string    `json:"workflow"`
	Run      string    `json:"run_id,omitempty"`
	Text     string    `json:"text"`
	URL      string    `json:"url,omitempty"` // of the page where one decides
}

// Target is where messages go: a shoutrrr URL, or a webhook.
type Target struct {
	URL     string
	Webhook string
	Secret  string // of the webhook
}

// timeout bounds one attempt to send.
const timeout = 20 * time.Second

// Send sends a message. An error leaves open whether it has arrived.
func (t Target) Send(ctx context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if t.Webhook != "" {
		return t.post(ctx, m)
	}
	// The library takes no context.
	sent := make(chan error, 1)
	go func() { sent <- shoutrrr.Send(t.URL, m.text()) }()
	select {
	case err := <-sent:
		if err != nil {
			return errors.New("the service refused the message") // the error may contain the URL, which is secret
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// text returns a message as people read it.
func (m Message) text() string {
	text := m.Text
	if m.URL != "" {
		text += "\n" + m.URL
	}
	return text + "\n(" + m.ID + ")"
}

// webhookClient follows no redirects: only the address in the configuration gets the message.
var webhookClient = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// post sends a message as a webhook that is signed as Standard Webhooks says.
func (t Target) post(ctx context.Context, m Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	signer, err := webhooks.NewWebhook(t.Secret)
	if err != nil {
		return errors.New("the secret is not of the form whsec_BASE64")
	}
	now := time.Now()
	signature, err := signer.Sign(m.ID, now, body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.Webhook, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("webhook-id", m.ID)
	r.Header.Set("webhook-timestamp", fmt.Sprint(now.Unix()))
	r.Header.Set("webhook-signature", signature)
	w, err := webhookClient.Do(r)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the URL, which may be secret
		}
		return fmt.Errorf("the webhook cannot be reached: %w", err)
	}
	defer w.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(w.Body, 64<<10)) // so that the connection can be used again
	if w.StatusCode/100 != 2 {
		return fmt.Errorf("the webhook answered %d", w.StatusCode)
	}
	return nil
}
