// Package agentfile is the format of Agentfile workflows: a folder with a
// workflow.yaml, Markdown files for agents and skills, and scripts.
package agentfile

// Version 1.0 of the format has two kinds of steps, in one sequence. What
// stands between them are files: a step names what it reads and what it
// produces by paths. Lowering finds out which step's product a path means, so
// that a run hands values from step to step and needs no file to be there;
// the files are written all the same, for people, scripts and other programs.
//
// G1 to G23, in comments and in the names of tests, are decisions where the
// specification is silent or contradicts itself.
