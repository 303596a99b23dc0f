package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/redact"
)

func rules(t testing.TB, pii, secrets bool, patterns ...string) *redact.Rules {
	t.Helper()
	r, err := redact.New(pii, secrets, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// join hides examples of keys from scanners that search for keys.
func join(parts ...string) string { return strings.Join(parts, "") }

func TestPersonalDataAndSecretsAreRedacted(t *testing.T) {
	all := rules(t, true, true)
	for in, want := range map[string]string{
		"": "", "nothing to hide, 12 items in 2026": "",

		"mail ada@example.org, please":             "mail [redacted email], please",
		"<a.b+c@sub.example.co.uk>":                "<[redacted email]>",
		"call +44 20 7946 0958 or (555) 123-4567.": "call [redacted phone] or [redacted phone].",
		"Tel. 030/123 45 67, 0171 2345678":         "Tel. [redacted phone], [redacted phone]",
		"+4915112345678":                           "[redacted phone]",
		"his number is 123-45-6789":                "his number is [redacted SSN]",
		"card 4111 1111 1111 1111 exp 12/29":       "card [redacted credit_card] exp 12/29",
		"card 4111111111111112 is none":            "",
		"to DE89 3704 0044 0532 0130 00 today":     "to [redacted IBAN] today",
		"on 2026-02-25 and 25.02.2026, 12/31/2026": "",
		"version 1.22.333.4444 of 10.0.0.1":        "",
		"run 11111111-1111-4111-8111-111111111111": "",
		"between 10 000 and 20 000":                "",
		"2026-02-25T06:13:20.000Z":                 "",

		join("key ", "AKIA", "IOSFODNN7EXAMPLE"):                    "key [redacted aws_key]",
		join("ghp_", strings.Repeat("a1B2", 9)):                     "[redacted github_token]",
		join("use sk-", "ant-api03-", strings.Repeat("x", 30), "!"): "use [redacted model_key]!",
		"Authorization: Bearer abcdefghijklmnop1234": "Authorization: Bearer " +
			"[redacted bearer_token]",
		"postgres://eva:hunter22@db/x": "postgres://eva:[redacted " +
			"password]@db/x",
		`{"password": "correct horse"}`: `{"password": "[redacted secret] horse"}`,
		"API_KEY=abcdef123456 next":     "API_KEY=[redacted secret] next",
		"the token count: 12":           "",
		"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nrest": "[redacted private_key]\nrest",
		"-----BEGIN PRIVATE KEY-----\nabc":                                          "[redacted private_key]",
	} {
		got, found := all.Text(in)
		if want == "" {
			want = in
		}
		if got != want || found != (want != in) {
			t.Errorf("%q\n got %q, %t\nwant %q", in, got, found, want)
		}
	}
}

// Patterns are names of rules in any case, or regular expressions.
//
// Spec: Agent Flow §7.2 redaction
func TestPatternsAreRulesOrRegularExpressions(t *testing.T) {
	text := "ada@example.org 123-45-6789 EMP-00042 x"
	for _, c := range []struct {
		patterns []string
		want     string
	}{
		{[]string{"SSN"}, "ada@example.org [redacted SSN] EMP-00042 x"},
		{[]string{"ssn", "Email"}, "[redacted email] [redacted SSN] EMP-00042 x"},
		{[]string{`EMP-\d+`}, "ada@example.org 123-45-6789 [redacted pattern] x"},
		{[]string{`(EMP)-\d+`, "y*"}, "ada@example.org 123-45-6789 [redacted pattern] x"},
	} {
		if got, _ := rules(t, false, false, c.patterns...).Text(text); got != c.want {
			t.Errorf("%q: %s", c.patterns, got)
		}
	}
	r, err := redact.New(false, false, "(", "email")
	if err == nil || !strings.Contains(err.Error(), `"("`) {
		t.Errorf("%v", err)
	}
	if got, _ := r.Text(text); got != "[redacted email] 123-45-6789 EMP-00042 x" {
		t.Error(got)
	}
	if r := rules(t, false, false); r != nil {
		t.Error("there is nothing to hide")
	}
}

func TestRedactedJSONStaysValid(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":["ada@example.org",{"b":"x"}]}`: `{"a":["[redacted email]",{"b":"x"}]}`,
		`4111111111111111`:                    `"[redacted credit_card]"`,
		`{"n":12345678901234567890,"m":1.50}`: ``,
		`{"api_key":"x","apiKey":"y","max_tokens":"4","token":"","password":7,"userPassword":"z"}`: `{"apiKey":"[redacted secret]","api_key":"[redacted secret]","max_tokens":"4","password":7,"token":"","userPassword":"[redacted secret]"}`,
		`{"ada@example.org":1,"bob@example.org":2,"eve@example.org":3}`:                            `{"[redacted email]":1,"[redacted email] 2":2,"[redacted email] 3":3}`,
		`"<b>"`: ``, `null`: ``, ``: ``,
	} {
		got, found, err := rules(t, true, true).JSON(json.RawMessage(in))
		if want == "" {
			want = in
		}
		if err != nil || string(got) != want || found != (in != want) {
			t.Errorf("%s\n got %s, %t, %v\nwant %s", in, got, found, err, want)
		}
	}
	if _, _, err := rules(t, true, true).JSON(json.RawMessage(`{`)); err == nil {
		t.Error("no error")
	}
}

// A secret is removed whatever surrounds it, and redaction is idempotent.
func TestRedactionIsCompleteAndIdempotent(t *testing.T) {
	r := rules(t, true, true)
	rapid.Check(t, func(t *rapid.T) {
		around := rapid.StringMatching(`[ a-z,.:;!?\n"{}]{0,12}`)
		const hidden = "ada.lovelace@example.org"
		text := around.Draw(t, "before") + " " + hidden + " " + around.Draw(t, "after")
		got, found := r.Text(text)
		if !found || strings.Contains(got, "lovelace") {
			t.Fatalf("%q became %q", text, got)
		}
		if again, more := r.Text(got); more || again != got {
			t.Fatalf("%q became %q, then %q", text, got, again)
		}
	})
}
