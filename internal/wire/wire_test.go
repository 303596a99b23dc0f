package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/espalier-run/espalier/internal/wire"
)

type inner struct {
	N    int    `json:"n,omitempty"`
	Text string `json:"text"`
}

type outer struct {
	inner
	Yes   bool              `json:"yes"`
	Raw   json.RawMessage   `json:"raw,omitempty"`
	Bare  json.RawMessage   `json:"bare"`
	To    *outer            `json:"to,omitempty"`
	Nil   *inner            `json:"nil"`
	List  []inner           `json:"list"`
	Map   map[string]*inner `json:"map,omitempty"`
	At    time.Time         `json:"at,omitzero"` // has a way of its own
	Part  float64           `json:"part,omitempty"`
	Held  map[int]string    `json:"held,omitempty"` // numbers are keys for encoding/json alone
	Local inner             `json:"local,omitzero"`
	Kept  string            `json:"-"`
}

var full = outer{
	inner: inner{N: -3, Text: "a \"quote\", <b>, é, \u2028, \t"}, Yes: true, Raw: json.RawMessage(`{"a":[1,"x"]}`), Bare: json.RawMessage(`null`),
	To:    &outer{Bare: json.RawMessage(`"deep"`), List: []inner{}},
	List:  []inner{{N: 1}, {Text: "two"}},
	Map:   map[string]*inner{"b": {N: 2}, "a": nil},
	At:    time.Date(2025, 1, 2, 3, 4, 5, 6, time.UTC),
	Part:  0.1,
	Local: inner{N: 1},
}

func TestTheBytesAreThoseOfEncodingJSON(t *testing.T) {
	for _, v := range []outer{{}, full, {Held: map[int]string{}}, {Held: map[int]string{1: "a", 2: "b"}}} {
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
		got, err := wire.New[outer]().Append(nil, &v)
		if err != nil || string(got) != strings.TrimSpace(want.String()) {
			t.Errorf("%v\n%s\n%s", err, got, want.String())
		}
		var back, same outer
		if !wire.Of(reflect.TypeFor[outer]()).Read(got, reflect.ValueOf(&back).Elem()) {
			t.Errorf("it gave up at %s", got)
		}
		if err := json.Unmarshal(got, &same); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(same, back, cmp.AllowUnexported(outer{})); d != "" {
			t.Error(d)
		}
	}
}

