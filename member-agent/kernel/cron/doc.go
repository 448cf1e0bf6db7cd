// Package cron owns the question "which tick of a schedule is started now". It is pure: the time is given.
//
// The rule. A tick is a time of the schedule. Those after the newest one that was started or reported missed are open.
// Of the open ticks that have come, the newest is started, and all others are missed. It is missed too if it is later
// than the deadline, or if jobs of earlier ticks run and ConcurrencyPolicy Forbid skips it. So each tick is started
// once or reported missed once, whatever the clock does and however often the controller restarts, as long as Started
// and Missed are stored and never move back.
//
// A schedule, or a time zone, has no ticks before it was set: a change does not start what it would have started
// earlier. While a schedule is paused nothing is started or missed; afterwards the newest open tick is started.
//
// A schedule that moved here from elsewhere has the ticks after Since. Those up to StartAfter may have been started
// there, and are missed.
//
// On the day on which a time zone turns its clock back, a schedule with a fixed hour may come twice, as two ticks. On
// the day on which it skips an hour, a schedule in that hour does not come.
//
// Example: every hour, Started 10:00, and the controller was away from 10:30 to 13:20. At 13:20 the tick of 13:00 is
// started, and two are missed, the newest of them at 12:00.
package cron
