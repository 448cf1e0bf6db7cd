package main

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func setAt(version string, generation int64, wrote time.Time) *apps.CloneSet {
	return &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "run", Name: "web", UID: "u", ResourceVersion: version, Generation: generation, CreationTimestamp: metav1.NewTime(dawn),
		ManagedFields: []metav1.ManagedFieldsEntry{{Time: new(metav1.NewTime(dawn))}, {Time: new(metav1.NewTime(wrote))}},
	}}
}

func TestLateness(t *testing.T) {
	first, second, untold := setAt("1", 1, dawn), setAt("2", 2, dawn.Add(5*time.Second)), setAt("3", 2, dawn.Add(5*time.Second))
	for _, tt := range []struct {
		name          string
		before, after client.Object
		told          time.Duration // after dawn
		want          time.Duration
	}{
		{"told at once", first, second, 5100 * time.Millisecond, 0},
		{"told within what a time in seconds can say", first, second, 6200 * time.Millisecond, 0},
		{"told late", first, second, 9 * time.Second, 3 * time.Second},
		{"made, and told late", nil, first, 4 * time.Second, 3 * time.Second},
		{"changed without a time", second, untold, time.Hour, 0},
	} {
		s, ok := lateness(tt.before, tt.after, dawn.Add(tt.told))
		if ok != (tt.want > 0) || ok && s.to.Sub(s.from) != tt.want {
			t.Errorf("%s: %v %t, want %s", tt.name, s, ok, tt.want)
		}
	}
}

// TestAnAnswerIsSeenBeforeItsQuestion is what seed 120 found: the hub's API server was killed, the user changed a workload, and what the
// list had of it was its status, which was written after the placement that answered the change.
func TestAnAnswerIsSeenBeforeItsQuestion(t *testing.T) {
	sets, placements := source{name: "hub/clonesets", cluster: "hub"}, source{name: "hub/placements", cluster: "hub"}
	asks := func(version string, generation int64, replicas int32) *apps.CloneSet {
		cs := setAt(version, generation, dawn)
		cs.Spec.Replicas = &replicas
		return cs
	}
	answers := func(version string, generation int64, replicas int32) *topology.WorkloadPlacement {
		p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "run", Name: "cloneset-web", UID: "p", ResourceVersion: version, Generation: generation}}
		p.Spec = topology.WorkloadPlacementSpec{
			Workload: topology.WorkloadReference{Name: "web"}, Sequence: generation, Replicas: replicas,
			Cells:  []topology.Cell{{Cluster: "east", Replicas: replicas}},
			Limits: []topology.SubsetLimits{{Allowance: topology.Allowance{Update: replicas, Break: 1}}},
		}
		return p
	}
	for _, tt := range []struct {
		name     string
		broke    bool
		replicas int32
		want     int
	}{
		{"the watches broke", true, 8, 0},
		{"the watches did not break, and nobody asks for what is placed", false, 7, 1},
	} {
		r := &recorder{namespace: "run", known: map[string]map[types.UID]client.Object{sets.name: {}, placements.name: {}}}
		r.record(sets, asks("1", 1, 5), false)
		r.record(placements, answers("2", 1, 5), false)
		if tt.broke {
			broke := time.Now()
			r.relist(placements, &topology.WorkloadPlacementList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []topology.WorkloadPlacement{*answers("7", 2, tt.replicas)}}, broke)
			r.relist(sets, &apps.CloneSetList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []apps.CloneSet{*asks("8", 2, 8)}}, broke)
		} else {
			r.record(sets, asks("6", 2, 8), false)
			r.record(placements, answers("7", 2, tt.replicas), false)
		}
		if found := judge(r.taken(), nil).violations; len(found) != tt.want {
			t.Errorf("%s: %d violations, want %d: %v", tt.name, len(found), tt.want, found)
		}
	}
}

// TestGenerationsThatWereNotSeen is what seed 103 found: an API server was killed, a new one answered the watch that its history does
// not go back so far, and the list had a generation whose beginning nobody saw.
func TestGenerationsThatWereNotSeen(t *testing.T) {
	s := source{name: "east/clonesets", cluster: "east"}
	broke := dawn.Add(time.Second)
	for _, tt := range []struct {
		name   string
		broke  time.Time
		before *apps.CloneSet
		want   int
	}{
		{"the first list", time.Time{}, nil, 0},
		{"made meanwhile", broke, nil, 1},
		{"another generation", broke, setAt("1", 6, dawn), 1},
		{"the same generation", broke, setAt("1", 7, dawn), 0},
	} {
		r := &recorder{namespace: "run", known: map[string]map[types.UID]client.Object{s.name: {}}}
		if tt.before != nil {
			r.record(s, tt.before, false)
		}
		r.relist(s, &apps.CloneSetList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []apps.CloneSet{*setAt("8", 7, dawn)}}, tt.broke)
		found := 0
		for _, e := range r.taken() {
			if e.lost != nil && e.lost.cell == "u" && e.lost.from.Equal(tt.broke) {
				found++
			}
		}
		if found != tt.want {
			t.Errorf("%s: %d times it is said that generations were not seen, want %d\n%s", tt.name, found, tt.want, tellAll(r.taken()))
		}
	}
}
