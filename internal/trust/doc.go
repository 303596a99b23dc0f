// Package trust records what a person has approved: the contents of files, by
// their hashes, and the state folders that this user has created.
package trust

// Records are in the user's own state folder, outside of every project, so that
// a repository cannot contain its own approval. An approval is bound to the project's
// root and to the SHA-256 of a content: a file that changes needs a new one.
