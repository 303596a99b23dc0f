package expr

import "github.com/espalier-run/espalier/internal/diag"

// Diagnostic codes of this package.
const (
	CodeEmpty        diag.Code = "EXPR001" // an empty expression
	CodeCharacter    diag.Code = "EXPR002" // an unexpected character
	CodeString       diag.Code = "EXPR003" // a string without its closing quote
	CodeEscape       diag.Code = "EXPR004" // an unknown escape sequence
	CodeNumber       diag.Code = "EXPR005" // a malformed number
	CodeOperand      diag.Code = "EXPR006" // an operator without one of its operands
	CodeUnclosed     diag.Code = "EXPR007" // a parenthesis or bracket that is never closed
	CodeSingleEquals diag.Code = "EXPR008" // = instead of ==
	CodeChained      diag.Code = "EXPR009" // a < b < c
	CodeFunction     diag.Code = "EXPR010" // a function that does not exist
	CodeArguments    diag.Code = "EXPR011" // the wrong number of arguments
	CodeUnexpected   diag.Code = "EXPR012" // text where an operator or the end should be
	CodeTooDeep      diag.Code = "EXPR013" // nested too deeply
	CodeTooLong      diag.Code = "EXPR014" // too long a text or list
	CodeSymbol       diag.Code = "EXPR015" // && || ! instead of and, or, not
	CodeConstantName diag.Code = "EXPR016" // None, TRUE, undefined instead of null, true
	CodePath         diag.Code = "EXPR017" // a malformed name: a. or a[b] or a.f()
	CodeIs           diag.Code = "EXPR018" // `is` with something other than empty
	CodeNotCondition diag.Code = "EXPR019" // a value that can be neither true nor false
	CodeConstant     diag.Code = "EXPR020" // always true or always false
	CodeNeverEqual   diag.Code = "EXPR021" // a comparison that its types decide
	CodeOperandType  diag.Code = "EXPR022" // an operand of a type that the operator or function does not accept
	CodeForeign      diag.Code = "EXPR023" // a condition or template of AWF that does not parse
)
