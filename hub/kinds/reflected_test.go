package kinds

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// TestReflectedReport reads what agents of Karmada reflect: an order counts as answered once its number stands in the
// object and the controller there has seen it.
func TestReflectedReport(t *testing.T) {
	const zones = `{"metadata":{"annotations":{"topology.flotilla.dev/zones":"{\"a\":3}"}},"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","spec":{"replicas":3}}`
	seen := topology.SpreadSeen(map[string]string{topology.AnnotationZones: `{"a":3}`})
	for _, test := range []struct {
		name, kind, manifest, status string
		none                         bool
		sequence                     int64
		desired, total, updated      int32
	}{
		{name: "answered", status: `{"resourceTemplateGeneration":5,"generation":2,"observedGeneration":2,"replicas":4,"updatedReplicas":1}`, sequence: 5, desired: 3, total: 4, updated: 1},
		{name: "a number with a point", status: `{"resourceTemplateGeneration":5.5,"generation":2,"observedGeneration":2}`,
			none: true},
		{name: "not seen yet", status: `{"resourceTemplateGeneration":5,"generation":3,"observedGeneration":2,"replicas":4}`,
			desired: 3, total: 4},
		{name: "an older order", status: `{"resourceTemplateGeneration":4,"generation":2,"observedGeneration":2,"replicas":4}`, desired: 4, total: 4},
		{name: "no generation", status: `{"resourceTemplateGeneration":5,"observedGeneration":2,"replicas":4}`, desired: 3,
			total: 4},
		{name: "as it is, without an interpreter", status: `{"observedGeneration":2,"replicas":4}`, none: true},
		{name: "no JSON", status: `7`, none: true},
		{name: "of another kind", kind: "Deployment", status: `{"resourceTemplateGeneration":5}`, none: true},
		{name: "zones not seen", manifest: zones, status: `{"resourceTemplateGeneration":5,"generation":2,"observedGeneration":2,"replicas":3}`, desired: 3, total: 3},
		{name: "zones seen", manifest: zones, status: `{"resourceTemplateGeneration":5,"generation":2,"observedGeneration":2,"replicas":3,"observedSpread":"` + seen + `"}`, sequence: 5, desired: 3, total: 3},
		{name: "a UnitedDeployment whose children follow", kind: "UnitedDeployment",
			manifest: `{"apiVersion":"apps.kruise.io/v1beta1","kind":"UnitedDeployment"}`,
			status:   `{"resourceTemplateGeneration":5,"observedSequence":5,"subsetStatuses":[{"name":"a","replicas":2,"desiredReplicas":3,"updatedReplicas":1}]}`, sequence: 5, desired: 3, total: 2, updated: 1},
		{name: "a UnitedDeployment of which only the generation was seen", kind: "UnitedDeployment",
			manifest: `{"apiVersion":"apps.kruise.io/v1beta1","kind":"UnitedDeployment"}`,
			status:   `{"resourceTemplateGeneration":5,"generation":2,"observedGeneration":2,"observedSequence":4,"subsetStatuses":[{"name":"a","replicas":2}]}`, total: 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.kind == "" {
				test.kind = "CloneSet"
			}
			if test.manifest == "" {
				test.manifest = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","spec":{"replicas":3}}`
			}
			w := &work.Work{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{topology.AnnotationSequence: "5",
					topology.AnnotationHubID: "hub"}},
				Spec: work.WorkSpec{Workload: work.WorkloadTemplate{Manifests: []work.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(test.manifest)}}}}},
				Status: work.WorkStatus{ManifestStatuses: []work.ManifestStatus{{
					Identifier: work.ResourceIdentifier{Kind: test.kind}, Status: &runtime.RawExtension{Raw: []byte(test.status)},
				}}},
			}
			report, nonsense := Workloads().ReportOf(w)
			if nonsense != "" || (report == nil) != test.none {
				t.Fatalf("report %+v, nonsense %q", report, nonsense)
			}
			if test.none {
				return
			}
			use := report.InUse[0]
			if report.HubID != "hub" || report.Sequence != test.sequence || use.Desired != test.desired ||
				use.Total != test.total || use.Updated != test.updated {
				t.Errorf("report %+v, want sequence %d, desired %d, total %d, updated %d", report, test.sequence, test.desired,
					test.total, test.updated)
			}
			w.Status.Report = &work.Report{HubID: "own", Sequence: 9}
			if report, _ := Workloads().ReportOf(w); report.HubID != "own" {
				t.Errorf("a report of Flotilla's own agent is passed over: %+v", report)
			}
		})
	}
}
