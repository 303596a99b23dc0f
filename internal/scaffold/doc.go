// Package scaffold has the texts that people start from: a valid workflow of each format and pattern, settings, replies
// for a CI job, and commands for editors. It decides which files there are; commands ask, write and print.
package scaffold
