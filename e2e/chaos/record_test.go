package main

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
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
