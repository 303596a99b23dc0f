package examples

import "embed"

// Files are the examples that the pages of the server offer on a first visit. Each is complete in one file.
//
//go:embed agent-flow/contract-review.md agent-flow/second-opinion.md agent-flow/support-triage.md
var Files embed.FS
