// Package execution writes the records that other programs for Agentfile read:
// execution-state.json of each run, and the manifest of a run that generates a
// workflow.
package execution

// Both are derived from the journal alone, so they can be deleted and rebuilt. A
// run's file is replaced as a whole each time something happens.
