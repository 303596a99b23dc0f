package step

import (
	"strconv"
)

// Amount is a number or, with a reason, none.
type Amount struct {
	N int64 `json:"n"`
	// Unbounded says why there is no bound; then N is meaningless.
	Unbounded string `json:"unbounded,omitempty"`
}

// N is the amount n.
func N(n int64) Amount { return Amount{N: min(n, maxAmount)} }

// Plus adds; without a bound on one side the sum has none either.
func (a Amount) Plus(b Amount) Amount {
	switch {
	case a.Unbounded != "":
		return a
	case b.Unbounded != "":
		return b
	}
	return N(a.N + b.N)
}

// Times multiplies. Nothing, however often, stays nothing.
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

// By multiplies by an amount that may have no bound itself.
func (a Amount) By(n Amount) Amount {
	if n.Unbounded == "" {
		return a.Times(n.N)
	}
	if a == (Amount{}) {
		return a
	}
	if a.Unbounded != "" {
		return a
	}
	return n
}

// Max is the larger one; without a bound is larger than any number.
func (a Amount) Max(b Amount) Amount {
	switch {
	case a.Unbounded != "":
		return a
	case b.Unbounded != "":
		return b
	}
	return Amount{N: max(a.N, b.N)}
}

// AtMost lowers the amount to a limit.
func (a Amount) AtMost(n int64) Amount {
	if a.Unbounded != "" || a.N > n {
		return Amount{N: n}
	}
	return a
}

// Exceeds reports whether the amount can be more than n.
func (a Amount) Exceeds(n int64) bool { return a.Unbounded != "" || a.N > n }

// String writes "1,234", or "unbounded".
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
