// Package ir is the one form that every format compiles to: a Program of
// blocks, steps and actions, as plain data.
package ir

// Three ideas carry it.
//
// Control flow is closed, leaf work is open. An Action is one of seven types
// (Task, Route, Gate, Parallel, Loop, Call, End); a Task names a step kind
// and carries settings that only that kind understands.
//
// Edges are complete. A format's idea of "the next step" (document order,
// on_success, rules, a route) is lowered to the ordered Next list of each
// step. The first edge that matches the step's outcome and whose condition
// holds is taken. When none does, the block closes: well after a step that
// went well or was skipped, badly after one that failed or was rejected. So
// the planner, the checker and the picture never ask which format it was.
//
// Blocks are a flat table and actions name them by number: programs stay
// shallow as JSON, and looking a block up costs nothing.
//
// Adding a field that only one format fills is a sign that the idea belongs in
// that format's lowering or in a step kind's settings; programs_test.go
// holds programs of all five formats to that.
