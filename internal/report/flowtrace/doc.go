// Package flowtrace tells a run of an AIFLOW file as the document that the
// format's own trace viewer reads: the final context, with one entry for each
// agent that was asked.
package flowtrace
