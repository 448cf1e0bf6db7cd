package wire_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestForeign: a placement is the hub's own as long as it says what its digest says, in whatever order a server writes
// a template.
func TestForeign(t *testing.T) {
	p := &topology.WorkloadPlacement{}
	p.Spec.Cells = []topology.Cell{{Cluster: "east", Replicas: 3, Sequence: 1 << 60}}
	p.Spec.Wave = &topology.WaveProgress{Template: &runtime.RawExtension{Raw: []byte(`{"b": 1, "a": {"d": "x", "c": 2}}`)}}
	if wire.Foreign(p) {
		t.Error("a placement of a hub that wrote no digest is foreign")
	}
	p.Annotations = map[string]string{topology.AnnotationDecision: wire.DigestOf(&p.Spec)}
	p.Spec.Wave.Template.Raw = []byte(`{"a":{"c":2,"d":"x"},"b":1}`)
	if wire.Foreign(p) {
		t.Error("the same fields in another order are foreign")
	}
	p.Spec.Cells[0].Sequence++
	if !wire.Foreign(p) {
		t.Error("another sequence is not foreign")
	}
}
