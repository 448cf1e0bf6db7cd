package failover

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// second is a moment n seconds after a fixed one.
func second(n int) time.Time { return time.Unix(1_000_000+int64(n), 0) }

// fleet reads "a b:0 c:30 d:0! e:0~50 f:0~": name, and since which second it is NotReady; "!" for confirmed by a
// person, "~" for told to be held, with the second at which that ended.
func fleet(text string) []Member {
	var out []Member
	for _, part := range strings.Fields(text) {
		m := Member{}
		part, m.Confirmed = strings.CutSuffix(part, "!")
		part, released, held := strings.Cut(part, "~")
		name, since, silent := strings.Cut(part, ":")
		m.Name, m.NotReady = name, silent
		if silent {
			var n int
			fmt.Sscan(since, &n)
			m.Since = second(n)
		}
		if n := 0; released != "" {
			fmt.Sscan(released, &n)
			m.Released = second(n)
		} else {
			m.Held = held
		}
		out = append(out, m)
	}
	return out
}

func show(members []Member, verdicts []Verdict) string {
	var parts []string
	for i, v := range verdicts {
		text := members[i].Name + ":" + string(v.State)
		if !v.Due.IsZero() {
			text += fmt.Sprintf("@%d", int(v.Due.Sub(second(0))/time.Second))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		reason, members string
		now, sure       int
		want            string
	}{
		{"all are heard of", "a b c", 100, 0, "a:Fine b:Fine c:Fine"},
		{"one is silent, its time has not come", "a:0 b c", 59, 0, "a:Silent@60 b:Fine c:Fine"},
		{"its time has come", "a:0 b c", 60, 0, "a:Lost b:Fine c:Fine"},
		{"a hub that was restarted keeps the deadline", "a:0 b c", 50, 40, "a:Silent@60 b:Fine c:Fine"},
		{"but first listens for a whole grace period", "a:0 b c", 70, 90, "a:Silent@90 b:Fine c:Fine"},
		{"a person's word waits for nothing", "a:0! b c", 1, 40, "a:Lost b:Fine c:Fine"},
		{"a person's word about a member that is back counts for nothing", "a! b c", 1, 0, "a:Fine b:Fine c:Fine"},
		{"another one that fails again and again does not put it off", "a:0 b:300 c", 300, 0, "a:Lost b:Silent@360 c:Fine"},
		{"two of three together", "a:0 b:10 c", 600, 0, "a:Held b:Held c:Fine"},
		{"two of six together are a third", "a:0 b:10 c d e f", 600, 0, "a:Held b:Held c:Fine d:Fine e:Fine f:Fine"},
		{"two of seven are less, and one follows the other", "a:0 b:10 c d e f g", 89, 0,
			"a:Lost b:Silent@90 c:Fine d:Fine e:Fine f:Fine g:Fine"},
		{"far apart they are two failures", "a:0 b:81 c", 600, 0, "a:Lost b:Lost c:Fine"},
		{"one of those that failed together is back: the other is a single failure", "a b:10 c", 600, 0,
			"a:Fine b:Lost c:Fine"},
		{"it was held, and has the whole time from the end of that on", "a b:10~500 c", 559, 0, "a:Fine b:Silent@560 c:Fine"},
		{"and no longer", "a b:10~500 c", 560, 0, "a:Fine b:Lost c:Fine"},
		{"the end of it is not told yet", "a b:10~ c", 600, 0, "a:Fine b:Silent@660 c:Fine"},
		{"it was held in an earlier loss", "a b:10~5 c", 70, 0, "a:Fine b:Lost c:Fine"},
		{"one that was held long waits for none that failed after it", "a:10~500 b:450 c d e f g", 515, 0,
			"a:Silent@560 b:Lost c:Fine d:Fine e:Fine f:Fine g:Fine"},
		{"one of those that failed together is confirmed: the other one is held all the same", "a:0! b:10 c", 600, 0,
			"a:Lost b:Held c:Fine"},
		{"the only member", "a:0", 60, 0, "a:Lost"},
		{"both of two", "a:0 b:0", 600, 0, "a:Held b:Held"},
		{"three that follow each other within the window, of nine", "a:0 b:40 c:80 d e f g h i", 600, 0,
			"a:Held b:Held c:Held d:Fine e:Fine f:Fine g:Fine h:Fine i:Fine"},
		{"one that failed long before is not held with them", "z:0 a:600 b:640 c:680 d e f g h", 2000, 0,
			"z:Lost a:Held b:Held c:Held d:Fine e:Fine f:Fine g:Fine h:Fine"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			members := fleet(tc.members)
			for i := range members {
				if !members[i].NotReady {
					members[i].Since = second(tc.now) // one that just joined, or is back: it puts off nobody
				}
			}
			if got := show(members, Judge(members, time.Minute, second(tc.now), second(tc.sure))); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestJudgeHolds checks over random fleets what is promised: the order of the members does not matter, a third together
// is never lost without a person, and nothing is lost before its time or before the hub is sure.
func TestJudgeHolds(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 3))
		var members []Member
		for i := range 1 + r.IntN(12) {
			m := Member{Name: fmt.Sprintf("m%02d", i), NotReady: r.IntN(3) == 0, Confirmed: r.IntN(12) == 0}
			if m.NotReady {
				m.Since = second(r.IntN(400))
			}
			members = append(members, m)
		}
		after, sure := time.Duration(20+r.IntN(100))*time.Second, second(r.IntN(300))
		failed := func(m *Member, now time.Time) bool { return m.NotReady && !m.Since.After(now) }
		for at := 400; at < 1600; at += 5 {
			now := second(at)
			verdicts := Judge(members, after, now, sure)
			again := slices.Clone(members)
			slices.Reverse(again)
			reversed := Judge(again, after, now, sure)
			slices.Reverse(reversed)
			if !slices.Equal(verdicts, reversed) {
				t.Fatalf("seed %d: the order of the members matters: %s and %s", seed, show(members, verdicts),
					show(members, reversed))
			}
			for i, v := range verdicts {
				m := &members[i]
				if v.State == Fine != !m.NotReady {
					t.Fatalf("seed %d: %s is %s", seed, m.Name, v.State)
				}
				if v.State != Lost || m.Confirmed {
					continue
				}
				if now.Before(m.Since.Add(after)) || now.Before(sure) {
					t.Fatalf("seed %d: %s is lost too early", seed, m.Name)
				}
				beside := 0
				for j := range members {
					if o := &members[j]; failed(o, now) && o.Since.Sub(m.Since).Abs() <= Window/2 {
						beside++
					}
				}
				if beside >= heldLeast && beside*heldPart >= len(members) {
					t.Fatalf("seed %d: %s is lost with %d of %d", seed, m.Name, beside, len(members))
				}
			}
		}
	}
}
