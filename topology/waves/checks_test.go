package waves

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func checked(clusters []string, checks ...topology.WaveCheck) topology.Wave {
	w := named("one", clusters...)
	w.Checks = checks
	return w
}

// answers lets a check by HTTP be answered now.
func answers(unmet string, failures int32) func(*Facts) {
	return func(f *Facts) {
		f.Answers = map[string]Answer{"two/7/one/errors": {At: f.Now, Unmet: unmet, Says: "answered 200", Failures: failures}}
	}
}

// runs lets the Job of a check stand like this in a member.
func runs(cluster string, run Run) func(*Facts) {
	return func(f *Facts) {
		if f.Runs == nil {
			f.Runs = map[RunKey]Run{}
		}
		f.Runs[RunKey{cluster, f.Last.Jobs[0].Name}] = run
	}
}

func all(changes ...func(*Facts)) func(*Facts) {
	return func(f *Facts) {
		for _, change := range changes {
			change(f)
		}
	}
}

func TestStoriesOfChecks(t *testing.T) {
	asked := topology.WaveCheck{Name: "errors", HTTP: &topology.WaveHTTP{URL: "http://metrics",
		FailureLimit: new(int32(1))}}
	job := topology.WaveCheck{Name: "smoke", Job: &topology.WaveJob{Template: runtime.RawExtension{Raw: []byte(`{"spec":{"a":1}}`)}}, Patience: "30s"}
	one, two := []string{"east"}, []string{"east", "south"}
	const ten = 10 * time.Second
	tell(t, map[string]story{
		"a check by HTTP": {[]topology.Wave{checked(one, asked)}, []step{
			{"not asked before the pods are there", answers("", 0), 0, 1, "[10 0 0]", "waits until its 10 pods", 0},
			{"an answer of before is none", updated(10, 0, 0), time.Second, 1, "[10 0 0]", `check "errors" has no answer yet`,
				ten},
			{"it does not hold", answers("answered 200: json.errors < 5 is false", 1), time.Second, 1, "[10 0 0]",
				`check "errors" does not hold: answered 200: json.errors < 5 is false, at 2026-03-01T15:00:02Z, for the 1st time in a row (failureLimit 1)`, ten},
			{"time alone fails nothing", nil, time.Hour, 1, "[10 0 0]", "for the 1st time", ten},
			{"it holds", answers("", 0), time.Second, 2, "none", "", 0},
		}},
		"a check by HTTP that fails": {[]topology.Wave{checked(one, asked)}, []step{
			{"", updated(10, 0, 0), 0, 1, "[10 0 0]", "no answer yet", ten},
			{"once", answers("down", 1), 0, 1, "[10 0 0]", "for the 1st time", ten},
			{"and once more", answers("down", 2), 0, 1, "[10 0 0]",
				`failed at 2026-03-01T15:00:00Z: check "errors" does not hold: down`, 0},
			{"for good", answers("", 0), time.Hour, 1, "[10 0 0]", "failed at", 0},
			{"tried again it is asked anew", func(f *Facts) { f.Word = RetryWord("two", 7, f.Last) }, time.Minute, 1, "[10 0 0]",
				"no answer yet", ten},
			{"", answers("", 0), 0, 2, "none", "", 0},
		}},
		"a check by HTTP and another that waits": {[]topology.Wave{checked(one,
			topology.WaveCheck{Name: "x", Expression: "x", Patience: "30s"}, asked)}, []step{
			{"", all(updated(10, 0, 0), func(f *Facts) { f.Check = func(topology.WaveCheck) string { return "too few" } }), 0, 1,
				"[10 0 0]", `check "x" does not hold: too few`, ten},
			{"the other one fails first", answers("down", 2), 0, 1, "[10 0 0]", `failed at 2026-03-01T15:00:00Z: check "errors"`,
				0},
		}},
		"each check has its own patience": {[]topology.Wave{checked(one,
			topology.WaveCheck{Name: "a", Expression: "a", Patience: "30s"},
			topology.WaveCheck{Name: "b", Expression: "b", Patience: "30s"})}, []step{
			{"", all(updated(10, 0, 0), only("a")), 0, 1, "[10 0 0]", `check "a"`, ten},
			{"the other", only("b"), 20 * time.Second, 1, "[10 0 0]", `check "b"`, ten},
			{"has its time", nil, 30 * time.Second, 1, "[10 0 0]", `check "b"`, ten},
			{"", nil, time.Second, 1, "[10 0 0]", `failed at 2026-03-01T15:00:51Z: check "b"`, 0},
		}},
		"a Job": {[]topology.Wave{checked(two, job)}, []step{
			{"not made before the pods are there", nil, 0, 1, "[10 10 0]", "waits until its 20 pods", 0},
			{"", updated(10, 10, 0), 0, 1, "[10 10 0]", `check "smoke" has its Job web-smoke-`, ten},
			{"one member is done", runs("east", Run{Succeeded: true}), time.Hour, 1, "[10 10 0]", "under way in south", ten},
			{"both", runs("south", Run{Succeeded: true}), 0, 2, "none", "", 0},
		}},
		"a Job that fails": {[]topology.Wave{checked(two, job)}, []step{
			{"", updated(10, 10, 0), 0, 1, "[10 10 0]", "under way in east, south", ten},
			{"", runs("south", Run{Failed: true, Says: "no pod of it (BackoffLimitExceeded)"}), 0, 1, "[10 10 0]",
				"failed in south: no pod of it (BackoffLimitExceeded)", 0},
			{"tried again it is another Job", func(f *Facts) { f.Word = RetryWord("two", 7, f.Last) }, time.Minute, 1,
				"[10 10 0]", "under way in east, south", ten},
		}},
		"a Job that a member does not take": {[]topology.Wave{checked(two, job)}, []step{
			{"", updated(10, 10, 0), 0, 1, "[10 10 0]", "under way", ten},
			{"", runs("south", Run{Refused: true, Says: "no spec"}), 0, 1, "[10 10 0]", `south does not take Job web-smoke-`,
				ten},
			{"within its patience", nil, 30 * time.Second, 1, "[10 10 0]", ": no spec", ten},
			{"", nil, time.Second, 1, "[10 10 0]", "failed at", 0},
		}},
		"a Job in a member that is lost": {[]topology.Wave{checked(two, job)}, []step{
			{"", updated(10, 10, 0), 0, 1, "[10 10 0]", "under way in east, south", ten},
			{"", all(runs("east", Run{Succeeded: true}), func(f *Facts) { f.Places[1].Lost = true }), 0, 2, "none", "", 0},
		}},
		"a Job, and a pod fails meanwhile": {[]topology.Wave{checked(one, job)}, []step{
			{"", updated(10, 0, 0), 0, 1, "[10 0 0]", "under way in east", ten},
			{"what it proves is of pods that are gone", all(runs("east", Run{Succeeded: true}), updated(9, 0, 0)), 0, 1,
				"[10 0 0]", "waits until", 0},
			{"so it runs again", updated(10, 0, 0), time.Second, 1, "[10 0 0]", "under way in east", ten},
		}},
	})
}

