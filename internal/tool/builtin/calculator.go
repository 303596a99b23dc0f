package builtin

import (
	"context"
	"math"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/tool"
)

// Calculator returns a tool that evaluates an expression, or applies one operation to numbers. fixed is the only
// operation of the tool; if it is "", the input selects one. Workflows that ship a calculator use it under their own
// name.
func Calculator(name, fixed string) tool.Tool {
	type input struct {
		Expression string    `json:"expression"`
		Operation  string    `json:"operation"`
		A          *float64  `json:"a"`
		B          *float64  `json:"b"`
		Numbers    []float64 `json:"numbers"`
	}
	return function[input]{
		spec: tool.Spec{
			Name: name, Description: "Evaluate an expression such as (2 + 3) * 4, or apply an operation to numbers.",
			Schema: schemaOf(`{"type":"object","properties":{
				"expression":{"type":"string","maxLength":1000},
				"operation":{"type":"string","enum":["add","subtract","multiply","divide","power","remainder"]},
				"a":{"type":"number"},"b":{"type":"number"},
				"numbers":{"type":"array","items":{"type":"number"},"minItems":1,"maxItems":1000}}}`),
			Returns: schemaOf(`{"type":"number"}`),
		},
		repeatable: func(input) bool { return true },
		call: func(_ context.Context, _ tool.Call, in input) (any, error) {
			if in.Expression != "" {
				return compute(in.Expression)
			}
			numbers := in.Numbers
			for _, n := range []*float64{in.A, in.B} {
				if n != nil && len(in.Numbers) == 0 {
					numbers = append(numbers, *n)
				}
			}
			operation := in.Operation
			if fixed != "" {
				operation = fixed
			}
			return operate(operation, numbers)
		},
	}
}

func wrongInput(format string, args ...any) error {
	return tool.Errorf(ir.ClassInput, format, args...)
}

// operate applies an operation to numbers from left to right.
func operate(operation string, numbers []float64) (any, error) {
	if operation == "" {
		return nil, wrongInput("there is neither an expression nor an operation")
	}
	if len(numbers) < 2 {
		return nil, wrongInput("%s needs at least two numbers", operation)
	}
	sign, ok := map[string]byte{
		"add": '+', "subtract": '-', "multiply": '*', "divide": '/', "power": '^',
		"remainder": '%',
	}[operation]
	if !ok {
		return nil, wrongInput("there is no operation %q", operation)
	}
	result := numbers[0]
	for _, n := range numbers[1:] {
		var err error
		if result, err = apply(sign, result, n); err != nil {
			return nil, err
		}
	}
	return finite(result)
}

// apply applies one operation to two numbers.
func apply(sign byte, a, b float64) (float64, error) {
	switch sign {
	case '+':
		return a + b, nil
	case '-':
		return a - b, nil
	case '*':
		return a * b, nil
	case '^':
		return math.Pow(a, b), nil
	}
	if b == 0 {
		return 0, wrongInput("division by zero")
	}
	if sign == '%' {
		return math.Mod(a, b), nil
	}
	return a / b, nil
}

// finite returns a number that JSON can hold, or an error for infinity and NaN.
func finite(f float64) (any, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, wrongInput("the result is not a number that can be written")
	}
	return f, nil
}

// compute evaluates + - * / % ^, parentheses and signs, with the usual precedence.
func compute(text string) (any, error) {
	c := &computation{text: text}
	result, err := c.sum(0)
	if err == nil && c.peek() != 0 {
		err = wrongInput("%q is not expected at character %d of the expression", c.text[c.at:c.at+1], c.at+1)
	}
	if err != nil {
		return nil, err
	}
	return finite(result)
}

// computation is a recursive descent parser that evaluates while it parses: sum, product, signed and operand are its
// levels. depth bounds the recursion.
type computation struct {
	text string
	at   int
}

const deepestExpression = 100

// peek returns the next character that is not a space, or 0 at the end.
func (c *computation) peek() byte {
	for c.at < len(c.text) && strings.IndexByte(" \t\r\n", c.text[c.at]) >= 0 {
		c.at++
	}
	if c.at == len(c.text) {
		return 0
	}
	return c.text[c.at]
}

// chain computes operands that are connected by signs of one precedence, from left to right.
func (c *computation) chain(signs string, depth int, operand func(int) (float64, error)) (float64, error) {
	result, err := operand(depth)
	for err == nil {
		sign := c.peek()
		if sign == 0 || strings.IndexByte(signs, sign) < 0 {
			break
		}
		c.at++
		var right float64
		if right, err = operand(depth); err == nil {
			result, err = apply(sign, result, right)
		}
	}
	return result, err
}

func (c *computation) sum(depth int) (float64, error) { return c.chain("+-", depth, c.product) }

func (c *computation) product(depth int) (float64, error) { return c.chain("*/%", depth, c.signed) }

// signed computes a sign, or a power, which binds tighter than a sign before it and is right-associative: -2^2 is -4.
func (c *computation) signed(depth int) (float64, error) {
	if depth > deepestExpression {
		return 0, wrongInput("the expression is nested too deeply")
	}
	switch c.peek() {
	case '-':
		c.at++
		value, err := c.signed(depth + 1)
		return -value, err
	case '+':
		c.at++
		return c.signed(depth + 1)
	}
	base, err := c.operand(depth)
	if err != nil || c.peek() != '^' {
		return base, err
	}
	c.at++
	exponent, err := c.signed(depth + 1) // 2^3^2 is 2^9
	if err != nil {
		return 0, err
	}
	return apply('^', base, exponent)
}

// operand computes a number or an expression in parentheses.
func (c *computation) operand(depth int) (float64, error) {
	if c.peek() == '(' {
		c.at++
		value, err := c.sum(depth + 1)
		if err != nil {
			return 0, err
		}
		if c.peek() != ')' {
			return 0, wrongInput("a parenthesis is never closed")
		}
		c.at++
		return value, nil
	}
	start := c.at
	for c.at < len(c.text) && strings.IndexByte("0123456789.", c.text[c.at]) >= 0 {
		c.at++
	}
	value, err := strconv.ParseFloat(c.text[start:c.at], 64)
	if err != nil {
		return 0, wrongInput("a number is missing at character %d of the expression", start+1)
	}
	return value, nil
}
