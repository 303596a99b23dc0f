package simulated

// dice makes the pseudorandom choices of one reply. It is stateless: the result depends only on the question, so the
// order of questions does not matter and a request that is repeated after a crash gets the same reply.
type dice struct {
	seed  uint64 // hash of the whole purpose of the request
	place uint64 // hash without visit, iteration, attempt and turn
	round int    // sum of visit, iteration, attempt and turn
}

// pick returns a number from 0 to n-1 for the question.
func (d dice) pick(question string, n int) int {
	return int(hash(d.seed, question) % uint64(n))
}

// rotate returns a number from 0 to n-1 for the question; n consecutive rounds return each number once.
func (d dice) rotate(question string, n int) int {
	return int((hash(d.place, question)%uint64(n) + uint64(d.round)) % uint64(n))
}

// hash returns a hash of texts: FNV-1a with the finalizer of SplitMix64.
func hash(seed uint64, texts ...string) uint64 {
	h := seed ^ 14695981039346656037
	for _, t := range texts {
		for i := range len(t) {
			h = (h ^ uint64(t[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211 // a separator that UTF-8 does not contain
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
