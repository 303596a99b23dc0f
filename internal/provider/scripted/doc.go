// Package scripted is the model, and the tools, that say what a file tells
// them to: replies, failures, delays and tool calls for tests and
// demonstrations, without a network.
package scripted

// A script is YAML:
//
//	replies:                      # what models say
//	  - step: research            # which requests it answers: step, agent,
//	    attempt: 1-2              #   workflow or key, and attempt, visit,
//	    fail: RATE_LIMIT          #   iteration or turn, counted from 1
//	  - step: research
//	    tools:                    # asks for tools, then, with their results,
//	      - name: web.search      #   gives the reply
//	        input: {query: roses}
//	    reply: {found: 3}         # a text, or anything else as JSON
//	    delay: 200ms
//	    usage: {input: 900, output: 40}
//	  - agent: critic
//	    visit: 2+                 # from the second time on
//	    reply: {approved: true}
//	tools:                        # what tools give back
//	  web.search:
//	    - input: {query: roses}   # when the input has at least this
//	      output: [{title: Roses}]
//	    - fail: {class: TIMEOUT, message: nobody there}
//	  mail.send:
//	    side_effects: true
//	    answers:
//	      - output: {sent: true}
//	otherwise: simulate           # or fail, which is the default
//
// The most specific entry answers: one with a key before one with a step, then
// agent, then workflow, then none; among those the one with most of attempt,
// visit, iteration and turn; among equals the first.
//
// There is no "the next reply" and no "three times": which entry answers
// depends on the file and on what the request is for, never on calls counted
// in memory, so that a run that was killed and resumed gets the same replies.
// What comes in a sequence is told apart by attempt (retries), visit (jumps
// back), iteration (loops) and turn (within one conversation).
