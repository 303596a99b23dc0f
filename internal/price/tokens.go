package price

// BytesPerToken is the usual rule of thumb for text in European languages.
const BytesPerToken = 4

// EstimateTokens estimates how many tokens the texts have, rounded up.
func EstimateTokens(texts ...string) int64 {
	n := 0
	for _, t := range texts {
		n += len(t)
	}
	return int64((n + BytesPerToken - 1) / BytesPerToken)
}
