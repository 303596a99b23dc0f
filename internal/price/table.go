package price

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/lazyregexp"
)

//go:embed prices.json
var file []byte

type known struct {
	date   string
	models map[string]entry // by provider/model
}

type entry struct {
	price Price
	until time.Time // zero if the price does not expire
}

// fileEntry is a price in prices.json.
type fileEntry struct {
	Input, Output string
	CacheRead     string `json:"cache_read"`
	CacheWrite    string `json:"cache_write"`
	Until         string
	Checked       string // when the price was last verified
	Note          string // where sources disagree
	Long          *struct {
		Above int64
		fileEntry
	}
}

// table parses prices.json on first use, because most commands do not need it.
var table = sync.OnceValue(func() known {
	var all struct {
		Date      string
		Providers map[string]map[string]fileEntry
	}
	must(json.Unmarshal(file, &all))
	out := known{date: all.Date, models: map[string]entry{}}
	for provider, models := range all.Providers {
		for name, w := range models {
			e := entry{price: Price{Rates: w.rates()}}
			_, err := time.Parse(time.DateOnly, w.Checked)
			must(err)
			if w.Long != nil {
				e.price.Above, e.price.Long = w.Long.Above, w.Long.rates()
			}
			if w.Until != "" {
				day, err := time.Parse(time.DateOnly, w.Until)
				must(err)
				e.until = day.AddDate(0, 0, 1)
			}
			out.models[provider+"/"+name] = e
		}
	}
	return out
})

func (w fileEntry) rates() Rates {
	read := func(text string, otherwise Rate) Rate {
		if text == "" {
			return otherwise
		}
		r, err := ParseRate(text)
		must(err)
		return r
	}
	input := read(w.Input, 0)
	return Rates{
		Input: input, Output: read(w.Output, 0),
		CacheRead: read(w.CacheRead, input), CacheWrite: read(w.CacheWrite, input),
	}
}

// must panics on an error in the embedded file, which a test parses.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("prices.json: %v", err))
	}
}

// Date returns the date of the built-in prices.
func Date() string { return table().date }

// releaseSuffix matches the suffix of a model name that names its release.
var releaseSuffix = lazyregexp.New(`-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$`)

// Models returns the names of all models with a published price, as PROVIDER/NAME.
func Models() []string { return slices.Sorted(maps.Keys(table().models)) }

// Known returns the published price of a model and reports whether it is valid at the given time.
func Known(provider, model string, now time.Time) (Price, bool) {
	model = strings.TrimPrefix(model, "models/") // Gemini's resource prefix
	for _, name := range []string{model, releaseSuffix().ReplaceAllString(model, "")} {
		if e, ok := table().models[provider+"/"+name]; ok {
			return e.price, e.until.IsZero() || now.Before(e.until)
		}
	}
	return Price{}, false
}
