// Package explain provides the pages that explain diagnostics: one per code, with an example
// that produces it and one that does not.
package explain

// A page is a txtar archive, pages/CODE.txtar. Its comment is the text, in Markdown, starting
// with "# CODE: title". The first file below bad/ produces the code; the first file below good/
// is the corrected version. Further files may follow for these two to refer to. A test
// validates all of them.
