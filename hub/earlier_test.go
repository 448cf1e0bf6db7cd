package hub_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestStoredPlacementsGetTheNewNames starts a hub on placements that a hub of the version before stored: one that it
// decides anew, and one that is frozen because its policy is gone. Both get the new names of fields, with the same
// decision, and no Work is written.
func TestStoredPlacementsGetTheNewNames(t *testing.T) {
	f := newFleet(t, threeMembers)
	all := f.policy("all")
	f.cloneSet("web", 6)
	f.cloneSetIs("web", "Ready", ready)
	f.rest()
	for _, frozen := range []bool{false, true} {
		f.stopHub()
		before := f.storeEarlier("web")
		if frozen {
			must(t, f.client.Delete(f.ctx, all))
		}
		f.startHub()
		f.eventually("the placement has the new names", func() error {
			p := f.storedPlacement("web")
			text, err := json.Marshal(p.Object["spec"])
			if err != nil {
				return err
			}
			for _, name := range []string{"share", "held", "update", "break", "add", "asked"} {
				if strings.Contains(string(text), `"`+name+`":`) {
					return fmt.Errorf("%s is still stored: %s", name, text)
				}
			}
			return nil
		})
		wrote, _ := f.about(f.quiet())
		for _, w := range wrote {
			if strings.Contains(w, "works") {
				t.Errorf("frozen %t: the hub wrote %s", frozen, w)
			}
		}
		p, err := f.placement("CloneSet", "web")
		must(t, err)
		if p.Spec.Sequence != before.Spec.Sequence || len(p.Spec.Cells) != len(before.Spec.Cells) {
			t.Fatalf("frozen %t: the decision is %+v, was %+v", frozen, p.Spec, before.Spec)
		}
		for i := range p.Spec.Cells {
			is, was := &p.Spec.Cells[i], &before.Spec.Cells[i]
			if is.Replicas != was.Replicas || is.Granted != was.Granted || is.Reserved != was.Reserved ||
				is.TaskSequence != was.TaskSequence {
				t.Errorf("frozen %t: the cell is %+v, was %+v", frozen, is, was)
			}
		}
	}
}

// storedPlacement returns the placement of a CloneSet with the names of fields that the API server stores.
func (f *fleet) storedPlacement(name string) *unstructured.Unstructured {
	f.t.Helper()
	p := &unstructured.Unstructured{}
	p.SetGroupVersionKind(topology.GroupVersion.WithKind("WorkloadPlacement"))
	p.SetNamespace(f.namespace)
	p.SetName("cloneset-" + name)
	must(f.t, f.client.Get(f.ctx, client.ObjectKeyFromObject(p), p))
	return p
}

// storeEarlier stores the placement of a CloneSet as a hub of the version before did, with its digest, and returns what
// it says.
func (f *fleet) storeEarlier(name string) *topology.WorkloadPlacement {
	f.t.Helper()
	decided, err := f.placement("CloneSet", name)
	must(f.t, err)
	p := f.storedPlacement(name)
	spec := p.Object["spec"].(map[string]any)
	amounts := map[string]string{"updated": "update", "unavailable": "break", "surge": "add"}
	for _, limit := range spec["limits"].([]any) {
		renamed(limit.(map[string]any), amounts)
	}
	for _, entry := range spec["cells"].([]any) {
		cell := entry.(map[string]any)
		renamed(cell["granted"].(map[string]any), amounts)
		renamed(cell["reserved"].(map[string]any), amounts)
		renamed(cell, map[string]string{"granted": "share", "reserved": "held", "waiting": "frozen", "taskSequence": "asked"})
	}
	text, err := json.Marshal(spec)
	must(f.t, err)
	digest := sha256.Sum256(text)
	annotations := p.GetAnnotations()
	annotations[topology.AnnotationDecision] = hex.EncodeToString(digest[:8])
	p.SetAnnotations(annotations)
	must(f.t, f.client.Update(f.ctx, p))
	return decided
}

func renamed(object map[string]any, names map[string]string) {
	for from, to := range names {
		if value, ok := object[from]; ok {
			delete(object, from)
			object[to] = value
		}
	}
}
