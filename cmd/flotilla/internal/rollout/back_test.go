package rollout

import (
	"testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestLeftBy: undo in the middle of waves goes back to what most pods run, also after a second change.
func TestLeftBy(t *testing.T) {
	object := parse(t, "CloneSet", `{metadata: {name: web, namespace: shop}}`)
	revisions := []Revision{{Number: 1, Name: "web-one"}, {Number: 4, Name: "web-two"}, {Name: "web-three", Current: true}}
	for why, tc := range map[string]struct {
		progress *topology.WaveProgress
		want     string
	}{
		"no waves":                       {nil, ""},
		"the first wave":                 {&topology.WaveProgress{Number: 1, Of: 2, From: "one"}, "web-one"},
		"the last wave":                  {&topology.WaveProgress{Number: 2, Of: 2, From: "one"}, "web-one"},
		"one that was rolled back":       {&topology.WaveProgress{Number: 1, Of: 2, From: "one", RolledBack: "three"}, "web-one"},
		"they are over":                  {&topology.WaveProgress{Number: 3, Of: 2, From: "one"}, ""},
		"what they leave is not known":   {&topology.WaveProgress{Number: 1, Of: 2}, ""},
		"it is not kept any more":        {&topology.WaveProgress{Number: 1, Of: 2, From: "zero"}, ""},
		"it is what the workload has":    {&topology.WaveProgress{Number: 1, Of: 2, From: "three"}, ""},
		"the one before is what it left": {&topology.WaveProgress{Number: 1, Of: 2, From: "two"}, "web-two"},
	} {
		got := ""
		if r := leftBy(object, tc.progress, revisions); r != nil {
			got = r.Name
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", why, got, tc.want)
		}
	}
}
