package redact

import (
	"regexp"
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/lazyregexp"
)

// Groups of rules that a workflow can enable.
const (
	pii    = "pii"
	secret = "secrets"
)

// rule matches one kind of text. If the expression has a group, only the match of
// the group is redacted.
type rule struct {
	name  string
	group string
	expr  string
	// hints are substrings of which every match has one; nil if there are none.
	// Searching for them is much faster than matching.
	hints []string
	// real reports whether a match is what it looks like; nil accepts all.
	real func(text string, start, end int) bool
	// find is the expression, compiled when it is first needed: many processes
	// that have rules never use them.
	find func() *regexp.Regexp
}

// builtin are the built-in rules. Their order matters where two match: a match of
// one is hidden from the next.
var builtin = sync.OnceValue(func() []rule {
	all := []rule{
		{
			name: "private_key", group: secret, hints: []string{"PRIVATE KEY"},
			expr: `-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`,
		},
		{
			name: "aws_key", group: secret, hints: []string{"AKIA", "ASIA", "ABIA", "ACCA"},
			expr: `\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`,
		},
		{
			name: "github_token", group: secret, hints: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"},
			expr: `\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})\b`,
		},
		{name: "gitlab_token", group: secret, hints: []string{"glpat-"}, expr: `\bglpat-[A-Za-z0-9_\-]{20,}`},
		{
			name: "slack_token", group: secret, hints: []string{"xox", "hooks.slack.com"},
			expr: `\bxox[abeoprs]-[A-Za-z0-9\-]{10,}|https://hooks\.slack\.com/services/[A-Za-z0-9/+]{20,}`,
		},
		{
			name: "stripe_key", group: secret, hints: []string{"k_live_", "k_test_", "k_prod_"},
			expr: `\b[rs]k_(?:live|test|prod)_[A-Za-z0-9]{10,}`,
		},
		{name: "google_key", group: secret, hints: []string{"AIza"}, expr: `\bAIza[A-Za-z0-9_\-]{35}`},
		{name: "model_key", group: secret, hints: []string{"sk-"}, expr: `\bsk-[A-Za-z0-9_\-]{20,}`},
		{name: "npm_token", group: secret, hints: []string{"npm_"}, expr: `\bnpm_[A-Za-z0-9]{36}\b`},
		{name: "huggingface_token", group: secret, hints: []string{"hf_"}, expr: `\bhf_[A-Za-z0-9]{30,}\b`},
		{
			name: "sendgrid_key", group: secret, hints: []string{"SG."},
			expr: `\bSG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}`,
		},
		{
			name: "jwt", group: secret, hints: []string{"eyJ"},
			expr: `\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*`,
		},
		{name: "bearer_token", group: secret, expr: `(?i)\bbearer\s+([A-Za-z0-9._~+/\-]{16,}=*)`},
		{
			name: "password", group: secret, hints: []string{"://"},
			expr: `\b[a-zA-Z][a-zA-Z0-9+.\-]*://[^/\s:@]+:([^/\s@]+)@`,
		},
		{
			name: "secret", group: secret, hints: []string{":", "="},
			expr: `(?i)\b(?:api[_\- ]?key|access[_\- ]?key|client[_\- ]?secret|secret|token|passw(?:or)?d|passphrase)["']?\s*[:=]\s*["']?([^\s"',;&\[]{6,})`,
		},

		{
			name: "email", group: pii, hints: []string{"@"},
			expr: `[A-Za-z0-9._%+\-]+@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)+`,
		},
		{name: "IBAN", group: pii, expr: `\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}\b`, real: iban},
		{name: "credit_card", group: pii, expr: `[0-9](?:[ \-]?[0-9]){12,18}`, real: card},
		{name: "SSN", group: pii, expr: `[0-9]{3}-[0-9]{2}-[0-9]{4}`, real: ssn},
		{
			name: "phone", group: pii,
			expr: `(?:\+[0-9]{1,3}[ .\-/]?)?(?:\([0-9]{1,5}\)[ .\-/]?)?` +
				`[0-9]{2,5}(?:[ .\-/][0-9]{2,8}){1,4}|\+[0-9]{7,15}`,
			real: phone,
		},
	}
	for i := range all {
		all[i].find = lazyregexp.New(all[i].expr)
	}
	return all
})

// isStandalone reports whether digits are not part of an id or of a longer number.
func isStandalone(text string, start, end int) bool {
	part := func(c byte) bool {
		return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	if start > 0 && (part(text[start-1]) || text[start-1] == '.' && start > 1 && part(text[start-2])) {
		return false
	}
	return end >= len(text) || !part(text[end]) && (text[end] != '.' || end+1 >= len(text) || !part(text[end+1]))
}

func digits(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, text)
}

// card checks the check digit of a payment card number (Luhn algorithm).
func card(text string, start, end int) bool {
	d := digits(text[start:end])
	sum := 0
	for i := range len(d) {
		n := int(d[len(d)-1-i] - '0')
		if i%2 == 1 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	called := start > 0 && text[start-1] == '+' // it is a telephone number
	return sum%10 == 0 && strings.Trim(d, "0") != "" && !called && isStandalone(text, start, end)
}

// iban checks the check digits of an account number (ISO 7064, MOD 97-10).
func iban(text string, start, end int) bool {
	s := strings.ReplaceAll(text[start:end], " ", "")
	rest := 0
	for _, c := range s[4:] + s[:4] {
		if c >= 'A' {
			rest = (rest*100 + int(c-'A') + 10) % 97
		} else {
			rest = (rest*10 + int(c-'0')) % 97
		}
	}
	return rest == 1
}

// ssn excludes numbers that are never assigned.
func ssn(text string, start, end int) bool {
	s := text[start:end]
	return s[:3] != "000" && s[:3] != "666" && s[0] != '9' && s[4:6] != "00" && s[7:] != "0000" &&
		isStandalone(text, start, end)
}

// phone excludes dates, versions and other numbers with separators.
func phone(text string, start, end int) bool {
	s := text[start:end]
	n := len(digits(s))
	if n < 7 || n > 15 || !isStandalone(text, start, end) {
		return false
	}
	if s[0] == '+' || s[0] == '(' {
		return true
	}
	parts := strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) == 3 && len(parts[1]) <= 2 &&
		(len(parts[0]) == 4 && len(parts[2]) <= 2 || len(parts[2]) == 4 && len(parts[0]) <= 2) {
		return false // a date
	}
	// Without a plus or brackets it takes three groups, or a leading zero.
	return len(parts) >= 3 && n >= 9 || s[0] == '0'
}

// secretNames are the names of members whose values are secret, by their last words.
var secretNames = []string{
	"password", "passwd", "pwd", "passphrase", "secret", "token", "authorization", "credential", "credentials",
	"apikey", "api key", "access key", "private key", "secret key", "client secret", "connection string",
}
