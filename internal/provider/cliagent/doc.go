// Package cliagent is the models that are programs: claude, codex, gemini,
// copilot and others, run as subprocesses that work by themselves.
package cliagent

// How a program becomes a model:
//
//   - A Dialect knows one program: how it is called for a request, which of its
//     tools can be granted and taken away, and what its lines of output mean.
//   - Agent.Generate starts the program, tells it the prompt on standard input,
//     and makes blocks, sessions and tool events of its lines as they come. The
//     program dies with the request, and its death is verified.
//   - Whoever uses an agent sees a provider.Model and asks provider.Agents which
//     names are agents. The names are listed in builtin: "claude-code/MODEL",
//     or just "claude-code" for the program's usual model. The names that AWF
//     workflows use as provider ("claude", "github_copilot", …) mean the same.
//
// A line that nobody understands is passed over: programs get new kinds of
// lines with every release. What must be there is the line that says how it
// ended; without it the work counts as broken off.
