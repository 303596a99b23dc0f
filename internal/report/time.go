package report

import "github.com/espalier-run/espalier/internal/journal"

// TimeFormat is the format of times in records: RFC 3339 in UTC with milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// AppendTime appends a time in TimeFormat.
func AppendTime(b []byte, at journal.Millis) []byte { return at.Time().AppendFormat(b, TimeFormat) }
