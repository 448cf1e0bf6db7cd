package cron_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/cron"
)

func at(t testing.TB, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func parse(t testing.TB, schedule, zone string) cron.Schedule {
	t.Helper()
	s, err := cron.Parse(schedule, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		schedule, zone string
		problem        cron.Problem
		next           string // after 2026-01-01T00:00:00Z
	}{
		{"0 2 * * *", "", "", "2026-01-01T02:00:00Z"},
		{"0 2 * * *", "Asia/Tokyo", "", "2026-01-01T17:00:00Z"},
		{"TZ=Asia/Tokyo 0 2 * * *", "", "", "2026-01-01T17:00:00Z"},
		{"CRON_TZ=Asia/Tokyo  0 2 * * *", "", "", "2026-01-01T17:00:00Z"},
		{"@hourly", "Asia/Kolkata", "", "2026-01-01T00:30:00Z"},
		{"@every 90m", "", "", "2026-01-01T01:30:00Z"},
		{"0 0 30 2 *", "", "", "0001-01-01T00:00:00Z"},
		{"0 2 * * *", "Mars/Olympus", cron.UnknownTimeZone, ""},
		{"0 2 * * *", "Local", cron.UnknownTimeZone, ""},
		{"0 2 * * *", "../etc", cron.UnknownTimeZone, ""},
		{"TZ=Mars 0 2 * * *", "", cron.UnknownTimeZone, ""},
		{"TZ=Asia/Tokyo 0 2 * * *", "Asia/Tokyo", cron.InvalidSchedule, ""},
		{"TZ=Asia/Tokyo", "", cron.InvalidSchedule, ""},
		{"0 5-2 * * *", "", cron.InvalidSchedule, ""},
		{"0 2 * *", "", cron.InvalidSchedule, ""},
		{"", "", cron.InvalidSchedule, ""},
	} {
		s, err := cron.Parse(tt.schedule, tt.zone)
		var wrong *cron.Error
		switch {
		case tt.problem != "":
			if !errors.As(err, &wrong) || wrong.Problem != tt.problem {
				t.Errorf("%q in %q: %v, want %s", tt.schedule, tt.zone, err, tt.problem)
			}
		case err != nil:
			t.Error(err)
		default:
			if next := s.Next(at(t, "2026-01-01T00:00:00Z")); !next.Equal(at(t, tt.next)) {
				t.Errorf("%q in %q: %v, want %s", tt.schedule, tt.zone, next, tt.next)
			}
		}
	}
}

func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		why                         string
		schedule                    string
		now, since, started, missed string
		change                      func(*cron.Facts)
		start                       string
		count                       int
		newest                      string
		cause                       cron.Cause
	}{
		{why: "not yet", schedule: "@hourly", now: "2026-01-01T10:59:59Z", since: "2026-01-01T10:00:00Z"},
		{why: "on time", schedule: "@hourly", now: "2026-01-01T11:00:00Z", since: "2026-01-01T10:00:00Z",
			start: "2026-01-01T11:00:00Z"},
		{why: "once", schedule: "@hourly", now: "2026-01-01T11:00:01Z", since: "2026-01-01T10:00:00Z",
			started: "2026-01-01T11:00:00Z"},
		{why: "after hours away", schedule: "@hourly", now: "2026-01-01T13:20:00Z", since: "2026-01-01T09:00:00Z",
			started: "2026-01-01T10:00:00Z", start: "2026-01-01T13:00:00Z", count: 2, newest: "2026-01-01T12:00:00Z"},
		{why: "what was reported is not open", schedule: "@hourly", now: "2026-01-01T13:20:00Z",
			since:   "2026-01-01T09:00:00Z",
			started: "2026-01-01T10:00:00Z", missed: "2026-01-01T13:00:00Z"},
		{why: "past the deadline", schedule: "@hourly", now: "2026-01-01T11:01:01Z", since: "2026-01-01T10:00:00Z",
			change: func(f *cron.Facts) { f.Deadline = new(time.Minute) }, count: 1, newest: "2026-01-01T11:00:00Z",
			cause: cron.TooLate},
		{why: "at the deadline", schedule: "@hourly", now: "2026-01-01T11:01:00Z", since: "2026-01-01T10:00:00Z",
			change: func(f *cron.Facts) { f.Deadline = new(time.Minute) }, start: "2026-01-01T11:00:00Z"},
		{why: "Forbid", schedule: "@hourly", now: "2026-01-01T12:00:00Z", since: "2026-01-01T10:00:00Z",
			change: func(f *cron.Facts) { f.Concurrency, f.Running = cron.Forbid, true }, count: 2,
			newest: "2026-01-01T12:00:00Z", cause: cron.StillRunning},
		{why: "Forbid with nothing running", schedule: "@hourly", now: "2026-01-01T11:00:00Z", since: "2026-01-01T10:00:00Z",
			change: func(f *cron.Facts) { f.Concurrency = cron.Forbid }, start: "2026-01-01T11:00:00Z"},
		{why: "paused", schedule: "@hourly", now: "2026-01-01T15:00:00Z", since: "2026-01-01T10:00:00Z",
			change: func(f *cron.Facts) { f.Paused = true }},
		{why: "a schedule has no ticks before it was set", schedule: "0 9 * * *", now: "2026-01-01T10:00:00Z",
			since: "2026-01-01T09:59:00Z", started: "2026-01-01T02:00:00Z"},
		{why: "the clock went back", schedule: "@hourly", now: "2026-01-01T10:30:00Z", since: "2026-01-01T09:00:00Z",
			started: "2026-01-01T11:00:00Z"},
		{why: "a schedule that never fires", schedule: "0 0 31 2 *", now: "2026-01-01T10:30:00Z",
			since: "2020-01-01T09:00:00Z"},
		{why: "every 90 minutes, long ago", schedule: "@every 90m", now: "2026-01-01T10:00:00Z",
			since: "2026-01-01T00:00:00Z",
			start: "2026-01-01T09:00:00Z", count: 5, newest: "2026-01-01T07:30:00Z"},
		{why: "a rare schedule, long ago", schedule: "0 0 29 2 *", now: "2027-01-01T00:00:00Z", since: "2019-01-01T00:00:00Z",
			start: "2024-02-29T00:00:00Z", count: 1, newest: "2020-02-29T00:00:00Z"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			facts := cron.Facts{Now: at(t, tt.now), Schedule: parse(t, tt.schedule, ""), Since: at(t, tt.since),
				Started: at(t, tt.started), Missed: at(t, tt.missed)}
			if tt.change != nil {
				tt.change(&facts)
			}
			plan := cron.Decide(facts)
			if !plan.Start.Equal(at(t, tt.start)) {
				t.Errorf("starts %v, want %q", plan.Start, tt.start)
			}
			if m := plan.Missed; m.Count != tt.count || !m.Newest.Equal(at(t, tt.newest)) || m.Cause != tt.cause || m.More {
				t.Errorf("missed %+v, want %d, the newest at %q, %q", m, tt.count, tt.newest, tt.cause)
			}
		})
	}
}

