package samplingtest

import "os"

// variable is set to run every case.
const variable = "ESPALIER_TEST_EXHAUSTIVE"

// Includes reports whether case n is tested: one of every few, or every one if the tests are exhaustive. Callers with
// several series of cases add the number of the series to n, so that not all of them select the same cases.
func Includes(n, of int) bool {
	return os.Getenv(variable) != "" || n%of == 0
}
