package engine

import "sync"

// workers are the goroutines in which tasks are done. One that has done its
// task waits a while for another: its stack has grown already, and growing
// fresh ones costs more than most of what the engine does for a short task.
type workers struct {
	all   sync.WaitGroup
	mu    sync.Mutex
	idle  []chan errand
	spare int // how many may wait
}

const maxIdleWorkers = 64

// errand is something to do in a goroutine of its own. It returns what the same
// goroutine is to do next, if anything; that has been announced.
type errand func() errand

// announce says that a task will be done, before whoever does it is free.
func (w *workers) announce() { w.all.Add(1) }

// do has a task done in a goroutine of its own.
func (w *workers) do(f errand) {
	w.announce()
	w.mu.Lock()
	if n := len(w.idle); n > 0 {
		next := w.idle[n-1]
		w.idle = w.idle[:n-1]
		w.mu.Unlock()
		next <- f
		return
	}
	w.mu.Unlock()
	go w.work(f)
}

func (w *workers) work(f errand) {
	tasks := make(chan errand, 1)
	for f != nil {
		stretch(false)
		if f = f(); f != nil {
			w.all.Done()
			continue
		}
		w.mu.Lock()
		if len(w.idle) >= w.spare {
			w.mu.Unlock()
			w.all.Done()
			return
		}
		w.idle = append(w.idle, tasks)
		w.mu.Unlock()
		w.all.Done()
		f = <-tasks
	}
}

// keep says how many goroutines may wait for tasks; those that are too many go.
func (w *workers) keep(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare = n
	for len(w.idle) > n {
		last := len(w.idle) - 1
		w.idle[last] <- nil
		w.idle = w.idle[:last]
	}
}

// wait waits until nothing is being done.
func (w *workers) wait() { w.all.Wait() }

// stretch makes a goroutine's stack as large as the end of a task needs it, in
// one go and while there is next to nothing on it. Growing it bit by bit, with
// all that is on it then, took a fifth of the engine's time; and the garbage
// collector takes from the stacks of those who wait.
//
//go:noinline
func stretch(really bool) (sum byte) {
	if !really { // being asked is enough: room is made before the call
		return 0
	}
	var room [12 << 10]byte
	for i := range room {
		sum += room[len(room)-1-i]
	}
	return sum
}