func TestReplaceDeletesRunningJobs(t *testing.T) {
	facts := cron.Facts{Now: at(t, "2026-01-01T11:00:00Z"), Schedule: parse(t, "@hourly", ""),
		Since: at(t, "2026-01-01T10:30:00Z"), Concurrency: cron.Replace}
	if cron.Decide(facts).Replace {
		t.Error("replaces although nothing runs")
	}
	facts.Running = true
	if !cron.Decide(facts).Replace {
		t.Error("does not replace what runs")
	}
}

func TestLookInIsTheTimeUntilTheNextTick(t *testing.T) {
	facts := cron.Facts{Now: at(t, "2026-01-01T10:59:30Z"), Schedule: parse(t, "@hourly", ""),
		Since: at(t, "2026-01-01T10:00:00Z")}
	if plan := cron.Decide(facts); plan.LookIn != 30*time.Second || !plan.Next.Equal(at(t, "2026-01-01T11:00:00Z")) {
		t.Errorf("looks in %v, at %v", plan.LookIn, plan.Next)
	}
	facts.Paused = true
	if plan := cron.Decide(facts); plan.LookIn != 0 || plan.Next.IsZero() {
		t.Errorf("paused: looks in %v, at %v", plan.LookIn, plan.Next)
	}
	facts.Paused, facts.Schedule = false, parse(t, "0 0 31 2 *", "")
	if plan := cron.Decide(facts); plan.LookIn != 0 || !plan.Next.IsZero() {
		t.Errorf("never: looks in %v, at %v", plan.LookIn, plan.Next)
	}
}

