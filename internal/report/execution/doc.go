// Package execution keeps the records that programs of the Agentfile format
// look for: execution-state.json of each run, and the manifest of a run that
// generates a workflow.
package execution

// Both are made of the journal and nothing else, so they can be deleted and
// made again; a run's file is written as a whole each time something happens.
