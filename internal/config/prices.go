package config

import (
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/text"
)

// Price is what a model costs here, in place of what Espalier knows.
type Price = price.Price

func readPrices(f *fields) []Named[Price] {
	const doc = "What models cost, in dollars for a million tokens, by NAME or PROVIDER/NAME. It takes the place of what Espalier knows."
	return entries(f, "prices", "price", doc, func(_ text.Text, f *fields) Price {
		var p Price
		p.Input = f.rate("input", "Tokens that the model reads.", 0)
		p.Output = f.rate("output", "Tokens that it writes.", 0)
		p.CacheRead = f.rate("cache_read", "Tokens that it finds in its cache; as input when it is left out.", p.Input)
		p.CacheWrite = f.rate("cache_write", "Tokens that it puts into its cache; as input when it is left out.", p.Input)
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
		f.report(CodeBadValue, t.Span, "Write dollars for a million tokens: "+key+": 3.75.", "%q of the price cannot be: %v.", key, err)
		return otherwise
	}
	return r
}
