package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// past is a history that a test makes up. Each step is one version, one second after the one before.
type past struct {
	steps []occurrence
	// lag is by how many seconds the controller learns late.
	lag int
}

var dawn = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func (p *past) add(o occurrence) *past {
	o.version = uint64(len(p.steps) + 1)
	o.at = dawn.Add(time.Duration(o.version) * time.Second)
	o.asked = o.at
	p.steps = append(p.steps, o)
	return p
}

// spec is a new version of the CloneSet's spec, which the controller acknowledges up to observed.
func (p *past) spec(generation int64, replicas, maxUnavailable, maxSurge int32, observed int64) *past {
	return p.add(occurrence{set: &setState{uid: "set", name: "set", observed: observed,
		spec: spec{generation: generation, replicas: replicas, maxUnavailable: maxUnavailable, maxSurge: maxSurge}}})
}

func (p *past) pod(name string, active, available bool, who cause) *past {
	return p.add(occurrence{cause: who, pod: &podState{uid: types.UID(name), owner: "set", name: name, active: active,
		available: available, how: "deleted"}})
}

// pods creates available pods 1 … n.
func (p *past) pods(n int) *past {
	for i := range n {
		p.pod(fmt.Sprint(i+1), true, false, "").pod(fmt.Sprint(i+1), true, true, "")
	}
	return p
}

// rest lets time pass.
func (p *past) rest() *past {
	for range 5 {
		p.add(occurrence{pod: &podState{uid: "other", owner: "nobody"}})
	}
	return p
}

func (p *past) take(who cause, names ...string) *past {
	for _, name := range names {
		p.pod(name, false, false, who)
	}
	return p
}

func (p *past) check() []violation {
	c := newChecker(func(version uint64, by time.Time) bool {
		return !dawn.Add(time.Duration(int(version)+p.lag) * time.Second).After(by)
	})
	for _, o := range p.steps {
		c.take(o)
	}
	return c.violations
}

func TestCheckerKnowsGoodFromBad(t *testing.T) {
	tests := []struct {
		name string
		past *past
		want []string
	}{
		{"as many as maxUnavailable", new(past).spec(1, 5, 2, 0, 1).pods(5).rest().take(byUs, "1", "2"), nil},
		{"one more than maxUnavailable", new(past).spec(1, 5, 2, 0, 1).pods(5).rest().take(byUs, "1", "2", "3"),
			[]string{"made pod 3 unavailable: 2 are available"}},
		{"surge pods make room", new(past).spec(1, 5, 0, 2, 1).pods(7).rest().take(byUs, "1", "2"), nil},
		{"surge pods make no more room than there is", new(past).spec(1, 5, 0, 1, 1).pods(6).rest().take(byUs, "1", "2"),
			[]string{"made pod 2 unavailable: 4 are available"}},
		{"what the user took, seen long ago, counts", new(past).spec(1, 5, 2, 0, 1).pods(5).take(byUser, "1",
			"2").rest().take(byUs, "3"), []string{"made pod 3 unavailable: 2 are available"}},
		{"what a pod did itself, seen long ago, counts",
			new(past).spec(1, 5, 1, 0, 1).pods(5).take(byItself, "1").rest().take(byUs, "2"),
			[]string{"made pod 2 unavailable: 3 are available"}},
		{"what the user took just now does not", new(past).spec(1, 5, 1, 0, 1).pods(5).rest().take(byUser, "1").take(byUs,
			"2"), nil},
		{"nor what no watch has told yet", (&past{lag: 30}).spec(1, 5, 1, 0,
			1).pods(5).rest().rest().rest().rest().rest().rest().rest().take(byUser, "1").rest().take(byUs, "2"), nil},
		{"a pod that came back counts no more", new(past).spec(1, 5, 1, 0, 1).pods(5).take(byItself, "1").pod("1", true, true,
			"").rest().take(byUs, "2"), nil},
		{"a pod that became available just now may be taken as one that is not",
			new(past).spec(1, 2, 0, 1, 1).pods(2).take(byUs, "2"), nil},
		{"scaling in frees pods", new(past).spec(1, 5, 1, 0, 1).pods(5).rest().spec(2, 2, 1, 0, 1).take(byUs, "1", "2", "3",
			"4"), nil},
		{"a lower limit holds only from its acknowledgement on",
			new(past).spec(1, 5, 3, 0, 1).pods(5).rest().spec(2, 5, 1, 0, 1).take(byUs, "1", "2", "3"), nil},
		{"a lower limit holds from its acknowledgement on",
			new(past).spec(1, 5, 3, 0, 1).pods(5).rest().spec(2, 5, 1, 0, 2).take(byUs, "1", "2"),
			[]string{"made pod 2 unavailable: 3 are available"}},
		{"more replicas make the pods of before precious, once acknowledged",
			new(past).spec(1, 3, 1, 0, 1).pods(3).rest().spec(2, 9, 1, 0, 2).take(byUs, "1"),
			[]string{"made pod 1 unavailable: 2 are available"}},
		{"two specs are not mixed", new(past).spec(1, 9, 4, 0, 1).pods(9).rest().spec(2, 7, 0, 0, 1).take(byUs, "1", "2", "3",
			"4", "5"), []string{"made pod 5 unavailable: 4 are available"}},
		{"pods up to replicas and surge", new(past).spec(1, 3, 0, 2, 1).pods(5), nil},
		{"a pod too many", new(past).spec(1, 3, 0, 2, 1).pods(6), []string{"created pod 6: 6 pods then"}},
		{"a pod too many for what is acknowledged", new(past).spec(1, 3, 0, 2, 1).pods(3).spec(2, 3, 0, 0, 2).pod("4", true,
			false, ""), []string{"created pod 4: 4 pods then"}},
		{"a pod in the place of one that goes", new(past).spec(1, 3, 1, 0, 1).pods(3).rest().take(byUs, "1").pod("4", true,
			false, ""), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := test.past.check()
			for i, want := range test.want {
				if i < len(got) && !strings.HasPrefix(got[i].what, want) {
					t.Errorf("violation %q, want %q", got[i].what, want)
				}
			}
			if len(got) != len(test.want) {
				t.Errorf("%d violations, want %d: %v", len(got), len(test.want), got)
			}
		})
	}
}

