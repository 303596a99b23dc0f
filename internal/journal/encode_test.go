package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A fact that is missing from the list could not be stored.
func TestEveryFactIsListed(t *testing.T) {
	names, err := os.ReadFile("names.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(names, []byte("factName() string")); n != len(EveryFact()) {
		t.Errorf("%d facts, %d listed", n, len(EveryFact()))
	}
}

var rawType = reflect.TypeFor[json.RawMessage]()

// fill sets every field of v, so that a new field of a fact is tested
// automatically.
func fill(t *rapid.T, v reflect.Value) {
	if v.Type() == rawType {
		v.SetBytes([]byte(rapid.SampledFrom([]string{
			"", `null`, `{"a":[1,2,{"b":"c d"}]}`, `"x\" y\u2028"`, `-1.5e3`, `[]`,
		}).Draw(t, "raw")))
		if v.Len() == 0 {
			v.SetZero()
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{
			"a\nb", "<&>", "\u2028\u2029", `\"`, "\x00\x1f\x7f", "é𝄞",
		})).Draw(t, "text"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, "number"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			item := reflect.New(v.Type().Elem()).Elem()
			fill(t, item)
			v.Set(reflect.Append(v, item))
		}
	case reflect.Map:
		n := rapid.IntRange(0, 3).Draw(t, "length")
		if n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
		}
		for range n {
			key, item := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, key)
			fill(t, item)
			v.SetMapIndex(key, item)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
		// A size means nothing without a value; it is not kept then.
		if value, ok := v.Addr().Interface().(*Value); ok && value.IsZero() {
			value.Size = 0
		}
	default:
		t.Fatalf("%s: a fact cannot hold %s", v.Type(), v.Kind())
	}
}

func drawEvent(t *rapid.T) Event {
	fact := reflect.New(reflect.TypeOf(rapid.SampledFrom(EveryFact()).Draw(t, "fact"))).Elem()
	fill(t, fact)
	return Event{
		Seq:  Seq(rapid.Int64().Draw(t, "seq")),
		At:   Millis(rapid.Int64().Draw(t, "at")),
		Run:  RunID(rapid.OneOf(rapid.Just(""), rapid.String()).Draw(t, "run")),
		Fact: fact.Interface().(Fact),
	}
}

// reference is how encoding/json writes an event.
func reference(t interface{ Fatal(...any) }, events []Event, short bool) []byte {
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	for i, e := range events {
		type line struct {
			Q *Seq    `json:"q,omitempty"`
			T *Millis `json:"t,omitempty"`
			R RunID   `json:"r,omitempty"`
			K string  `json:"k"`
			D Fact    `json:"d"`
		}
		x := line{&e.Seq, &e.At, e.Run, e.Fact.factName(), e.Fact}
		if short && i > 0 && e.Seq == events[i-1].Seq+1 && e.At == events[i-1].At {
			x.Q, x.T = nil, nil
		}
		if err := enc.Encode(x); err != nil {
			t.Fatal(err)
		}
	}
	return w.Bytes()
}

func TestEveryEventSurvivesTheJournal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(drawEvent), 0, 4).Draw(t, "events")
		for i := 1; i < len(events); i++ {
			if rapid.Bool().Draw(t, "follows") {
				events[i].Seq, events[i].At = events[i-1].Seq+1, events[i-1].At
			}
		}
		short := rapid.Bool().Draw(t, "short")
		body, err := encode(nil, events, short)
		if err != nil {
			t.Fatal(err)
		}
		if want := reference(t, events, short); !bytes.Equal(body, want) {
			t.Fatalf("not what encoding/json writes\n got %s\nwant %s", body, want)
		}
		back, err := Decode(body)
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		if diff := cmp.Diff(events, back, cmp.Comparer(func(a, b json.RawMessage) bool {
			return (a == nil) == (b == nil) && bytes.Equal(a, b)
		}), cmp.Transformer("slice", func(e []Event) []Event {
			if len(e) == 0 {
				return nil
			}
			return e
		})); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Random facts have few fields set at once; here every field has a value.