// Whoever else has written it is read, too, and mistakes are told.
func TestOtherFormsAreReadTheLongWay(t *testing.T) {
	for text, want := range map[string]inner{
		`{"text":"x","n":1}`:                  {N: 1, Text: "x"},
		"{ \"n\": 1,\n \"text\": \"x\" }\n":   {N: 1, Text: "x"},
		`{"n":1,"text":"x","unknown":[{},1]}`: {N: 1, Text: "x"},
	} {
		got := inner{N: 7, Text: "from before"}
		if err := wire.New[inner]().Read([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]inner{`{"n":1,"text":"x"}`: {1, "x"}, `{"text":"x","n":1}`: {1, "x"}, `{"text":"x"}`: {Text: "x"}} {
		got := inner{N: 7, Text: "from before"}
		if err := wire.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{``, `{`, `{"n":1.5}`, `{"n":"1"}`, `{"n":1}}`, `[]`} {
		if err := wire.New[inner]().Read([]byte(text), new(inner)); err == nil {
			t.Errorf("%s was accepted", text)
		}
		if err := wire.Unmarshal([]byte(text), new(inner)); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
	bad := outer{Raw: json.RawMessage(`{`)}
	if b, err := wire.New[outer]().Append(nil, &bad); err == nil {
		t.Errorf("%s was written", b)
	}
}

// box stands in for a boxed wherever one is written: also behind a pointer,
// where the long way by MarshalJSON would give the same.
type (
	boxed struct{ word string }
	box   struct {
		Word string `json:"word"`
	}
	holder struct {
		At *boxed `json:"at,omitempty"`
		Of boxed  `json:"of"`
	}
)

func (b *boxed) NewBox() any { return &box{} }

func (b *boxed) FillBox(to any) error {
	to.(*box).Word = b.word
	return nil
}

func (b *boxed) TakeBox(from any) error {
	b.word = from.(*box).Word
	return nil
}

func (b *boxed) MarshalJSON() ([]byte, error) { return nil, errors.New("the long way") }

func (b *boxed) UnmarshalJSON([]byte) error { return errors.New("the long way") }

func TestBoxesBehindPointers(t *testing.T) {
	for want, v := range map[string]holder{
		`{"of":{"word":"b"}}`:                      {Of: boxed{"b"}},
		`{"at":{"word":"a"},"of":{"word":""}}`:     {At: &boxed{"a"}},
		`{"at":{"word":"é \""},"of":{"word":"b"}}`: {At: &boxed{`é "`}, Of: boxed{"b"}},
	} {
		got, err := wire.New[holder]().Append(nil, &v)
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s", want, err, got)
		}
		var back holder
		if err := wire.New[holder]().Read([]byte(want), &back); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if d := cmp.Diff(v, back, cmp.AllowUnexported(boxed{})); d != "" {
			t.Error(d)
		}
	}
}

// Whoever is told that a value is exact need not read it again.
func TestExact(t *testing.T) {
	null := json.RawMessage("null")
	for name, c := range map[string]struct {
		v     outer
		exact bool
	}{
		"everything":        {outer{inner: inner{N: 1, Text: "<é\u2028"}, Bare: json.RawMessage(`{"a":"b c"}`), To: &outer{Bare: null}, List: []inner{{}}, Map: map[string]*inner{"é": nil}, Part: 0.1}, true},
		"empty or nil":      {outer{Bare: null, Raw: json.RawMessage{}, List: []inner{}, Map: map[string]*inner{}}, true},
		"null or nil":       {outer{}, false},
		"space":             {outer{Bare: json.RawMessage(`[1, 2]`)}, false},
		"space at the end":  {outer{Bare: json.RawMessage("1\n")}, false},
		"not UTF-8":         {outer{Bare: null, inner: inner{Text: "\xff"}}, false},
		"a key that is not": {outer{Bare: null, Map: map[string]*inner{"\xff": nil}}, false},
		"deep inside":       {outer{Bare: null, To: &outer{Bare: null, List: []inner{{Text: "\xff"}}}}, false},
		"a way of its own":  {outer{Bare: null, At: time.Now()}, false},
	} {
		raw, exact, err := wire.New[outer]().AppendExact(nil, &c.v)
		if err != nil || exact != c.exact {
			t.Errorf("%s: %v, %v: %s", name, exact, err, raw)
		}
		var back outer
		if err := wire.New[outer]().Read(raw, &back); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(c.v, back, cmp.AllowUnexported(outer{}), cmpopts.EquateEmpty()); exact && d != "" {
			t.Errorf("%s is said to be exact:\n%s", name, d)
		}
	}
}

func TestTexts(t *testing.T) {
	for _, s := range []string{``, `"`, `\`, `\\`, `\"`, `"\`, `a "b" \c \\d`, `\n`, "\n", `\u0041`, "é\\\"", `{"a": "\""}`, "tab\t\"", "\\\u2028"} {
		raw, err := json.Marshal(inner{Text: s})
		if err != nil {
			t.Fatal(err)
		}
		var got inner
		if !wire.Of(reflect.TypeFor[inner]()).Read(raw, reflect.ValueOf(&got).Elem()) || got.Text != s {
			t.Errorf("%q is read as %q", s, got.Text)
		}
	}
}

// place is written as text of its own making.
type place struct{ file string }

func (p place) AppendText(b []byte) ([]byte, error) { return append(b, p.file...), nil }
func (p place) MarshalText() ([]byte, error)        { return p.AppendText(nil) }

func (p *place) UnmarshalText(b []byte) error {
	p.file = string(b)
	return nil
}

func TestTextOfTheirOwnMaking(t *testing.T) {
	type places struct {
		One  place            `json:"one"`
		Some []place          `json:"some"`
		Many map[string]place `json:"many"` // whose values have no address
	}
	for word, exact := range map[string]bool{"": true, "plain": true, "a \"quote\" \\": true, "é": true, "\x01": true, "bad \xff": false} {
		v := places{place{word}, []place{{word}, {"x"}}, map[string]place{"a": {word}}}
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, same, err := wire.New[places]().AppendExact(nil, &v)
		if err != nil || string(got) != string(want) || same != exact {
			t.Errorf("%q: %s, %v, %v; expected %s, %v", word, got, same, err, want, exact)
		}
	}
}

// What stands in for one value has nothing of the one before.
func TestWhatStandsInIsEmpty(t *testing.T) {
	codec := wire.New[[]either]()
	got, err := codec.Append(nil, &[]either{{1, ""}, {0, "a"}, {2, ""}})
	if want := `[{"number":1},{"word":"a"},{"number":2}]`; err != nil || string(got) != want {
		t.Errorf("%s, %v; expected %s", got, err, want)
	}
}

// either fills one of two fields, and leaves the other as it is.
type (
	either struct {
		number int
		word   string
	}
	eitherBox struct {
		Number int    `json:"number,omitempty"`
		Word   string `json:"word,omitempty"`
	}
)

func (e *either) NewBox() any { return &eitherBox{} }

func (e *either) FillBox(into any) error {
	if box := into.(*eitherBox); e.word != "" {
		box.Word = e.word
	} else {
		box.Number = e.number
	}
	return nil
}

func (e *either) TakeBox(from any) error {
	box := from.(*eitherBox)
	*e = either{box.Number, box.Word}
	return nil
}
