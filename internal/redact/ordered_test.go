package redact_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/redact"
)

func TestOrderedKeepsTheOrderOfMembers(t *testing.T) {
	rules, err := redact.New(true, true)
	if err != nil {
		t.Fatal(err)
	}
	const in = `{"z":"ada@example.org","n":12345678901234567890,"a":[{"y":1,"password":"hunter22"},"<x>"],"m":null}`
	const want = `{"z":"[redacted email]","n":12345678901234567890,"a":[{"y":1,"password":"[redacted secret]"},"<x>"],"m":null}`
	got, found, err := rules.Ordered([]byte(in))
	if err != nil || !found || string(got) != want {
		t.Errorf("%s, %v, %v", got, found, err)
	}
}
