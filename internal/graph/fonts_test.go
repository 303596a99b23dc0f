package graph

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/draw"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"github.com/espalier-run/espalier/internal/ir"
)

// rareFont returns the Go font with the ligatures U+FB01 and U+FB02 moved to U+FB13 and U+FB14, which the Go font does
// not have.
func rareFont(t *testing.T) []byte {
	t.Helper()
	ttf := bytes.Clone(goregular.TTF)
	at := bytes.Index(ttf[12:], []byte("cmap")) + 12
	table := int(binary.BigEndian.Uint32(ttf[at+8:]))
	for i := range int(binary.BigEndian.Uint16(ttf[table+2:])) {
		sub := table + int(binary.BigEndian.Uint32(ttf[table+4+8*i+4:]))
		if binary.BigEndian.Uint16(ttf[sub:]) != 4 {
			continue
		}
		segments := int(binary.BigEndian.Uint16(ttf[sub+6:])) / 2
		for s := range segments {
			end, start := sub+14+2*s, sub+16+2*segments+2*s
			if binary.BigEndian.Uint16(ttf[start:]) != 0xFB01 {
				continue
			}
			binary.BigEndian.PutUint16(ttf[start:], 0xFB13)
			binary.BigEndian.PutUint16(ttf[end:], 0xFB14)
			delta := start + 2*segments
			binary.BigEndian.PutUint16(ttf[delta:], binary.BigEndian.Uint16(ttf[delta:])-0x12)
			return ttf
		}
	}
	t.Fatal("the font has no segment at U+FB01")
	return nil
}

func TestPNGUsesSystemFontsAndReportsGaps(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string][]byte{"a.ttf": []byte("no font"), "b.ttf": rareFont(t)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := newFlow("rare", "")
	f.add(step("\uFB13\uFB14", "skill", "", work("agent", "")))
	g := Build(f.done(), Options{})
	var with, without bytes.Buffer
	gaps, err := g.png(&with, []string{dir, filepath.Join(dir, "missing")})
	if err != nil || gaps != (Gaps{}) || len(gaps.Notes()) != 0 {
		t.Errorf("with the font: %+v, %v", gaps, err)
	}
	gaps, err = g.png(&without, nil)
	if err != nil || gaps.Missing != "\uFB13\uFB14" || len(gaps.Notes()) != 1 {
		t.Errorf("without the font: %+v, %v", gaps, err)
	}
	if bytes.Equal(with.Bytes(), without.Bytes()) {
		t.Error("the font makes no difference")
	}
	used := findGlyphs([]rune{0xFB13, 0x4E00}, []string{dir})
	defer used.close()
	if len(used.opened) != 1 || len(used.glyphs) != 1 {
		t.Errorf("%d fonts are open for %d glyphs", len(used.opened), len(used.glyphs))
	}
}

// Chinese, Japanese and Korean text is drawn with the glyphs of an installed font, as another program draws them.
func TestPNGDrawsChineseJapaneseAndKorean(t *testing.T) {
	const words = "合同审查契約書を確認する계약검토"
	fonts := findGlyphs([]rune(words), systemFontDirs())
	defer fonts.close()
	for _, ch := range words {
		if fonts.glyphs[ch].font != nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("no installed font has %q; install the Debian packages fonts-droid-fallback and fonts-baekmuk", ch)
		}
		t.Skipf("no installed font has %q", ch)
	}
	f := newFlow("words", "")
	f.add(step(words, "skill", words, work("agent", words)))
	gaps, err := Build(f.done(), Options{}).PNG(io.Discard)
	if err != nil || gaps != (Gaps{}) {
		t.Errorf("the picture has %+v, %v", gaps, err)
	}
	r, err := newRuler()
	if err != nil {
		t.Fatal(err)
	}
	const side, size, left, base = 40, 28, 5, 32
	for _, ch := range words {
		c := newCanvas(&scene{w: side, h: side, parts: []part{{shapes: []shape{
			{fill: paintText, text: &sceneText{x: left, y: base, text: string(ch), size: size}},
		}}}}, r, theme{paintPage: 0xFFFFFF, paintText: 0})
		c.fallback = fonts
		c.paint()
		want := image.NewRGBA(c.img.Bounds())
		draw.Draw(want, want.Bounds(), image.White, image.Point{}, draw.Src)
		face, err := opentype.NewFace(fonts.glyphs[ch].font, &opentype.FaceOptions{Size: size * c.scale, DPI: 72})
		if err != nil {
			t.Fatal(err)
		}
		pen := font.Drawer{
			Dst: want, Src: image.Black, Face: face, Dot: fixed.P(int(left*c.scale), int(base*c.scale)),
		}
		pen.DrawString(string(ch))
		ink, differs := 0, 0
		for i := 0; i < len(want.Pix); i += 4 {
			ink += 255 - int(want.Pix[i])
			differs += max(int(want.Pix[i])-int(c.img.Pix[i]), int(c.img.Pix[i])-int(want.Pix[i]))
		}
		if ink == 0 || differs*20 > ink {
			t.Errorf("%c: of %d units of ink, %d differ", ch, ink/255, differs/255)
		}
	}
}

func TestSuitableFontsComeFirst(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"x/NotoSerif-Regular.ttf", "NotoSans-Bold.ttf", "NotoSans-Regular.ttf", "note.txt"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, path := range fontFiles([]string{dir}) {
		names = append(names, filepath.Base(path))
	}
	if len(names) != 3 || names[0] != "NotoSans-Regular.ttf" || names[2] != "NotoSans-Bold.ttf" {
		t.Errorf("the order is %q", names)
	}
}

func TestRightToLeftTextIsReordered(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "\u05D0\u05D1\u05D2": "\u05D2\u05D1\u05D0", "id \u05D0\u05D1": "id \u05D1\u05D0",
	} {
		if got := visualOrder(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestLongNamesWrap(t *testing.T) {
	id := "look_up_every_supplier_in_the_public_register_and_compare_it_with_our_own_records"
	f := newFlow("long", "")
	f.add(step(id, "tool", "", work("tool", "x")))
	f.add(step("all_the_readers_of_"+id, "parallel", "", f.bundle("b", step("w", "worker", "", work("agent", "x")))))
	f.add(step("wait_for_"+id, "wait", "", ir.Gate{Decider: ir.Event, Event: "e"}))
	g := Build(f.done(), Options{})
	p, err := arrange(g, &large)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{id, "all_the_readers_of_" + id, "wait_for_" + id} {
		shown := ""
		for _, text := range p.cards["step-"+want].texts {
			shown += text.text
		}
		if !bytes.Contains([]byte(shown), []byte(want)) {
			t.Errorf("%q does not show %q", shown, want)
		}
	}
}
