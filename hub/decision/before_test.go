package decision

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// template gives the workload a template of its revision.
func template(f *Facts, revision string, update int32) {
	f.Workload.Revision, f.Workload.Template = revision, []byte(`{"of":"`+revision+`"}`)
	f.Workload.Subsets[0].Amounts = func(n int32) lending.Amounts {
		return lending.Amounts{Updated: min(update, n), Unavailable: 1}
	}
}

// before prints the template of before, "-" for none.
func before(d *Decision) string {
	if d.Spec.PreviousTemplate == nil {
		return "-"
	}
	return d.Spec.PreviousTemplate.Revision + string(d.Spec.PreviousTemplate.Template.Raw)
}

// TestTemplateBefore tells which template pods have that may not be updated, from decision to decision of one workload
// of nine.
func TestTemplateBefore(t *testing.T) {
	canary := topology.Wave{Name: "canary", Clusters: topology.WaveClusters{Names: []string{"east"}},
		Approval: topology.ApprovalRequired}
	inWaves := func(f *Facts) {
		f.Rollout = topology.Rollout{Strategy: topology.RolloutWaves, Waves: []topology.Wave{canary}}
	}
	type stage struct {
		what   string
		change func(*Facts)
		want   string
	}
	to := func(revision string, update int32) func(*Facts) {
		return func(f *Facts) { template(f, revision, update) }
	}
	for name, stages := range map[string][]stage{
		"by partition": {
			{"the first template leaves none", to("one", 3), "-"},
			{"a part is updated", to("two", 3), `one{"of":"one"}`},
			{"a larger part", to("two", 6), `one{"of":"one"}`},
			{"another one, while most have the first", to("three", 6), `one{"of":"one"}`},
			{"all", to("three", 9), "-"},
			{"a part once more, with a template that nobody has kept", to("three", 6), "-"},
			{"a new one", to("four", 0), `three{"of":"three"}`},
			{"taken back", to("three", 0), "-"},
		},
		"all at once": {{"", to("one", 9), "-"}, {"", to("two", 9), "-"}},
		"in waves": {
			{"", func(f *Facts) { template(f, "one", 9); inWaves(f) }, "-"},
			{"the wave is under way", to("two", 9), `one{"of":"one"}`},
			{"there are no waves any more", func(f *Facts) { f.Rollout = topology.Rollout{} }, "-"},
		},
		"of a large template": {
			{"", to("one", 3), "-"},
			{"", func(f *Facts) {
				f.Last.Template = &runtime.RawExtension{Raw: []byte(`"` + strings.Repeat("x", maxBefore) + `"`)}
				template(f, "two", 3)
			}, "-"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := Facts{Workload: open(9), Members: members("east south west")}
			for _, stage := range stages {
				stage.change(&f)
				d := plan(t, f)
				if got := before(&d); got != stage.want {
					t.Fatalf("%s: %s, want %s", stage.what, got, stage.want)
				}
				carryOut(&f, &d)
				if again := plan(t, f); before(&again) != stage.want {
					t.Fatalf("%s: the same facts again give %s, want %s", stage.what, before(&again), stage.want)
				}
			}
		})
	}
}

// TestTemplateBeforeIsAnOrder: members whose pods are to keep the template of before have a new order when that
// changes, and others have none for it.
func TestTemplateBeforeIsAnOrder(t *testing.T) {
	f := Facts{Workload: open(9), Members: members("east south west")}
	template(&f, "one", 9)
	d := plan(t, f)
	carryOut(&f, &d)
	template(&f, "two", 3)
	d = plan(t, f)
	for i := range d.Spec.Cells { // east alone is to be updated
		d.Spec.Cells[i].Granted.Updated = map[string]int32{"east": 3}[d.Spec.Cells[i].Cluster]
		d.Spec.Cells[i].Reserved.Updated = d.Spec.Cells[i].Granted.Updated
	}
	carryOut(&f, &d)
	f.Last.PreviousTemplate = nil // as a hub of before that knew of none left it
	next := f.Last.DeepCopy()
	next.PreviousTemplate = &topology.RevisionTemplate{Revision: "one"}
	assignSequences(newDraft(&f), next, false)
	for i := range next.Cells {
		c := &next.Cells[i]
		if changed := c.Sequence != f.Last.Cells[i].Sequence; changed != (c.Cluster != "east") {
			t.Errorf("%s has a new order: %t", c.Cluster, changed)
		}
	}
}

// TestTemplateBeforeOfSubsets: of a UnitedDeployment the template of before is kept as long as any subset keeps pods of
// it, and not where the patches of its subsets changed with it.
func TestTemplateBeforeOfSubsets(t *testing.T) {
	read := func(change func(*apps.UnitedDeployment)) *apps.UnitedDeployment {
		return unitedDeployment(func(ud *apps.UnitedDeployment) {
			ud.Spec.Replicas = new(int32(8))
			ud.Spec.Topology.Subsets = []apps.Subset{{Name: "a"}, {Name: "b"}}
			ud.Spec.Template = apps.SubsetTemplate{CloneSetTemplate: &apps.CloneSetTemplateSpec{Spec: apps.CloneSetSpec{Template: apps.NewPodTemplate(podTemplate())}}}
			change(ud)
		})
	}
	image := func(ud *apps.UnitedDeployment, image string, stays int32) {
		ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = image
		ud.Spec.UpdateStrategy.ManualUpdate = &apps.ManualUpdate{Partitions: map[string]int32{"b": stays}}
	}
	f := Facts{Members: members("east west")}
	for _, stage := range []struct {
		what   string
		change func(*apps.UnitedDeployment)
		want   string // image of before
	}{
		{"the first template", func(ud *apps.UnitedDeployment) { image(ud, "web:1", 0) }, ""},
		{"b is to keep three", func(ud *apps.UnitedDeployment) { image(ud, "web:2", 3) }, "web:1"},
		{"and another one", func(ud *apps.UnitedDeployment) { image(ud, "web:3", 3) }, "web:1"},
		{"all", func(ud *apps.UnitedDeployment) { image(ud, "web:3", 0) }, ""},
		{"a part again", func(ud *apps.UnitedDeployment) { image(ud, "web:4", 1) }, "web:3"},
		{"a patch changes too", func(ud *apps.UnitedDeployment) {
			image(ud, "web:5", 1)
			ud.Spec.Topology.Subsets[0].Patch.Raw = []byte(`{"metadata":{"annotations":{"x":"y"}}}`)
		}, ""},
	} {
		ud := read(stage.change)
		w, refusal := readUnitedDeployment(ud)
		if refusal != nil {
			t.Fatalf("%s: %+v", stage.what, refusal)
		}
		f.Workload, f.Object = w, ud
		d := plan(t, f)
		got := ""
		if d.Spec.PreviousTemplate != nil {
			old, err := kindFor(ud).Template.Set(ud, d.Spec.PreviousTemplate.Template.Raw)
			if err != nil {
				t.Fatal(err)
			}
			got = old.(*apps.UnitedDeployment).Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image
		}
		if got != stage.want {
			t.Fatalf("%s: the image of before is %q, want %q", stage.what, got, stage.want)
		}
		carryOut(&f, &d)
	}
}
