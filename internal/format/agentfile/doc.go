// Package agentfile implements the Agentfile format: a folder with a workflow.yaml, Markdown
// files for agents and skills, and scripts.
package agentfile

// Version 1.0 of the format has two kinds of steps, in one sequence. Steps exchange data
// through files: a step names its inputs and its product by path. Lowering resolves each path
// to the step that produces it, so that a run passes values from step to step and does not
// depend on files. The files are written nevertheless, for people, scripts and other programs.
//
// The specification is silent or contradicts itself in places. Names of test cases that start with
// the same number, such as G07, are about the same decision.
