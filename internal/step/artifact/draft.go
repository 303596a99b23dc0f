package artifact

import (
	"maps"
	"slices"
)

// request is what a draft is made of.
type request struct {
	name  string // of what is to be made
	given []material
}

// drafts make a draft of what a step is to write, by rules.
var drafts = map[string]func(request) string{
	"clarification": func(r request) string { return r.name },
}

func draftNames() []string { return slices.Sorted(maps.Keys(drafts)) }
