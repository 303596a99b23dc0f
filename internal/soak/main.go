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
	"slices"
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
	flag.IntVar(&o.repeat, "repeat", 50, "how often to play every pair and triple of commands, if there is time")
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

// soak builds the program and plays until the time is over: rounds in parallel, one project for each processor, and
// beside them a server under load, full disks and workers with other clocks. With fleets, it only soaks fleets.
func soak(o *options, fleets bool) error {
	dir, err := os.MkdirTemp("", "espalier-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "espalier")
	flags := []string{"-tags", "temporal"} // which takes long to build
	if !fleets {
		if flags, err = clockFlags(dir); err != nil {
			return fmt.Errorf("a wall clock that jumps: %w", err)
		}
	}
	build := exec.Command("go", slices.Concat([]string{"build", "-o", program}, flags, []string{"./cmd/espalier"})...)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building: %w\n%s", err, out)
	}
	if fleets {
		return soakFleets(program, dir, o.seed, time.Now().Add(o.long))
	}
	if err := checkClock(program, filepath.Join(dir, "checked")); err != nil {
		return err
	}
	fmt.Println("seed:", o.seed)
	m := newMatrix(o, time.Now().Add(o.long))
	m.skipped = hazards()
	m.warn()
	if o.round >= 0 {
		j, err := newJob(program, filepath.Join(dir, "job"))
		if err != nil {
			return err
		}
		m.play(j, o.round)
		return m.report()
	}
	var all sync.WaitGroup
	errs := make(chan error, runtime.NumCPU()+5)
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
	all.Go(func() { errs <- otherClocks(program, filepath.Join(dir, "clocks"), o.seed, m.end) })
	all.Wait()
	close(errs)
	failed := m.report()
	for err := range errs {
		failed = errors.Join(failed, err)
	}
	return failed
}

// matrix is the rounds, in laps: each has every pair of commands once, and then every triple.
type matrix struct {
	*options
	pairs, triples [][]string
	end            time.Time
	next           atomic.Int64
	skipped        []string // hazards that this machine does not permit

	mu     sync.Mutex
	played int
	failed int
}

func newMatrix(o *options, end time.Time) *matrix {
	m := &matrix{options: o, pairs: combinations(2), triples: combinations(3), end: end}
	m.next.Store(int64(o.from))
	random := rand.New(rand.NewPCG(o.seed, 1))
	for _, all := range [][][]string{m.pairs, m.triples} {
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	return m
}

// combinations returns all combinations of n commands, with repetition.
func combinations(n int) (all [][]string) {
	var extend func(chosen []string, from int)
	extend = func(chosen []string, from int) {
		if len(chosen) == n {
			all = append(all, chosen)
			return
		}
		for i := from; i < len(commands); i++ {
			extend(append(slices.Clip(chosen), commands[i]), i)
		}
	}
	extend(nil, 0)
	return all
}

func (m *matrix) lap() int { return len(m.pairs) + len(m.triples) }

// names returns the commands of a round.
func (m *matrix) names(n int) []string {
	i := n % m.lap()
	if i < len(m.pairs) {
		return m.pairs[i]
	}
	return m.triples[i-len(m.pairs)]
}

// take returns the number of the next round, or -1 when the time is over or everything was played often enough.
func (m *matrix) take() int {
	n := int(m.next.Add(1)) - 1
	if n > m.from && (time.Now().After(m.end) || n >= m.repeat*m.lap()) {
		return -1
	}
	return n
}

// play plays a round. The seed and the number determine it, apart from the speed of the machine.
func (m *matrix) play(j *job, n int) {
	random := rand.New(rand.NewPCG(m.seed, uint64(n)+2))
	names := slices.Clone(m.names(n))
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
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
	m.warn()
	if m.failed > 0 {
		return errors.New("play a round again with -seed SEED -round ROUND")
	}
	return nil
}

// warn names the hazards that are not tried.
func (m *matrix) warn() {
	for _, s := range m.skipped {
		fmt.Println("WARNING: not tried:", s)
	}
}

func (m *matrix) summary() string {
	text := fmt.Sprintf("%d rounds, %d failed, %d jumps of the wall clock", m.played, m.failed, jumps.Load())
	if m.round >= 0 {
		return text
	}
	done := m.from + m.played
	triples := min(done/m.lap(), m.repeat)
	pairs := triples
	if done%m.lap() >= len(m.pairs) {
		pairs = min(pairs+1, m.repeat)
	}
	text += fmt.Sprintf("\neach of %d pairs of commands at least %d of %d times", len(m.pairs), pairs, m.repeat)
	text += fmt.Sprintf(", each of %d triples at least %d of %d times", len(m.triples), triples, m.repeat)
	if triples < m.repeat {
		text += fmt.Sprintf("\nto continue: go run ./internal/soak -seed %d -from %d", m.seed, done)
	}
	return text
}
