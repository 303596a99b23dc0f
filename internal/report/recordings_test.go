package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

var update = flag.Bool("update", false, "write the recordings anew")

// scenarios are the runs that the tests of all readers share. They are driven
// through the plan here and stored as files, so that readers are tested with a
// journal and nothing else.
var scenarios = map[string]func(t *testing.T) (*ir.Program, *world){
	"linear": func(t *testing.T) (*ir.Program, *world) {
		p := program("greeting", chain(task("prepare", "transform", "transform"), agent("greet", "writer"),
			end("done"))...)
		w := start(t, p, `{"name":"Ada <ada@example.org>"}`)
		w.do = func(w *world, task journal.TaskID) plan.Result {
			if task.Step == "greet" {
				return value(`{"text": "Hello & welcome"}`)
			}
			return plan.Result{Outcome: journal.OutcomeOK}
		}
		return p, w.run()
	},
	"retry": func(t *testing.T) (*ir.Program, *world) {
		p := program("patient", chain(edit(task("fetch", "tool", "tool"), func(s *ir.Step) {
			s.Retry = &ir.Retry{MaxAttempts: 3, Backoff: ir.List, Delays: []ir.Millis{500, 2000}}
		}), task("use", "transform", "transform"))...)
		w := start(t, p, "{}")
		w.do = func(w *world, task journal.TaskID) plan.Result {
			if task.Step == "fetch" {
				w.note(task, 1, journal.NoteToolCall,
					journal.ToolUse{
						Name: "fetch", CallID: task.Key(),
						Input: json.RawMessage(`{"url":"https://example.org"}`),
					}, journal.Usage{})
				if task.Attempt < 2 {
					return failed("API_ERROR", "no luck")
				}
			}
			return plan.Result{Outcome: journal.OutcomeOK}
		}
		return p, w.run()
	},
	"retries-used-up": func(t *testing.T) (*ir.Program, *world) {
		p := program("hopeless", edit(task("fetch", "tool", "tool"), func(s *ir.Step) {
			s.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{1000}}
		}))
		w := start(t, p, "{}")
		w.do = func(*world, journal.TaskID) plan.Result { return failed("TIMEOUT", "") }
		return p, w.run()
	},
	"skip": func(t *testing.T) (*ir.Program, *world) {
		p := program("choosy", chain(task("a", "transform", "transform"),
			edit(task("b", "transform", "transform"), func(s *ir.Step) {
				s.When = cond(t, "input.go == true")
			}), task("c", "transform", "transform"))...)
		return p, start(t, p, `{"go":false}`).run()
	},
	"fallback": func(t *testing.T) (*ir.Program, *world) {
		steps := chain(edit(agent("draft", "writer"), func(s *ir.Step) { s.Fallback = &ir.Name{Name: "template"} }),
			task("send", "tool", "tool"))
		p := program("stand-in", append(steps, task("template", "transform", "transform"))...)
		w := start(t, p, "{}")
		w.do = func(_ *world, task journal.TaskID) plan.Result {
			if task.Step == "draft" {
				return failed("RATE_LIMIT", "RATE_LIMIT (429): slow down")
			}
			return plan.Result{Outcome: journal.OutcomeOK}
		}
		return p, w.run()
	},
	"gate-approved": func(t *testing.T) (*ir.Program, *world) {
		p := gated()
		w := start(t, p, "{}")
		w.run().decide(journal.AnswerApprove, "looks good")
		return p, w.run()
	},
	"gate-rejected": func(t *testing.T) (*ir.Program, *world) {
		p := gated()
		w := start(t, p, "{}")
		w.run().decide(journal.AnswerReject, "too long")
		return p, w.run()
	},
	"gate-timeout": func(t *testing.T) (*ir.Program, *world) {
		p := gated()
		g := p.Blocks[0].Steps[1].Action.(ir.Gate)
		g.Timeout = 3_600_000
		p.Blocks[0].Steps[1].Action = g
		return p, start(t, p, "{}").run()
	},
	"rewound": func(t *testing.T) (*ir.Program, *world) {
		p := gated()
		w := start(t, p, "{}").run()
		w.now += 1000
		w.tell(plan.Rewind{Step: "draft", By: journal.Actor{User: "eva"}})
		w.run().decide(journal.AnswerApprove, "better")
		return p, w.run()
	},
	"tool-question": func(t *testing.T) (*ir.Program, *world) {
		p := program("mailing", agent("write", "writer"))
		w := start(t, p, "{}")
		asking := w.tasks[0]
		w.tasks = nil
		input := json.RawMessage(`{"to":"ida"}`)
		w.note(asking, 1, journal.NotePrompt,
			journal.Prompt{Blocks: []journal.Block{{Type: journal.BlockText, Text: "write to ida"}}}, journal.Usage{})
		w.note(asking, 2, journal.NoteReply, journal.Reply{
			Blocks:  []journal.Block{{Type: journal.BlockToolUse, ToolID: "t1", ToolName: "mail.send", Input: input}},
			Offline: "scripted",
		}, journal.Usage{ModelCalls: 1, InputTokens: 10, OutputTokens: 5})
		w.tell(plan.Ask{
			Work: asking, Call: asking.Key() + "/call:1",
			Shows: map[string]json.RawMessage{"tool": json.RawMessage(`"mail.send"`), "arguments": input},
		})
		w.decide(journal.AnswerApprove, "do")
		again := w.tasks[0] // with the answer as its third note
		w.note(again, 4, journal.NoteToolCall, journal.ToolUse{Name: "mail.send", CallID: "t1", Input: input},
			journal.Usage{})
		w.note(again, 5, journal.NoteToolResult, journal.ToolUse{
			Name: "mail.send", CallID: "t1", Input: input,
			Output: json.RawMessage(`"sent"`),
		}, journal.Usage{ToolCalls: 1})
		return p, w.run()
	},
	"waiting": func(t *testing.T) (*ir.Program, *world) {
		p := gated()
		return p, start(t, p, "{}").run()
	},
	"decision": func(t *testing.T) (*ir.Program, *world) {
		pick := ir.Step{ID: "pick", Type: "decision", Action: ir.Route{}, Next: []ir.Edge{
			{On: []ir.Outcome{ir.OK}, When: cond(t, `input.kind == "a"`), To: ir.Target{Step: "left"}, Label: "a"},
			{On: []ir.Outcome{ir.OK}, To: ir.Target{Exit: ir.ExitFail, Reason: "NO_BRANCH"}},
		}}
		p := program("fork", pick, task("left", "transform", "transform"))
		return p, start(t, p, `{"kind":"b"}`).run()
	},
	"bundle": func(t *testing.T) (*ir.Program, *world) {
		p := program("minutes")
		extract := bundle(p, "extract", ir.JoinSettle, "W1_ACTIONS", "W2_RISKS")
		par := extract.Action.(ir.Parallel)
		par.Combine = &ir.Task{Kind: "combine"}
		extract.Action = par
		p.Blocks[0].Steps = chain(extract, task("publish", "tool", "tool"))
		w := start(t, p, "{}")
		w.do = func(w *world, task journal.TaskID) plan.Result {
			if task.Part == "" && task.Frame != "" {
				w.note(task, 1, journal.NotePrompt,
					journal.Prompt{Blocks: []journal.Block{{Type: "text", Text: "Read the minutes."}}}, journal.Usage{})
				w.note(task, 2, journal.NoteReply,
					journal.Reply{Blocks: []journal.Block{{Type: "text", Text: task.Step}}, Offline: "simulated"},
					journal.Usage{ModelCalls: 1, InputTokens: 900, OutputTokens: 100})
			}
			return plan.Result{Outcome: journal.OutcomeOK}
		}
		return p, w.run()
	},
	"any": func(t *testing.T) (*ir.Program, *world) {
		p := program("race")
		p.Blocks[0].Steps = chain(bundle(p, "race", ir.JoinAny, "one", "two", "three"),
			task("after", "transform", "transform"))
		return p, start(t, p, "{}").run()
	},
	"loop": func(t *testing.T) (*ir.Program, *world) {
		p := program("each")
		inner := p.AddBlock(ir.Block{Steps: []ir.Step{task("deep", "command", "command")}})
		body := p.AddBlock(ir.Block{Steps: chain(task("body_step", "command", "command"), ir.Step{
			ID: "twice", Type: "while", Action: ir.Loop{Block: inner, While: cond(t, "loop.index < 2")},
		})})
		p.Blocks[0].Steps = []ir.Step{{
			ID: "each", Type: "for_each", Writes: []ir.Write{{Path: "state.each"}},
			Action: ir.Loop{Block: body, Each: &ir.Each{Items: items(t, "input.list"), Var: "item"}},
		}}
		w := start(t, p, `{"list":["x","y"]}`)
		w.do = func(w *world, task journal.TaskID) plan.Result {
			w.note(task, 1, journal.NoteCommand, journal.Command{Command: "echo \"" + task.Step + "\" > out\n"},
				journal.Usage{})
			return plan.Result{Outcome: journal.OutcomeOK}
		}
		return p, w.run()
	},
	"fan-out": func(t *testing.T) (*ir.Program, *world) {
		p := program("all")
		body := p.AddBlock(ir.Block{Steps: chain(task("one", "transform", "transform"),
			task("two", "transform", "transform"))})
		p.Blocks[0].Steps = []ir.Step{{ID: "map", Type: "parallel", Action: ir.Parallel{
			Join: ir.JoinAll, Each: &ir.Each{Items: items(t, "input.list"), Var: "x", Block: body},
		}}}
		return p, start(t, p, `{"list":[1,2,3]}`).run()
	},
	"child": func(t *testing.T) (*ir.Program, *world) {
		grandchild := program("grandchild", task("leaf", "transform", "transform"))
		child := program("child", chain(
			task("one", "transform", "transform"),
			ir.Step{ID: "deeper", Type: "skill", Action: ir.Call{}, Writes: []ir.Write{{Path: "output"}}},
		)...)
		child.Children = []ir.Program{*grandchild}
		p := program("parent", chain(
			task("before", "transform", "transform"),
			ir.Step{ID: "ask", Type: "skill", Action: ir.Call{}, Writes: []ir.Write{{Path: "state.answer"}}},
			task("after", "transform", "transform"))...)
		p.Children = []ir.Program{*child}
		return p, start(t, p, "{}").run()
	},
	"child-fails": func(t *testing.T) (*ir.Program, *world) {
		p := program("parent")
		body := p.AddBlock(ir.Block{Steps: []ir.Step{{ID: "ask", Type: "skill", Action: ir.Call{}}}})
		p.Blocks[0].Steps = []ir.Step{{
			ID: "each", Type: "for_each",
			Action: ir.Loop{Block: body, Each: &ir.Each{Items: items(t, "[1, 2]"), Var: "x"}},
		}}
		p.Children = []ir.Program{*program("child", task("one", "tool", "tool"))}
		w := start(t, p, "{}")
		w.do = func(w *world, task journal.TaskID) plan.Result {
			if task.Frame != "each/0/ask/call" {
				return failed("API_ERROR", "the second one broke")
			}
			return plan.Result{Outcome: journal.OutcomeOK}
		}
		return p, w.run()
	},
	"cancel": func(t *testing.T) (*ir.Program, *world) {
		p := program("long")
		inside := edit(task("patience", "tool", "tool"), func(s *ir.Step) {
			s.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{60_000}}
		})
		resting := p.AddBlock(ir.Block{Steps: []ir.Step{inside}})
		asking := p.AddBlock(ir.Block{Steps: []ir.Step{{
			ID: "sign", Type: "gate",
			Action: ir.Gate{Decider: ir.Person},
		}}})
		busy := p.AddBlock(ir.Block{Steps: []ir.Step{agent("work", "worker")}})
		p.Blocks[0].Steps = chain(ir.Step{
			ID: "all", Type: "parallel",
			Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{
				{Name: "x", Block: resting}, {Name: "y", Block: asking}, {Name: "z", Block: busy},
			}},
		}, task("never", "transform", "transform"))
		w := start(t, p, "{}")
		w.tell(plan.Result{Work: w.tasks[0], Outcome: journal.OutcomeFailed, Class: "API_ERROR", Error: "no luck"})
		w.tasks = w.tasks[1:]
		w.now += 1000
		w.tell(plan.Cancel{Reason: "enough", By: journal.Actor{User: "eva"}})
		return p, w.run()
	},
	"agent-with-tools": func(t *testing.T) (*ir.Program, *world) {
		p := program("research", chain(agent("research", "researcher"), end("done"))...)
		p.Agents = []ir.Agent{{ID: "researcher", Role: "Researcher"}}
		p.Budget.Tokens = &ir.Limit{Max: 10_000}
		w := start(t, p, "{}")
		w.do = func(w *world, task journal.TaskID) plan.Result {
			input := json.RawMessage(`{"query": "a<b & c", "n": [1, 2]}`)
			usage := journal.Usage{ModelCalls: 1, InputTokens: 1000, OutputTokens: 240}
			w.note(task, 1, journal.NotePrompt,
				journal.Prompt{
					System: "You are careful.",
					Blocks: []journal.Block{{Type: "text", Text: "Find out.\nAll of it."}},
				}, journal.Usage{})
			w.note(task, 2, journal.NoteReply, journal.Reply{
				Stop: "tool_use", Model: "scripted", Offline: "scripted",
				Blocks: []journal.Block{
					{Type: "thinking", Text: "I should search.", Signature: "sig"},
					{Type: "text", Text: "Let me look."},
					{Type: "tool_use", ToolID: "call-1", ToolName: "search", Input: input},
				},
			}, usage)
			w.note(task, 3, journal.NoteToolCall, journal.ToolUse{Name: "search", CallID: "call-1", Input: input},
				journal.Usage{})
			w.note(task, 4, "own.business", map[string]int{"n": 1}, journal.Usage{})
			w.note(task, 5, journal.NoteToolResult, journal.ToolUse{
				Name: "search", CallID: "call-1", Input: input,
				Output: json.RawMessage(`{"hits": []}`),
			}, journal.Usage{ToolCalls: 1})
			w.note(task, 6, journal.NoteToolCall, journal.ToolUse{Name: "Bash", CallID: "x", Fidelity: journal.ByAgent},
				journal.Usage{})
			w.note(task, 7, journal.NoteToolResult, journal.ToolUse{
				Name: "Bash", CallID: "x", Error: "exit code 1",
				Fidelity: journal.ByAgent,
			}, journal.Usage{})
			w.note(task, 8, journal.NoteStream, journal.Stream{Chunk: "Noth"}, journal.Usage{})
			w.note(task, 9, journal.NoteReply, journal.Reply{
				Stop: "done", Model: "scripted", Offline: "scripted",
				Blocks: []journal.Block{{Type: "text", Text: "Nothing \u001b[31mfound\u2028."}},
			}, usage)
			return value(`"Nothing found."`)
		}
		return p, w.run()
	},
	"doubt": func(t *testing.T) (*ir.Program, *world) {
		p := program("careful", chain(task("send", "command", "command"), agent("thank", "writer"))...)
		w := start(t, p, "{}")
		w.now += 500
		w.tell(plan.TaskLost{Work: w.tasks[0], Why: "its process has ended", Policy: journal.RecoveryAsk})
		w.tasks = nil
		w.now += 5000
		w.tell(plan.TakenOver{Owner: "another process"})
		w.decide(journal.AnswerRerun, "")
		w.now += 500
		w.tell(plan.TaskLost{Work: w.tasks[0], Why: "its process has ended", Policy: journal.RecoveryAsk})
		w.tasks = nil
		w.decide(journal.AnswerSkip, "it was sent by hand")
		w.now += 500
		w.tell(plan.TaskLost{Work: w.tasks[0], Why: "its process has ended", Policy: journal.RecoveryRerun})
		w.tasks = w.tasks[1:]
		return p, w.run()
	},
	"budget": func(t *testing.T) (*ir.Program, *world) {
		p := program("thrifty", chain(task("a", "transform", "transform"), task("b", "transform", "transform"),
			task("c", "transform", "transform"))...)
		p.Budget.Steps = &ir.Limit{Max: 1}
		w := start(t, p, "{}").run()
		w.now += 10_000
		w.tell(plan.Raise{Budget: ir.BudgetSteps, To: 2, By: journal.Actor{User: "eva"}})
		w.run()
		w.now += 1000
		w.tell(plan.Cancel{})
		return p, w.run()
	},
	"interventions": func(t *testing.T) (*ir.Program, *world) {
		p := program("steered", chain(task("a", "transform", "transform"), ir.Step{
			ID: "papers", Type: "waitpoint", Action: ir.Gate{Decider: ir.Event, Event: "papers.in"},
			Writes: []ir.Write{{Path: "state.papers"}},
		}, task("b", "transform", "transform"))...)
		w := start(t, p, "{}").run()
		w.tell(plan.Pause{By: journal.Actor{User: "eva"}})
		w.now += 1000
		w.tell(plan.Edit{Path: "state.a", Value: json.RawMessage(`1`), By: journal.Actor{User: "eva", As: "bo"}})
		w.tell(plan.GateDecision{Step: "papers", Answer: journal.AnswerApprove, By: journal.Actor{User: "eva"}})
		w.tell(plan.Continue{By: journal.Actor{User: "eva", Method: "oidc"}})
		w.now += 1000
		w.tell(plan.Signal{Event: "papers.in", Data: json.RawMessage(`{"n": 3}`), By: journal.Actor{User: "mail"}})
		return p, w.run()
	},
	"critics": func(t *testing.T) (*ir.Program, *world) {
		verdict := agent("review", "critic").Action.(ir.Task)
		p := program("judged", chain(
			ir.Step{
				ID: "review", Type: "gate", Description: "Is the text sound?",
				Action: ir.Gate{Decider: ir.Work, Verdict: &verdict},
				Writes: []ir.Write{{Path: "state.review"}}, ReasonOK: "SOUND",
			},
			ir.Step{
				ID: "complete", Type: "gate", Action: ir.Gate{Decider: ir.Work, Verdict: &ir.Task{Kind: "transform"}},
				Writes: []ir.Write{{Path: "state.complete"}}, ReasonFail: "INCOMPLETE",
			})...)
		w := start(t, p, "{}")
		w.do = func(w *world, task journal.TaskID) plan.Result {
			if task.Step != "review" {
				return value(`{"approved": false}`)
			}
			w.note(task, 1, journal.NotePrompt,
				journal.Prompt{Blocks: []journal.Block{{Type: "text", Text: "Is this sound: 2 + 2 = 4?"}}},
				journal.Usage{})
			w.note(task, 2, journal.NoteReply, journal.Reply{
				Blocks: []journal.Block{{Type: "text", Text: "yes"}},
				Model:  "scripted", Offline: "scripted",
			},
				journal.Usage{ModelCalls: 1, InputTokens: 20, OutputTokens: 5, MicroDollars: 130})
			return value(`{"approved": true, "reason": "it adds up"}`)
		}
		return p, w.run()
	},
	"observed": func(t *testing.T) (*ir.Program, *world) {
		p := program("private")
		p.Version, p.CheckpointEvery = "1.2.0", 2
		p.Audit = &ir.Audit{
			Level: "full", RequiredEvents: []ir.Name{{Name: "run_start"}, {Name: "gate_decision"}}, RedactPII: true,
			RedactSecrets:  true,
			RedactPatterns: []ir.Name{{Name: "EMP-[0-9]+"}},
		}
		child := program("child", edit(task("look", "tool", "tool"),
			func(s *ir.Step) { s.Reads = []ir.Ref{{Path: "input"}} }))
		p.Children = []ir.Program{*child}
		merge := bundle(p, "extract", ir.JoinSettle, "W1", "W2")
		par := merge.Action.(ir.Parallel)
		par.Branches[1].When = cond(t, "input.all == true")
		par.Combine = &ir.Task{Kind: "combine"}
		merge.Action = par
		p.Blocks[0].Steps = chain(merge,
			ir.Step{
				ID: "ask", Type: "skill", Action: ir.Call{PassReads: true}, Reads: []ir.Ref{{Path: "input.who"}},
				Writes: []ir.Write{{Path: "state.ask"}},
			},
			ir.Step{
				ID: "sign", Type: "gate", Action: ir.Gate{Decider: ir.Person, Event: "signed", Timeout: 60_000},
				Reads: []ir.Ref{{Path: "state.ask"}},
			},
			ir.Step{ID: "papers", Type: "waitpoint", Action: ir.Gate{
				Decider: ir.Event, Event: "in", Timeout: 1000,
				OnTimeout: ir.TimeoutSkip, Name: "WP",
			}},
			end("done"))
		w := start(t, p, `{"who":"ada@example.org","n":12345678901234567890}`)
		w.do = func(w *world, task journal.TaskID) plan.Result {
			switch {
			case task.Part == plan.PartCombine:
				w.note(task, 1, journal.NoteMerge,
					journal.MergeDecision{Key: "a", Kept: json.RawMessage(`1`), From: []string{"W1"}, Why: "duplicate"},
					journal.Usage{})
				w.note(task, 2, journal.NoteMerge, journal.MergeDecision{
					Key: "b", Kept: json.RawMessage(`"EMP-7"`), From: []string{"W1"}, Why: "critic",
					Reason:  "ask ida@example.org",
					Dropped: []journal.MergeClaim{{Value: json.RawMessage(`2`), From: []string{"W2"}}},
				}, journal.Usage{})
				w.note(task, 3, journal.NoteDone, journal.DoneBy{By: "combine"}, journal.Usage{})
				w.note(task, 4, journal.NoteMissingFile, journal.MissingFile{Path: "report.pdf"}, journal.Usage{})
			case task.Step == "look":
				w.note(task, 1, journal.NoteToolCall,
					journal.ToolUse{Name: "find", CallID: "1", Input: json.RawMessage(`{"password":"x"}`)},
					journal.Usage{})
				w.note(task, 2, journal.NoteToolResult,
					journal.ToolUse{
						Name: "find", CallID: "1", Input: json.RawMessage(`{"password":"x"}`),
						Error: "no EMP-12",
					}, journal.Usage{ToolCalls: 1})
				w.note(task, 3, journal.NoteModelError, journal.ModelError{
					Class: "RATE_LIMIT", Message: "slow down",
					Status: 429,
				}, journal.Usage{})
				return value(`{"mail":"ida@example.org"}`)
			}
			return plan.Result{Outcome: journal.OutcomeOK}
		}
		w.runUntilGate()
		w.now += 500
		w.tell(plan.Signal{
			Event: "signed", Data: json.RawMessage(`{"approved": true, "by": "bo@example.org"}`),
			By: journal.Actor{User: "mail"},
		})
		return p, w.run()
	},
}

func gated() *ir.Program {
	return program("letter", chain(agent("draft", "writer"),
		ir.Step{
			ID: "sign_off", Type: "gate", Action: ir.Gate{Decider: ir.Person},
			Reads: []ir.Ref{{Path: "state.draft"}}, Writes: []ir.Write{{Path: "state.sign_off"}},
		},
		task("send", "tool", "tool"))...)
}

// The recorded runs equal what the plan decides now. Each file has the program,
// and the journal with an empty line between appends.
func TestRecordingsMatchThePlan(t *testing.T) {
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			p, w := scenario(t)
			source, err := json.MarshalIndent(p, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			var stream bytes.Buffer
			for i, events := range w.appends {
				if i > 0 {
					stream.WriteByte('\n')
				}
				body, err := journal.Encode(nil, events)
				if err != nil {
					t.Fatal(err)
				}
				stream.Write(body)
			}
			got := txtar.Format(&txtar.Archive{Files: []txtar.File{
				{Name: "program.json", Data: append(source, '\n')}, {Name: "journal.ndjson", Data: stream.Bytes()},
			}})
			reporttest.Golden(t, filepath.Join("testdata", "runs", name+".txtar"), string(got), *update)
		})
	}
}
