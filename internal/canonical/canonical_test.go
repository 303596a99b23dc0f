package canonical_test

import (
	"encoding/json"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/canonical"
)

// The samples are those of RFC 8785, appendix B.
func TestNumbersMatchTheRFC(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		if got := number(t, math.Float64frombits(bits)); got != want {
			t.Errorf("%016x: got %s, want %s", bits, got, want)
		}
	}
}

// number returns the canonical form of a number.
func number(t rapid.TB, f float64) string {
	form, err := canonical.JSON(strconv.AppendFloat(nil, f, 'g', -1, 64))
	if err != nil {
		t.Fatal(err)
	}
	return string(form)
}

func TestEncodesAsRFC8785(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"the sample of RFC 8785, section 3.2.2": {
			`{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],` +
				`"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		"the order of names in RFC 8785, section 3.2.3": {
			`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",` +
				`"\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With ` +
				`Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With " +
				"Diaeresis\"," +
				"\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		},
		"nesting":            {` [ { "b" : [ ] , "a" : { } } , "" ] `, `[{"a":{},"b":[]},""]`},
		"a prefix first":     {`{"ab":1,"a":2,"":3}`, `{"":3,"a":2,"ab":1}`},
		"no html escapes":    {`"<>&\u2028"`, "\"<>&\u2028\""},
		"control characters": {`"\u0000\u001f\b\f\u007f"`, "\"\\u0000\\u001f\\b\\f\x7f\""},
		"a rounded number":   {`10000000000000000000009`, `1e+22`},
	} {
		got, err := canonical.JSON([]byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v\nwant %s", name, got, err, c.want)
		}
	}
}

func TestTextsWithoutCanonicalFormAreRejected(t *testing.T) {
	for _, in := range []string{
		``, ` `, `{`, `[1,]`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `nul`, `01`, `1.`, `.5`, `+1`, `- 1`, `NaN`, `1e400`,
		`1 2`,
		`"a`, "\"\n\"", `"\x"`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`,
		`"\ud800"`, `"\udc00\ud800"`, `"\ud800x"`, `"\ud83dA"`, "\"\xff\"", "\"\\n\xff\"",
		strings.Repeat("[", 20_000),
	} {
		if got, err := canonical.JSON([]byte(in)); err == nil || len(got) > 0 {
			t.Errorf("%.40q: got %s, %v", in, got, err)
		}
	}
}

func TestExactNumbersKeepTheirValue(t *testing.T) {
	for literal, want := range map[string]bool{
		"0": true, "-0": true, "1": true, "0.1": true, "1e2": true, "1.50": true,
		"123456789012345": true, "9007199254740992": true,
		"9007199254740993": false, "12345678901234567890": false, "0.1000000000000000055511151231257827": false,
		"1e400": false, "1e-400": false, "0e-999999999": true, "1e-999999999": false, "295147905179352830000": true,
	} {
		if got := canonical.Exact(json.Number(literal)); got != want {
			t.Errorf("%s: %t", literal, got)
		}
	}
}

// value draws values that survive encoding and canonicalization. -0 does not: it is written as 0.
func value() *rapid.Generator[any] {
	return rapid.Deferred(func() *rapid.Generator[any] {
		return rapid.OneOf(
			rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
			rapid.Map(rapid.Float64(), func(f float64) any {
				if f == 0 || math.IsInf(f, 0) || math.IsNaN(f) {
					return 0.0
				}
				return f
			}),
			rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.SliceOfN(value(), 0, 3), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.String(), value(), 0, 4), func(m map[string]any) any { return m }),
		)
	})
}

// The canonical form does not depend on how the value was formatted, decodes to the same value, and is its own
// canonical form.
func TestFormIsUniqueAndStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := value().Draw(t, "value")
		plain, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		spaced, err := json.MarshalIndent(v, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		form, err := canonical.JSON(plain)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{spaced, form} {
			if again, err := canonical.JSON(text); err != nil || string(again) != string(form) {
				t.Fatalf("%s became %s, then %s, %v", text, form, again, err)
			}
		}
		var back any
		if err := json.Unmarshal(form, &back); err != nil {
			t.Fatal(err)
		}
		if encoded, _ := json.Marshal(back); string(encoded) != string(plain) {
			t.Fatalf("%s became %s", plain, encoded)
		}
	})
}

func TestNumbersMatchNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	var in, want []string
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "f")
		if len(in) < 500 && !math.IsInf(f, 0) && !math.IsNaN(f) {
			in = append(in, strconv.FormatFloat(f, 'g', -1, 64))
			want = append(want, number(t, f))
		}
	})
	const script = `console.log(JSON.parse(process.argv[1]).map(x => JSON.stringify(x)).join('\n'))`
	out, err := exec.Command(node, "-e", script, "["+strings.Join(in, ",")+"]").Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range strings.Fields(string(out)) {
		if got != want[i] {
			t.Errorf("%s: we write %s, node %s", in[i], want[i], got)
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"a":[1,"\ud83d\ude00",null]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		form, err := canonical.JSON(text)
		if err != nil {
			return
		}
		if !json.Valid(text) || !json.Valid(form) {
			t.Fatalf("%q became %q", text, form)
		}
		if again, err := canonical.JSON(form); err != nil || string(again) != string(form) {
			t.Fatalf("%q became %q, then %q, %v", text, form, again, err)
		}
	})
}

// What is appended in canonical form is what JSON makes of the output of encoding/json.
func TestAppendedFormIsCanonical(t *testing.T) {
	order := rapid.RuneFrom([]rune{'a', 0xD7FF, 0xE000, 0xFFFD, 0x10000}) // what UTF-8 and UTF-16 sort differently
	name := rapid.OneOf(rapid.String(), rapid.StringOfN(order, 0, 3, -1))
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.MapOf(name, name).Draw(t, "texts")
		numbers := rapid.MapOf(rapid.StringMatching("[a-z]{1,3}"), rapid.Int64()).Draw(t, "numbers")
		all := map[string]any{"": numbers}
		var inner, outer []canonical.Member
		for key, n := range numbers {
			inner = append(inner, canonical.Member{Name: key, Value: canonical.AppendInt(nil, n)})
		}
		outer = append(outer, canonical.Member{Value: canonical.AppendObject(nil, inner)})
		for key, text := range texts {
			if key != "" {
				all[key] = text
				outer = append(outer, canonical.Member{Name: key, Value: canonical.AppendString(nil, text)})
			}
		}
		plain, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		want, err := canonical.JSON(plain)
		if got := canonical.AppendObject([]byte("x"), outer); err != nil || string(got) != "x"+string(want) {
			t.Fatalf("got %s\nwant %s, %v", got, want, err)
		}
	})
}
