package arch

import (
	"slices"
	"testing"

	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
)

// TestAgentsCarryWhatHubsSend holds that an agent allows, unless its owner says less, every kind that a hub places or copies, and the Jobs of
// checks.
func TestAgentsCarryWhatHubsSend(t *testing.T) {
	sent := []string{"Job"}
	for kind := range placement.AllRules() {
		sent = append(sent, kind)
	}
	for _, kind := range sent {
		if !slices.Contains(apply.Carried(), kind) {
			t.Errorf("a hub sends objects of kind %s, and agents refuse them: add it to carried in member-agent/apply", kind)
		}
	}
}
