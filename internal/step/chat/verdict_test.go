package chat

import (
	"testing"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
)

func TestVerdictsInOtherWords(t *testing.T) {
	gate := contract.Derive(&ir.Program{Blocks: []ir.Block{{}}}, &ir.Step{ID: "gate"}, contract.Spec{Verdict: true})
	checkReadings(t, gate, "", []reading{
		{"Approved", `{"approved":true}`},
		{"**APPROVED.**", `{"approved":true}`},
		{"yes", `{"approved":true}`},
		{"LGTM", `{"approved":true}`},
		{"Not approved.", `{"approved":false}`},
		{"Rejected: bad", `{"approved":false,"reason":"Rejected: bad"}`},
		{"I reject this.", `{"approved":false,"reason":"I reject this."}`},
		{"Verdict: rejected", `{"approved":false,"reason":"Verdict: rejected"}`},
		{"I'm sorry. No, it has typos.", `{"approved":false,"reason":"I'm sorry. No, it has typos."}`},
		{"I approve this change.", `{"approved":true,"reason":"I approve this change."}`},
		{`{"decision":"approved"}`, `{"approved":true,"decision":"approved"}`},
		{`{"approved":"Rejected"}`, `{"approved":false}`},
		{`{"verdict":"reject","reason":"typos"}`, `{"approved":false,"reason":"typos","verdict":"reject"}`},
		{`{"rejected":true}`, `{"approved":false,"rejected":true}`},
		{"```json\n{\"status\": \"Approved\", \"score\": 9}\n```", `{"approved":true,"status":"Approved","score":9}`},
		{"I cannot approve this.", ""},
		{"Approved, but only after the tests pass.", ""},
		{"Approved if the tests pass.", ""},
		{"Approved or rejected?", ""},
		{"Perhaps approved.", ""},
		{`{"decision":"approved","status":"failed"}`, ""},
		{`{"score":9}`, ""},
		{"unsure", ""},
	})
}
