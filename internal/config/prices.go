package config

import (
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/text"
)

// Price is the price of a model. It overrides Espalier's own price list.
type Price = price.Price

func readPrices(f *fields) []Named[Price] {
	const doc = "Prices of models in US dollars per million tokens, by NAME or PROVIDER/NAME. They override the " +
		"built-in prices."
	return entries(f, "prices", "price", doc, func(_ text.Text, f *fields) Price {
		var p Price
		p.Input = f.rate("input", "Price of input tokens.", 0)
		p.Output = f.rate("output", "Price of output tokens.", 0)
		p.CacheRead = f.rate("cache_read", "Price of tokens read from the cache; defaults to input.", p.Input)
		p.CacheWrite = f.rate("cache_write", "Price of tokens written to the cache; defaults to input.", p.Input)
		f.require("input", "output")
		return p
	})
}

func (f *fields) rate(key, doc string, otherwise price.Rate) price.Rate {
	t := f.decimal(key, doc)
	if t.IsZero() {
		return otherwise
	}
	r, err := price.ParseRate(t.Value)
	if err != nil {
		f.out.Errorf(CodeBadValue, t.Span, "Write US dollars per million tokens: "+key+": 3.75.",
			"%q of the price is invalid: %v.", key, err)
		return otherwise
	}
	return r
}
