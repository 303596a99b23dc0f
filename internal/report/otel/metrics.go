package otel

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
)

// instrument describes a metric.
type instrument struct {
	unit, about string
	whole       bool      // its values are integers
	bounds      []float64 // of a histogram; nil is a counter
}

// Bucket bounds that the conventions recommend.
var (
	someSeconds = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	// Workflows may take long, and wait for people.
	manySeconds = []float64{0.1, 1, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400, 604800}
	someTokens  = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
)

var instruments = map[name]instrument{
	tokenUsage: {
		unit: "{token}", about: "Number of input and output tokens used.", whole: true, bounds: someTokens,
	},
	inputTokensUsed:      {unit: "{token}", about: "Number of input tokens used.", whole: true},
	outputTokensUsed:     {unit: "{token}", about: "Number of output tokens used.", whole: true},
	cacheReadTokensUsed:  {unit: "{token}", about: "Number of input tokens read from a cache.", whole: true},
	cacheWriteTokensUsed: {unit: "{token}", about: "Number of input tokens written to a cache.", whole: true},
	callDuration:         {unit: "s", about: "How long calls of models took.", bounds: someSeconds},
	workflowDuration:     {unit: "s", about: "How long runs took, waiting for people included.", bounds: manySeconds},
	agentDuration:        {unit: "s", about: "How long agents were at work.", bounds: someSeconds},
	toolDuration:         {unit: "s", about: "How long calls of tools took.", bounds: someSeconds},
	stepDuration:         {unit: "s", about: "How long steps took, waiting for people included.", bounds: manySeconds},
	runCount:             {unit: "{run}", about: "Runs that have ended.", whole: true},
	stepCount:            {unit: "{step}", about: "Steps that have ended.", whole: true},
	costTotal:            {unit: "{USD}", about: "What models have cost."},
}

// series is a metric with one set of attributes.
type series struct {
	attrs   []Attr
	sum     float64
	count   uint64
	buckets []uint64 // of a histogram
	since   journal.Millis
}

// Metrics aggregates measurements.
type Metrics struct {
	names Conventions
	// delta restarts series with each delivery, instead of with the process.
	delta bool
	all   map[name]map[string]*series
}

// NewMetrics returns Metrics without measurements.
func NewMetrics(names Conventions, delta bool) *Metrics {
	return &Metrics{names: names, delta: delta, all: map[name]map[string]*series{}}
}

// Add adds a measurement. since is the start of the series.
func (m *Metrics) Add(p Point, since journal.Millis) {
	how := instruments[p.metric]
	of := m.all[p.metric]
	if of == nil {
		of = map[string]*series{}
		m.all[p.metric] = of
	}
	key := keyOf(p.attrs)
	s := of[key]
	if s == nil {
		s = &series{attrs: p.attrs, since: since}
		if how.bounds != nil {
			s.buckets = make([]uint64, len(how.bounds)+1)
		}
		of[key] = s
	}
	s.sum += p.value
	s.count++
	if s.buckets != nil {
		at, _ := slices.BinarySearch(how.bounds, p.value) // bounds are inclusive
		s.buckets[at]++
	}
}

// keyOf returns a key for a set of attributes. Their order is always the same for one metric.
func keyOf(attrs []Attr) string {
	var b strings.Builder
	for _, a := range attrs {
		b.WriteString(a.Key)
		b.WriteByte(0)
		switch v := a.Value.(type) {
		case string:
			b.WriteString(v)
		case int64:
			b.Write(binary.AppendVarint(nil, v))
		case float64:
			b.Write(binary.BigEndian.AppendUint64(nil, math.Float64bits(v)))
		}
		b.WriteByte(0)
	}
	return b.String()
}

// Metric is a metric with all its series.
type Metric struct {
	Name, Unit, About string
	Whole             bool
	Delta             bool
	Bounds            []float64 // nil is a counter
	Series            []Series
}

// Series is a metric's value for one set of attributes.
type Series struct {
	Attrs      []Attr
	Start, End journal.Millis
	Sum        float64
	Count      uint64
	Buckets    []uint64
}

// Gather returns all metrics.
func (m *Metrics) Gather(now journal.Millis) []Metric {
	var out []Metric
	for _, n := range sorted(m.all) {
		how := instruments[n]
		one := Metric{
			Name: m.names.of(n), Unit: how.unit, About: how.about, Whole: how.whole, Delta: m.delta, Bounds: how.bounds,
		}
		for _, key := range sorted(m.all[n]) {
			s := m.all[n][key]
			one.Series = append(one.Series, Series{
				Attrs: s.attrs, Start: s.since, End: max(now, s.since),
				Sum: s.sum, Count: s.count, Buckets: slices.Clone(s.buckets),
			})
		}
		out = append(out, one)
	}
	return out
}

// Delivered drops what has arrived, for delta temporality.
func (m *Metrics) Delivered() {
	if m.delta {
		clear(m.all)
	}
}