// TestTheNextTickOfAnInterval checks that an interval is counted from the newest tick, not from now.
func TestTheNextTickOfAnInterval(t *testing.T) {
	facts := cron.Facts{Schedule: parse(t, "@every 20m", ""), Since: at(t, "2026-01-01T10:00:05Z")}
	for now, want := range map[string]string{
		"2026-01-01T10:00:05Z": "2026-01-01T10:20:05Z", "2026-01-01T10:20:04Z": "2026-01-01T10:20:05Z",
		"2026-01-01T10:20:05Z": "2026-01-01T10:40:05Z", "2026-01-01T10:50:00Z": "2026-01-01T11:00:05Z",
		"2026-01-01T09:00:00Z": "2026-01-01T10:20:05Z",
	} {
		facts.Now = at(t, now)
		if plan := cron.Decide(facts); !plan.Next.Equal(at(t, want)) || plan.LookIn != plan.Next.Sub(facts.Now) {
			t.Errorf("at %s the next tick is %v, in %v; want %s", now, plan.Next, plan.LookIn, want)
		}
	}
}

// TestAYearOfMissedMinutes checks that a long absence is skipped at once, and counted up to a bound.
func TestAYearOfMissedMinutes(t *testing.T) {
	plan := cron.Decide(cron.Facts{Now: at(t, "2027-01-01T00:00:30Z"), Schedule: parse(t, "* * * * *", ""),
		Since: at(t, "2026-01-01T00:00:00Z")})
	if !plan.Start.Equal(at(t, "2027-01-01T00:00:00Z")) || plan.Missed.Count != 1000 || !plan.Missed.More ||
		!plan.Missed.Newest.Equal(at(t, "2026-12-31T23:59:00Z")) {
		t.Errorf("%+v", plan)
	}
}

// TestTheClockOfATimeZoneTurns checks days with 23 and 25 hours: what the zone's clock shows twice are two ticks.
func TestTheClockOfATimeZoneTurns(t *testing.T) {
	berlin := parse(t, "30 2 * * *", "Europe/Berlin")
	if next := berlin.Next(at(t, "2026-03-28T12:00:00Z")); !next.Equal(at(t, "2026-03-30T00:30:00Z")) {
		t.Errorf("2:30 does not exist on 29 March: %v", next)
	}
	first := berlin.Next(at(t, "2026-10-24T12:00:00Z"))
	second := berlin.Next(first)
	if !first.Equal(at(t, "2026-10-25T00:30:00Z")) || !second.Equal(at(t, "2026-10-25T01:30:00Z")) {
		t.Errorf("2:30 on 25 October: %v and %v", first, second)
	}
}

