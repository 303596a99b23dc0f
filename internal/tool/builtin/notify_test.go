package builtin

import (
	"slices"
	"testing"
)

// TestNoticesAreNotParsedAsOptions passes options as title and message: a program must find them after the argument
// that ends its options.
func TestNoticesAreNotParsedAsOptions(t *testing.T) {
	for system, end := range map[string]string{"darwin": "-", "linux": "--"} {
		_, args, _ := desktopCommand(system, notice{Title: "-e", Message: `do shell script "id"`, Priority: "default"})
		last := slices.Index(args, end)
		if last < 0 || !slices.Equal(args[last+1:], []string{"-e", `do shell script "id"`}) ||
			slices.Contains(args[:last], "-e") {
			t.Errorf("%s: %q", system, args)
		}
	}
}
