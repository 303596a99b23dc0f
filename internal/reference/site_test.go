//go:build site

package main

import (
	"context"
	"flag"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var siteFlag = flag.String("site", "", "the folder of the built site")

var references = regexp.MustCompile(`(?:href|src)="?([^" >]+)`)

// TestSiteLinksLeadSomewhere follows every link of the site inside it: pages, anchors, pictures, scripts and styles.
func TestSiteLinksLeadSomewhere(t *testing.T) {
	site := os.DirFS(*siteFlag)
	anchors := map[string]string{}
	var pages []string
	err := fs.WalkDir(site, ".", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".html") {
			text, err := fs.ReadFile(site, name)
			if err != nil {
				return err
			}
			pages, anchors[name] = append(pages, name), string(text)
		}
		return err
	})
	if err != nil || len(pages) < 30 {
		t.Fatal(err, len(pages))
	}
	for _, page := range pages {
		for _, m := range references.FindAllStringSubmatch(anchors[page], -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			target := page
			if u.Path != "" {
				target = path.Join(path.Dir(page), u.Path)
			}
			if _, err := fs.Stat(site, target); err != nil {
				t.Errorf("%s: %s leads nowhere", page, m[1])
			} else if id := u.Fragment; id != "" && !strings.Contains(anchors[target], `id="`+id+`"`) &&
				!strings.Contains(anchors[target], `id=`+id+`>`) {
				t.Errorf("%s: %s has no such anchor", page, m[1])
			}
		}
	}
}

// browser opens Chromium for at most a minute.
func browser(t *testing.T) context.Context {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.UserDataDir(t.TempDir()))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// fileURL returns the address of a file.
func fileURL(elements ...string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(elements...))}).String()
}

// TestSiteHasDarkModeAndVersions switches a page to the other colors, which the next page keeps, and to another
// version.
func TestSiteHasDarkModeAndVersions(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"9.1.0", "9.0.0"} {
		if err := os.CopyFS(filepath.Join(dir, version), os.DirFS(*siteFlag)); err != nil {
			t.Fatal(err)
		}
	}
	versions := `window.docsVersions = {"current": "9.1.0", "all": ["9.1.0", "9.0.0"]};`
	if err := os.WriteFile(filepath.Join(dir, "versions.js"), []byte(versions), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := browser(t)
	read := func(script string) string {
		t.Helper()
		value, err := chromedp.Run(ctx, chromedp.Evaluate[string](script))
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	const colors = `getComputedStyle(document.body).backgroundColor + " " + getComputedStyle(document.body).color`
	if err := chromedp.Do(ctx, chromedp.Navigate(fileURL(dir, "9.1.0", "index.html"))); err != nil {
		t.Fatal(err)
	}
	before := read(colors)
	if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS("[data-theme-toggle]"))); err != nil {
		t.Fatal(err)
	}
	after := read(colors)
	if before == after {
		t.Errorf("the button leaves the colors %s", before)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(fileURL(dir, "9.1.0", "formats", "nof.html"))); err != nil {
		t.Fatal(err)
	}
	if next := read(colors); next != after {
		t.Errorf("the next page has the colors %s, not %s", next, after)
	}
	if err := chromedp.Do(ctx, chromedp.WaitVisible(chromedp.CSS("#versions"))); err != nil {
		t.Fatal(err)
	}
	if got := read(`[...document.getElementById("versions").options].map((o) => o.text).join(", ")`); got !=
		"9.1.0 (newest), 9.0.0" {
		t.Errorf("the versions are %s", got)
	}
	read(`document.body.id = "left";
		const versions = document.getElementById("versions");
		versions.value = "9.0.0";
		setTimeout(() => versions.dispatchEvent(new Event("change"))); ""`)
	if err := chromedp.Do(ctx, chromedp.WaitVisible(chromedp.CSS("body:not(#left)"))); err != nil {
		t.Fatal(err)
	}
	if got := read("location.href"); got != fileURL(dir, "9.0.0", "index.html") {
		t.Errorf("the other version leads to %s", got)
	}
}

// TestSiteSearchesFromFiles opens the site without a server and searches it.
func TestSiteSearchesFromFiles(t *testing.T) {
	ctx := browser(t)
	for _, start := range []string{"index.html", "formats/nof.html"} {
		err := chromedp.Do(ctx, chromedp.Navigate(fileURL(*siteFlag, start)),
			chromedp.SendKeys(chromedp.CSS("#q"), "tombstone"), chromedp.WaitVisible(chromedp.CSS("#found a")))
		if err != nil {
			t.Fatal(err)
		}
		found, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector("#found a").href`))
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(found)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.FromSlash(u.Path))
		if err != nil || !strings.Contains(string(text), "ombstone") {
			t.Errorf("from %s the first result is %s, which is not about it: %v", start, found, err)
		}
	}
}