func TestEveryFieldOfAFactIsEncoded(t *testing.T) {
	for _, zero := range EveryFact() {
		v := reflect.New(reflect.TypeOf(zero)).Elem()
		occupy(v)
		events := []Event{{Seq: 1, Fact: v.Interface().(Fact)}}
		body, err := Encode(nil, events)
		if err != nil {
			t.Fatal(err)
		}
		if want := reference(t, events, false); !bytes.Equal(body, want) {
			t.Errorf("%s:\n got %s\nwant %s", zero.factName(), body, want)
		}
		back, err := Decode(body)
		if err != nil || !cmp.Equal(back, events) {
			t.Errorf("%s: %v\n%s", zero.factName(), err, cmp.Diff(events, back))
		}
	}
}

func occupy(v reflect.Value) {
	if v.Type() == rawType {
		v.SetBytes([]byte(`{"x":1}`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text of " + v.Type().Name())
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		occupy(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		occupy(v.Index(0))
		occupy(v.Index(1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, item := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		occupy(key)
		occupy(item)
		v.SetMapIndex(key, item)
	case reflect.Struct:
		for i := range v.NumField() {
			occupy(v.Field(i))
		}
	}
}

// A nil json.RawMessage without omitempty would go out as null and come back
// as something.
func TestEmptyRawFieldsAreOmitted(t *testing.T) {
	var visit func(path string, typ reflect.Type)
	visit = func(path string, typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(path, typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				if f.Type == rawType && !strings.Contains(f.Tag.Get("json"), ",omitempty") {
					t.Errorf("%s.%s is raw JSON without omitempty", path, f.Name)
				}
				if f.Type != rawType {
					visit(path+"."+f.Name, f.Type)
				}
			}
		}
	}
	for _, f := range EveryFact() {
		visit(f.factName(), reflect.TypeOf(f))
	}
}

func TestInvalidUTF8IsReplaced(t *testing.T) {
	for _, s := range []string{"\xff", "a\xc3", "\xed\xa0\x80", "\xf0\x9d\x84"} {
		events := []Event{{Seq: 1, Fact: TaskStarted{TaskID: TaskID{Place: Place{Step: s}}}}}
		body, err := Encode(nil, events)
		if err != nil {
			t.Fatal(err)
		}
		if want := reference(t, events, false); !bytes.Equal(body, want) {
			t.Errorf("%q: got %s want %s", s, body, want)
		}
	}
}

func TestRawJSONIsCompactedOrRefused(t *testing.T) {
	note := func(raw string) []Event {
		return []Event{{Seq: 1, Fact: TaskNoted{N: 1, Data: json.RawMessage(raw)}}}
	}
	spaced := "{ \"a\" :\t[ 1 ,\n 2 ] , \"b c\\\" \" : \" d\\\\\" }\r\n"
	body, err := Encode(nil, note(spaced))
	if err != nil {
		t.Fatal(err)
	}
	if want := reference(t, note(spaced), false); !bytes.Equal(body, want) {
		t.Errorf("got %s want %s", body, want)
	}
	for _, raw := range []string{"{", "nul", "1 2", "\"a\nb\"", "}\n{\"q\":2"} {
		if _, err := Encode(nil, note(raw)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", raw, err)
		}
		if _, err := Encode(
			nil, []Event{{Seq: 1, Fact: RunStarted{Options: json.RawMessage(raw)}}},
		); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

func TestUnknownFactsAreRefused(t *testing.T) {
	for _, f := range []Fact{nil, &TaskStarted{}} {
		if _, err := Encode(nil, []Event{{Seq: 1, Fact: f}}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%T: %v", f, err)
		}
	}
}

func TestDecodeErrorsNameTheDamage(t *testing.T) {
	good, err := Encode(nil, []Event{{Seq: 1, At: 2, Run: "r", Fact: Claimed{Owner: "o"}}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, body, says string }{
		{"torn", string(good[:len(good)-1]), "torn"},
		{"torn inside", string(good) + string(good[:20]), "torn"},
		{"unknown fact", `{"q":1,"t":2,"k":"Sneezed","d":{}}` + "\n", `"Sneezed"`},
		{"second line", string(good) + "{}\n", "line 2"},
		{"wrong type", `{"q":1,"t":2,"k":"Claimed","d":{"owner":5}}` + "\n", "Claimed"},
		{"no data", `{"q":1,"t":2,"k":"Claimed","d":}` + "\n", "not an event"},
		{"two values", `{"q":1,"t":2,"k":"Claimed","d":{}{}}` + "\n", "Claimed"},
		{"no number", `{"q":x,"t":2,"k":"Claimed","d":{}}` + "\n", "not an event"},
		{"bad run", `{"q":1,"t":2,"r":5,"k":"Claimed","d":{}}` + "\n", "not an event"},
		{"empty line", "\n", "not an event"},
		{"first line without a number", `{"k":"Claimed","d":{}}` + "\n", "not an event"},
	}
	for _, tt := range tests {
		_, err := Decode([]byte(tt.body))
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, zero := range EveryFact() {
		v := reflect.New(reflect.TypeOf(zero)).Elem()
		occupy(v)
		body, err := Encode(nil, []Event{{Seq: 1, At: 2, Run: "r", Fact: v.Interface().(Fact)}, {Seq: 2, Fact: zero}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		events, err := Decode(body)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("not an ErrCorrupt: %v", err)
			}
			return
		}
		// The short way must understand what encoding/json does.
		for i, line := range bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n")) {
			if len(events) == 0 {
				break
			}
			want := reflect.New(reflect.TypeOf(events[i].Fact))
			var e Event
			_, data, err := openEnvelope(line, &e, &Event{})
			if err == nil {
				err = json.Unmarshal(data, want.Interface())
			}
			if diff := cmp.Diff(want.Elem().Interface(), events[i].Fact); err != nil || diff != "" {
				t.Fatalf("%v %s\n%s", err, diff, line)
			}
		}
		// What was understood must be the same after another round.
		again, err := Encode(nil, events)
		if err != nil {
			t.Fatalf("decoded, but not encodable: %v", err)
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		third, err := Encode(nil, back)
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("%v\n%s\n%s", err, again, third)
		}
	})
}

var chainStep = []Event{
	{Seq: 41, At: 1763170000000, Fact: TaskEnded{
		TaskID: TaskID{Place: Place{Step: "summarise"}}, Outcome: "ok",
		Value:  Value{JSON: json.RawMessage(`{"summary":"short","score":0.93}`)},
		Writes: []Write{{Path: "state.summary"}},
		Usage:  Usage{Steps: 1, ModelCalls: 1, InputTokens: 812, OutputTokens: 95}, Final: true,
	}},
	{Seq: 42, At: 1763170000000, Fact: TaskStarted{TaskID: TaskID{Place: Place{Step: "review"}}, Kind: "agent"}},
}

// What Encode writes is read the short way: otherwise it would be slow, and
// no other test would tell.
func TestEncodedFactsAreDecodedByTheFastCodec(t *testing.T) {
	for _, zero := range EveryFact() {
		full := reflect.New(reflect.TypeOf(zero)).Elem()
		occupy(full)
		for _, f := range []Fact{zero, full.Interface().(Fact)} {
			data, err := appendFact(nil, f)
			if err != nil {
				t.Fatal(err)
			}
			if !factShapes().byName[f.factName()].shape.Read(data, reflect.New(reflect.TypeOf(f)).Elem()) {
				t.Errorf("gave up at %s", data)
			}
		}
	}
}

func BenchmarkEncodeChainStep(b *testing.B) {
	var buf []byte
	for b.Loop() {
		buf, _ = Encode(buf[:0], chainStep)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkDecodeChainStep(b *testing.B) {
	body, err := Encode(nil, chainStep)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}
