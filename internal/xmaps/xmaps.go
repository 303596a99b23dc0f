package xmaps

// Set sets the value of a key. It makes the map first if it is nil.
func Set[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}
