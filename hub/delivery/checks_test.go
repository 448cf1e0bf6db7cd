package delivery

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

func placementWithJob(template string) *topology.WorkloadPlacement {
	return &topology.WorkloadPlacement{
		ObjectMeta: metav1.ObjectMeta{UID: "p"},
		Spec: topology.WorkloadPlacementSpec{RevisionSequence: 7, Wave: &topology.WaveProgress{Jobs: []topology.WaveRun{{
			Check: "smoke", Name: "web-smoke-1", Clusters: []string{"east", "south"},
			Template: runtime.RawExtension{Raw: []byte(template)},
		}}}},
	}
}

// TestPlanChecks: each member of the wave gets the Job as the user wrote it, without what would end or hold it by
// itself, in a Work that is known to be no workload's own.
func TestPlanChecks(t *testing.T) {
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	works, refusal, err := planChecks(key, "hub", placementWithJob(
		`{"metadata":{"labels":{"a":"b","topology.flotilla.dev/hub":"x"},"name":"mine"},"spec":{"backoffLimit":0,"suspend":true,"ttlSecondsAfterFinished":5,"template":{"spec":{"containers":[{"name":"c"}]}}}}`))
	if err != nil || refusal != nil || len(works) != 2 {
		t.Fatalf("%d Works, %v, %v", len(works), refusal, err)
	}
	w := works[1]
	if w.Namespace != "karmada-es-south" || w.Name != "shop.web-smoke-1.job.batch" ||
		w.Labels[topology.LabelPlacement] != "p" || w.Annotations[topology.AnnotationSequence] != "7" {
		t.Errorf("the Work is %+v", w.ObjectMeta)
	}
	if _, carries := wire.KeyOf(w); carries || !wire.IsCheck(w) {
		t.Error("the Work seems to carry the workload")
	}
	if owner, ok := wire.OwnerOf(w); !ok || owner != key {
		t.Errorf("it is of %v", owner)
	}
	want := `{"apiVersion":"batch/v1","kind":"Job","metadata":{"labels":{"a":"b"},"name":"web-smoke-1","namespace":"shop"},"spec":{"backoffLimit":0,"template":{"spec":{"containers":[{"name":"c"}]}}}}`
	if got := string(w.Spec.Workload.Manifests[0].Raw); got != want {
		t.Errorf("the manifest is %s, want %s", got, want)
	}
}

// TestPlanChecksOfAnything: what is no Job goes to the member, whose API server says so; what is too large goes
// nowhere.
func TestPlanChecksOfAnything(t *testing.T) {
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	for _, template := range []string{`{}`, `{"spec":3}`, `{"metadata":"x"}`, `{"metadata":{"labels":[1]}}`} {
		if works, refusal, err := planChecks(key, "hub", placementWithJob(template)); err != nil || refusal != nil ||
			len(works) != 2 {
			t.Errorf("%s: %d Works, %v, %v", template, len(works), refusal, err)
		}
	}
	if _, refusal, err := planChecks(key, "hub", placementWithJob(`{"spec":{"a":"`+strings.Repeat("x",
		maxManifest)+`"}}`)); err != nil || refusal == nil || refusal.Reason != TooLarge {
		t.Errorf("a large one: %v, %v", refusal, err)
	}
	if works, refusal, err := planChecks(key, "hub", &topology.WorkloadPlacement{}); err != nil || refusal != nil ||
		len(works) != 0 {
		t.Errorf("without waves: %v, %v, %v", works, refusal, err)
	}
}
