package check

import (
	"encoding/json"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

func BenchmarkSchema(b *testing.B) {
	c := &checker{}
	contract := &ir.Contract{Schema: json.RawMessage(
		`{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"integer"}}}`,
	)}
	b.ReportAllocs()
	for b.Loop() {
		c.schema(contract, decoded(contract.Schema), "it")
	}
}
