package otel

import (
	"maps"
	"slices"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

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

// instruments describe the metrics, by their names.
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
	attrs   []*commonpb.KeyValue
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
func keyOf(attrs []*commonpb.KeyValue) string {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(&commonpb.KeyValueList{Values: attrs})
	if err != nil {
		panic(err) // attr returns only valid UTF-8
	}
	return string(raw)
}

// Gather returns all metrics.
func (m *Metrics) Gather(now journal.Millis) []*metricspb.Metric {
	temporality := metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	if m.delta {
		temporality = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	}
	var out []*metricspb.Metric
	for _, n := range slices.Sorted(maps.Keys(m.all)) {
		how := instruments[n]
		sum := &metricspb.Sum{AggregationTemporality: temporality, IsMonotonic: true}
		histogram := &metricspb.Histogram{AggregationTemporality: temporality}
		for _, key := range slices.Sorted(maps.Keys(m.all[n])) {
			s := m.all[n][key]
			start, end := nanos(s.since), nanos(max(now, s.since))
			point := &metricspb.NumberDataPoint{Attributes: s.attrs, StartTimeUnixNano: start, TimeUnixNano: end}
			switch {
			case how.bounds != nil:
				histogram.DataPoints = append(histogram.DataPoints, &metricspb.HistogramDataPoint{
					Attributes: s.attrs, StartTimeUnixNano: start, TimeUnixNano: end,
					Count: s.count, Sum: &s.sum, BucketCounts: s.buckets, ExplicitBounds: how.bounds,
				})
				continue
			case how.whole:
				point.Value = &metricspb.NumberDataPoint_AsInt{AsInt: int64(s.sum)}
			default:
				point.Value = &metricspb.NumberDataPoint_AsDouble{AsDouble: s.sum}
			}
			sum.DataPoints = append(sum.DataPoints, point)
		}
		one := &metricspb.Metric{
			Name: m.names.of(n), Description: how.about, Unit: how.unit, Data: &metricspb.Metric_Sum{Sum: sum},
		}
		if how.bounds != nil {
			one.Data = &metricspb.Metric_Histogram{Histogram: histogram}
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
