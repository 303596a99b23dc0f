// Package canonical is the one form of a JSON value that everybody agrees on
// byte for byte, as RFC 8785 defines it. What is hashed or compared goes
// through it.
package canonical

// Anybody must be able to check a hash with a program of their own, so the
// rules are those of the RFC and nothing else: members in the order of their
// UTF-16 names, numbers as ECMAScript prints doubles, strings with the shortest
// escapes, no white space. Numbers that a double cannot hold are rounded, as
// the RFC has it; Exact tells beforehand.
