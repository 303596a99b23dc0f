package stepkind

import (
	"strconv"
)

// Amount is a number, or unbounded with a reason.
type Amount struct {
	N int64 `json:"n"`
	// Unbounded is the reason why there is no bound; N is then meaningless.
	Unbounded string `json:"unbounded,omitempty"`
}

// N returns the amount n.
func N(n int64) Amount { return Amount{N: min(n, maxAmount)} }

// Plus returns the sum, which is unbounded if one side is.
func (a Amount) Plus(b Amount) Amount {
	switch {
	case a.Unbounded != "":
		return a
	case b.Unbounded != "":
		return b
	}
	return N(a.N + b.N)
}

// Times returns the product. Zero times unbounded is zero.
func (a Amount) Times(n int64) Amount {
	if a.Unbounded != "" {
		if n == 0 {
			return Amount{}
		}
		return a
	}
	if a.N == 0 || n == 0 {
		return Amount{}
	}
	if a.N > maxAmount/n {
		return Amount{N: maxAmount}
	}
	return Amount{N: a.N * n}
}

// By returns the product with an amount that may be unbounded itself.
func (a Amount) By(n Amount) Amount {
	if n.Unbounded == "" {
		return a.Times(n.N)
	}
	if a == (Amount{}) || a.Unbounded != "" {
		return a
	}
	return n
}

// Max returns the larger amount; unbounded exceeds every number.
func (a Amount) Max(b Amount) Amount {
	switch {
	case a.Unbounded != "":
		return a
	case b.Unbounded != "":
		return b
	}
	return Amount{N: max(a.N, b.N)}
}

// AtMost returns the amount, lowered to a limit.
func (a Amount) AtMost(n int64) Amount {
	if a.Unbounded != "" || a.N > n {
		return Amount{N: n}
	}
	return a
}

// Exceeds reports whether the amount can be more than n.
func (a Amount) Exceeds(n int64) bool { return a.Unbounded != "" || a.N > n }

// String returns "1,234", or "unbounded".
func (a Amount) String() string {
	if a.Unbounded != "" {
		return "unbounded"
	}
	digits := strconv.FormatInt(a.N, 10)
	sign := ""
	if a.N < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

const maxAmount = int64(1) << 60 // far beyond any budget, far from overflow
