package otel

import (
	"encoding/binary"
	"math"
)

// message is an encoded protobuf message: fields in the order of their numbers, zeros omitted. The numbers are those of
// opentelemetry-proto.
type protobuf []byte

func (b protobuf) tag(field, wire int) protobuf {
	return binary.AppendUvarint(b, uint64(field)<<3|uint64(wire))
}

func (b protobuf) uint(field int, v uint64) protobuf {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(b.tag(field, 0), v)
}

func (b protobuf) fixed(field int, v uint64) protobuf {
	if v == 0 {
		return b
	}
	return binary.LittleEndian.AppendUint64(b.tag(field, 1), v)
}

// fixedAlways appends a field even if it is zero: its presence has a meaning.
func (b protobuf) fixedAlways(field int, v uint64) protobuf {
	return binary.LittleEndian.AppendUint64(b.tag(field, 1), v)
}

func (b protobuf) bytes(field int, v []byte) protobuf {
	if len(v) == 0 {
		return b
	}
	return b.sub(field, v)
}

func (b protobuf) text(field int, v string) protobuf {
	if v == "" {
		return b
	}
	return append(binary.AppendUvarint(b.tag(field, 2), uint64(len(v))), v...)
}

// sub appends a nested message, even if it is empty.
func (b protobuf) sub(field int, v []byte) protobuf {
	return append(binary.AppendUvarint(b.tag(field, 2), uint64(len(v))), v...)
}

func (b protobuf) attrs(field int, list []Attr) protobuf {
	for _, a := range list {
		b = b.sub(field, protobuf(nil).text(1, a.Key).sub(2, anyValue(a.Value)))
	}
	return b
}

func anyValue(v any) protobuf {
	switch v := v.(type) {
	case string:
		return protobuf(nil).sub(1, []byte(v))
	case bool:
		n := uint64(0)
		if v {
			n = 1
		}
		return binary.AppendUvarint(protobuf(nil).tag(2, 0), n)
	case int64:
		return binary.AppendUvarint(protobuf(nil).tag(3, 0), uint64(v))
	case float64:
		return protobuf(nil).fixedAlways(4, math.Float64bits(v))
	case []string:
		var list protobuf
		for _, one := range v {
			list = list.sub(1, anyValue(one))
		}
		return protobuf(nil).sub(5, list)
	}
	return nil
}

// resource appends the source of spans and metrics, and the scope.
func (r *Resource) protobuf() (resource, scope protobuf) {
	return protobuf(nil).attrs(1, r.Attrs), protobuf(nil).text(1, r.Scope).text(2, r.Version)
}

// protobufTraces is an ExportTraceServiceRequest.
func protobufTraces(r *Resource, spans []*Span) []byte {
	resource, scope := r.protobuf()
	in := protobuf(nil).sub(1, scope)
	for _, s := range spans {
		in = in.sub(2, s.protobuf())
	}
	return protobuf(nil).sub(1, protobuf(nil).sub(1, resource).sub(2, in))
}

func (s *Span) protobuf() protobuf {
	b := protobuf(nil).bytes(1, s.Trace[:]).bytes(2, s.ID[:])
	if s.Parent != (SpanID{}) {
		b = b.bytes(4, s.Parent[:])
	}
	b = b.text(5, s.Name).uint(6, uint64(s.Kind)).fixed(7, nanos(s.Start)).fixed(8, nanos(s.End)).attrs(9, s.Attrs)
	for _, e := range s.Events {
		b = b.sub(11, protobuf(nil).fixed(1, nanos(e.At)).text(2, e.Name).attrs(3, e.Attrs))
	}
	for _, l := range s.Links {
		b = b.sub(13, protobuf(nil).bytes(1, l.Trace[:]).bytes(2, l.Span[:]))
	}
	if s.Failed {
		b = b.sub(15, protobuf(nil).text(2, s.Message).uint(3, statusError))
	}
	return b
}

const statusError = 2

// protobufMetrics is an ExportMetricsServiceRequest.
func protobufMetrics(r *Resource, metrics []Metric) []byte {
	resource, scope := r.protobuf()
	in := protobuf(nil).sub(1, scope)
	for i := range metrics {
		in = in.sub(2, metrics[i].protobuf())
	}
	return protobuf(nil).sub(1, protobuf(nil).sub(1, resource).sub(2, in))
}

func (m *Metric) protobuf() protobuf {
	b := protobuf(nil).text(1, m.Name).text(2, m.About).text(3, m.Unit)
	var points protobuf
	for i := range m.Series {
		points = points.sub(1, m.point(&m.Series[i]))
	}
	points = points.uint(2, m.temporality())
	if m.Bounds != nil {
		return b.sub(9, points)
	}
	return b.sub(7, points.uint(3, 1)) // monotonic
}

func (m *Metric) temporality() uint64 {
	if m.Delta {
		return 1
	}
	return 2
}

// point is a HistogramDataPoint or a NumberDataPoint.
func (m *Metric) point(s *Series) protobuf {
	b := protobuf(nil).fixed(2, nanos(s.Start)).fixed(3, nanos(s.End))
	if m.Bounds == nil {
		if m.Whole {
			b = b.fixedAlways(6, uint64(int64(s.Sum)))
		} else {
			b = b.fixedAlways(4, math.Float64bits(s.Sum))
		}
		return b.attrs(7, s.Attrs)
	}
	b = b.fixed(4, s.Count).fixedAlways(5, math.Float64bits(s.Sum))
	var counts, bounds []byte
	for _, n := range s.Buckets {
		counts = binary.LittleEndian.AppendUint64(counts, n)
	}
	for _, v := range m.Bounds {
		bounds = binary.LittleEndian.AppendUint64(bounds, math.Float64bits(v))
	}
	return b.bytes(6, counts).bytes(7, bounds).attrs(9, s.Attrs)
}
