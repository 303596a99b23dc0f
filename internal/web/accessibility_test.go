package web_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/npmtest"
	"github.com/espalier-run/espalier/internal/samplingtest"
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
	files["helped.md"], files["chat.yaml"], files["rewritten.md"] = helped, chat, rewritten
	files["narrow.md"] = strings.NewReplacer("name: gated", "name: narrow",
		"max_tokens: 50000", "max_tokens: 3000").Replace(gated)
	files["espalier.yaml"] = "tools: {Read: {requires_approval: true}}\ndefaults: {model_timeout: 1h}\n"
	started := t.TempDir()
	files["leave.yaml"] = leave(started, "Send the letter")
	s := newSite(t, files)
	s.stop()
	unknown := s.abandon(started)
	s.env = s.streamingModel(0, nil, "Sunlight is scattered by the molecules of the air, and ", "blue light most.")
	s.start()
	s.rest(unknown)
	streaming := s.streaming()
	by := journal.Actor{User: "tester"}
	contract := app.Field{
		Name: "contract", Text: "7.2 The Supplier shall be liable without limit for any loss of data.",
	}
	waiting := s.begin("contract-review", simulate, contract)
	s.rest(waiting)
	done := s.begin("support-triage",
		simulate, app.Field{Name: "ticket", Text: "The export job stops after 40,000 rows."},
		app.Field{Name: "customer_id", Text: "C-20418"})
	s.rest(done)
	researched := s.play("research", researchReplies)
	s.rest(researched)
	large := s.play("fan",
		"replies:\n  - {step: b005, fail: {class: TIMEOUT, message: too slow}}\notherwise: simulate\n")
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
	var answered []journal.RunID
	for i, text := range []string{"Light scatters.\n\nBlue light scatters most.", "Light scatters.\n\nIt is the air."} {
		id := s.play("gated", "replies: [{step: draft, reply: "+strconv.Quote(text)+"}]\notherwise: simulate\n",
			app.Field{Name: "question", Text: "Why is the sky " + []string{"blue", "so blue"}[i] + "?"})
		s.rest(id)
		if _, err := s.app.Send(t.Context(), id, by, app.Approve{}); err != nil {
			t.Fatal(err)
		}
		s.rest(id)
		answered = append(answered, id)
	}
	tool := s.play("helped", helpedReplies)
	s.rest(tool)
	talk := s.begin("chat", simulate)
	s.rest(talk)
	changed := s.begin("rewritten", shell, app.Field{Name: "ticket", Text: "Please refund me."})
	s.rest(changed)
	spent := s.begin("narrow",
		simulate, app.Field{Name: "question", Text: strings.Repeat("Why is the sky blue? ", 3000)})
	s.rest(spent)
	paused := s.begin("gated", simulate, question)
	s.rest(paused)
	if _, err := s.app.Send(t.Context(), paused, by, app.Pause{}); err != nil {
		t.Fatal(err)
	}
	s.rest(paused)
	if _, err := s.auth.Users().Add("legal-ops", false, []identity.Role{identity.Approver}, 0); err != nil {
		t.Fatal(err)
	}
	return s, []place{
		{"welcome", "/welcome"},
		{"inbox", "/inbox"},
		{"inbox-gate", s.item(waiting)},
		{"inbox-tool", s.item(tool)},
		{"inbox-budget", "/inbox/" + string(spent) + "/budget"},
		{"inbox-unknown", s.item(unknown)},
		{"inbox-changes", s.item(changed)},
		{"inbox-reply", s.item(talk)},
		{"inbox-decided", "/inbox/" + string(approved) + "/check"},
		{"runs", "/runs"},
		{"runs-filtered", "/runs?state=failed"},
		{"run-waiting", "/runs/" + string(waiting)},
		{"run-failed", "/runs/" + string(failed)},
		{"run-finished", "/runs/" + string(done)},
		{"run-step", "/runs/" + string(researched) + "?step=look"},
		{"run-paused", "/runs/" + string(paused)},
		{"run-unknown", "/runs/" + string(unknown)},
		{"run-streaming", "/runs/" + string(streaming) + "?step=draft"},
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
		{"compare", "/compare?a=" + string(answered[0]) + "&b=" + string(answered[1])},
		{"system", "/system"},
		{"error", "/runs/ffffffff"},
		{"login", "/login"},
	}
}

