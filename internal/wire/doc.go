// Package wire writes and reads Go values as JSON in the form of encoding/json,
// several times faster: what runs write at every step, and what they are
// resumed from.
package wire

// How a type looks is worked out once from its fields and tags, so that a field
// that is added is written and read without anybody having to think of it.
// Reading is fast for the one order in which writing writes; anything else that
// is JSON is left to encoding/json.
