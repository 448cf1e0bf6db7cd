package kinds

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

func distribution() *apps.ResourceDistribution {
	d := &apps.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: "pull", Generation: 3}}
	d.Spec.Resource = runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"pull"}}`)}
	d.Spec.Targets.AllNamespaces = true
	return d
}

func TestResourceDistributionsThatAreRead(t *testing.T) {
	d := distribution()
	w, rejection := readResourceDistribution(d)
	if rejection != nil || !w.Ref.ClusterScoped || len(w.Subsets) > 0 || w.NoWaves == "" {
		t.Errorf("%+v, %v", w, rejection)
	}
	d.Spec.Targets.AllNamespaces = false
	if other, _ := readResourceDistribution(d); other.Revision == w.Revision {
		t.Error("a change of the targets changes no revision")
	}
	manifest, err := renderResourceDistribution(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&d.Spec, manifest.Spec); diff != "" {
		t.Errorf("members get another spec: %s", diff)
	}
}

// TestStatusOfResourceDistributions: counters are sums, and the published conditions keep their places.
func TestStatusOfResourceDistributions(t *testing.T) {
	status := func(s apps.ResourceDistributionStatus) []byte {
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	conflict := func(namespaces ...string) []apps.ResourceDistributionCondition {
		return []apps.ResourceDistributionCondition{{Type: apps.ResourceDistributionConflictOccurred,
			Status: metav1.ConditionTrue, FailedNamespaces: namespaces}}
	}
	ready := func(status corev1.ConditionStatus, reason string) []conditions.Condition {
		return []conditions.Condition{{Type: apps.ConditionFederated, Status: corev1.ConditionTrue, Reason: "Placed"},
			{Type: apps.ConditionReady, Status: status, Reason: reason}, {Type: apps.ConditionProgressing}}
	}
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		statuses                   [][]byte
		sum                        Sum
		desired, succeeded, failed int32
		reason, says, conflicts    string
	}{
		"all have it": {
			statuses: [][]byte{status(apps.ResourceDistributionStatus{Desired: 3, Succeeded: 3}),
				status(apps.ResourceDistributionStatus{Desired: 2, Succeeded: 2})},
			sum:     Sum{Conditions: ready(corev1.ConditionTrue, conditions.ReasonAllAvailable)},
			desired: 5, succeeded: 5, reason: "Distributed", says: "all 5 namespaces of 2 members"},
		"nothing is selected": {
			statuses: [][]byte{status(apps.ResourceDistributionStatus{})},
			sum:      Sum{Conditions: ready(corev1.ConditionTrue, conditions.ReasonAllAvailable)},
			reason:   "NoNamespace", says: "no namespace of 1 members"},
		"conflicts": {
			statuses: [][]byte{status(apps.ResourceDistributionStatus{Desired: 3, Succeeded: 1, Failed: 2,
				Conditions: conflict("shop", "bank")}), status(apps.ResourceDistributionStatus{Desired: 1, Failed: 1,
				Conditions: conflict("shop")}), []byte(`[]`)},
			sum: Sum{Conditions: ready(corev1.ConditionFalse, "ConflictOccurred"), Failures: map[string]*conditions.Cause{
				"ConflictOccurred": {Reason: "ConflictOccurred", Message: "east: it is taken"}}},
			desired: 4, succeeded: 1, failed: 3, reason: "ConflictOccurred", conflicts: "bank shop"},
	} {
		t.Run(name, func(t *testing.T) {
			d := distribution()
			sum := tt.sum
			sum.Statuses, sum.ObservedGeneration = tt.statuses, 3
			if !resourceDistributionStatus(d, &sum, began) {
				t.Fatal("the status did not change")
			}
			s := d.Status
			if s.Desired != tt.desired || s.Succeeded != tt.succeeded || s.Failed != tt.failed || s.ObservedGeneration != 3 {
				t.Errorf("%+v", s)
			}
			for i, published := range apps.ResourceDistributionConditions() {
				if s.Conditions[i].Type != published {
					t.Errorf("condition %d is %s, want %s", i, s.Conditions[i].Type, published)
				}
			}
			if got := strings.Join(s.Conditions[4].FailedNamespaces, " "); got != tt.conflicts {
				t.Errorf("conflicts in %q, want %q", got, tt.conflicts)
			}
			last := s.Conditions[len(s.Conditions)-1]
			if string(last.Type) != apps.ConditionReady || last.Reason != tt.reason || !strings.Contains(last.Message, tt.says) {
				t.Errorf("condition %+v, want Ready with the reason %s that says %q", last, tt.reason, tt.says)
			}
			if resourceDistributionStatus(d, &sum, began.Add(time.Hour)) {
				t.Errorf("the same facts changed the status: %s", cmp.Diff(s, d.Status))
			}
		})
	}
}
