// Package scripted implements a model and tools whose replies come from a file: replies, failures, delays and tool
// calls for tests and demonstrations, without a network.
package scripted

// A script is YAML:
//
//	replies:                      # replies of models
//	  - step: research            # selects requests: step, agent, workflow or
//	    attempt: 1-2              #   key, and attempt, visit, iteration or
//	    fail: RATE_LIMIT          #   turn, counted from 1
//	  - step: research
//	    tools:                    # calls tools; after their results, sends
//	      - name: web.search      #   the reply
//	        input: {query: roses}
//	    reply: {found: 3}         # a text, or anything else as JSON
//	    delay: 200ms
//	    usage: {input: 900, output: 40}
//	  - agent: critic
//	    visit: 2+                 # from the second visit on
//	    reply: {approved: true}
//	tools:                        # results of tools
//	  web.search:
//	    - input: {query: roses}   # if the input contains at least this
//	      output: [{title: Roses}]
//	    - fail: {class: TIMEOUT, message: no answer}
//	  mail.send:
//	    side_effects: true
//	    answers:
//	      - output: {sent: true}
//	otherwise: simulate           # or fail, which is the default
//
// The most specific entry wins: one with a key before one with a step, then agent, then workflow, then none; among
// those the one with the most of attempt, visit, iteration, call and turn; among equals the first.
//
// Entries cannot mean "the next reply" or "three times": the choice depends only on the file and on the purpose of a
// request, never on calls counted in memory, so that a run that is killed and resumed gets the same replies. To
// distinguish the replies of a sequence, use attempt (retries), visit (jumps back), iteration (loops), call (of agents
// by the code of a step) and turn (within one conversation).
