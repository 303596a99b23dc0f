// Package diag defines diagnostics about files: each has a stable code, a precise span, a description of the problem
// and a suggested action.
package diag

// Parsers and checks return a result and a List, and do not stop at the first mistake. Rendering (a code frame, JSON,
// SARIF) is the last step and the only one that needs the text of files.
