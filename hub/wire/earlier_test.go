package wire_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestPlacementsOfTheVersionBefore reads a placement that a hub of the version before wrote, with its digest. It has
// every field whose name changed.
func TestPlacementsOfTheVersionBefore(t *testing.T) {
	data, err := os.ReadFile("testdata/earlier-placement.json")
	if err != nil {
		t.Fatal(err)
	}
	p := &topology.WorkloadPlacement{}
	if err := json.Unmarshal(data, p); err != nil {
		t.Fatal(err)
	}
	if wire.Foreign(p) {
		t.Error("what the earlier hub wrote counts as edited")
	}
	if p.Annotations[topology.AnnotationDecision] == wire.DigestOf(&p.Spec) {
		t.Error("the digest needs no new one, so the placement would not be written again")
	}
	east, south, west := p.Spec.Cells[0], p.Spec.Cells[1], p.Spec.Cells[2]
	for _, got := range []struct {
		field      string
		have, want any
	}{
		{"previousTemplate", p.Spec.PreviousTemplate.Revision, "one"},
		{"limits", p.Spec.Limits[0].Budget, topology.Budget{Updated: 6, Unavailable: 2, Surge: 1}},
		{"granted", east.Granted, topology.Budget{Updated: 3, Unavailable: 1}},
		{"reserved", east.Reserved, topology.Budget{Updated: 4, Unavailable: 2, Surge: 1}},
		{"taskSequence", east.TaskSequence, int64(5)},
		{"waiting", west.Waiting, true},
		{"replaced", west.Replaced, int32(2)},
		{"adoption, known", east.Adoption, topology.Adoption{Phase: topology.AdoptionDiscovered, Replicas: 4}},
		{"adoption, nothing found", west.Adoption, topology.Adoption{Phase: topology.AdoptionDiscovered}},
		{"adoption, asked", south.Adoption, topology.Adoption{Phase: topology.AdoptionDiscovering}},
	} {
		if got.have != got.want {
			t.Errorf("%s is %+v, want %+v", got.field, got.have, got.want)
		}
	}
	written, err := json.Marshal(p.Spec)
	if err != nil {
		t.Fatal(err)
	}
	earlier := []string{"before", "update", "break", "add", "share", "held", "leaving", "frozen", "adopt", "asked"}
	for _, name := range earlier {
		if strings.Contains(string(written), `"`+name+`":`) {
			t.Errorf("the earlier name %s is written: %s", name, written)
		}
	}
	again := &topology.WorkloadPlacement{}
	if err := json.Unmarshal(written, &again.Spec); err != nil || wire.DigestOf(&again.Spec) != wire.DigestOf(&p.Spec) {
		t.Errorf("the new names are read differently (%v): %s", err, written)
	}
	for what, edit := range map[string]func(*topology.WorkloadPlacement){
		"replicas": func(p *topology.WorkloadPlacement) { p.Spec.Cells[0].Replicas++ },
		"granted":  func(p *topology.WorkloadPlacement) { p.Spec.Cells[0].Granted.Updated++ },
		"adoption": func(p *topology.WorkloadPlacement) { p.Spec.Cells[0].Adoption.Replicas++ },
	} {
		edited := p.DeepCopy()
		if edit(edited); !wire.Foreign(edited) {
			t.Errorf("an edit of %s counts as the hub's", what)
		}
	}
}
