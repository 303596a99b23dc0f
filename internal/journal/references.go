package journal

import (
	"iter"
	"reflect"
)

// References returns the hashes of the blobs that a fact names: large values,
// and the definition of a run.
func References(f Fact) iter.Seq[string] {
	return func(yield func(string) bool) {
		if started, ok := f.(RunStarted); ok && started.Definition != "" && !yield(started.Definition) {
			return
		}
		references(reflect.ValueOf(f), yield)
	}
}

var valueType = reflect.TypeFor[Value]()

func references(v reflect.Value, yield func(string) bool) bool {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == valueType {
			hash := v.FieldByName("Hash").String()
			return hash == "" || yield(hash)
		}
		for i := range v.NumField() {
			if !references(v.Field(i), yield) {
				return false
			}
		}
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || references(v.Elem(), yield)
	case reflect.Slice:
		for i := range v.Len() {
			if v.Type().Elem().Kind() == reflect.Uint8 {
				return true
			}
			if !references(v.Index(i), yield) {
				return false
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if !references(v.MapIndex(key), yield) {
				return false
			}
		}
	}
	return true
}
