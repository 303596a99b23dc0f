package providertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// The thinking before a tool call, which the client must send back unchanged.
const (
	thought   = "I should look it up."
	signature = "c2lnbmVk"
)

// serverReply is a reply in a form that does not depend on the protocol.
type serverReply struct {
	think bool
	text  []string
	call  bool
	cut   bool
}

// answer sends the reply that matches the text of the request.
func (s *Server) answer(w http.ResponseWriter, body []byte) {
	asked := string(body)
	var fault *Fault
	if _, rest, ok := strings.Cut(asked, faultPrefix); ok {
		// The fault is inside a JSON string.
		var text string
		if json.NewDecoder(strings.NewReader(`"`+rest)).Decode(&text) == nil {
			fault = new(Fault)
			if err := json.NewDecoder(strings.NewReader(text)).Decode(fault); err != nil {
				s.t.Errorf("%v in %s", err, text)
			}
		}
	}
	reply := serverReply{text: []string{
		"Hello. ", "An espalier is a tree that grows along a frame; ",
		"its growth is free, the frame is not.",
	}}
	switch {
	case strings.Contains(asked, "rain"):
		s.checkSignature(asked)
		reply.text = []string{"It rains ", "in Leeds."}
	case strings.Contains(asked, "weather in Leeds"):
		reply = serverReply{think: true, call: true}
	case strings.Contains(asked, "an answer and a score"):
		s.checkReplySchema(asked)
		reply.text = []string{`{"answer": "yes", `, `"score": 7}`}
	case strings.Contains(asked, "much longer than"):
		reply.text, reply.cut = []string{"Once upon"}, true
	}
	if fault != nil && fault.Status != 0 && !fault.Event {
		s.refuse(w, *fault)
		return
	}
	if fault != nil && fault.Plain || strings.Contains(asked, `"stream":false`) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		if fault != nil && fault.Mistyped {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		fmt.Fprint(w, s.protocol.whole(reply))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	events := s.protocol.events(reply)
	flush := func() { w.(http.Flusher).Flush() }
	for i, e := range events {
		if fault != nil && i == len(events)/2 {
			switch {
			case fault.Cut:
				flush()
				panic(http.ErrAbortHandler)
			case fault.End:
				return
			case fault.Garbage:
				e.data = `{"half":`
			case fault.Event:
				e = streamed{name: "error", data: string(s.protocol.failure(*fault))}
				if s.protocol == Gemini {
					e.name = ""
				}
			}
		}
		e.write(w)
		flush()
	}
}

// checkSignature checks that the thinking of the previous turn was sent back, if
// the protocol requires it.
func (s *Server) checkSignature(asked string) {
	if s.protocol != Chat && !strings.Contains(asked, signature) {
		s.t.Errorf("the signature of the thought is missing: %s", asked)
	}
}

func (s *Server) checkReplySchema(asked string) {
	if !strings.Contains(asked, `"additionalProperties":false`) || strings.Contains(asked, `"maximum"`) {
		s.t.Errorf("the schema is missing, or has unsupported keywords: %s", asked)
	}
}

type streamed struct{ name, data string }

func (e streamed) write(w http.ResponseWriter) {
	if e.name != "" {
		fmt.Fprintf(w, "event: %s\n", e.name)
	}
	fmt.Fprintf(w, "data: %s\n\n", e.data)
}

// events returns the reply as the protocol's event stream.
func (p Protocol) events(reply serverReply) []streamed {
	var out []streamed
	add := func(name, format string, args ...any) {
		out = append(out, streamed{name, fmt.Sprintf(format, args...)})
	}
	switch p {
	case Anthropic:
		add("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"suite-1","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":11,"output_tokens":1,"cache_read_input_tokens":5,"cache_creation_input_tokens":3}}}`)
		add("ping", `{"type":"ping"}`)
		i := 0
		if reply.think {
			add("content_block_start", `{"type":"content_block_start","index":%d,"content_block":{"type":"thinking","thinking":"","signature":""}}`, i)
			add("content_block_delta", `{"type":"content_block_delta","index":%d,"delta":{"type":"thinking_delta","thinking":%q}}`, i, thought)
			add("content_block_delta", `{"type":"content_block_delta","index":%d,"delta":{"type":"signature_delta","signature":%q}}`, i, signature)
			add("content_block_stop", `{"type":"content_block_stop","index":%d}`, i)
			i++
		}
		if len(reply.text) > 0 {
			add("content_block_start", `{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, i)
			for _, t := range reply.text {
				add("content_block_delta", `{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":%q}}`, i, t)
			}
			add("content_block_stop", `{"type":"content_block_stop","index":%d}`, i)
			i++
		}
		stop := "end_turn"
		if reply.call {
			stop = "tool_use"
			add("content_block_start", `{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}}`, i)
			add("content_block_delta", `{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":"{\"city\":"}}`, i)
			add("content_block_delta", `{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":"\"Leeds\"}"}}`, i)
			add("content_block_stop", `{"type":"content_block_stop","index":%d}`, i)
		}
		if reply.cut {
			stop = "max_tokens"
		}
		add("message_delta", `{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":5}}`, stop)
		add("message_stop", `{"type":"message_stop"}`)
	case Chat:
		chunk := func(delta, finish string) {
			add("", `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"suite-1","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`, delta, finish)
		}
		chunk(`{"role":"assistant","content":""}`, "null")
		if reply.think {
			chunk(fmt.Sprintf(`{"reasoning_content":%q}`, thought), "null")
		}
		for _, t := range reply.text {
			chunk(fmt.Sprintf(`{"content":%q}`, t), "null")
		}
		finish := `"stop"`
		if reply.call {
			chunk(`{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]}`, "null")
			chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}`, "null")
			chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"\"Leeds\"}"}}]}`, "null")
			finish = `"tool_calls"`
		}
		if reply.cut {
			finish = `"length"`
		}
		chunk("{}", finish)
		add("", `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"suite-1","choices":[],"usage":{"prompt_tokens":19,"completion_tokens":5,"total_tokens":24,"prompt_tokens_details":{"cached_tokens":5}}}`)
		add("", "[DONE]")
	case Responses:
		n, i := 0, 0
		send := func(kind, format string, args ...any) {
			add(kind, `{"type":%q,"sequence_number":%d,%s}`, kind, n, fmt.Sprintf(format, args...))
			n++
		}
		send("response.created", `"response":{"id":"r1","object":"response","model":"suite-1","status":"in_progress","output":[]}`)
		if reply.think {
			send("response.output_item.added", `"output_index":%d,"item":{"id":"rs_1","type":"reasoning","summary":[]}`,
				i)
			send("response.reasoning_summary_text.delta",
				`"item_id":"rs_1","output_index":%d,"summary_index":0,"delta":%q`, i, thought)
			send("response.output_item.done",
				`"output_index":%d,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":%q}],"encrypted_content":%q}`, i, thought, signature)
			i++
		}
		if len(reply.text) > 0 {
			send("response.output_item.added",
				`"output_index":%d,"item":{"id":"m1","type":"message","role":"assistant","status":"in_progress","content":[]}`, i)
			for _, t := range reply.text {
				send("response.output_text.delta", `"item_id":"m1","output_index":%d,"content_index":0,"delta":%q`, i,
					t)
			}
			send("response.output_item.done",
				`"output_index":%d,"item":{"id":"m1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":%q,"annotations":[]}]}`, i, strings.Join(reply.text, ""))
		}
		if reply.call {
			send("response.output_item.added",
				`"output_index":%d,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"weather","arguments":""}`, i)
			send("response.function_call_arguments.delta",
				`"item_id":"fc_1","output_index":%d,"delta":"{\"city\":\"Leeds\"}"`, i)
			send("response.output_item.done",
				`"output_index":%d,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"weather","arguments":"{\"city\":\"Leeds\"}","status":"completed"}`, i)
		}
		kind, details := "completed", "null"
		if reply.cut {
			kind, details = "incomplete", `{"reason":"max_output_tokens"}`
		}
		send("response."+kind, `"response":{"id":"r1","object":"response","model":"suite-1","status":%q,"incomplete_details":%s,"output":[],"usage":{"input_tokens":19,"output_tokens":5,"total_tokens":24,"input_tokens_details":{"cached_tokens":5},"output_tokens_details":{"reasoning_tokens":0}}}`, kind, details)
	case Gemini:
		piece := func(part, finish string) {
			add("", `{"candidates":[{"content":{"role":"model","parts":[%s]}%s,"index":0}],"usageMetadata":{"promptTokenCount":19,"cachedContentTokenCount":5,"candidatesTokenCount":4,"thoughtsTokenCount":1,"totalTokenCount":24},"modelVersion":"suite-1","responseId":"g1"}`, part, finish)
		}
		finish := `,"finishReason":"STOP"`
		if reply.cut {
			finish = `,"finishReason":"MAX_TOKENS"`
		}
		if reply.think {
			piece(fmt.Sprintf(`{"text":%q,"thought":true}`, thought), "")
		}
		for _, t := range reply.text {
			piece(fmt.Sprintf(`{"text":%q}`, t), "")
		}
		if reply.call {
			finish = `,"finishReason":"FUNCTION_CALL"` // undocumented, but servers send it
			piece(fmt.Sprintf(`{"functionCall":{"name":"weather","args":{"city":"Leeds"}},"thoughtSignature":%q}`,
				signature), "")
		}
		piece(`{"text":""}`, finish)
	}
	return out
}

// whole returns the reply as one JSON value, without streaming.
func (p Protocol) whole(reply serverReply) string {
	text := strings.Join(reply.text, "")
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	choose := func(done, call, cut string) string {
		switch {
		case reply.cut:
			return cut
		case reply.call:
			return call
		}
		return done
	}
	switch p {
	case Anthropic:
		if reply.think {
			add(`{"type":"thinking","thinking":%q,"signature":%q}`, thought, signature)
		}
		if text != "" {
			add(`{"type":"text","text":%q}`, text)
		}
		if reply.call {
			add(`{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Leeds"}}`)
		}
		return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":"suite-1","content":[%s],"stop_reason":%q,"stop_sequence":null,`+
			`"usage":{"input_tokens":11,"output_tokens":5,"cache_read_input_tokens":5,"cache_creation_input_tokens":3}}`,
			strings.Join(parts, ","), choose("end_turn", "tool_use", "max_tokens"))
	case Chat:
		add(`"role":"assistant"`)
		if reply.think {
			add(`"reasoning_content":%q`, thought)
		}
		add(`"content":%q`, text)
		if reply.call {
			add(`"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Leeds\"}"}}]`)
		}
		return fmt.Sprintf(`{"id":"c1","object":"chat.completion","created":1,"model":"suite-1","choices":[{"index":0,"message":{%s},"finish_reason":%q}],`+
			`"usage":{"prompt_tokens":19,"completion_tokens":5,"total_tokens":24,"prompt_tokens_details":{"cached_tokens":5}}}`,
			strings.Join(parts, ","), choose("stop", "tool_calls", "length"))
	case Responses:
		if reply.think {
			add(`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":%q}],"encrypted_content":%q}`,
				thought, signature)
		}
		if text != "" {
			add(`{"id":"m1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":%q,"annotations":[]}]}`, text)
		}
		if reply.call {
			add(`{"id":"fc_1","type":"function_call","call_id":"call_1","name":"weather","arguments":"{\"city\":\"Leeds\"}","status":"completed"}`)
		}
		return fmt.Sprintf(`{"id":"r1","object":"response","model":"suite-1","status":%q,"incomplete_details":%s,"error":null,"output":[%s],`+
			`"usage":{"input_tokens":19,"output_tokens":5,"total_tokens":24,"input_tokens_details":{"cached_tokens":5},"output_tokens_details":{"reasoning_tokens":0}}}`,
			choose("completed", "completed", "incomplete"), choose("null", "null", `{"reason":"max_output_tokens"}`),
			strings.Join(parts, ","))
	}
	if reply.think {
		add(`{"text":%q,"thought":true}`, thought)
	}
	if text != "" {
		add(`{"text":%q}`, text)
	}
	if reply.call {
		add(`{"functionCall":{"name":"weather","args":{"city":"Leeds"}},"thoughtSignature":%q}`, signature)
	}
	return fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[%s]},"finishReason":%q,"index":0}],`+
		`"usageMetadata":{"promptTokenCount":19,"cachedContentTokenCount":5,"candidatesTokenCount":4,"thoughtsTokenCount":1,"totalTokenCount":24},"modelVersion":"suite-1","responseId":"g1"}`,
		strings.Join(parts, ","), choose("STOP", "STOP", "MAX_TOKENS"))
}
