package main

import (
	"io"
	"testing"
	"time"

	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// began is when the made-up worlds of tests begin.
var began = time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)

func TestAGapOfTicksIsAStall(t *testing.T) {
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	if _, ok := gap(at(0), at(250)); ok {
		t.Error("a tick that is 150 ms late is taken for a stall")
	}
	if s, ok := gap(at(0), at(3100)); !ok || !s.Machine || s.From != at(100) || s.To != at(3100) {
		t.Errorf("3 s without a tick: %v %t", s, ok)
	}
}

func TestATallySaysWhatRunsSay(t *testing.T) {
	for _, tt := range []struct {
		runs     []judge.Outcome
		sabotage string
		want     judge.Outcome
		fails    bool
	}{
		{runs: []judge.Outcome{judge.Held, judge.Held}, want: judge.Held},
		{runs: []judge.Outcome{judge.Held, judge.Unjudged}, want: judge.Held},
		{runs: []judge.Outcome{judge.Held, judge.Unjudged, judge.Broken}, want: judge.Broken, fails: true},
		{runs: []judge.Outcome{judge.Unjudged, judge.Unjudged}, want: judge.Unjudged, fails: true},
		{runs: []judge.Outcome{judge.Held, judge.Unjudged}, sabotage: "freshness", want: judge.Held, fails: true},
		{runs: []judge.Outcome{judge.Unjudged, judge.Broken}, sabotage: "freshness", want: judge.Broken},
	} {
		said := tally{}
		for i, v := range tt.runs {
			said.add(i+1, v)
		}
		err := said.conclude(options{runs: len(tt.runs), sabotage: tt.sabotage}, nil, io.Discard)
		if said.whole() != tt.want || err != nil != tt.fails {
			t.Errorf("%v, sabotage %q: %s, error %v", tt.runs, tt.sabotage, said.whole(), err)
		}
	}
}

func TestSeedsOfADay(t *testing.T) {
	east := time.FixedZone("east", 5*3600)
	for _, tt := range []struct {
		now  time.Time
		want uint64
	}{
		{time.Date(2026, 11, 23, 2, 36, 0, 0, time.UTC), 2026112300},
		{time.Date(2026, 11, 23, 2, 36, 0, 0, east), 2026112200},
	} {
		if got := seedOf(tt.now); got != tt.want {
			t.Errorf("%s: seed %d, want %d", tt.now, got, tt.want)
		}
	}
}
