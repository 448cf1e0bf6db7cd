package tree

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// TestCase3TreeSaysWhatADeletedWorkloadWaitsFor: first by its metadata, then by its status; and which members still
// have it.
func TestCase3TreeSaysWhatADeletedWorkloadWaitsFor(t *testing.T) {
	for name, tc := range map[string]struct {
		conditions []apps.CloneSetCondition
		placed     bool
		says       string
	}{
		"status of before": {[]apps.CloneSetCondition{{Type: "Ready", Status: "True", Reason: "AllAvailable"}}, true,
			"waits for the finalizer example.com/guard"},
		"told": {[]apps.CloneSetCondition{{Type: "Stalled", Status: "True", Message: "correct it"},
			{Type: "Ready", Status: "False", Reason: "Deleting", Message: "nothing is left of it"}}, true,
			"nothing is left of it"},
		"never placed": {nil, false, "waits for the finalizer example.com/guard"},
	} {
		t.Run(name, func(t *testing.T) {
			f := example()
			set := cloneSet("api")
			set.Status.Conditions = tc.conditions
			set.Finalizers, set.DeletionTimestamp = []string{"example.com/guard"}, new(metav1.NewTime(time.Unix(1, 0)))
			f.Workloads[0], f.Workloads = set, f.Workloads[:1]
			if !tc.placed {
				f.Placements = nil
			}
			f.Works[0].DeletionTimestamp = set.DeletionTimestamp
			tree := Build(f)
			var out strings.Builder
			if err := Write(&out, tree); err != nil {
				t.Fatal(err)
			}
			if !tree.Workloads[0].Deleting || !strings.Contains(out.String(), tc.says) ||
				tc.placed != strings.Contains(out.String(), "being deleted in the member") {
				t.Errorf("got\n%s", out.String())
			}
			if strings.Contains(out.String(), "not placed yet") {
				t.Errorf("a deleted workload is said to wait for a place:\n%s", out.String())
			}
		})
	}
}
