package simulated

// dice are the choices of one reply. They have no state: the same question
// has the same answer, whatever was asked before.
type dice struct {
	seed  uint64 // of everything that tells this request from others
	place uint64 // of the same without how often it was made
	round int    // how often it was made
}

// pick chooses one of n for the question.
func (d dice) pick(question string, n int) int {
	return int(hash(d.seed, question) % uint64(n))
}

// rotate chooses one of n so that n rounds meet each of them once.
func (d dice) rotate(question string, n int) int {
	return int((hash(d.place, question)%uint64(n) + uint64(d.round)) % uint64(n))
}

// hash mixes texts into a number (FNV-1a, with a finish that spreads small
// differences over all bits).
func hash(seed uint64, texts ...string) uint64 {
	h := seed ^ 14695981039346656037
	for _, t := range texts {
		for i := range len(t) {
			h = (h ^ uint64(t[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211 // no text contains it: keeps "ab","c" and "a","bc" apart
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
