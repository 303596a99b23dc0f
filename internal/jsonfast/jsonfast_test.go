package jsonfast_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/jsonfast"
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
	At    time.Time         `json:"at,omitzero"` // has its own MarshalJSON
	Part  float64           `json:"part,omitempty"`
	Held  map[int]string    `json:"held,omitempty"` // keys that are not strings are left to encoding/json
	Local inner             `json:"local,omitzero"`
	Kept  string            `json:"-"`
}

var full = outer{
	inner: inner{N: -3, Text: "a \"quote\", <b>, é, \u2028, \t"},
	Yes:   true,
	Raw:   json.RawMessage(`{"a":[1,"x"]}`),
	Bare:  json.RawMessage(`null`),
	To:    &outer{Bare: json.RawMessage(`"deep"`), List: []inner{}},
	List:  []inner{{N: 1}, {Text: "two"}},
	Map:   map[string]*inner{"b": {N: 2}, "a": nil},
	At:    time.Date(2025, 1, 2, 3, 4, 5, 6, time.UTC),
	Part:  0.1,
	Local: inner{N: 1},
}

func TestOutputEqualsEncodingJSON(t *testing.T) {
	for _, v := range []outer{{}, full, {Held: map[int]string{}}, {Held: map[int]string{1: "a", 2: "b"}}} {
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
		got, err := jsonfast.New[outer]().Append(nil, &v)
		if err != nil || string(got) != strings.TrimSpace(want.String()) {
			t.Errorf("%v\n%s\n%s", err, got, want.String())
		}
		var back, same outer
		if !jsonfast.ShapeOf(reflect.TypeFor[outer]()).Read(got, reflect.ValueOf(&back).Elem()) {
			t.Errorf("the fast path rejected %s", got)
		}
		if err := json.Unmarshal(got, &same); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(same, back, cmp.AllowUnexported(outer{})); d != "" {
			t.Error(d)
		}
	}
}

func TestReadAcceptsAnyJSONAndReportsErrors(t *testing.T) {
	for text, want := range map[string]inner{
		`{"text":"x","n":1}`:                  {N: 1, Text: "x"},
		"{ \"n\": 1,\n \"text\": \"x\" }\n":   {N: 1, Text: "x"},
		`{"n":1,"text":"x","unknown":[{},1]}`: {N: 1, Text: "x"},
	} {
		got := inner{N: 7, Text: "from before"}
		if err := jsonfast.New[inner]().Read([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]inner{
		`{"n":1,"text":"x"}`: {1, "x"},
		`{"text":"x","n":1}`: {1, "x"},
		`{"text":"x"}`:       {Text: "x"},
	} {
		got := inner{N: 7, Text: "from before"}
		if err := jsonfast.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{``, `{`, `{"n":1.5}`, `{"n":"1"}`, `{"n":1}}`, `[]`} {
		if err := jsonfast.New[inner]().Read([]byte(text), new(inner)); err == nil {
			t.Errorf("%s was accepted", text)
		}
		if err := jsonfast.Unmarshal([]byte(text), new(inner)); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
	bad := outer{Raw: json.RawMessage(`{`)}
	if b, err := jsonfast.New[outer]().Append(nil, &bad); err == nil {
		t.Errorf("%s was written", b)
	}
}

// box is the surrogate of boxed. The methods MarshalJSON and UnmarshalJSON fail,
// so that a test notices if the codec calls them.
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

func (b *boxed) NewSurrogate() any { return &box{} }

func (b *boxed) ToSurrogate(to any) error {
	to.(*box).Word = b.word
	return nil
}

func (b *boxed) FromSurrogate(from any) error {
	b.word = from.(*box).Word
	return nil
}

func (b *boxed) MarshalJSON() ([]byte, error) { return nil, errors.New("MarshalJSON was called") }

func (b *boxed) UnmarshalJSON([]byte) error { return errors.New("UnmarshalJSON was called") }

func TestSurrogatesReplaceMarshalJSON(t *testing.T) {
	for want, v := range map[string]holder{
		`{"of":{"word":"b"}}`:                      {Of: boxed{"b"}},
		`{"at":{"word":"a"},"of":{"word":""}}`:     {At: &boxed{"a"}},
		`{"at":{"word":"é \""},"of":{"word":"b"}}`: {At: &boxed{`é "`}, Of: boxed{"b"}},
	} {
		got, err := jsonfast.New[holder]().Append(nil, &v)
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s", want, err, got)
		}
		var back holder
		if err := jsonfast.New[holder]().Read([]byte(want), &back); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if d := cmp.Diff(v, back, cmp.AllowUnexported(boxed{})); d != "" {
			t.Error(d)
		}
	}
}

func TestReadUnescapesStrings(t *testing.T) {
	for _, s := range []string{
		``, `"`, `\`, `\\`, `\"`, `"\`, `a "b" \c \\d`, `\n`, "\n", `\u0041`, "é\\\"", `{"a": "\""}`, "tab\t\"",
		"\\\u2028",
	} {
		raw, err := json.Marshal(inner{Text: s})
		if err != nil {
			t.Fatal(err)
		}
		var got inner
		if !jsonfast.ShapeOf(reflect.TypeFor[inner]()).Read(raw, reflect.ValueOf(&got).Elem()) || got.Text != s {
			t.Errorf("%q is read as %q", s, got.Text)
		}
	}
}

// place implements encoding.TextMarshaler and TextAppender.
type place struct{ file string }

func (p place) AppendText(b []byte) ([]byte, error) { return append(b, p.file...), nil }
func (p place) MarshalText() ([]byte, error)        { return p.AppendText(nil) }

func (p *place) UnmarshalText(b []byte) error {
	p.file = string(b)
	return nil
}

func TestTextMarshalersAreEncodedAsStrings(t *testing.T) {
	type places struct {
		One  place            `json:"one"`
		Some []place          `json:"some"`
		Many map[string]place `json:"many"` // values of maps are not addressable
	}
	for _, word := range []string{"", "plain", "a \"quote\" \\", "é", "\x01", "bad \xff"} {
		v := places{place{word}, []place{{word}, {"x"}}, map[string]place{"a": {word}}}
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := jsonfast.New[places]().Append(nil, &v)
		if err != nil || string(got) != string(want) {
			t.Errorf("%q: %s, %v; expected %s", word, got, err, want)
		}
	}
}
