package web_test

import (
	"os"
	"path/filepath"
	"testing"
)

// gated asks a person before it answers.
const gated = `---
name: gated
kind: agent-flow/workflow
version: 1.0.0
description: Asks a person before it answers.
triggers:
  schedule: "30 2 * * *"
  event: question_asked
budgets:
  max_steps: 10
  max_tokens: 50000
input:
  schema:
    type: object
    required: [question]
    properties:
      question: { type: string, description: What to answer }
      tone: { type: string, enum: [plain, formal], default: plain }
      words: { type: integer, default: 100 }
      sources: { type: array, items: { type: string } }
      cite: { type: boolean, default: true }
output:
  schema:
    type: object
    required: [answer]
    properties:
      answer: { type: string }
---

# Gated

~~~agent
id: writer
role: Writer
goal: Answer the question
max_tokens: 500
~~~

~~~step
id: draft
type: skill
agent: writer
description: Answer the question
reads: [input.question]
writes: [output.answer]
~~~

~~~step
id: check
type: gate
gate_method: human_review
description: Look at the answer
reads: [output.answer, input.question]
~~~

~~~step
id: done
type: end
description: The answer is approved
~~~
`

// fails fails unless a person corrects a word.
const fails = `---
name: fails
kind: agent-flow/workflow
version: 1.0.0
description: Fails unless a word is right.
---
~~~runtime
human_in_the_loop: true
~~~
~~~step
id: say
type: transform
description: Say a word
writes: [state.word]
code:
  language: sh
  script: printf '"wrong"'
~~~
~~~step
id: check
type: transform
description: Check the word
reads: [state.word]
writes: [output.verdict]
retry:
  max_attempts: 2
  backoff_ms: [10]
code:
  language: sh
  script: grep -q right && printf '"right"'
~~~
`

// waits waits for an event.
const waits = `---
name: waits
kind: agent-flow/workflow
version: 1.0.0
description: Waits for an event.
---
~~~step
id: ask
type: transform
description: Ask for the papers
writes: [state.asked]
~~~
~~~step
id: done
type: end
description: The papers are there
~~~
~~~runtime
human_in_the_loop: true
waitpoints:
  - id: PAPERS
    after_step: ask
    event: papers_received
    timeout_seconds: 1209600
~~~
`

// broken has a mistake.
const broken = `---
name: broken
kind: agent-flow/workflow
version: 1.0.0
description: Names an agent that does not exist.
---
~~~step
id: one
type: skill
agent: nobody
description: Do something
writes: [output.x]
~~~
`

// examples returns the example workflows of the project.
func examples(t *testing.T, names ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join("..", "..", "examples", "agent-flow", name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(raw)
	}
	return out
}
