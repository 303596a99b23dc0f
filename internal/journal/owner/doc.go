// Package owner announces this process to other processes, reports which of them
// are alive, and wakes them.
package owner

// A process that may own runs holds a lock on a file of its own until it ends;
// the system releases the lock however the process ends. So a death is known at
// once, without a lease that has to expire. Wake-ups come through a named pipe,
// which costs nothing while it is idle. A sender first commits its message to the
// journal and then wakes the owner. A wake-up carries no data, so losing one to a
// process that has just died loses nothing.
