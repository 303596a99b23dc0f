// Package owner is the life of a process as other processes see it: whether
// it is still there, and a way to wake it.
package owner

// A process that may own runs holds a lock on a file of its own for as long as
// it lives; the system lets go of it however the process ends. So a dead owner
// is known at once, without a lease that has to run out. Its wake-ups come
// through a named pipe: they cost nothing while nobody writes to it. Whoever
// wants something of an owner first commits it to the journal and then wakes
// the owner; a wake-up carries nothing itself, so that losing one to a process
// that has just died loses nothing.
