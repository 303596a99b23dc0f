// Package cliagent implements models that are programs: claude, codex, gemini, copilot and others, run as subprocesses
// that work autonomously.
package cliagent

// How a program becomes a model:
//
//  - A Dialect describes one program: its command line for a request, the tools that can be granted or denied, and the
//    meaning of its output.
//  - Agent.Generate starts the program, writes the prompt to standard input, and turns lines of output into blocks,
//    sessions and tool events as they arrive. The program ends with the request; Generate verifies that no process is
//    left.
//  - Callers see a provider.Model; provider.Agents reports which names are agents. Package registry lists the names:
//    "claude-code/MODEL", or "claude-code" for the program's default model. The provider names of AWF workflows
//    ("claude", "github_copilot", …) are synonyms.
//
// Unknown lines are ignored, because new releases of the programs add new types. Only the final line, which reports the
// result, is required; without it the request counts as interrupted.