// item returns the address of what waits in a run.
func (s *site) item(id journal.RunID) string {
	s.t.Helper()
	status, err := s.app.Status(s.t.Context(), id)
	if err != nil || len(status.Gates) == 0 {
		s.t.Fatalf("nothing waits in the run: %v", err)
	}
	return "/inbox/" + string(id) + "/" + url.PathEscape(status.Gates[0].Step)
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
	b.inject(string(raw))
	for _, width := range []int64{1280, 360} {
		b.size(width, 800)
		for _, p := range places {
			b.theme("light")
			b.visit(p.path)
			where := fmt.Sprintf("%s, %d px", p.name, width)
			if wide := eval[int](b, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
				t.Errorf("%s: the page is %d px wider than the screen", where, wide)
			}
			// Colors, which take most of the time, are the same at any width; the dark theme changes nothing else.
			rules := ""
			if width != 1280 {
				rules = `, rules: {"color-contrast": {enabled: false}}`
			}
			for _, v := range axe(b, rules) {
				t.Errorf("%s: %s", where, v)
			}
			if width != 1280 {
				continue
			}
			b.theme("dark")
			for _, v := range axe(b, `, runOnly: ["color-contrast"]`) {
				t.Errorf("%s, dark: %s", where, v)
			}
		}
	}
}

// boxes are where the parts of a page are.
const boxes = `[...document.querySelectorAll("main .card, main h1, main h2, main .tabs, main .notice, main form")]
	.map((e) => { const b = e.getBoundingClientRect();
		return (e.id || e.className || e.textContent.slice(0, 20)) + " " + Math.round(b.x) + " " + Math.round(b.y + scrollY);
	}).join("\n")`

// words are the words that a page shows, without times, which go on, and without what only scripts can do.
const words = `(() => {
	const page = document.body.cloneNode(true);
	const left = "script, time, [data-since], #link, button[type=button], [data-find], .axis-t, .hist, .num";
	for (const e of page.querySelectorAll(left)) e.remove();
	return page.textContent.replace(/[\d.,]+ (ms|s|min|h|kB|MB)\b/g, "").replace(/\s+/g, "");
})()`

// inert are links, forms and buttons that do nothing without scripts, except for buttons that only help to look at what
// is there.
const inert = `[...document.querySelectorAll("a:not([href]), a[href='#'], form:not([action])")].map(
	(e) => e.outerHTML).concat([...document.querySelectorAll("button")].filter((e) => e.type === "button" ?
	!e.matches("[data-zoom], [data-follow], [data-fold], [data-copy], [data-copy-from], [data-theme-toggle], " +
	"[data-keys]")
	: !e.form).map((e) => e.outerHTML)).filter((e) => !e.includes("method=\"dialog\"")).join("\n")`

// Every page says the same without JavaScript, its parts are in the same places, and everything that acts is a link or
// a form.
func TestPagesAreTheSameWithoutJavaScript(t *testing.T) {
	s, places := furnished(t)
	b := s.open()
	b.expect("404")
	for i, width := range []int64{360, 1280} {
		b.size(width, 900)
		for j, p := range places {
			if !samplingtest.Includes(i+j, 2) {
				continue
			}
			where := fmt.Sprintf("%s at %d px", p.name, width)
			b.scripts(false)
			b.visit(p.path)
			placed, said := eval[string](b, boxes), eval[string](b, words)
			if useless := eval[string](b, inert); useless != "" {
				t.Errorf("%s: these do nothing without scripts:\n%s", where, useless)
			}
			b.scripts(true)
			b.visit(p.path)
			b.wait(`(document.querySelector("#link")?.textContent ?? "Live") === "Live"`)
			if got := eval[string](b, boxes); got != placed || got == "" {
				t.Errorf("%s: with scripts:\n%s\nwithout:\n%s", where, got, placed)
			}
			if got := eval[string](b, words); got != said || got == "" {
				t.Errorf("%s: with scripts:\n%s\nwithout:\n%s", where, got, said)
			}
		}
	}
}

