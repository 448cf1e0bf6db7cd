package placement

import (
	"testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestEditsAreTakenBack: of a placement that somebody edited the next decision starts from what the hub wrote; a hub
// that does not know what that was takes what stands, and so does one whose placement was made anew.
func TestEditsAreTakenBack(t *testing.T) {
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "ns", Name: "web"}
	own := &topology.WorkloadPlacement{}
	own.UID, own.Spec.Cells = "one", []topology.Cell{{Cluster: "east", Replicas: 3}}
	withDigest(own)
	edited := own.DeepCopy()
	edited.ResourceVersion, edited.Spec.Cells[0].Replicas = "2", 9
	anew := edited.DeepCopy()
	anew.UID = "two"

	d := newDecisions()
	replicas := func(p *topology.WorkloadPlacement) (int32, bool) {
		got, restored := d.of(key, p)
		if got.ResourceVersion != p.ResourceVersion {
			t.Errorf("the version is %s, and was %s", got.ResourceVersion, p.ResourceVersion)
		}
		return got.Spec.Cells[0].Replicas, restored
	}
	for _, step := range []struct {
		name      string
		placement *topology.WorkloadPlacement
		replicas  int32
		restored  bool
	}{
		{"edited before the hub started", edited, 9, false}, {"as the hub wrote it", own, 3, false},
		{"edited", edited, 3, true},
		{"edited, still", edited, 3, true}, {"another one of the same name", anew, 9, false}, {"put back", own, 3, false},
	} {
		if n, restored := replicas(step.placement); n != step.replicas || restored != step.restored {
			t.Errorf("%s: %d replicas, restored %t", step.name, n, restored)
		}
	}
	if edited.Spec.Cells[0].Replicas != 9 {
		t.Error("what the cache holds was changed")
	}
	d.forget(key)
	if n, restored := replicas(edited); n != 9 || restored {
		t.Errorf("forgotten: %d replicas, restored %t", n, restored)
	}
	if p, restored := (*decisions)(nil).of(key, edited); p != edited || restored {
		t.Error("who keeps no decisions restores one")
	}
}
