// Command dbos runs a scenario of the benchmarks on DBOS Transact, and prints its figures as JSON:
//
//	dbos URL SCENARIO
//
// It is a module of its own: Espalier does not need DBOS.
package main
