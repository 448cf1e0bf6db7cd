package decision

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/lending"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// settleSteps lets members carry out their orders until nothing changes.
func settleSteps(t *testing.T, f *Facts) Decision {
	t.Helper()
	d := planOf(t, *f)
	for range 40 {
		carryOut(f, &d)
		before := shares(&d)
		if d = planOf(t, *f); shares(&d) == before {
			return d
		}
	}
	t.Fatalf("no rest: %s", shares(&d))
	return d
}

// promoteStep is what flotilla rollout promote does.
func promoteStep(f *Facts, d *Decision) {
	f.Word = waves.ApproveWord(d.Spec.Revision, d.Spec.RevisionSequence, d.Spec.Wave)
}

// TestStepsOfStatefulSets shows that an update stops at each step, with the highest ordinals of all members updated.
func TestStepsOfStatefulSets(t *testing.T) {
	set := statefulSet(6, func(set *apps.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateStatefulSetStrategy{
			MaxUnavailable: new(intstr.FromInt32(2))}
	})
	f := identities(t, set)
	f.Kind.Template = nil // revisions are names here
	f.Members, f.Now = flags("east west"), time.Date(2026, 3, 1, 15, 0, 0, 0, time.UTC)
	f.Rollout.Steps = []topology.RolloutStep{{Partition: intstr.FromString("80%")}, {Partition: intstr.FromInt32(2)}}
	d := settleSteps(t, &f)
	if d.Spec.Wave != nil {
		t.Fatalf("the first template goes in steps: %+v", d.Spec.Wave)
	}
	f.Workload.Revision = "two"
	d = settleSteps(t, &f)
	if got := shares(&d); got != "east:0 west:1" || !strings.Contains(d.Wave, "step 1 of 2 (partition 80%)") ||
		!strings.Contains(d.Wave, "flotilla rollout promote") || d.Spec.PreviousTemplate != nil && d.Spec.Wave.From == "" {
		t.Fatalf("step 1: %s, %q", got, d.Wave)
	}
	promoteStep(&f, &d)
	d = settleSteps(t, &f)
	if got := shares(&d); got != "east:1 west:3" || !strings.Contains(d.Wave, "step 2 of 2 (partition 2)") {
		t.Fatalf("step 2: %s, %q", got, d.Wave)
	}
	promoteStep(&f, &d)
	d = settleSteps(t, &f)
	if got := shares(&d); got != "east:3 west:3" || d.Wave != "" || d.Spec.Wave.Number != 3 {
		t.Fatalf("after the steps: %s, %q, %+v", got, d.Wave, d.Spec.Wave)
	}
	f.Workload.Revision = "three"
	d = settleSteps(t, &f)
	if got := shares(&d); got != "east:0 west:1" || d.Spec.Wave.Number != 1 {
		t.Fatalf("a new template begins at step 1: %s, %+v", got, d.Spec.Wave)
	}
	f.Workload.Revision = "two"
	d = settleSteps(t, &f)
	if got := shares(&d); got != "east:3 west:3" || d.Spec.Wave != nil {
		t.Fatalf("undone, all go back at once: %s, %+v", got, d.Spec.Wave)
	}
}

// TestStepsOfCloneSets shows that the larger partition counts.
func TestStepsOfCloneSets(t *testing.T) {
	f := Facts{
		Workload: open(9), Members: members("east south west"), Now: time.Date(2026, 3, 1, 15, 0, 0, 0, time.UTC),
	}
	f.Rollout.Steps = []topology.RolloutStep{{Partition: intstr.FromInt32(6)}, {Partition: intstr.FromInt32(3)}}
	settleSteps(t, &f)
	f.Workload.Revision = "two"
	d := settleSteps(t, &f)
	if updatedOf(&d) != 3 {
		t.Fatalf("step 1: %s, %q", shares(&d), d.Wave)
	}
	limits := f.Workload.Subsets[0].Amounts
	partition := limits(9)
	partition.Updated = 4
	promoteStep(&f, &d)
	f.Workload.Subsets[0].Amounts = func(int32) lending.Amounts { return partition }
	if d = settleSteps(t, &f); updatedOf(&d) != 4 || !strings.Contains(d.Wave, "the partition lets no more pods") {
		t.Fatalf("step 2 with a partition of 5: %s, %q", shares(&d), d.Wave)
	}
	f.Workload.Subsets[0].Amounts = limits
	if d = settleSteps(t, &f); updatedOf(&d) != 6 || !strings.Contains(d.Wave, "flotilla rollout promote") {
		t.Fatalf("step 2: %s, %q", shares(&d), d.Wave)
	}
	f.Rollout = topology.Rollout{}
	if d = settleSteps(t, &f); updatedOf(&d) != 9 || d.Wave != "" {
		t.Fatalf("the policy has no steps any more: %s, %q", shares(&d), d.Wave)
	}
}

func updatedOf(d *Decision) (n int32) {
	for i := range d.Spec.Cells {
		n += d.Spec.Cells[i].Granted.Updated
	}
	return n
}
