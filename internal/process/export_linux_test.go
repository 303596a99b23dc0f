package process

// DenyNamespaces keeps this thread, and what it executes, from creating
// namespaces and mounting, as the default profile of containers does.
func DenyNamespaces() error {
	return applyFilter(filter(filterOptions{Sockets: true, Attributes: true, SystemV: true}))
}
