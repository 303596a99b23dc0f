package config

import (
	"net/url"
	"slices"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/text"
)

// Notification configures one recipient of notifications.
type Notification struct {
	URL       text.Text // a shoutrrr URL
	Webhook   text.Text
	Secret    text.Text           // signs requests to a webhook
	On        []journal.Attention // empty selects all
	Workflows []text.Text

	Unapproved bool // see PrivilegedSetting
}

// notifyKinds are the kinds of events that On selects from.
var notifyKinds = []journal.Attention{
	journal.AttentionWaiting, journal.AttentionFailed, journal.AttentionBudget, journal.AttentionMissed,
}

// readNotifications reads the notifications section. The URL of a service is a secret, because it has the credentials;
// a webhook has an address in plain text and a secret that signs its requests.
func readNotifications(f *fields) []Named[Notification] {
	return entries(f, "notifications", "notification",
		"Where people are notified when a run waits for them, fails or exceeds a budget, or a schedule is missed.",
		func(name text.Text, f *fields) Notification {
			n := Notification{
				URL:       f.text("url", "A secret with the shoutrrr URL of a service: secret://NAME."),
				Webhook:   f.text("webhook", "Address that receives signed requests (Standard Webhooks)."),
				Secret:    f.text("secret", "The secret that requests are signed with: secret://NAME."),
				Workflows: f.texts("workflows", "Only for these workflows."),
			}
			for _, on := range f.texts("on", "Only for these events: waiting, failed, budget, missed.") {
				kind := journal.Attention(on.Value)
				if n.On = append(n.On, kind); !slices.Contains(notifyKinds, kind) {
					f.out.Errorf(CodeBadValue, on.Span, "Use waiting, failed, budget or missed.",
						"Unknown notification event %q.", on.Value)
				}
			}
			f.exclusive("url", "webhook")
			f.checkKey(n.URL, "url: secret://NAME")
			f.checkKey(n.Secret, "secret: secret://NAME")
			if name.Value == "" {
				return n
			}
			if f.lacks("url", "webhook") {
				f.out.Errorf(CodeMissing, name.Span, "Add url: secret://NAME, or webhook: https://….",
					"The notification %q has no destination.", name.Value)
			}
			if n.Webhook.Value != "" {
				u, err := url.Parse(n.Webhook.Value)
				if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
					f.out.Errorf(CodeBadValue, n.Webhook.Span, "Write a whole address: https://HOST/PATH.",
						"%q is not the address of a webhook.", n.Webhook.Value)
				}
				if n.Secret.Value == "" {
					f.out.Errorf(CodeMissing, name.Span, "Declare a secret, and add a line secret: secret://NAME.",
						"The notification %q has no secret to sign requests with.", name.Value)
				}
			}
			return n
		})
}

// Wants reports whether the recipient is notified of an event of this kind in this workflow. Kinds that On cannot
// select are sent to every recipient: the workflow asks for them.
func (n *Notification) Wants(kind journal.Attention, workflow string) bool {
	if len(n.On) > 0 && slices.Contains(notifyKinds, kind) && !slices.Contains(n.On, kind) {
		return false
	}
	return len(n.Workflows) == 0 || slices.Contains(text.Values(n.Workflows), workflow)
}
