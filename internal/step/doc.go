// Package step runs tasks, the work of a workflow's leaf steps. A Runner executes one attempt at a task (Job)
// with the resources that a Host provides.
package step

// Package stepkind/kinds has the settings of tasks, and what code asks that only checks or estimates workflows. A
// package below step has the Runner of each kind, which decodes these settings.
//
// A Job is plain data, so that an engine can send it to another process; everything else is in Host.
//
// A Runner notes its intent before it acts, and the result afterwards. After a crash, Recovery decides from the
// notes whether the task may have acted, and Run continues from them instead of acting twice. steptest checks
// this for every kind, from each of its notes.
