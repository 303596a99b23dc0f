package web_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/npmtest"
)

// axeCore finds mistakes in accessibility.
const axeCore = "axe-core@4.14.0"

// place is a page with content.
type place struct{ name, path string }

// furnished serves a project with runs in all states, and returns the addresses of all pages.
func furnished(t *testing.T) (*site, []place) {
	t.Helper()
	files := examples(t, "contract-review.md", "support-triage.md", "press-release.md", "nightly-import.md")
	files["gated.md"], files["fails.md"], files["waits.md"], files["broken.md"] = gated, fails, waits, broken
	files["research.md"], files["fan.yaml"] = research, fan(25)
	s := newSite(t, files)
	by := journal.Actor{User: "tester"}
	contract := app.Field{Name: "contract", Text: "7.2 The Supplier shall be liable without limit for any loss of data."}
	waiting := s.begin("contract-review", simulate, contract)
	s.rest(waiting)
	done := s.begin("support-triage", simulate, app.Field{Name: "ticket", Text: "The export job stops after 40,000 rows."},
		app.Field{Name: "customer_id", Text: "C-20418"})
	s.rest(done)
	researched := s.play("research", researchReplies)
	s.rest(researched)
	large := s.play("fan", "replies:\n  - {step: b005, fail: {class: TIMEOUT, message: too slow}}\notherwise: simulate\n")
	s.rest(large)
	failed := s.begin("fails", shell)
	s.rest(failed)
	s.rest(s.begin("waits", simulate))
	approved := s.begin("gated", simulate, question)
	s.rest(approved)
	if _, err := s.app.Send(t.Context(), approved, by, app.Approve{Note: "Correct."}); err != nil {
		t.Fatal(err)
	}
	s.rest(approved)
	cancelled := s.begin("gated", simulate, question)
	s.rest(cancelled)
	if _, err := s.app.Send(t.Context(), cancelled, by, app.Cancel{Reason: "no longer needed"}); err != nil {
		t.Fatal(err)
	}
	s.rest(cancelled)
	if _, err := s.auth.Users().Add("legal-ops", false, []identity.Role{identity.Approver}, 0); err != nil {
		t.Fatal(err)
	}
	return s, []place{
		{"welcome", "/welcome"},
		{"inbox", "/inbox"},
		{"runs", "/runs"},
		{"run-waiting", "/runs/" + string(waiting)},
		{"run-failed", "/runs/" + string(failed)},
		{"run-finished", "/runs/" + string(done)},
		{"run-step", "/runs/" + string(researched) + "?step=look"},
		{"run-large", "/runs/" + string(large) + "?step=all"},
		{"transcript", "/runs/" + string(done) + "/transcript"},
		{"audit", "/runs/" + string(approved) + "/audit"},
		{"artifacts", "/runs/" + string(done) + "/artifacts"},
		{"state", "/runs/" + string(waiting) + "/state"},
		{"output", "/runs/" + string(done) + "/output"},
		{"workflows", "/workflows"},
		{"workflow", "/workflows/support-triage"},
		{"workflow-broken", "/workflows/broken"},
		{"triggers", "/triggers"},
		{"compare", "/compare?a=" + string(cancelled)},
		{"system", "/system"},
		{"error", "/runs/ffffffff"},
		{"login", "/login"},
	}
}

// No page has a mistake in accessibility that axe-core finds, in both themes, on a screen and on a phone; and none is
// wider than the screen.
func TestPagesAreAccessible(t *testing.T) {
	s, places := furnished(t)
	b := s.open()
	b.expect("404")
	raw, err := os.ReadFile(filepath.Join(npmtest.Install(t, axeCore), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	// The rules about colors depend on the theme, and those about scrolling on the width; the others on neither.
	passes := []struct {
		theme string
		width int64
		where string
		rules string
	}{
		{"light", 1280, "document", ""},
		{"dark", 1280, "document", `runOnly: ["color-contrast"], `},
		{"light", 360, "document", `runOnly: ["scrollable-region-focusable", "target-size", "color-contrast"], `},
		// The colors of JSON do not depend on the width, and JSON has many elements.
		{"dark", 360, `{ exclude: [[".tree"]] }`, `runOnly: ["color-contrast"], `},
	}
	for _, pass := range passes {
		b.theme(pass.theme)
		b.size(pass.width, 800)
		for _, p := range places {
			b.visit(p.path)
			where := fmt.Sprintf("%s, %s, %d px", p.name, pass.theme, pass.width)
			if wide := eval[int](b, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
				t.Errorf("%s: the page is %d px wider than the screen", where, wide)
			}
			for _, v := range axe(b, string(raw), pass.where, pass.rules) {
				t.Errorf("%s: %s", where, v)
			}
		}
	}
}

// boxes are where the parts of a page are.
const boxes = `[...document.querySelectorAll("main .card, main h1, main h2, main .tabs, main .notice, main form")]
	.map((e) => { const b = e.getBoundingClientRect();
		return (e.id || e.className || e.textContent.slice(0, 20)) + " " + Math.round(b.x) + " " + Math.round(b.y + scrollY);
	}).join("\n")`

// Scripts do not move anything on a page: its parts are where they are without JavaScript.
func TestScriptsDoNotShiftPages(t *testing.T) {
	s, places := furnished(t)
	b := s.open()
	b.expect("404")
	for _, width := range []int64{360, 1280} {
		b.size(width, 900)
		for _, p := range places {
			b.scripts(false)
			b.visit(p.path)
			want := eval[string](b, boxes)
			b.scripts(true)
			b.visit(p.path)
			b.wait(`(document.querySelector("#link")?.textContent ?? "Live") === "Live"`)
			if got := eval[string](b, boxes); got != want || got == "" {
				t.Errorf("%s at %d px: with scripts:\n%s\nwithout:\n%s", p.name, width, got, want)
			}
		}
	}
}

// scripts enables or disables JavaScript in the pages that are visited next.
func (b *tab) scripts(on bool) {
	b.t.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{
		Value: !on,
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// axe returns the violations on the page that is shown.
func axe(b *tab, source, where, rules string) []string {
	b.t.Helper()
	out := eval[string](b, source+`;axe.run(`+where+`, {`+rules+`resultTypes: ["violations"]}).then((r) => JSON.stringify(
		r.violations.map((v) => v.id + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " +
		n.any.concat(n.all, n.none).map((c) => c.message).join("; ").slice(0, 200)).join(" | "))))`)
	var violations []string
	if err := json.Unmarshal([]byte(out), &violations); err != nil {
		b.t.Fatal(err)
	}
	return violations
}

// Pictures of all pages, in both themes and two sizes: make screenshots.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("only with -screenshots=FOLDER")
	}
	s, places := furnished(t)
	b := s.open()
	b.expect("404")
	if err := os.MkdirAll(*screenshots, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		for _, width := range []int64{1280, 360} {
			for _, p := range places {
				b.size(width, 900)
				b.visit(p.path)
				if p.name == "inbox" && width == 360 {
					b.click("a.ask")
					b.wait(`!!document.querySelector('[data-open="item"]')`)
				}
				ctx, cancel := b.limited()
				picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
				cancel()
				if err != nil {
					t.Fatal(err)
				}
				name := strings.Join([]string{p.name, fmt.Sprint(width), theme}, "-") + ".png"
				if err := os.WriteFile(filepath.Join(*screenshots, name), picture, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
