package price

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
)

//go:embed prices.json
var file []byte

type known struct {
	date   string
	models map[string]entry // by provider/model
}

type entry struct {
	price Price
	until time.Time // zero is for ever
}

// written is a price as the file has it.
type written struct {
	Input, Output string
	CacheRead     string `json:"cache_read"`
	CacheWrite    string `json:"cache_write"`
	Until         string
	Checked       string // the day of it
	Note          string // where sources disagree
	Long          *struct {
		Above int64
		written
	}
}

// table is read when it is first needed: most commands never do.
var table = sync.OnceValue(func() known {
	var all struct {
		Date      string
		Providers map[string]map[string]written
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

func (w written) rates() Rates {
	read := func(text string, otherwise Rate) Rate {
		if text == "" {
			return otherwise
		}
		r, err := ParseRate(text)
		must(err)
		return r
	}
	input := read(w.Input, 0)
	return Rates{Input: input, Output: read(w.Output, 0), CacheRead: read(w.CacheRead, input), CacheWrite: read(w.CacheWrite, input)}
}

// must is for a file that is part of the program, which a test reads.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("prices.json: %v", err))
	}
}

// Date is the day that the built-in prices are of.
func Date() string { return table().date }

// dated are the ends of names that say which release of a model it is.
var dated = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$`) })

// Known is the price of a model as its provider publishes it.
func Known(provider, model string, now time.Time) (Price, bool) {
	model = strings.TrimPrefix(model, "models/") // as Google writes it
	for _, name := range []string{model, dated().ReplaceAllString(model, "")} {
		if e, ok := table().models[provider+"/"+name]; ok {
			return e.price, e.until.IsZero() || now.Before(e.until)
		}
	}
	return Price{}, false
}
