package price

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
)

// MicroDollars returns dollars in millionths of a dollar, the unit of all amounts, rounded to the nearest one.
func MicroDollars(dollars float64) int64 { return int64(math.Round(dollars * 1e6)) }

// Rate is the price of one token in millionths of a millionth of a dollar, which equals the price of a million tokens
// in millionths of a dollar.
type Rate int64

// perDollar is the Rate of one dollar for a million tokens.
const perDollar = 1_000_000

// ParseRate parses dollars per million tokens, such as "3" or "0.30".
func ParseRate(text string) (Rate, error) {
	value, ok := new(big.Rat).SetString(text)
	if !ok || strings.ContainsAny(text, "/_xXpP") {
		return 0, fmt.Errorf("%q is not a number of dollars", text)
	}
	value.Mul(value, big.NewRat(perDollar, 1))
	switch {
	case value.Sign() < 0:
		return 0, fmt.Errorf("%q is negative", text)
	case !value.IsInt():
		return 0, fmt.Errorf("%q has more than six decimal places", text)
	case value.Cmp(big.NewRat(maxPerMillion*perDollar, 1)) > 0:
		return 0, fmt.Errorf("%q is more than %d dollars for a million tokens", text, maxPerMillion)
	}
	return Rate(value.Num().Int64()), nil
}

// maxPerMillion keeps sums far from overflow.
const maxPerMillion = 100_000

// String returns the rate as dollars per million tokens.
func (r Rate) String() string {
	text := fmt.Sprintf("%d.%06d", int64(r)/perDollar, int64(r)%perDollar)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Price is the price of one model.
type Price struct {
	Rates
	// Long applies instead of Rates to prompts of more than Above tokens; an Above of 0 means never.
	Above int64
	Long  Rates
}

// Rates are the prices of each kind of token.
type Rates struct {
	Input, Output         Rate
	CacheRead, CacheWrite Rate
}

// Tokens are the billed tokens. Input excludes cached tokens.
type Tokens struct{ Input, Output, CacheRead, CacheWrite int64 }

// Cost returns the price of the tokens in millionths of a dollar, rounded up.
func (p Price) Cost(t Tokens) int64 {
	if p.Above > 0 && t.Input+t.CacheRead+t.CacheWrite > p.Above {
		return p.Long.cost(t)
	}
	return p.Rates.cost(t)
}

func (p Rates) cost(t Tokens) int64 {
	sum := new(big.Int)
	for _, part := range []struct {
		n int64
		r Rate
	}{{t.Input, p.Input}, {t.Output, p.Output}, {t.CacheRead, p.CacheRead}, {t.CacheWrite, p.CacheWrite}} {
		one := big.NewInt(part.n)
		sum.Add(sum, one.Mul(one, big.NewInt(int64(part.r))))
	}
	sum.Add(sum, big.NewInt(perDollar-1))
	sum.Div(sum, big.NewInt(perDollar))
	if !sum.IsInt64() {
		return maxCost
	}
	return min(sum.Int64(), maxCost)
}

// Worst returns the highest possible cost of the given numbers of input and output tokens: any input token may be
// written to or read from the cache.
func (p Price) Worst(input, output int64) int64 {
	rates := p.Rates
	if p.Above > 0 && input > p.Above {
		rates = p.Long
	}
	highest := Rates{Input: max(rates.Input, rates.CacheRead, rates.CacheWrite), Output: rates.Output}
	return highest.cost(Tokens{Input: input, Output: output})
}

// AnyTokens returns the highest possible cost of a number of tokens of any kind.
func (p Price) AnyTokens(n int64) int64 {
	rates := []Rate{p.Input, p.CacheRead, p.CacheWrite, p.Output}
	if p.Above > 0 && n > p.Above {
		rates = append(rates, p.Long.Input, p.Long.CacheRead, p.Long.CacheWrite, p.Long.Output)
	}
	return Rates{Input: slices.Max(rates)}.cost(Tokens{Input: n})
}

const maxCost = int64(1) << 60 // far beyond any bill, far from overflow

// Dollars formats a bound in millionths of a dollar, such as $0.42. Small amounts get more decimal places. It rounds
// up.
func Dollars(micro int64) string { return format(micro, func(unit int64) int64 { return unit - 1 }) }

// Spent formats an amount that was spent, as Dollars does, but rounds to the nearest amount.
func Spent(micro int64) string { return format(micro, func(unit int64) int64 { return unit / 2 }) }

// format formats millionths of a dollar. more returns what is added to an amount before the part below a unit is cut.
func format(micro int64, more func(unit int64) int64) string {
	sign := ""
	if micro < 0 {
		sign, micro = "-", -micro
	}
	for _, step := range []struct {
		unit   int64
		places int
	}{{10_000, 2}, {100, 4}} {
		if n := (micro + more(step.unit)) / step.unit; n >= 10 || micro == 0 {
			whole := int64(1)
			for range step.places {
				whole *= 10
			}
			return fmt.Sprintf("%s$%d.%0*d", sign, n/whole, step.places, n%whole)
		}
	}
	return fmt.Sprintf("%s$%d.%06d", sign, micro/1_000_000, micro%1_000_000)
}
