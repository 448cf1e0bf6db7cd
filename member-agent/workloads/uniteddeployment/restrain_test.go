package uniteddeployment

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
		{why: "as many are missing as may be: the other one waits", unavailable: "1", ready: [2]int32{3, 1},
			want: "a 1 paused, b 1", wantHeld: "a"},
		{why: "more are missing than may be", unavailable: "1", ready: [2]int32{3, 0}, want: "a 1 paused, b 1",
			wantHeld: "a"},
		{why: "one may go still, of two", unavailable: "2", ready: [2]int32{3, 0}, want: "a 1, b 2"},
		{why: "what is not ready may always be updated", unavailable: "2", ready: [2]int32{2, 0}, want: "a 1, b 2",
			wantHeld: "a"},
		{why: "pods that come before others go need not wait", unavailable: "1", surge: "1", ready: [2]int32{3, 1},
			want: "a 0, b 1", wantHeld: "a"},
		{why: "nothing is to be updated", unavailable: "1", ready: [2]int32{3, 1}, updated: [2]int32{3, 3}, want: "a 1, b 1"},
		{why: "with the strategy Fixed each has its own limit", unavailable: "1", ready: [2]int32{3, 1}, want: "a 1, b 1",
			fixed: true},
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
				if s := p.subsets[i].schedulable; s != nil && strings.Contains(s.Message,
					"waits until more pods of other subsets are available") {
					held += p.subsets[i].name
				}
			}
			if got := limits["a"] + ", " + limits["b"]; got != tt.want || held != tt.wantHeld {
				t.Errorf("limits %s, held %q; want %s, %q", got, held, tt.want, tt.wantHeld)
			}
		})
	}
}

// TestRestrainAfterAnotherStrategy: the strategy of updates changes while pods are missing. The children get the new
// one, and nothing of the old one's limits.
func TestRestrainAfterAnotherStrategy(t *testing.T) {
	for _, tt := range []struct {
		why      string
		template string
		change   func(*kruise.SubsetTemplate)
		want     string
	}{
		{"a CloneSet that nobody updates any more", cloneSets, func(t *kruise.SubsetTemplate) {
			t.CloneSetTemplate.Spec.UpdateStrategy = kruise.CloneSetUpdateStrategy{Type: kruise.OnDeleteCloneSetUpdateStrategyType}
		}, `{"type":"OnDelete"`},
		{"a Deployment that is recreated", deployments, func(t *kruise.SubsetTemplate) {
			t.DeploymentTemplate.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}, `{"type":"Recreate"}`},
	} {
		t.Run(tt.why, func(t *testing.T) {
			o := restrained(t, tt.template, [2]int32{3, 1})
			tt.change(&o.ud.Spec.Template)
			p, err := makePlan(o)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range p.change {
				raw, err := json.Marshal(c.object)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(raw), tt.want) {
					t.Errorf("subset %s: %s, want %s", c.live.subset, raw, tt.want)
				}
			}
			if len(p.change) != 2 {
				t.Errorf("%d children are written, want 2", len(p.change))
			}
		})
	}
}

// TestRestrainFromOnDelete: a child that updated nothing by itself gets the rolling update with the limits of all
// subsets.
func TestRestrainFromOnDelete(t *testing.T) {
	o := restrained(t, cloneSets, [2]int32{3, 1})
	for i := range o.children {
		set, _ := o.children[i].object.(*kruise.CloneSet)
		set.Spec.UpdateStrategy.Type = kruise.OnDeleteCloneSetUpdateStrategyType
	}
	p, err := makePlan(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.change {
		set, _ := c.object.(*kruise.CloneSet)
		if paused := set.Spec.UpdateStrategy.RollingUpdate.Paused; paused != (c.live.subset == "a") {
			t.Errorf("subset %s: paused %t", c.live.subset, paused)
		}
	}
}

// TestRestrainStatefulSets: a StatefulSet whose update waits for pods of other subsets updates none, by its partition.
func TestRestrainStatefulSets(t *testing.T) {
	for _, tt := range []struct {
		why  string
		b    int32 // ready pods of b
		want string
	}{
		{"all are ready", 3, "a 0, b 0"},
		{"more are missing than may be", 1, "a 3, b 0"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			o := restrained(t, statefulSets, [2]int32{3, tt.b})
			p, err := makePlan(o)
			if err != nil {
				t.Fatal(err)
			}
			partitions := map[string]int32{}
			for _, c := range p.change {
				set, _ := c.object.(*appsv1.StatefulSet)
				partitions[c.live.subset] = *set.Spec.UpdateStrategy.RollingUpdate.Partition
			}
			if got := fmt.Sprintf("a %d, b %d", partitions["a"], partitions["b"]); got != tt.want {
				t.Errorf("partitions %s, want %s", got, tt.want)
			}
		})
	}
}

// restrained returns a world with the strategy Adaptive and two subsets of 3 pods, of which these are ready; another
// template is on its way to them.
func restrained(t *testing.T, template string, ready [2]int32) *observed {
	t.Helper()
	ud := fixture(t, template, 6, "a[,3]", "b")
	ud.Spec.Topology.ScheduleStrategy.Type = kruise.AdaptiveUnitedDeploymentScheduleStrategyType
	if sets := ud.Spec.Template.CloneSetTemplate; sets != nil {
		sets.Spec.UpdateStrategy.RollingUpdate = &kruise.RollingUpdateCloneSetStrategy{MaxUnavailable: new(intstr.FromInt32(1))}
	}
	o := &observed{ud: ud, revision: "web-1", now: start, pods: map[types.UID][]*corev1.Pod{}}
	for i, name := range []string{"a", "b"} {
		c := asPlanned(t, o, name, 3)
		c.pods.ready, c.pods.available, c.pods.updated = ready[i], ready[i], 0
		o.children = append(o.children, c)
	}
	o.revision = "web-2"
	return o
}
