// Package schedule computes when cron expressions fire. Each wall-clock time fires exactly once, also on days with a
// daylight saving change.
package schedule

// Cron libraries fail at daylight saving changes: a skipped time is lost or fires an hour late, and a repeated time
// fires twice. Therefore times are computed in UTC as wall-clock times and then mapped to the time zone: a skipped time
// fires at the moment of the change, a repeated time fires at its first occurrence. Schedules that fire every hour mean
// an interval rather than a time of day, so they follow elapsed time through the change.
