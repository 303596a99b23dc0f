package secret_test

import (
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/secret"
)

// BenchmarkHide measures hiding in texts as they are in records.
func BenchmarkHide(b *testing.B) {
	r := secret.New(fixed("A", "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz"), fixed("B", key), fixed("C",
		"ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	for name, text := range map[string]string{
		"prose": strings.Repeat("The quick brown fox jumps over the lazy dog, and then some more of it. ", 60),
		"code": strings.Repeat("\tif err := json.Unmarshal(a, &b); err != nil { return fmt.Errorf(\"%w\", err) }\n",
			48),
		"json":   strings.Repeat(`{\"path\":\"C:\\\\Users\\\\x\",\"text\":\"a\\nb\\u00e4\"},`, 80),
		"base64": strings.Repeat("eHh4eHh4eHh4aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789+/aa\n", 80),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.HideText(text)
			}
		})
	}
}
