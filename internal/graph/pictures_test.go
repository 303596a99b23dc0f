package graph

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
)

var pictures = flag.String("pictures", "", "write the samples as pictures into this folder, to look at them")

func TestSamplesCanBeWrittenAsPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("no -pictures folder given")
	}
	for name, p := range samples() {
		for _, data := range []bool{false, true} {
			g := Build(p, Options{Data: data})
			if data {
				name += "-data"
			}
			for ext, write := range map[string]func(io.Writer) error{
				"svg": g.SVG, "png": pngOf(g), "mmd": g.Mermaid,
				"dot": g.DOT, "json": g.JSON,
			} {
				f, err := os.Create(filepath.Join(*pictures, name+"."+ext))
				if err != nil {
					t.Fatal(err)
				}
				if err := write(f); err != nil {
					t.Error(name, ext, err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
