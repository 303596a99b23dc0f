package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// options are the flags.
type options struct {
	long   time.Duration
	seed   uint64
	repeat int
	from   int // the first round
	round  int // the only round to play, unless negative
}

func main() {
	var o options
	flag.DurationVar(&o.long, "for", 10*time.Minute, "how long to go on")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "determines all rounds")
	flag.IntVar(&o.repeat, "repeat", 50, "how often to play every pair of commands, if there is time")
	flag.IntVar(&o.from, "from", 0, "continue an earlier soak with the same seed at this round")
	flag.IntVar(&o.round, "round", -1, "play only this round, and print what its processes say")
	fleets := flag.Bool("fleets", false, "keep workers on PostgreSQL and on Temporal instead, with random kills")
	full := flag.Bool("full-disk", false, "play one round with a full disk, in namespaces that the soak has created")
	flag.Parse()
	if *full {
		exit(fillDisk(flag.Arg(0), flag.Arg(1), o.seed))
	}
	exit(soak(&o, *fleets))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func soak(o *options, fleets bool) error {
	dir, err := os.MkdirTemp("", "espalier-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "espalier")
	tags := "" // the engine of Temporal takes long to build
	if fleets {
		tags = "temporal"
	}
	build := exec.Command("go", "build", "-tags", tags, "-o", program, "./cmd/espalier")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building: %w\n%s", err, out)
	}
	if fleets {
		return soakFleets(program, dir, o.seed, time.Now().Add(o.long))
	}
	fmt.Println("seed:", o.seed)
	m := &matrix{options: o, pairs: shuffledPairs(o.seed), end: time.Now().Add(o.long)}
	m.next.Store(int64(o.from))
	if o.round >= 0 {
		j, err := newJob(program, filepath.Join(dir, "job"))
		if err != nil {
			return err
		}
		m.play(j, o.round)
		return m.report()
	}
	var all sync.WaitGroup
	errs := make(chan error, runtime.NumCPU()+4)
	for i := range max(2, runtime.NumCPU()) {
		all.Go(func() {
			j, err := newJob(program, filepath.Join(dir, fmt.Sprint("job", i)))
			if err != nil {
				errs <- err
				return
			}
			for n := m.take(); n >= 0; n = m.take() {
				m.play(j, n)
			}
		})
	}
	all.Go(func() { errs <- keepServing(program, filepath.Join(dir, "serving"), m.end) })
	all.Go(func() { errs <- fullDisks(program, dir, o.seed, m.end) })
	all.Wait()
	close(errs)
	failed := m.report()
	for err := range errs {
		failed = errors.Join(failed, err)
	}
	return failed
}

// matrix is the rounds: each pair of commands several times, and then any two or three commands.
type matrix struct {
	*options
	pairs [][2]string
	end   time.Time
	next  atomic.Int64

	mu     sync.Mutex
	played int
	failed int
}

// shuffledPairs returns all pairs of commands, a command with itself included, in an order that depends on the seed.
func shuffledPairs(seed uint64) (pairs [][2]string) {
	for i, a := range matrixCommands {
		for _, b := range matrixCommands[i:] {
			pairs = append(pairs, [2]string{a, b})
		}
	}
	random := rand.New(rand.NewPCG(seed, 1))
	random.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	return pairs
}

// take returns the number of the next round, or -1 when the time is over.
func (m *matrix) take() int {
	n := int(m.next.Add(1)) - 1
	if n > m.from && time.Now().After(m.end) {
		return -1
	}
	return n
}

// play plays a round. The seed and the number determine it, apart from the speed of the machine.
func (m *matrix) play(j *job, n int) {
	random := rand.New(rand.NewPCG(m.seed, uint64(n)+2))
	var names []string
	if n < len(m.pairs)*m.repeat {
		pair := m.pairs[n%len(m.pairs)]
		names = pair[:]
		if random.IntN(2) == 0 {
			names = []string{pair[1], pair[0]}
		}
	} else {
		for range 2 + random.IntN(2) {
			names = append(names, allCommands[random.IntN(len(allCommands))])
		}
	}
	r := &round{job: j, random: random, codes: map[string][]int{}, format: formats[formatOrder[n%len(formatOrder)]]}
	r.play(names)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.played++
	if len(r.wrong) > 0 {
		m.failed++
		fmt.Printf("seed %d round %d: %s: %s\n%s\n",
			m.seed, n, strings.Join(r.plan, ", "), strings.Join(r.wrong, "; "), r.output())
	} else if m.round >= 0 {
		fmt.Printf("%s\n%s\n", strings.Join(r.plan, ", "), r.output())
	}
}

// report prints what was played and how to continue. All rounds before the first of this process count as played.
func (m *matrix) report() error {
	fmt.Println(m.summary())
	if m.failed > 0 {
		return errors.New("play a round again with -seed SEED -round ROUND")
	}
	return nil
}

func (m *matrix) summary() string {
	text := fmt.Sprintf("%d rounds, %d failed", m.played, m.failed)
	if m.round >= 0 {
		return text
	}
	done := m.from + m.played
	times := min(done/len(m.pairs), m.repeat)
	text += fmt.Sprintf("; each of %d pairs of commands at least %d of %d times", len(m.pairs), times, m.repeat)
	if times < m.repeat {
		text += fmt.Sprintf("\nto continue: go run ./internal/soak -seed %d -from %d", m.seed, done)
	}
	return text
}
