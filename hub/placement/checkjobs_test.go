package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// TestRunsOf: what members tell of the Jobs of checks, whatever they tell.
func TestRunsOf(t *testing.T) {
	placed := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{UID: "p"}}
	for name, tt := range map[string]struct {
		applied, status string
		want            waves.Run
	}{
		"nothing yet":      {"", "", waves.Run{}},
		"under way":        {"True", `{"active":1}`, waves.Run{}},
		"about to succeed": {"True", `{"conditions":[{"type":"SuccessCriteriaMet","status":"True"}]}`, waves.Run{}},
		"done":             {"True", `{"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}`, waves.Run{Succeeded: true}},
		"failed":           {"True", `{"conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","message":"too often"}]}`, waves.Run{Failed: true, Says: "too often (BackoffLimitExceeded)"}},
		"failed silently": {"True", `{"conditions":[{"type":"Failed","status":"True"}]}`,
			waves.Run{Failed: true, Says: "its pods did not succeed (Failed)"}},
		"not failed": {"True", `{"conditions":[{"type":"Failed","status":"False"}]}`, waves.Run{}},
		"refused":    {"False", "", waves.Run{Refused: true, Says: "no spec (AppliedFailed)"}},
		"nonsense":   {"True", `{"conditions":7}`, waves.Run{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := work.Work{ObjectMeta: metav1.ObjectMeta{
				Namespace: "karmada-es-east", Labels: map[string]string{topology.LabelPlacement: "p"},
				Annotations: map[string]string{topology.AnnotationCheck: "smoke", topology.AnnotationJob: "web-1"},
			}}
			if tt.applied != "" {
				w.Status.Conditions = []metav1.Condition{{Type: work.ConditionApplied, Status: metav1.ConditionStatus(tt.applied),
					Reason: work.ReasonApplyFailed, Message: "no spec"}}
			}
			if tt.status != "" {
				w.Status.ManifestStatuses = []work.ManifestStatus{{Status: &runtime.RawExtension{Raw: []byte(tt.status)}}}
			}
			want := map[waves.RunKey]waves.Run{{Cluster: "east", Job: "web-1"}: tt.want}
			if diff := cmp.Diff(want, runsOf([]work.Work{w}, placed)); diff != "" {
				t.Error(diff)
			}
			if got := runsOf([]work.Work{w}, &topology.WorkloadPlacement{}); len(got) != 0 {
				t.Errorf("what another placement had counts: %v", got)
			}
		})
	}
}
