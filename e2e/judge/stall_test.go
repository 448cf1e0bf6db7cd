package judge

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func second(n int) time.Time { return dawn.Add(time.Duration(n) * time.Second) }

func stood(seconds ...int) (out []Stall) {
	for i := 0; i+1 < len(seconds); i += 2 {
		out = append(out, Stall{From: second(seconds[i]), To: second(seconds[i+1])})
	}
	return out
}

func TestStalls(t *testing.T) {
	s := Merge(stood(20, 23, 10, 12, 11, 14, 14, 15, 30, 30))
	if want := fmt.Sprint(Merge(stood(10, 15, 20, 23))); fmt.Sprint(s) != want {
		t.Fatalf("merged %v, want %v", s, want)
	}
	for _, tt := range []struct {
		name      string
		got, want any
	}{
		{"none of it", s.Within(second(0), second(10)), time.Duration(0)},
		{"parts of both", s.Within(second(12), second(21)), 4 * time.Second},
		{"before, without a stall", s.before(second(9), 5*time.Second), second(4)},
		{"before, from inside of one", s.before(second(12), 5*time.Second), second(5)},
		{"before, past both", s.before(second(24), 7*time.Second), second(9)},
		{"before, up to one", s.before(second(20), 5*time.Second), second(15)},
		{"after, without a stall", s.after(second(23), 5*time.Second), second(28)},
		{"after, from inside of one", s.after(second(12), 5*time.Second), second(20)},
		{"after, past both", s.after(second(9), 7*time.Second), second(24)},
		{"no stall at all", Stalls(nil).after(second(9), time.Second), second(10)},
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
		var all []Stall
		for range draw.IntN(6) {
			from := draw.IntN(60)
			all = append(all, stood(from, from+draw.IntN(9))...)
		}
		s, at, d := Merge(all), second(draw.IntN(70)), time.Duration(draw.IntN(30))*time.Second
		for _, span := range [][2]time.Time{{s.before(at, d), at}, {at, s.after(at, d)}} {
			if ran := span[1].Sub(span[0]) - s.Within(span[0], span[1]); ran != d {
				t.Fatalf("%v from %s on: %s without stalls, want %s (%v)", s, at, ran, d, span)
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	of := func(rules ...string) (out []Violation) {
		for _, rule := range rules {
			out = append(out, Violation{Rule: rule})
		}
		return out
	}
	for _, tt := range []struct {
		name  string
		found []Violation
		stood time.Duration
		want  Outcome
	}{
		{"nothing found", nil, 3 * time.Second, Held},
		{"something found", of(ruleGlobal), 15 * time.Second, Broken},
		{"something found, but the machine stood", of(ruleGlobal, ruleCell, RuleRest, ruleLease), 16 * time.Second, Unjudged},
		{"nothing found, but the machine stood", nil, 16 * time.Second, Unjudged},
		{"a sum that is wrong on any machine", of(ruleGlobal, ruleSum), 50 * time.Second, Broken},
		{"a crash", of(RuleCrash), 50 * time.Second, Broken},
	} {
		if got := Decide(tt.found, tt.stood, time.Minute); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
