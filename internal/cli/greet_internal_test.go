package cli

import (
	"regexp"
	"slices"
	"testing"
)

// The words of other programs are no commands, and what is suggested for them are.
func TestSuggestedCommandsExist(t *testing.T) {
	names := commandNames(Commands())
	named := regexp.MustCompile(`"espalier (\w+)`)
	for word, hint := range otherWords {
		if slices.Contains(names, word) {
			t.Errorf("%s is a command", word)
		}
		found := named.FindAllStringSubmatch(hint, -1)
		for _, m := range found {
			if !slices.Contains(names, m[1]) {
				t.Errorf("%s: there is no command %s", word, m[1])
			}
		}
		if len(found) == 0 {
			t.Errorf("%s: no command is suggested", word)
		}
	}
}
