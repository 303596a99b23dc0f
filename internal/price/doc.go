// Package price is what models cost: rates per token, and the money that a
// number of tokens comes to.
package price

// Money is counted in whole numbers throughout: rates in millionths of a
// millionth of a dollar for one token, amounts in millionths of a dollar,
// rounded up. So sums do not depend on their order, and a budget is never
// overshot by a fraction.
