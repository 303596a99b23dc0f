// Package flowtrace converts a run of an AIFLOW file to the document that the format's own trace viewer reads: the
// final context, with one entry for each agent that ran.
package flowtrace
