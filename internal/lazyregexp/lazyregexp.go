package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that compiles the pattern on its first call. It panics there if the pattern is invalid.
func New(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
