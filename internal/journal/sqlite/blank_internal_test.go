package sqlite

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write blank.db anew")

// A new file is what the migrations make of an empty one.
func TestBlankIsWhatTheMigrationsMake(t *testing.T) {
	steps, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	c, err := connect(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// In one transaction, as in a file.
	for _, run := range []func() error{
		func() error { return c.script("BEGIN") },
		func() error { return c.upgrade(steps, 0) },
		func() error { return c.script("COMMIT") },
	} {
		if err := run(); err != nil {
			t.Fatal(err)
		}
	}
	image, err := c.Conn.(interface{ Serialize() ([]byte, error) }).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	// The file's header: by these two readers and writers know that there is a
	// WAL, which what is in memory has not; the last is who wrote it.
	const writeVersion, readVersion, library = 18, 19, 96
	image[writeVersion], image[readVersion] = 2, 2
	if *update {
		if err := os.WriteFile("blank.db", image, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	copy(image[library:library+4], blank[library:])
	if !bytes.Equal(image, blank) {
		t.Error("blank.db is not what the migrations make: go test ./internal/journal/sqlite -run Blank -update")
	}
}
