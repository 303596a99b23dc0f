// Package awfaudit writes AWF's own audit trail: one file for all runs of AWF workflows, with a record for the start
// and one for the end of each run and child run.
package awfaudit

// The schema is AWF's, so that its tools can read the file. Unlike AWF's own program, every start gets its end, also
// after a crash or an interruption (a resumed run is the same execution, and has one pair of records), exit codes are
// those of the process, and secrets are recognized by their form, not only by prefixes of their names.
