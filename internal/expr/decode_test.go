package expr

import (
	"encoding/json"
	"testing"
)

func TestDecodeKeepsLargeIntegers(t *testing.T) {
	for raw, want := range map[string]string{
		`9007199254740993`:  `9007199254740993`,
		`-9007199254740993`: `-9007199254740993`,
		`{"a":[1, 9223372036854775807, "9007199254740993"]}`: `{"a":[1,9223372036854775807,"9007199254740993"]}`,
		`9007199254740992`:       `9007199254740992`,
		`1.5`:                    `1.5`,
		`1e3`:                    `1000`,
		`0.12345678901234567890`: `0.12345678901234568`,
		`92233720368547758080`:   `92233720368547760000`,
	} {
		value, err := Decode(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(value); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
	if _, err := Decode(json.RawMessage(`{`)); err == nil {
		t.Error("half an object can be read")
	}
	a, _ := Decode(json.RawMessage(`9007199254740993`))
	b, _ := Decode(json.RawMessage(`9007199254740992`))
	c, _ := Decode(json.RawMessage(`9007199254740995`))
	if of(a).digits() != "9007199254740993" || of(a).boxed() != a {
		t.Errorf("%v is written %s", a, of(a).digits())
	}
	if sameNumber(of(a), of(c)) || !sameNumber(of(a), of(a)) || !sameNumber(of(b), of(b)) {
		t.Error("numbers are taken for others")
	}
}

func TestDecodeOfStringsMatchesEncodingJSON(t *testing.T) {
	for _, raw := range []string{
		``, `"`, `""`, `"a"`, `"a b/c"`, ` "a" `, `"é"`, "\"\xff\"", "\"a\nb\"", `"a\"b"`, `"a"b"`, `"a\\"`, `"a\"`,
		`"\u0041"`, `"1234567890123456789"`, `"a","b"`,
	} {
		var want any
		wrong := json.Unmarshal([]byte(raw), &want)
		got, err := Decode(json.RawMessage(raw))
		if (err == nil) != (wrong == nil) || err == nil && got != want {
			t.Errorf("%q: %q, %v, not %q, %v", raw, got, err, want, wrong)
		}
	}
}
