// Package explain is the pages that explain diagnostics: one for each code,
// with an example that produces it and one that does not.
package explain

// A page is a txtar archive, pages/CODE.txtar. Its comment is the text, in
// Markdown, beginning with "# CODE: title". The first file below bad/ produces
// the code; the first one below good/ is the same thing done right. More files
// may follow for these two to refer to. A test validates them all.
