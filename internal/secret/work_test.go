package secret

import (
	"strings"
	"testing"
)

// Text full of escapes costs a bounded amount of work for each byte, however long it is.
func TestEscapesCostBoundedWork(t *testing.T) {
	m := newMatcher()
	m.addSecret("key", "sk-Abc/def+ghi=jkl\\mno%pqr \"x\" é")
	m.addSecret("pem", "-----BEGIN KEY-----\n"+strings.Repeat("abcdEFGH0123+/\n", 60))
	const perByte = 12
	for _, unit := range []string{
		`\`, `\\`, `%25`, `%2525`, `%252525`, `&amp;`, `&amp;amp;`, `&#38;`, `+`, `\u005c`, `\u005cu005c`, `\/`, `%5C`,
		`\u00e4`,
		`&`, `%`, `\x5c`, `%26amp%3B`, `\u0025`, `\"`, `\n`, `"\\\\\`, `%5c%75`, `&#x26;#x26;`, `s\u006b`, `%73k`, `-`,
		`-\n`, `%2D`,
		`\\u0073`, "&" + strings.Repeat("a", 40), `c2st`, `73 6b`, `sk-`, `sk%2D`,
	} {
		text := strings.Repeat(unit, 20_000/len(unit))
		if out, _, work := m.search(text, true); work > perByte*len(text) || out == "" {
			t.Errorf("%q: %d steps for %d bytes", unit, work, len(text))
		}
	}
}

// Long runs of backslashes, the most common escape in logs, are skipped.
func TestBackslashRunsAreSkipped(t *testing.T) {
	m := newMatcher()
	m.addSecret("key", "secret-value-1")
	if _, _, work := m.search(strings.Repeat(`\`, 10_000), true); work > 100 {
		t.Errorf("%d steps", work)
	}
}

// A run of backslashes hides no secret that follows it.
func TestSecretsAfterBackslashesAreHidden(t *testing.T) {
	m := newMatcher()
	m.addSecret("key", "secret-value-1")
	for _, escaped := range []string{
		`secret-value-1`, `\u0073ecret-value-1`, `\\u0073ecret-value-1`,
		`\\\\u0073ecret-value-1`,
	} {
		for n := range 40 {
			if out, _, _ := m.search(strings.Repeat(`\`, n)+escaped, true); strings.Contains(out, "ecret-value-1") {
				t.Errorf("%d backslashes before %s: %s", n, escaped, out)
			}
		}
	}
}
