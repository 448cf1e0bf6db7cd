package uniteddeployment

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// TestRestrain: what an update may take down in a subset while pods of another one are missing. Each has 3 pods.
func TestRestrain(t *testing.T) {
	for _, tt := range []struct {
		why         string
		unavailable string
		surge       string
		ready       [2]int32 // of the 3 pods that each subset has
		updated     [2]int32
		want        string // maxUnavailable of a and b, and whether they are paused
		wantHeld    string
		fixed       bool
	}{
		{why: "all are ready: each has its own limit", unavailable: "1", ready: [2]int32{3, 3}, want: "a 1, b 1"},
		{why: "one is missing, of two that may be", unavailable: "1", ready: [2]int32{3, 2}, want: "a 1, b 1"},
		{why: "as many are missing as may be: the other one waits", unavailable: "1", ready: [2]int32{3, 1}, want: "a 1 paused, b 1", wantHeld: "a"},
		{why: "more are missing than may be", unavailable: "1", ready: [2]int32{3, 0}, want: "a 1 paused, b 1", wantHeld: "a"},
		{why: "one may go still, of two", unavailable: "2", ready: [2]int32{3, 0}, want: "a 1, b 2"},
		{why: "what is not ready may always be updated", unavailable: "2", ready: [2]int32{2, 0}, want: "a 1, b 2", wantHeld: "a"},
		{why: "pods that come before others go need not wait", unavailable: "1", surge: "1", ready: [2]int32{3, 1}, want: "a 0, b 1", wantHeld: "a"},
		{why: "nothing is to be updated", unavailable: "1", ready: [2]int32{3, 1}, updated: [2]int32{3, 3}, want: "a 1, b 1"},
		{why: "with the strategy Fixed each has its own limit", unavailable: "1", ready: [2]int32{3, 1}, want: "a 1, b 1", fixed: true},
	} {
		t.Run(tt.why, func(t *testing.T) {
			ud := fixture(t, cloneSets, 6, "a[,3]", "b")
			if !tt.fixed {
				ud.Spec.Topology.ScheduleStrategy.Type = kruise.AdaptiveUnitedDeploymentScheduleStrategyType
			}
			rolling := &kruise.RollingUpdateCloneSetStrategy{MaxUnavailable: new(intstr.Parse(tt.unavailable))}
			if tt.surge != "" {
				rolling.MaxSurge = new(intstr.Parse(tt.surge))
			}
			ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.RollingUpdate = rolling
			o := &observed{ud: ud, revision: "web-1", now: start}
			for i, name := range []string{"a", "b"} {
				c := asPlanned(t, o, name, 3)
				c.pods.ready, c.pods.available, c.pods.updated = tt.ready[i], tt.ready[i], tt.updated[i]
				o.children = append(o.children, c)
			}
			p, err := makePlan(o)
			if err != nil {
				t.Fatal(err)
			}
			limits, held := map[string]string{"a": "a " + tt.unavailable, "b": "b " + tt.unavailable}, ""
			for _, c := range p.change {
				set, _ := c.object.(*kruise.CloneSet)
				limits[c.live.subset] = fmt.Sprintf("%s %s", c.live.subset, set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable)
				if set.Spec.UpdateStrategy.RollingUpdate.Paused {
					limits[c.live.subset] += " paused"
				}
			}
			for i := range p.subsets {
				if s := p.subsets[i].schedulable; s != nil && strings.Contains(s.Message, "waits until more pods of other subsets are available") {
					held += p.subsets[i].name
				}
			}
			if got := limits["a"] + ", " + limits["b"]; got != tt.want || held != tt.wantHeld {
				t.Errorf("limits %s, held %q; want %s, %q", got, held, tt.want, tt.wantHeld)
			}
		})
	}
}
