// Package canonical implements the JSON Canonicalization Scheme (RFC 8785). JSON that is hashed or compared byte for
// byte is canonicalized first.
package canonical

// Users verify hashes with programs of their own, so this package must not deviate from the RFC: members are sorted by
// the UTF-16 code units of their names, numbers are printed as ECMAScript prints doubles, strings use the shortest
// escapes, and there is no white space. Numbers that do not fit a double are rounded, as the RFC requires; Exact
// reports beforehand whether that happens.
