package arch

import (
	"maps"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
	"github.com/flotilla-dev/flotilla/member-agent/rights"
)

// TestAgentsCarryWhatHubsSend holds that an agent allows, unless its owner says less, every kind that a hub places or
// copies, and the Jobs of checks.
func TestAgentsCarryWhatHubsSend(t *testing.T) {
	sent := []schema.GroupKind{{Group: batchv1.GroupName, Kind: "Job"}}
	for kind := range kinds.All(kinds.MembersRunBuiltIns) {
		sent = append(sent, kind)
	}
	for _, kind := range sent {
		if !slices.Contains(apply.Allowed{}.GroupKinds(), kind) {
			t.Errorf("a hub sends objects of kind %s, and agents refuse them: add it to carried in member-agent/apply", kind)
		}
	}
}

// TestRightsOfCarriedKinds holds that what an agent may do is told for each kind that it carries, and for no other.
func TestRightsOfCarriedKinds(t *testing.T) {
	var carried []string
	for _, kind := range (apply.Allowed{}).GroupKinds() {
		carried = append(carried, kind.String())
	}
	slices.Sort(carried)
	if told := slices.Sorted(maps.Keys(rights.CarriedRules())); !slices.Equal(told, carried) {
		t.Errorf("member-agent/rights has rules for %v, and agents carry %v", told, carried)
	}
}