func TestAViolationTellsItsStory(t *testing.T) {
	got := new(past).spec(1, 2, 0, 0, 1).pods(2).rest().take(byUs, "1").check()
	if len(got) != 1 {
		t.Fatalf("%d violations, want 1", len(got))
	}
	for _, want := range []string{"CloneSet set", "pod 1 available", "made unavailable by our controller: deleted",
		"in force, generation 1: replicas 2, maxUnavailable 0, maxSurge 0"} {
		if text := got[0].String(); !strings.Contains(text, want) {
			t.Errorf("the story lacks %q:\n%s", want, text)
		}
	}
}

func TestDeliveries(t *testing.T) {
	at := func(seconds int) time.Time { return dawn.Add(time.Duration(seconds) * time.Second) }
	d := &deliveries{}
	d.add(10, at(1))
	d.add(9, at(2)) // a list from a cache that is behind
	d.add(20, at(3))
	d.reset(at(5))
	d.add(30, at(7))
	for _, test := range []struct {
		version uint64
		by      int
		want    bool
	}{{10, 0, false}, {10, 1, true}, {20, 2, false}, {20, 4, true}, {20, 5, false}, {20, 6, false}, {20, 7, true},
		{31, 9, false}} {
		if got := d.informed(test.version, at(test.by)); got != test.want {
			t.Errorf("informed of %d after %d s: %t, want %t", test.version, test.by, got, test.want)
		}
	}
}

func TestAsks(t *testing.T) {
	at := func(seconds int) time.Time { return dawn.Add(time.Duration(seconds) * time.Second) }
	a := newAsks()
	a.add("p", at(1), false) // refused
	a.add("p", at(5), true)
	a.add("p", at(6), true)
	a.add("p", at(7), false)
	for _, test := range []struct {
		pod        string
		done, want int
	}{{"p", 0, 0}, {"p", 2, 1}, {"p", 7, 5}, {"p", 9, 5}, {"q", 9, 9}} {
		if got := a.first(test.pod, at(test.done)); !got.Equal(at(test.want)) {
			t.Errorf("%s carried out after %d s was asked for at %s, want after %d s", test.pod, test.done, got, test.want)
		}
	}
}
