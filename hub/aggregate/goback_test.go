package aggregate

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
)

// canGoBack makes the member of a report one that still has an old revision.
func canGoBack(w *work.Work) *work.Work {
	for i := range w.Status.Report.InUse {
		w.Status.Report.InUse[i].CanGoBack = true
	}
	return w
}

// The partition was raised: 3 of 6 pods are to be updated, 2 of 4 in east and 1 of 2 in west.
func TestRaisedPartition(t *testing.T) {
	const asAsked = "True AllAvailable: 6 of 6 pods are available; the partition asks for 3 to be updated, and they are"
	tests := []struct {
		name                            string
		east, west                      *work.Work
		paused                          bool
		ready, reconciling, progressing string
		done                            bool
	}{
		{"as many are updated as asked for", canGoBack(report(5, 4, 2)), canGoBack(report(4, 2, 1)), false,
			asAsked, "False AllAvailable", "True ProgressPartitionAvailable: CloneSet has been paused due to partition ready",
			true},
		{"both members have one to bring back", canGoBack(report(5, 4, 3)), canGoBack(report(4, 2, 2)), false,
			"False Updating: 2 updated pods are to go back to the old revision",
			"True Updating: 2 updated pods are to go back to the old revision",
			"True CloneSetUpdated: CloneSet is progressing", false},
		{"one goes back, the other one updates", canGoBack(report(5, 4, 3)), canGoBack(report(4, 2, 0)), false,
			"False Updating: 1 updated pods are to go back to the old revision",
			"True Updating: 1 updated pods are to go back to the old revision",
			"True CloneSetUpdated: CloneSet is progressing", false},
		{"all were updated: nothing goes back", report(5, 4, 4), report(4, 2, 2), false,
			asAsked + "; 3 more are updated, and have no old revision to go back to", "False AllAvailable",
			"True CloneSetAvailable: CloneSet is available", true},
		{"paused", canGoBack(report(5, 4, 4)), canGoBack(report(4, 2, 1)), true,
			"False Paused: 2 updated pods are to go back to the old revision; the update is paused", "False Paused",
			"True CloneSetPaused: CloneSet is paused", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cs, f := example()
			f.Observed.Paused = tt.paused
			f.Placement.Spec.Limits[0].Updated = 3
			f.Placement.Spec.Cells[0].Granted.Updated, f.Placement.Spec.Cells[1].Granted.Updated = 2, 1
			f.Works["east"], f.Works["west"] = tt.east, tt.west
			sum := Summarise(f)
			got := cloneSetStatus(cs, f, &sum, time.Unix(100, 0))
			for condition, want := range map[string]string{"Ready": tt.ready, "Reconciling": tt.reconciling,
				"Progressing": tt.progressing} {
				if shown(got, condition) != want {
					t.Errorf("%s is %q, want %q", condition, shown(got, condition), want)
				}
			}
			if sum.Done() != tt.done {
				t.Errorf("done %t", sum.Done())
			}
		})
	}
}

// An updated pod too many in one subset does not stand for one that is missing in another.
func TestSubsetsAreUpdatedEachForItself(t *testing.T) {
	_, f := example()
	f.Key.Kind = apps.UnitedDeploymentKind.Kind
	spec := &f.Placement.Spec
	spec.Limits = []topology.SubsetLimits{{Subset: "a"}, {Subset: "b", Budget: topology.Budget{Updated: 4}}}
	spec.Cells = []topology.Cell{
		{Subset: "a", Cluster: "west", Replicas: 2, Sequence: 4},
		{Subset: "b", Cluster: "east", Replicas: 4, Sequence: 5, Granted: topology.Budget{Updated: 4}},
	}
	ud := &apps.UnitedDeployment{Spec: apps.UnitedDeploymentSpec{Replicas: new(int32(6)),
		Topology: apps.Topology{Subsets: []apps.Subset{{Name: "a"}, {Name: "b"}}}}}
	for _, tt := range []struct {
		name         string
		a, b         int32
		back         bool
		ready, moved string
		updated      metav1.ConditionStatus
	}{
		{"b is not updated, a cannot go back", 2, 0, false, "Updating: 0 of the 4 pods to update are updated",
			"UnitedDeployment is progressing", "False"},
		{"b is not updated, a goes back", 2, 3, true, "Updating: 3 of the 4 pods to update are updated, 2 updated ones are " +
			"to go back to the old revision", "UnitedDeployment is progressing", "False"},
		{"b is updated, a goes back", 1, 4, true, "Updating: 1 updated pods are to go back to the old revision",
			"UnitedDeployment is progressing", "False"},
		{"b is updated, a cannot go back", 2, 4, false,
			"AllAvailable: 6 of 6 pods are available; the partition asks for 4 to be updated, and they are; 2 more are " +
				"updated, and have no old revision to go back to",
			"UnitedDeployment is available", "True"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.Works["west"], f.Works["east"] = report(4, 2, tt.a), report(5, 4, tt.b)
			f.Works["west"].Status.Report.InUse[0].Subset, f.Works["east"].Status.Report.InUse[0].Subset = "a", "b"
			if tt.back {
				canGoBack(f.Works["west"])
			}
			sum := Summarise(f)
			status := unitedDeploymentStatus(ud, f, &sum, time.Unix(100, 0))
			for _, c := range status.Conditions {
				switch said := c.Reason + ": " + c.Message; {
				case string(c.Type) == "Ready" && said != tt.ready,
					string(c.Type) == "Progressing" && c.Message != tt.moved,
					c.Type == apps.SubsetUpdated && string(c.Status) != string(tt.updated):
					t.Errorf("%s is %s %s", c.Type, c.Status, said)
				}
			}
			if status.UpdatedReplicas != tt.a+tt.b {
				t.Errorf("updatedReplicas %d, want all that are: %d", status.UpdatedReplicas, tt.a+tt.b)
			}
		})
	}
}

// TestRolledBack: what members run is not what the workload asks for, so nothing of it counts as updated, and the
// status says why.
func TestRolledBack(t *testing.T) {
	cs, f := example()
	f.Placement.Spec.Wave = &topology.WaveProgress{Number: 1, Of: 2, Name: "canary", From: "new", RolledBack: "bad"}
	f.Outcome.Stalled, f.Outcome.Reason = true, decision.WaveFailed
	sum := Summarise(f)
	got := cloneSetStatus(cs, f, &sum, time.Unix(100, 0))
	if got.UpdatedReplicas != 0 || got.UpdatedReadyReplicas != 0 || got.UpdatedAvailableReplicas != 0 ||
		got.Replicas != 6 || got.UpdateRevision != "web-bad" || got.CurrentRevision != "web-new" {
		t.Errorf("%+v", got)
	}
	if !sum.Done() {
		t.Error("something is on its way")
	}
	if ready := shown(got, "Ready"); !strings.HasPrefix(ready, "False WaveFailed") {
		t.Errorf("Ready is %q", ready)
	}
}
