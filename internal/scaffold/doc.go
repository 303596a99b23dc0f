// Package scaffold has the texts that people start from: a valid workflow of each format and pattern, settings, replies
// for a CI job, and commands for editors. It decides which files there are and writes them; commands ask and print.
package scaffold
