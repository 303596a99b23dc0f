package secret

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
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

// The table of pairs only saves work: without it, the same occurrences are found.
func TestPairTableFindsTheSameSecrets(t *testing.T) {
	fast := newMatcher()
	values := []string{
		"secret-value-1", "\n\"/+ &%\\x", "+/+/+/+/abc", " leading blank", "ABCDEFabcdef0123", "'ä€😀\t\b\f\r",
	}
	for i, value := range values {
		fast.addSecret(string(rune('a'+i)), value)
	}
	slow := &matcher{roots: fast.roots}
	for i := range slow.pairs {
		for j := range slow.pairs[i] {
			slow.pairs[i][j] = 1<<kinds - 1
		}
	}
	var pieces []string
	for _, value := range values {
		for _, f := range forms(value) {
			pieces = append(pieces, f.text)
		}
	}
	pieces = append(pieces, `\`, `%`, `&`, `+`, "\n", " ", "-", ":", `\u`, `\x`, `&#`, "%5C", "%25", "&amp;", "s", "A", "[secret ")
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var b strings.Builder
		for range 1 + random.IntN(4) {
			piece := pieces[random.IntN(len(pieces))]
			switch random.IntN(5) {
			case 0: // encoded again, and more than is needed
				piece = each(piece, "%", "0123456789ABCDEF")
			case 1:
				piece = quoted(units16(piece, "0123456789abcdef"), false)
			case 2:
				r, size := utf8.DecodeRuneInString(piece)
				piece = fmt.Sprintf(`\U%08x`, r) + piece[size:]
			case 3: // in part
				piece = piece[random.IntN(len(piece)):]
			}
			b.WriteString(piece)
		}
		for _, end := range []bool{true, false} {
			out, rest, work := fast.search(b.String(), end)
			wantOut, wantRest, most := slow.search(b.String(), end)
			if out != wantOut || rest != wantRest || work > most {
				t.Fatalf("%q:\n%q and %q after %d steps, want\n%q and %q after %d", b.String(), out, rest, work,
					wantOut, wantRest, most)
			}
		}
	}
}
