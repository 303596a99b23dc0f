package report

import "github.com/espalier-run/espalier/internal/journal"

// TimeFormat is the format of times in records: RFC 3339 in UTC with milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// AppendTime appends a time in TimeFormat. Every line of every record has one,
// so years with four digits bypass the slower package time.
func AppendTime(b []byte, at journal.Millis) []byte {
	const perDay = 24 * 60 * 60 * 1000
	const first, last = -719_162 * perDay, 2_932_897 * perDay // start and end of years 1 to 9999
	if at < first || at >= last {
		return at.Time().AppendFormat(b, TimeFormat)
	}
	days := uint64(at-first) / perDay // since the first day of year 1
	ms := uint64(at-first) % perDay
	year, month, day := date(days)
	b = digits(b, year/100, 2)
	b = digits(b, year%100, 2)
	b = digits(append(b, '-'), month, 2)
	b = digits(append(b, '-'), day, 2)
	b = digits(append(b, 'T'), ms/3_600_000, 2)
	b = digits(append(b, ':'), ms/60_000%60, 2)
	b = digits(append(b, ':'), ms/1000%60, 2)
	b = digits(append(b, '.'), ms%1000, 3)
	return append(b, 'Z')
}

// date returns the date of the day that many days after January 1 of year 1. It
// counts years from March on, so that leap days come last.
func date(days uint64) (year, month, day uint64) {
	const per400, per100, per4, per1 = 146_097, 36_524, 1461, 365
	days += 306 // since March of year 0
	year, days = 400*(days/per400), days%per400
	hundreds := min(days/per100, 3)
	days -= hundreds * per100
	fours := days / per4
	days -= fours * per4
	ones := min(days/per1, 3)
	days -= ones * per1
	year += 100*hundreds + 4*fours + ones
	// From March on, months repeat the lengths 31, 30, 31, 30, 31.
	month = (5*days + 2) / 153
	day = days - (153*month+2)/5 + 1
	if month += 3; month > 12 {
		month, year = month-12, year+1
	}
	return year, month, day
}

// digits appends a number, padded with zeros.
func digits(b []byte, n uint64, width int) []byte {
	if width == 3 {
		b = append(b, '0'+byte(n/100))
	}
	return append(b, '0'+byte(n/10%10), '0'+byte(n%10))
}
