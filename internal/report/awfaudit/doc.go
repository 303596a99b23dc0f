// Package awfaudit writes AWF's own audit trail: one file for all runs of AWF
// workflows, with a record when a run or a child of it begins and one when it
// ends.
package awfaudit

// The schema is AWF's, so that what reads its files reads these. Other than
// there, every beginning gets its end also after a crash or an interruption
// (a run that is carried on is the same execution, and has one pair), exit
// codes are those of the process, and secrets are found by what they look
// like, not only by the beginning of their names.
