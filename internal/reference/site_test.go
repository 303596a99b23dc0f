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

// TestSiteLinks follows every link of the site inside it: pages, anchors, pictures, scripts and styles.
func TestSiteLinks(t *testing.T) {
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

// TestSiteSearchesFromFiles opens the site without a server and searches it.
func TestSiteSearchesFromFiles(t *testing.T) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.UserDataDir(t.TempDir()))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	ctx, cancel := chromedp.NewContext(allocator)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, start := range []string{"index.html", "formats/nof.html"} {
		address := (&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(*siteFlag, start))}).String()
		err := chromedp.Do(ctx, chromedp.Navigate(address), chromedp.SendKeys(chromedp.CSS("#q"), "tombstone"),
			chromedp.WaitVisible(chromedp.CSS("#found a")))
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