// TestTicksAreNeitherLostNorDoubled runs schedules with random clocks, absences, restarts, pauses, policies, and
// changes of the schedule and its time zone: each tick is started or reported missed once, in order.
func TestTicksAreNeitherLostNorDoubled(t *testing.T) {
	schedules := []string{"* * * * *", "*/7 * * * *", "30 2 * * *", "15 */3 * * 1-5", "@every 11m", "@hourly"}
	zones := []string{"", "Europe/Berlin", "Asia/Kolkata", "America/New_York", "Pacific/Auckland"}
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 5))
		schedule := parse(t, schedules[random.IntN(len(schedules))], zones[random.IntN(len(zones))])
		clock := at(t, "2026-03-27T00:00:00Z").Add(time.Duration(random.IntN(300*24)) * time.Hour)
		facts := cron.Facts{Schedule: schedule, Since: clock}
		if random.IntN(2) == 0 {
			facts.Deadline = new(time.Duration(random.IntN(7200)) * time.Second)
		}
		facts.Concurrency = cron.ConcurrencyPolicy(random.IntN(3))
		handled := 0 // ticks since the schedule was set
		check := func() {
			t.Helper()
			last, want := facts.Since, 0
			for _, tick := range []time.Time{facts.Started, facts.Missed} {
				if tick.After(last) {
					last = tick
				}
			}
			for tick := facts.Schedule.Next(facts.Since); !tick.After(last); tick = facts.Schedule.Next(tick) {
				want++
			}
			if handled != want {
				t.Fatalf("seed %d: %d ticks were started or missed, %d came", seed, handled, want)
			}
		}
		for step := range 120 {
			switch jump := random.IntN(20); {
			case jump == 0:
				clock = clock.Add(time.Duration(random.IntN(4*60)) * time.Minute) // away
			case jump == 1:
				clock = clock.Add(-time.Duration(random.IntN(60)) * time.Minute) // the clock is set back
			default:
				clock = clock.Add(time.Duration(random.IntN(400)) * time.Second)
			}
			facts.Now, facts.Paused, facts.Running = clock, random.IntN(10) == 0, random.IntN(3) == 0
			if random.IntN(40) == 0 {
				facts.Schedule = parse(t, schedules[random.IntN(len(schedules))], zones[random.IntN(len(zones))])
				// What was handled under the schedule before does not count for the new one.
				for _, tick := range []time.Time{facts.Since, facts.Started, facts.Missed, clock} {
					if tick.After(facts.Since) {
						facts.Since = tick
					}
				}
				handled = 0
			}
			plan := cron.Decide(facts)
			if plan.Missed.More {
				t.Fatalf("seed %d: more missed ticks than are counted", seed)
			}
			if again := cron.Decide(facts); again != plan {
				t.Fatalf("seed %d, step %d: %+v, then %+v", seed, step, plan, again)
			}
			handled += plan.Missed.Count
			if m := plan.Missed.Newest; !m.IsZero() {
				if !m.After(facts.Missed) || !m.After(facts.Started) || m.After(clock) {
					t.Fatalf("seed %d, step %d: %v is missed after %v and %v", seed, step, m, facts.Started, facts.Missed)
				}
				facts.Missed = m
			}
			if !plan.Start.IsZero() {
				if !plan.Start.After(facts.Started) || !plan.Start.After(facts.Missed) || plan.Start.After(clock) {
					t.Fatalf("seed %d, step %d: %v starts after %v and %v", seed, step, plan.Start, facts.Started, facts.Missed)
				}
				if facts.Deadline != nil && clock.Sub(plan.Start) > *facts.Deadline || facts.Paused ||
					facts.Concurrency == cron.Forbid && facts.Running {
					t.Fatalf("seed %d, step %d: %v starts: %+v", seed, step, plan.Start, facts)
				}
				facts.Started = plan.Start
				handled++
			}
			if step%20 == 19 {
				check()
			}
			if !facts.Paused && clock.After(facts.Since) && !clock.Before(facts.Started) && !plan.Next.After(clock) {
				t.Fatalf("seed %d, step %d: the next tick is %v, now %v", seed, step, plan.Next, clock)
			}
		}
	}
}
