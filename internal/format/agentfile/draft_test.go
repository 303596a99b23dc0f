package agentfile_test

import (
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/format/agentfile"
)

// Drafts reflect the request.
func TestDraftsReflectTheRequest(t *testing.T) {
	for asked, want := range map[string][]string{
		"Read the feedback, group it by theme, then write a summary": {
			"id: read-feedback", "id: group-by-theme",
			"id: write-summary", "agents/reader.md", "agents/organizer.md", "agents/writer.md",
		},
		"Translate the letter into German and ask me for approval": {
			"id: translate-letter-german",
			"gate: human-approval", "agents/translator.md",
		},
		"- collect prices\n- compare them": {"id: collect-prices", "id: compare"},
		"Émincer les oignons; über alles berichten": {
			"id: emincer-les-oignons",
			"id: uber-alles-berichten",
		},
		"Read the notes, then post it": {"id: read-notes", "id: post"},
		"Rank apples and pears, shred the rest and post them": {
			`goal: "Rank apples, pears."`,
			"id: shred-rest", "id: post",
		},
		"Übersetze den Brief, prüfe ihn, dann veröffentliche das Ergebnis": {
			`goal: "Übersetze den Brief."`,
			`goal: "Prüfe ihn."`, `goal: "Veröffentliche das Ergebnis."`,
		},
		"Fetch, parse, and store the feed before emailing the team": {
			`goal: "Fetch the feed."`, `goal: "Parse the feed."`, `goal: "Store the feed."`, `goal: "Email the team."`,
		},
		"1. Fetch the data. 2. Clean it. 3. Post it to Slack.": {
			`goal: "Fetch the data."`, `goal: "Clean it."`, `goal: "Post it to Slack."`,
		},
		"Rank page 1. Translate page 3. Post it": {
			`goal: "Rank page 1."`, `goal: "Translate page 3."`, `goal: "Post it."`,
		},
		"Review the PR, then ask me before merging it": {
			`goal: "Review the PR."`, "gate: human-approval", `goal: "Merge it."`,
		},
		"Draft the newsletter and after I approve send it to all subscribers": {
			`goal: "Draft the newsletter."`, "gate: human-approval", `goal: "Send it to all subscribers."`,
		},
		"Check the contract, but wait for my approval before you send the findings to legal": {
			`goal: "Check the contract."`, "gate: human-approval", `goal: "Send the findings to legal."`,
		},
		"Draft a post, tweet it after I approve":        {`goal: "Draft a post."`, "gate: human-approval", `goal: "Tweet it`},
		"Collect the tickets, escalate them to a human": {`goal: "Escalate them to a human."`},
		"Draft a reply, let me review it, and send it":  {"gate: human-approval\n\n  - id: send\n"},
		"Compare the prices and update the sheet, unless I reject the change": {
			"gate: human-approval\n\n  - id: update-sheet\n", `goal: "Update the sheet."`,
		},
		"Lee los comentarios, tradúcelos y publícalos después de mi aprobación": {
			`goal: "Tradúcelos."`, `goal: "Publícalos."`, "gate: human-approval\n\n  - id: publicalos\n",
		},
		"Lee los comentarios y después de mi aprobación publícalos": {
			`goal: "Publícalos."`, "gate: human-approval\n\n  - id: publicalos\n",
		},
		"Leggi i commenti, traducili e pubblicali dopo la mia approvazione.": {
			`goal: "Pubblicali."`, "gate: human-approval\n\n  - id: pubblicali\n",
		},
		"Leia os comentários e publique tudo depois da minha aprovação": {
			`goal: "Publique tudo."`, "gate: human-approval\n\n  - id: publique-tudo\n",
		},
		"Read the notes, draft a post and publish it on my go-ahead": {
			`goal: "Publish it."`, "gate: human-approval\n\n  - id: publish\n",
		},
		"Read the notes, draft a post, on my go-ahead, publish it": {
			`goal: "Publish it."`, "gate: human-approval\n\n  - id: publish\n",
		},
		"Summarize the PDF and, on my go-ahead, email it to Bob": {
			`goal: "Summarize the PDF."`, "gate: human-approval\n\n  - id: email-bob\n",
		},
		"Collect logs, redact secrets, upload files and notify customers": {
			`goal: "Collect logs."`, `goal: "Redact secrets."`, `goal: "Upload files."`, `goal: "Notify customers."`,
		},
		"Übersetze die Mail; danach schicke sie an Ana": {`goal: "Schicke sie an Ana."`},
		"Draft a post and publish it only with our sign-off, then archive it": {
			`goal: "Publish it."`, "gate: human-approval\n\n  - id: publish\n", `goal: "Archive it."`,
		},
		"Prüfe den Antrag und nach meiner Freigabe überweise das Geld": {
			`goal: "Prüfe den Antrag."`, "gate: human-approval", `goal: "Überweise das Geld."`,
		},
		"اقرأ الرسائل، ثم لخصها":                                    {`goal: "اقرأ الرسائل."`, `goal: "لخصها."`},
		"Lis les factures, archive-les et préviens la comptabilité": {`goal: "Archive-les."`},
		"Translate it into French & German; and tweet it": {
			`goal: "Translate it into French & German."`, `goal: "Tweet it."`,
		},
		"Before you publish the post, check it": {`goal: "Check it."`, `goal: "Publish the post."`},
		"Before publishing the post, check it":  {`goal: "Check it."`, `goal: "Publish the post."`},
		"翻译文件，然后发布结果":                           {`goal: "翻译文件."`, `goal: "发布结果."`},
		"???":                                   {"id: flow"},
	} {
		name := strings.NewReplacer("{workflow_name}", "my-flow")
		sample := agentfile.Draft("workflow", name.Replace, []string{asked})
		if gates := strings.Count(sample, "gate: "); gates > 1 {
			t.Errorf("%q: %d gates in\n%s", asked, gates, sample)
		}
		if strings.Contains(asked, "unless") && strings.Count(sample, "    goal: ") != 2 {
			t.Errorf("%q: the condition is a step in\n%s", asked, sample)
		}
		if strings.HasPrefix(asked, "1.") && strings.Count(sample, "    goal: ") != len(want) {
			t.Errorf("%q: the numbers are steps in\n%s", asked, sample)
		}
		for _, one := range want {
			if !strings.Contains(sample, one) {
				t.Errorf("%q: no %q in\n%s", asked, one, sample)
			}
		}
	}
}
