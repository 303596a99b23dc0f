package web_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
)

var pictures = flag.String("pictures", "", "write the pictures of the documentation to this folder")

// The replies of the runs in the pictures of the documentation.
const (
	contractReplies = `replies:
  - agent: liability_reader
    delay: 1400ms
    usage: {input: 1180, output: 164}
    reply:
      type: liability
      confidence: 0.9
      items:
        - {label: Unlimited liability, clause: "7.2", severity: high, quote: liable without limit for any loss of data}
        - {label: No insurance, clause: "7.4", severity: medium, quote: no obligation to maintain insurance}
  - agent: terms_reader
    delay: 1100ms
    usage: {input: 1120, output: 118}
    reply:
      type: terms
      confidence: 0.8
      items:
        - {label: Automatic renewal, clause: "2.1", severity: medium, quote: renews for twelve months unless terminated}
  - agent: privacy_reader
    delay: 1700ms
    usage: {input: 1150, output: 131}
    reply:
      type: privacy
      confidence: 0.9
      items:
        - {label: No processing agreement, clause: "9", severity: high, quote: Customer data may be used to improve services}
  - step: summarize
    delay: 2100ms
    usage: {input: 690, output: 212}
    reply: >
      We host the customer's order data for a year and deliver weekly backups.


      **Negotiate before signing:** clause 7.2 makes us liable without limit for any loss of data, and clause 9 lets the
      other side use customer data without a processing agreement.
otherwise: simulate
`
	ticketReplies = `replies:
  - step: sort
    delay: 600ms
    usage: {input: 412, output: 14}
    reply: {kind: billing, urgency: 4}
  - step: answer_billing
    delay: 1300ms
    usage: {input: 530, output: 96}
    reply: You were billed twice for March. The second payment is on its way back to your card.
  - step: check_draft
    delay: 800ms
    usage: {input: 610, output: 88}
    reply: {good_enough: true, draft: "You were billed twice for March. We have refunded 49 USD; it arrives in three days."}
  - step: finish
    reply: {answer: "You were billed twice for March. We have refunded 49 USD; it arrives in three days."}
tools:
  mail.send: [{output: {sent: true}}]
otherwise: simulate
`
)

// The pictures of the documentation show runs of the examples, with replies like those of models: make pictures.
func TestPicturesOfTheDocumentation(t *testing.T) {
	if *pictures == "" {
		t.Skip("only with -pictures=FOLDER")
	}
	files, sources := map[string]string{}, &strings.Builder{}
	for _, path := range []string{
		"examples/agent-flow/contract-review.md", "examples/agent-flow/press-release.md",
		"examples/agent-flow/schemas/vendor.json", "examples/agent-flow/support-triage.md",
		"examples/agent-flow/vendor-onboarding.md", "internal/web/examples/parcel-refund.md",
		"internal/web/examples/parcel-refund.script.yaml",
	} {
		raw, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(path)))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sources, "%x  %s\n", sha256.Sum256(raw), path)
		path = strings.TrimPrefix(strings.TrimPrefix(path, "examples/agent-flow/"), "internal/web/examples/")
		files[path] = string(raw)
	}
	s := newSite(t, files)
	s.user = "ana"
	refund := strings.NewReplacer("step: read_complaint", "step: read_complaint\n    delay: 900ms",
		"fail: {class", "delay: 300ms\n        fail: {class").Replace(files["parcel-refund.script.yaml"])
	failed := s.play("parcel-refund", refund, app.Field{
		Name: "complaint", Text: "My parcel never arrived. Ada, ada.lovelace(at)mail.example",
	})
	s.rest(failed)
	ticket := []app.Field{
		{Name: "ticket", Text: "I was billed twice for March."},
		{Name: "customer_id", Text: "C-20418"},
		{Name: "service_tier", Text: "enterprise"},
	}
	decided := s.play("support-triage", ticketReplies, ticket...)
	s.rest(decided)
	by := journal.Actor{User: "ben"}
	if _, err := s.app.Send(t.Context(), decided, by, app.Approve{Note: "Refund confirmed."}); err != nil {
		t.Fatal(err)
	}
	s.rest(decided)
	s.rest(s.play("vendor-onboarding", "otherwise: simulate\n", app.Field{Name: "company", Text: "Elm Tools"},
		app.Field{Name: "contact", Text: "sales@elm-tools.example"}))
	s.rest(s.play("press-release", "otherwise: simulate\n",
		app.Field{Name: "news", Text: "The new greenhouse opens in May."}))
	s.rest(s.play("support-triage", ticketReplies, ticket...))
	waiting := s.play("contract-review", contractReplies, app.Field{
		Name: "contract", Text: "7.2 The Supplier shall be liable without limit for any loss of data",
	})
	s.rest(waiting)
	b := s.openAs("ben", identity.Approver, identity.Operator)
	for _, p := range []struct {
		place
		height int64
	}{
		{place{"web-run", "/runs/" + string(waiting)}, 900},
		{place{"web-inbox", s.item(waiting)}, 1240}, // the whole page, so that the bar with the decision is at its end
		{place{"web-failed", "/runs/" + string(failed)}, 900},
	} {
		b.size(1280, p.height)
		b.theme("light")
		b.visit(p.path)
		b.wait(`document.querySelector("#link")?.textContent === "Live"`)
		ctx, cancel := b.limited()
		picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*pictures, p.name+".png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// TestDocsPicturesAreOfTheExamples compares the files with these digests, in the format of sha256sum.
	name := filepath.Join(*pictures, "web-sources.sha256")
	if err := os.WriteFile(name, []byte(sources.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
