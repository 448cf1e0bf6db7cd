package cron

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // images without time zones

	"github.com/robfig/cron/v3"
)

// Schedule has ticks.
type Schedule struct{ ticks cron.Schedule }

// Problem is the kind of an error of Parse.
type Problem string

// The problems.
const (
	InvalidSchedule Problem = "InvalidSchedule"
	UnknownTimeZone Problem = "UnknownTimeZone"
)

// Error says why a schedule cannot be read.
type Error struct {
	Problem Problem
	message string
}

func (e *Error) Error() string { return e.message }

// Parse reads a schedule in a time zone, "" for the one that the schedule begins with, or UTC. The error is of type
// *Error.
func Parse(schedule, timeZone string) (Schedule, error) {
	zone, fields := split(schedule)
	switch {
	case zone != "" && timeZone != "":
		return Schedule{}, &Error{InvalidSchedule,
			fmt.Sprintf("schedule %q begins with a time zone, and timeZone is %s: remove one of them", schedule, timeZone)}
	case zone == "":
		zone = timeZone
	}
	if zone == "" {
		zone = "UTC"
	}
	// LoadLocation takes Local for the time zone of this machine, which says nothing to the user.
	if _, err := time.LoadLocation(zone); err != nil || strings.EqualFold(zone, "Local") {
		return Schedule{}, &Error{UnknownTimeZone,
			fmt.Sprintf("time zone %q does not exist: write an IANA name such as Europe/Berlin", zone)}
	}
	ticks, err := cron.ParseStandard("TZ=" + zone + " " + fields)
	if err != nil {
		return Schedule{}, &Error{InvalidSchedule, fmt.Sprintf("schedule %q cannot be read: %v; correct it", schedule, err)}
	}
	return Schedule{ticks}, nil
}

// split returns the time zone that a schedule begins with, "" if there is none, and the rest.
func split(schedule string) (zone, fields string) {
	for _, prefix := range []string{"TZ=", "CRON_TZ="} {
		if rest, has := strings.CutPrefix(schedule, prefix); has {
			zone, fields, _ = strings.Cut(rest, " ")
			return zone, strings.TrimSpace(fields)
		}
	}
	return "", strings.TrimSpace(schedule)
}

// Next returns the first tick after a time, zero if there is none within five years.
func (s Schedule) Next(after time.Time) time.Time { return s.ticks.Next(after) }

// maxCounted is how many missed ticks are counted: a schedule of each minute has half a million in a year.
const maxCounted = 1000

// latest returns the newest tick after from and not after now, zero if there is none.
func (s Schedule) latest(from, now time.Time) time.Time {
	if every, ok := s.ticks.(cron.ConstantDelaySchedule); ok {
		first := every.Next(from)
		if first.After(now) {
			return time.Time{}
		}
		return first.Add(now.Sub(first).Truncate(every.Delay))
	}
	// Look back twice as far until a tick is found: the ticks from there on are few.
	tick := time.Time{}
	for window := 2 * time.Minute; tick.IsZero(); window *= 2 {
		since := now.Add(-window)
		if !since.After(from) || window <= 0 {
			since = from
		}
		for next := s.Next(since); !next.IsZero() && !next.After(now); next = s.Next(next) {
			tick = next
		}
		if since.Equal(from) {
			break
		}
	}
	return tick
}

// upcoming returns the first tick after from that is after now too, zero if there is none within five years. The ticks
// of an interval are counted from from.
func (s Schedule) upcoming(from, now time.Time) time.Time {
	if every, ok := s.ticks.(cron.ConstantDelaySchedule); ok {
		next := every.Next(from)
		if past := now.Sub(next); past >= 0 {
			next = next.Add(past.Truncate(every.Delay) + every.Delay)
		}
		return next
	}
	return s.Next(newest(now, from))
}

// ConcurrencyPolicy says what a tick does while jobs of earlier ticks run.
type ConcurrencyPolicy int

// The concurrency policies.
const (
	Allow ConcurrencyPolicy = iota
	Forbid
	Replace
)

// Facts are what a decision depends on.
type Facts struct {
	Now      time.Time
	Schedule Schedule
	// Since is when the schedule was set, or the object created.
	Since time.Time
	// Started and Missed are the newest ticks that were started and reported missed, zero for none.
	Started, Missed time.Time
	// StartAfter is the newest time of which a tick may have been started elsewhere: up to it all are missed. Zero for
	// none.
	StartAfter time.Time
	// Deadline is how long after its time a tick is still started, nil for ever.
	Deadline    *time.Duration
	Concurrency ConcurrencyPolicy
	// Running reports whether jobs of earlier ticks run.
	Running bool
	Paused  bool
}

// Cause says why the newest tick that has come is missed.
type Cause string

// The causes.
const (
	TooLate      Cause = "TooLate"
	StillRunning Cause = "StillRunning"
	// Elsewhere: it may have been started elsewhere.
	Elsewhere Cause = "MemberLost"
)

// Missed are ticks that are never started.
type Missed struct {
	Count int
	// More reports whether there are more than Count.
	More bool
	// Newest is the newest one.
	Newest time.Time
	// Cause is why the newest tick that has come is missed too, "" if it is started.
	Cause Cause
}

// Plan is a decision.
type Plan struct {
	// Start is the tick to start, zero for none. Replace reports whether running jobs are deleted before.
	Start   time.Time
	Replace bool
	Missed  Missed
	// Next is the next tick, zero if the schedule has none. LookIn is how long until then, 0 while paused or without one.
	Next   time.Time
	LookIn time.Duration
}

// Decide returns what to start and what was missed.
func Decide(f Facts) Plan {
	from := newest(f.Since, f.Started, f.Missed)
	plan := Plan{Next: f.Schedule.upcoming(from, f.Now)}
	if f.Paused {
		return plan
	}
	if !plan.Next.IsZero() {
		plan.LookIn = plan.Next.Sub(f.Now)
	}
	tick := f.Schedule.latest(from, f.Now)
	if tick.IsZero() {
		return plan
	}
	plan.Missed = f.Schedule.between(from, tick)
	switch {
	case !tick.After(f.StartAfter):
		plan.Missed.Cause = Elsewhere
	case f.Deadline != nil && f.Now.Sub(tick) > *f.Deadline:
		plan.Missed.Cause = TooLate
	case f.Concurrency == Forbid && f.Running:
		plan.Missed.Cause = StillRunning
	default:
		plan.Start, plan.Replace = tick, f.Concurrency == Replace && f.Running
		return plan
	}
	plan.Missed.Count++
	plan.Missed.Newest = tick
	return plan
}

// between returns the ticks after from and before end.
func (s Schedule) between(from, end time.Time) Missed {
	var missed Missed
	for tick := s.Next(from); tick.Before(end); tick = s.Next(tick) {
		if missed.Count == maxCounted {
			missed.More, missed.Newest = true, s.latest(from, end.Add(-time.Second))
			return missed
		}
		missed.Count++
		missed.Newest = tick
	}
	return missed
}

func newest(times ...time.Time) time.Time {
	var latest time.Time
	for _, t := range times {
		if t.After(latest) {
			latest = t
		}
	}
	return latest
}