// shifts collects what moves on a page while it arrives and is drawn.
const shifts = `window.shifts = []; new PerformanceObserver((list) => {
	for (const e of list.getEntries()) window.shifts.push(e.value + " " + e.sources.slice(0, 3).map((s) =>
		(s.node?.outerHTML ?? s.node?.textContent ?? "").slice(0, 120) + " from " + JSON.stringify(s.previousRect) + " to " +
		JSON.stringify(s.currentRect)).join("; "));
}).observe({ type: "layout-shift", buffered: true });`

// settled is true after the browser has drawn a page twice more.
const settled = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`

// most is the cumulative layout shift that a page may have: buttons at the end of a line move when they arrive in two
// parts. The Web Vitals call less than 0.1 good.
const most = 0.005

// Nothing moves on a page while it arrives over a slow connection and is drawn in part, nor after scripts have started.
func TestPagesDoNotShiftWhileTheyArrive(t *testing.T) {
	s, places := furnished(t)
	b := s.open()
	b.expect("404")
	b.inject(shifts)
	for _, width := range []int64{360, 1280} {
		b.size(width, 900)
		for _, p := range places {
			b.slow(100_000)
			b.visit(p.path)
			b.wait(`document.readyState === "complete" && (document.querySelector("#link")?.textContent ?? "Live") === "Live"`)
			eval[bool](b, settled)
			if sum := eval[float64](b, `window.shifts.reduce((sum, e) => sum + parseFloat(e), 0)`); sum > most {
				t.Errorf("%s at %d px shifts by %f:\n%s", p.name, width, sum, eval[string](b, `window.shifts.join("\n")`))
			}
		}
	}
	// The browser does report shifts.
	eval[bool](b, `(() => { const e = document.createElement("div"); e.textContent = "x"; e.className = "empty";
		document.body.prepend(e); return true; })()`)
	b.wait(`window.shifts.length > 0`)
}

// The links at the foot of a phone have their places before the later ones have arrived, and so has the bar.
func TestLinksOfPhonesHaveFixedPlaces(t *testing.T) {
	b := newSite(t, map[string]string{"gated.md": gated}).open()
	b.size(360, 900)
	b.visit("/workflows")
	places := eval[string](b, `(() => {
		const rail = document.querySelector(".rail"), nav = rail.querySelector(".nav"), links = [...nav.children];
		const place = (list) => JSON.stringify(list.map((e) => e.getBoundingClientRect()));
		const seen = [place([rail, ...links.slice(0, 2)])];
		links.slice(2).forEach((e) => e.remove());
		seen.push(place([rail, ...links.slice(0, 2)]));
		const whole = place([rail]);
		nav.remove();
		return links.length === 5 && seen[0] === seen[1] && whole === place([rail]) ? "" : seen.join("\n") + whole + place([rail]);
	})()`)
	if places != "" {
		t.Error(places)
	}
}

// On a phone, the headings of cards and their first buttons have their places before the later buttons have arrived.
func TestHeadingsOfPhonesHaveFixedPlaces(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	b := s.open()
	b.size(360, 900)
	for _, path := range []string{"/runs/" + string(s.begin("gated", simulate, question)), "/workflows/gated"} {
		b.visit(path)
		moved := eval[string](b, `(() => {
			const heads = [...document.querySelectorAll(".card-head:has(> .end.row, > .end.legend)")];
			const place = () => JSON.stringify(heads.flatMap((h) => [...h.children].slice(0, -1)
				.concat(h.lastElementChild.firstElementChild)).map((e) => [e.textContent, e.getBoundingClientRect()]));
			const before = place();
			heads.forEach((h) => [...h.lastElementChild.children].slice(1).forEach((e) => e.remove()));
			return heads.length === 2 && before === place() ? "" : heads.length + before + place();
		})()`)
		if moved != "" {
			t.Errorf("%s: %s", path, moved)
		}
	}
}

// slow limits the connection of the tab to so many bytes in a second.
func (b *tab) slow(rate float64) {
	b.t.Helper()
	b.network(networkConditions{false, 0, rate, rate})
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
func axe(b *tab, rules string) []string {
	b.t.Helper()
	out := eval[string](b, `axe.run(document, {resultTypes: ["violations"]`+rules+`}).then((r) => JSON.stringify(
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
				height := int64(900)
				if strings.HasPrefix(p.name, "inbox") {
					height = 1250 // the whole page, so that the bar with the decision is at its end
				}
				b.size(width, height)
				b.visit(p.path)
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
