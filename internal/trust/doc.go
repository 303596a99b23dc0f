// Package trust records what a person has approved: contents of a project's
// files by their hashes, and state folders that this user has made.
package trust

// Records lie in the user's own state folder, outside of every project, so that
// a repository cannot bring consent along. An approval is bound to the project's
// root and to the SHA-256 of a content: a file that changes needs a new one.
