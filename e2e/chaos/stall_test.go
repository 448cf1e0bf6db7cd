package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

func second(n int) time.Time { return dawn.Add(time.Duration(n) * time.Second) }

func stood(seconds ...int) (out []stall) {
	for i := 0; i+1 < len(seconds); i += 2 {
		out = append(out, stall{from: second(seconds[i]), to: second(seconds[i+1])})
	}
	return out
}

func TestStalls(t *testing.T) {
	s := merged(stood(20, 23, 10, 12, 11, 14, 14, 15, 30, 30))
	if want := fmt.Sprint(merged(stood(10, 15, 20, 23))); fmt.Sprint(s) != want {
		t.Fatalf("merged %v, want %v", s, want)
	}
	for _, tt := range []struct {
		name      string
		got, want any
	}{
		{"none of it", s.within(second(0), second(10)), time.Duration(0)},
		{"parts of both", s.within(second(12), second(21)), 4 * time.Second},
		{"before, without a stall", s.before(second(9), 5*time.Second), second(4)},
		{"before, from inside of one", s.before(second(12), 5*time.Second), second(5)},
		{"before, past both", s.before(second(24), 7*time.Second), second(9)},
		{"before, up to one", s.before(second(20), 5*time.Second), second(15)},
		{"after, without a stall", s.after(second(23), 5*time.Second), second(28)},
		{"after, from inside of one", s.after(second(12), 5*time.Second), second(20)},
		{"after, past both", s.after(second(9), 7*time.Second), second(24)},
		{"no stall at all", stalls(nil).after(second(9), time.Second), second(10)},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}

// TestStallsAddUp holds before and after against within, for stalls that are drawn.
func TestStallsAddUp(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		var all []stall
		for range draw.IntN(6) {
			from := draw.IntN(60)
			all = append(all, stood(from, from+draw.IntN(9))...)
		}
		s, at, d := merged(all), second(draw.IntN(70)), time.Duration(draw.IntN(30))*time.Second
		for _, span := range [][2]time.Time{{s.before(at, d), at}, {at, s.after(at, d)}} {
			if ran := span[1].Sub(span[0]) - s.within(span[0], span[1]); ran != d {
				t.Fatalf("%v from %s on: %s without stalls, want %s (%v)", s, at, ran, d, span)
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	of := func(rules ...string) (out []violation) {
		for _, rule := range rules {
			out = append(out, violation{rule: rule})
		}
		return out
	}
	for _, tt := range []struct {
		name  string
		found []violation
		stood time.Duration
		want  verdict
	}{
		{"nothing found", nil, 3 * time.Second, held},
		{"something found", of(ruleGlobal), 15 * time.Second, broken},
		{"something found, but the machine stood", of(ruleGlobal, ruleCell, ruleRest, ruleLease), 16 * time.Second, unjudged},
		{"nothing found, but the machine stood", nil, 16 * time.Second, unjudged},
		{"a sum that is wrong on any machine", of(ruleGlobal, ruleSum), 50 * time.Second, broken},
		{"a crash", of(ruleCrash), 50 * time.Second, broken},
	} {
		if got := decide(tt.found, tt.stood, time.Minute); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestAGapOfTicksIsAStall(t *testing.T) {
	at := func(ms int) time.Time { return dawn.Add(time.Duration(ms) * time.Millisecond) }
	if _, ok := gap(at(0), at(250)); ok {
		t.Error("a tick that is 150 ms late is taken for a stall")
	}
	if s, ok := gap(at(0), at(3100)); !ok || !s.machine || s.from != at(100) || s.to != at(3100) {
		t.Errorf("3 s without a tick: %v %t", s, ok)
	}
}

func TestATallySaysWhatRunsSay(t *testing.T) {
	for _, tt := range []struct {
		runs     []verdict
		sabotage string
		want     verdict
		fails    bool
	}{
		{runs: []verdict{held, held}, want: held},
		{runs: []verdict{held, unjudged}, want: held},
		{runs: []verdict{held, unjudged, broken}, want: broken, fails: true},
		{runs: []verdict{unjudged, unjudged}, want: unjudged, fails: true},
		{runs: []verdict{held, unjudged}, sabotage: "freshness", want: held, fails: true},
		{runs: []verdict{unjudged, broken}, sabotage: "freshness", want: broken},
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
