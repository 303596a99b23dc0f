// Package ir defines the program that every workflow format compiles to: blocks, steps and actions, as plain data.
package ir

// The design rests on three ideas.
//
// Control flow is closed, leaf work is open. An Action is one of seven types (Task, Route, Gate, Parallel, Loop, Call,
// End); a Task names a step kind and carries settings that only that kind understands.
//
// Edges are complete. A format's idea of "the next step" (document order, on_success, rules, a route) is lowered to the
// ordered Next list of each step. The first edge that matches the step's outcome and whose condition is true is taken.
// If none matches, the block closes: successfully after a step that succeeded or was skipped, as failed after one that
// failed or was rejected. The planner, the checker and the picture therefore never ask which format a program came
// from.
//
// Blocks are a flat table and actions refer to them by number. Programs stay shallow as JSON, and a block lookup is an
// index operation.
//
// A field that only one format fills belongs in that format's lowering or in a step kind's settings instead.
// programs_test.go checks the shape against hand-written programs of all five formats.