// only lets one check by expression not hold.
func only(name string) func(*Facts) {
	return func(f *Facts) {
		f.Check = func(c topology.WaveCheck) string {
			if c.Name == name {
				return "no"
			}
			return ""
		}
	}
}

// TestChecksAreTold: what was found of checks is remembered as it changes, and as it stays the same not written again.
func TestChecksAreTold(t *testing.T) {
	asked := topology.WaveCheck{Name: "errors", HTTP: &topology.WaveHTTP{URL: "http://metrics"}}
	f := facts(checked([]string{"east"}, asked))
	f.Rollout.Waves[0].Soak = "1h"
	updated(10, 0, 0)(&f)
	decide := func() Decision {
		d := Decide(f)
		f.Begins, f.Last = false, d.Progress
		return d
	}
	if d := decide(); len(d.Asks) != 1 || d.Asks[0].HTTP != asked.HTTP || len(d.Progress.Checks) != 0 ||
		d.Progress.Unmet != nil {
		t.Fatalf("asked for %v, told %v", d.Asks, d.Progress.Checks)
	}
	f.Now = f.Now.Add(time.Minute)
	answers("", 0)(&f)
	first := decide()
	if c := first.Progress.Checks; len(c) != 1 || !c[0].Holds || !c[0].At.Time.Equal(f.Now) ||
		c[0].Says != "answered 200" {
		t.Fatalf("told %+v", c)
	}
	f.Now = f.Now.Add(time.Minute)
	answers("", 0)(&f)
	if d := decide(); d.Progress.Checks[0].At.Time.Equal(f.Now) {
		t.Error("an answer that says nothing new is told")
	}
	f.Now = f.Now.Add(time.Minute)
	answers("down", 2)(&f)
	d := decide()
	if c := d.Progress.Checks[0]; c.Holds || c.Failures != 2 || !c.At.Time.Equal(f.Now) || !c.Since.Time.Equal(f.Now) ||
		!d.Progress.Unmet.Time.Equal(f.Now) {
		t.Errorf("told %+v, unmet %v", c, d.Progress.Unmet)
	}
	f.Paused = true
	if d := decide(); len(d.Asks) != 0 {
		t.Errorf("asked while it is held: %v", d.Asks)
	}
}

// TestJobNames: names are other ones for each try, and fit into labels whatever the workload and the check are called.
func TestJobNames(t *testing.T) {
	seen := map[string]bool{}
	for _, workload := range []string{"web", "a.b", strings.Repeat("long-", 50)} {
		for _, check := range []string{"smoke", "Ein Test!", "日本", strings.Repeat("x", 63)} {
			for i := range 2 {
				w := walk{Facts: Facts{Workload: workload, Revision: "two"},
					at: metav1.NewTime(start.Add(time.Duration(i) * time.Second)), p: &topology.WaveProgress{Name: "one"}}
				name := w.jobName(&topology.WaveCheck{Name: check, Job: &topology.WaveJob{}})
				if problems := validation.IsDNS1123Label(name); len(problems) > 0 || len(name) > 57 || seen[name] {
					t.Errorf("%s of %s: %s (%d), %v", check, workload, name, len(name), problems)
				}
				seen[name] = true
			}
		}
	}
}

func TestOrdinal(t *testing.T) {
	var got []string
	for _, n := range []int32{1, 2, 3, 4, 11, 12, 13, 21, 101, 111} {
		got = append(got, ordinal(n))
	}
	if want := "[1st 2nd 3rd 4th 11th 12th 13th 21st 101st 111th]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}
