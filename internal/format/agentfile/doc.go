// Package agentfile implements the Agentfile format: a folder with a workflow.yaml, Markdown
// files for agents and skills, and scripts.
package agentfile

// Version 1.0 of the format has two kinds of steps, in one sequence. Steps exchange data
// through files: a step names its inputs and its product by path. Lowering resolves each path
// to the step that produces it, so that a run passes values from step to step and does not
// depend on files. The files are written nevertheless, for people, scripts and other programs.
//
// G1 to G23, in comments and test names, number the decisions made where the specification is
// silent or contradicts itself.
