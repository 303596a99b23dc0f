// Package price provides the prices of models and computes the cost of tokens.
package price

// All amounts are integers: rates in millionths of a millionth of a dollar per token, costs in millionths of a dollar,
// rounded up. Sums therefore do not depend on their order, and a budget is never exceeded by a fraction.
