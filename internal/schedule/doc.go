// Package schedule is when a cron expression fires: each wall-clock time once,
// also on the days when clocks are changed.
package schedule

// Cron libraries go wrong twice a year: a time that clocks leave out is lost or
// fires an hour late, and a time that they show twice fires twice. So the times
// are found on a clock that is never changed, and then looked up in the zone:
// one that does not exist fires at the moment when the clocks go on, one that
// comes twice fires the first time. Schedules that fire every hour are
// different: people mean the distance, not the time of day, so those follow
// real time through the change.
