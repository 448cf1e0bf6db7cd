package rollout

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/podtemplate"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// TestBefore: undo goes to what ran before, whatever else the history has, and else says that it does not have it.
func TestBefore(t *testing.T) {
	object := parse(t, "CloneSet", `{metadata: {name: web, namespace: shop}, spec: {template: {spec: {containers: [{name: main, image: "web:4"}]}}}}`)
	object.SetUID("one")
	// Of each its number, its image, and what it was left for; what is kept has the name web-<image without a colon>.
	type kept struct {
		number         int64
		image, leftFor string
	}
	for why, tc := range map[string]struct {
		kept []kept
		// placed is the hash and the image that the placement has, "" for no placement.
		placed string
		image  string
		looks  bool
		want   string // the name, or what the error says
	}{
		"the newest was left for it": {[]kept{{1, "web:1", "web3"}, {4, "web:3", "web4"}}, "web4", "web:4", false,
			"web-web3"},
		"let go at one, placed with another": {[]kept{{1, "web:1", "web3"}}, "web4", "web:4", false,
			"does not have the template that it ran before"},
		"let go and placed with the same": {[]kept{{1, "web:1", "web4"}}, "web4", "web:4", false, "web-web1"},
		"the one before was not kept": {[]kept{{1, "web:1", "web2"}, {4, "web:2", "web3"}}, "web4", "web:4", false,
			"does not have the template that it ran before"},
		"other patches of its subsets": {[]kept{{1, "web:1", "web4"}, {4, "web:4", "patched"}}, "patched", "web:4",
			false, "web-web1"},
		"went there and back": {[]kept{{1, "web:4", "web2"}, {4, "web:2", "web4"}}, "web4", "web:4", false,
			"web-web2"},
		"back, and what it left is not kept": {[]kept{{1, "web:1", "web4"}, {4, "web:4", "web2"}}, "web4", "web:4", false,
			"does not have the template that it ran before"},
		"not placed yet": {[]kept{{1, "web:1", "web3"}}, "web3", "web:3", false, "web-web3"},
		"only asked about": {[]kept{{1, "web:1", "web2"}}, "web3", "web:3", true,
			"does not have the template that it ran before"},
		"let go": {[]kept{{1, "web:1", "web4"}}, "", "", false,
			"does not have the template that it ran before"},
		"without a hub": {[]kept{{1, "web:1", ""}, {2, "web:2", ""}, {3, "web:4", ""}}, "", "", false,
			"web-web2"},
		"kept by a hub of before": {[]kept{{1, "web:1", ""}, {2, "web:2", ""}}, "web4", "web:4", false,
			"web-web2"},
		"none": {nil, "web4", "web:4", false, "has no earlier template"},
	} {
		var list []appsv1.ControllerRevision
		for _, k := range tc.kept {
			r := stored(t, object, "CloneSet", k.number, k.image)
			if k.leftFor != "" {
				r.Annotations = map[string]string{topology.AnnotationLeftFor: k.leftFor}
			}
			list = append(list, r)
		}
		w, err := historyOf(wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}, object, list)
		if err != nil {
			t.Fatal(err)
		}
		var p *topology.WorkloadPlacementSpec
		if tc.placed != "" {
			template := podtemplate.Of(object).DeepCopy()
			template.Spec.Containers[0].Image = tc.image
			data, err := history.Canonical(*template)
			if err != nil {
				t.Fatal(err)
			}
			p = &topology.WorkloadPlacementSpec{Revision: tc.placed, Template: &runtime.RawExtension{Raw: data},
				Cells: []topology.Cell{{Cluster: "east"}}}
			if tc.looks {
				p.Cells[0].Adoption.Phase = topology.AdoptionDiscovering
			}
		}
		got, err := w.before(p)
		switch {
		case err != nil && !strings.Contains(err.Error(), tc.want):
			t.Errorf("%s: %v, want %s", why, err, tc.want)
		case err == nil && got.Name != tc.want:
			t.Errorf("%s: %s, want %s", why, got.Name, tc.want)
		}
	}
}

// TestLeftBy: undo in the middle of waves goes back to what most pods run, also after a second change.
func TestLeftBy(t *testing.T) {
	object := parse(t, "CloneSet", `{metadata: {name: web, namespace: shop}}`)
	revisions := []Revision{{Number: 1, Name: "web-one"}, {Number: 4, Name: "web-two"}, {Name: "web-three", Current: true}}
	for why, tc := range map[string]struct {
		progress *topology.WaveProgress
		want     string
	}{
		"no waves":       {nil, ""},
		"the first wave": {&topology.WaveProgress{Number: 1, Of: 2, From: "one"}, "web-one"},
		"the last wave":  {&topology.WaveProgress{Number: 2, Of: 2, From: "one"}, "web-one"},
		"one that was rolled back": {&topology.WaveProgress{Number: 1, Of: 2, From: "one", RolledBack: "three"},
			"web-one"},
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
