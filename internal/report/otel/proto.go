package otel

import (
	"encoding/binary"
	"math"
	"reflect"
	"strconv"
)

// appendMessage appends a struct as a protobuf message. The tag pb has the number of a field; the type of the field
// determines its encoding. Zeros are omitted, except behind pointers, whose presence has a meaning, and messages.
func appendMessage(b []byte, message reflect.Value) []byte {
	for i := range message.NumField() {
		number, err := strconv.ParseUint(message.Type().Field(i).Tag.Get("pb"), 10, 32)
		if err != nil {
			panic(err) // every field has a tag
		}
		b = appendField(b, number, message.Field(i))
	}
	return b
}

const (
	varint, fixed64, sized = 0, 1, 2 // wire types
)

func appendField(b []byte, number uint64, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return b
		}
		if v = v.Elem(); v.Kind() != reflect.Struct {
			wire, value := scalar(v)
			return append(binary.AppendUvarint(b, number<<3|wire), value...)
		}
		return appendField(b, number, v)
	case reflect.Struct:
		return appendSized(b, number, appendMessage(nil, v))
	case reflect.Slice:
		if v.Len() == 0 {
			return b
		}
		switch v.Type().Elem().Kind() {
		case reflect.Struct:
			for i := range v.Len() {
				b = appendField(b, number, v.Index(i))
			}
			return b
		case reflect.Uint8:
			return appendSized(b, number, v.Bytes())
		}
		var packed []byte
		for i := range v.Len() {
			_, value := scalar(v.Index(i))
			packed = append(packed, value...)
		}
		return appendSized(b, number, packed)
	}
	if v.IsZero() {
		return b
	}
	wire, value := scalar(v)
	return append(binary.AppendUvarint(b, number<<3|wire), value...)
}

func appendSized(b []byte, number uint64, value []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, number<<3|sized), uint64(len(value)))
	return append(b, value...)
}

// scalar returns the wire type and the encoding of a value that is no message.
func scalar(v reflect.Value) (wire uint64, value []byte) {
	switch v.Kind() {
	case reflect.String:
		return sized, append(binary.AppendUvarint(nil, uint64(v.Len())), v.String()...)
	case reflect.Bool:
		if v.Bool() {
			return varint, []byte{1}
		}
		return varint, []byte{0}
	case reflect.Float64:
		return fixed64, binary.LittleEndian.AppendUint64(nil, math.Float64bits(v.Float()))
	case reflect.Uint64:
		return fixed64, binary.LittleEndian.AppendUint64(nil, v.Uint())
	default:
		return varint, binary.AppendUvarint(nil, uint64(v.Int()))
	}
}
