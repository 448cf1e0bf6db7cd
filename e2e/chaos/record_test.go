package main

import (
	"context"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/e2e/kinds"
)

func setAt(version string, generation int64, wrote time.Time) *apps.CloneSet {
	return &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "run", Name: "web", UID: "u", ResourceVersion: version, Generation: generation,
		CreationTimestamp: metav1.NewTime(began),
		ManagedFields: []metav1.ManagedFieldsEntry{{Time: new(metav1.NewTime(began))},
			{Time: new(metav1.NewTime(wrote))}},
	}}
}

func TestLateness(t *testing.T) {
	first, second, untold := setAt("1", 1, began), setAt("2", 2, began.Add(5*time.Second)),
		setAt("3", 2, began.Add(5*time.Second))
	for _, tt := range []struct {
		name          string
		before, after client.Object
		told          time.Duration // after began
		want          time.Duration
	}{
		{"told at once", first, second, 5100 * time.Millisecond, 0},
		{"told within what a time in seconds can say", first, second, 6200 * time.Millisecond, 0},
		{"told late", first, second, 9 * time.Second, 3 * time.Second},
		{"made, and told late", nil, first, 4 * time.Second, 3 * time.Second},
		{"changed without a time", second, untold, time.Hour, 0},
	} {
		s, ok := lateness(tt.before, tt.after, began.Add(tt.told))
		if ok != (tt.want > 0) || ok && s.To.Sub(s.From) != tt.want {
			t.Errorf("%s: %v %t, want %s", tt.name, s, ok, tt.want)
		}
	}
}

// TestAnAnswerIsSeenBeforeItsQuestion is what seed 120 found: the hub's API server was killed, the user changed a
// workload, and what the list had of it was its status, which was written after the placement that answered the change.
func TestAnAnswerIsSeenBeforeItsQuestion(t *testing.T) {
	sets, placements := source{name: "hub/CloneSet", cluster: "hub", kind: kinds.CloneSet()},
		source{name: "hub/placements", cluster: "hub"}
	asks := func(version string, generation int64, replicas int32) *apps.CloneSet {
		cs := setAt(version, generation, began)
		cs.Spec.Replicas = &replicas
		return cs
	}
	answers := func(version string, generation int64, replicas int32) *topology.WorkloadPlacement {
		p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "run", Name: "cloneset-web", UID: "p",
			ResourceVersion: version, Generation: generation}}
		p.Spec = topology.WorkloadPlacementSpec{
			Workload: topology.WorkloadReference{Name: "web"}, Sequence: generation, Replicas: replicas,
			Cells:  []topology.Cell{{Cluster: "east", Replicas: replicas}},
			Limits: []topology.SubsetLimits{{Budget: topology.Budget{Updated: replicas, Unavailable: 1}}},
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
			r.relist(placements, &topology.WorkloadPlacementList{ListMeta: metav1.ListMeta{ResourceVersion: "9"},
				Items: []topology.WorkloadPlacement{*answers("7", 2, tt.replicas)}}, broke)
			r.relist(sets, &apps.CloneSetList{ListMeta: metav1.ListMeta{ResourceVersion: "9"},
				Items: []apps.CloneSet{*asks("8", 2, 8)}}, broke)
		} else {
			r.record(sets, asks("6", 2, 8), false)
			r.record(placements, answers("7", 2, tt.replicas), false)
		}
		if found := judge.Check(r.taken(), nil).Violations; len(found) != tt.want {
			t.Errorf("%s: %d violations, want %d: %v", tt.name, len(found), tt.want, found)
		}
	}
}

// TestGenerationsThatWereNotSeen is what seed 103 found: an API server was killed, a new one answered the watch that
// its history does not go back so far, and the list had a generation whose beginning nobody saw.
func TestGenerationsThatWereNotSeen(t *testing.T) {
	s := source{name: "east/CloneSet", cluster: "east", kind: kinds.CloneSet()}
	broke := began.Add(time.Second)
	for _, tt := range []struct {
		name   string
		broke  time.Time
		before *apps.CloneSet
		want   int
	}{
		{"the first list", time.Time{}, nil, 0},
		{"made meanwhile", broke, nil, 1},
		{"another generation", broke, setAt("1", 6, began), 1},
		{"the same generation", broke, setAt("1", 7, began), 0},
	} {
		r := &recorder{namespace: "run", known: map[string]map[types.UID]client.Object{s.name: {}}}
		if tt.before != nil {
			r.record(s, tt.before, false)
		}
		r.relist(s, &apps.CloneSetList{ListMeta: metav1.ListMeta{ResourceVersion: "9"},
			Items: []apps.CloneSet{*setAt("8", 7, began)}}, tt.broke)
		found := 0
		for _, e := range r.taken() {
			if e.Gap != nil && e.Gap.Cell == "u" && e.Gap.From.Equal(tt.broke) {
				found++
			}
		}
		if found != tt.want {
			t.Errorf("%s: %d times it is said that generations were not seen, want %d\n%s", tt.name, found, tt.want,
				judge.FormatLog(r.taken()))
		}
	}
}

// TestAnAPIServerThatIsKilledOwesWhatItWroteBefore is what seed 213 found on a busy machine: an API server wrote a new
// generation of a CloneSet, which led to a pod, and was killed 1.7 s later, before its watch had told the generation.
func TestAnAPIServerThatIsKilledOwesWhatItWroteBefore(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := apps.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	web, other := setAt("", 4, began), setAt("", 1, began)
	other.Name, other.UID = "other", "o"
	web.ManagedFields = nil // the client of tests wants them whole
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(web).Build()
	stream, watches := watch.NewFake(), 0
	c := interceptor.NewClient(api, interceptor.Funcs{Watch: func(ctx context.Context, _ client.WithWatch,
		_ client.ObjectList,
		_ ...client.ListOption) (watch.Interface, error) {
		switch watches++; watches {
		case 1:
			return stream, nil
		case 2:
			return nil, apierrors.NewResourceExpired("its history is gone")
		default:
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}})
	s := source{name: "south/CloneSet", cluster: "south", client: c, kind: kinds.CloneSet(),
		list: func() client.ObjectList { return &apps.CloneSetList{} }}
	r := &recorder{namespace: "run", known: map[string]map[types.UID]client.Object{s.name: {}}}
	go r.follow(ctx, s)

	until := func(what string, is func(judge.Entry) bool) judge.Entry {
		t.Helper()
		var found judge.Entry
		err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			log := r.taken()
			at := slices.IndexFunc(log, is)
			if at >= 0 {
				found = log[at]
			}
			return at >= 0, nil
		})
		if err != nil {
			t.Fatalf("%s: %v\n%s", what, err, judge.FormatLog(r.taken()))
		}
		return found
	}
	stream.Add(other)
	until("what the watch tells", func(e judge.Entry) bool { return e.Cell != nil && e.Cell.UID == "o" })
	if err := api.Get(ctx, client.ObjectKeyFromObject(web), web); err != nil {
		t.Fatal(err)
	}
	written := time.Now()
	web.Generation = 5
	if err := api.Update(ctx, web); err != nil {
		t.Fatal(err)
	}
	stream.Stop()

	lost := until("a generation that was not seen",
		func(e judge.Entry) bool { return e.Gap != nil && e.Gap.Cell == "u" }).Gap
	if lost.From.After(written) {
		t.Errorf("written at %s, and not seen from %s on", written, lost.From)
	}
}
