package ir

import (
	"regexp"
	"sync"
)

// ValidVersion reports whether a version of a workflow is a semantic version (semver.org): MAJOR.MINOR.PATCH,
// optionally with a pre-release and build metadata.
func ValidVersion(version string) bool { return semver().MatchString(version) }

var semver = sync.OnceValue(func() *regexp.Regexp {
	const (
		number = `(0|[1-9][0-9]*)`
		label  = `(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)`
		build  = `[0-9A-Za-z-]+`
	)
	return regexp.MustCompile(`^` + number + `\.` + number + `\.` + number +
		`(-` + label + `(\.` + label + `)*)?(\+` + build + `(\.` + build + `)*)?$`)
})
