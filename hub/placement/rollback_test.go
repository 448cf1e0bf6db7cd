package placement

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// imaged is a CloneSet with an image.
func imaged(image string) *apps.CloneSet {
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "one"}}
	cs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	cs.Spec.Template.Labels = map[string]string{"app": "web"}
	cs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
	return cs
}

func imageOf(o client.Object) string {
	return o.(*apps.CloneSet).Spec.Template.Spec.Containers[0].Image
}

// TestRollBack goes the whole way: a wave fails, the next decision is about the template of before and keeps what
// failed in mind, until the workload gets another template or a person has the failed one tried again.
func TestRollBack(t *testing.T) {
	before, failed := imaged("a"), imaged("b")
	read := func(o *apps.CloneSet) kinds.Workload {
		t.Helper()
		w, refusal := readCloneSet(o)
		if refusal != nil {
			t.Fatal(refusal)
		}
		w.Replicas = 9
		return w
	}
	f := decision.Facts{
		Workload: read(before), Members: members("east south west"), Object: before,
		Rollout: topology.Rollout{Strategy: topology.RolloutWaves, OnFailure: topology.RolloutRollback,
			Waves: []topology.Wave{
				{Name: "canary", Clusters: topology.WaveClusters{Names: []string{"east"}},
					Checks: []topology.WaveCheck{{Name: "never", Expression: "false", Patience: "0s"}}},
			}},
	}
	d := plan(t, f)
	carryOut(&f, &d)
	f.Workload, f.Object = read(failed), failed
	d = plan(t, f)
	carryOut(&f, &d)
	d = plan(t, f)
	carryOut(&f, &d)
	f.Now = f.Now.Add(1)
	for range 3 {
		d = plan(t, f)
		f.Last, f.Now = &d.Spec, f.Now.Add(1e9)
	}
	if d.Spec.Wave == nil || d.Spec.Wave.RolledBack != f.Workload.Revision || shares(&d) != "east:3 south:0 west:0" {
		t.Fatalf("a wave that fails is to be rolled back: %s, %+v", shares(&d), d.Spec.Wave)
	}
	placement := &topology.WorkloadPlacement{Spec: d.Spec}
	if got := imageOf(InForce(kindFor(failed), failed, placement)); got != "b" {
		t.Errorf("members have %s before the decision about it", got)
	}

	s := &State{Object: failed, Placement: placement}
	s.rollBack(kindFor(s.Object))
	if !s.rolledBack || imageOf(s.Object) != "a" || imageOf(failed) != "b" {
		t.Fatalf("the decision is about %s (%t)", imageOf(s.Object), s.rolledBack)
	}
	f.Workload, f.RolledBack = read(s.Object.(*apps.CloneSet)), true
	d = plan(t, f)
	if got := shares(&d); got != "east:3 south:3 west:3" || d.Spec.Wave == nil || d.Spec.Revision != d.Spec.Wave.From ||
		d.Notes[0].Reason != decision.WaveFailed {
		t.Fatalf("rolled back it is %s, %+v, %+v", got, d.Spec.Wave, d.Notes)
	}
	carryOut(&f, &d)
	again := plan(t, f)
	if again.Spec.Sequence != d.Spec.Sequence || again.Spec.Wave.RolledBack != d.Spec.Wave.RolledBack {
		t.Fatalf("nothing changed, and the decision did: %+v", again.Spec.Wave)
	}
	placement = &topology.WorkloadPlacement{Spec: d.Spec}
	if got := imageOf(InForce(kindFor(failed), failed, placement)); got != "a" {
		t.Errorf("members have %s of what was rolled back", got)
	}
	if got := imageOf(InForce(kindFor(imaged("c")), imaged("c"), placement)); got != "c" {
		t.Errorf("members have %s of a new template", got)
	}
	ud := &apps.UnitedDeployment{}
	if InForce(kindFor(ud), ud, placement) != client.Object(ud) {
		t.Error("another kind is changed")
	}

	tried := failed.DeepCopy()
	tried.Annotations = map[string]string{topology.AnnotationWave: waves.RetryWord(d.Spec.Revision,
		d.Spec.RevisionSequence, d.Spec.Wave)}
	s = &State{Object: tried, Placement: placement}
	if s.rollBack(kindFor(s.Object)); s.rolledBack {
		t.Fatal("what is to be tried again is rolled back")
	}
	f.Workload, f.RolledBack, f.Word = read(tried), false, tried.Annotations[topology.AnnotationWave]
	d = plan(t, f)
	if got := shares(&d); got != "east:3 south:0 west:0" || d.Spec.Wave.Failed != nil || d.Spec.Wave.RolledBack != "" ||
		d.Spec.Wave.Template == nil {
		t.Fatalf("tried again it is %s, %+v", got, d.Spec.Wave)
	}
}

// united is a UnitedDeployment of CloneSets with an image, and a patch of its first subset.
func united(image, patch string) *apps.UnitedDeployment {
	return unitedDeployment(func(ud *apps.UnitedDeployment) {
		ud.Spec.Template.DeploymentTemplate = nil
		ud.Spec.Template.CloneSetTemplate = &apps.CloneSetTemplateSpec{Spec: apps.CloneSetSpec{Template: apps.NewPodTemplate(podTemplate())}}
		ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = image
		if patch != "" {
			ud.Spec.Topology.Subsets[0].Patch.Raw = []byte(patch)
		}
	})
}

// TestRollBackUnitedDeployments: members get the pod template of before, and all else as the user has it now. Where the
// patches of the subsets changed with the template, that would be a third one: then the update pauses, and that is told
// from its begin.
func TestRollBackUnitedDeployments(t *testing.T) {
	const patch = `{"metadata":{"labels":{"tier":"one"}}}`
	for name, tc := range map[string]struct {
		failed *apps.UnitedDeployment
		rolls  bool
	}{
		"the template changes":              {united("b", ""), true},
		"a patch changes with it":           {united("b", patch), false},
		"a patch changes, and nothing else": {united("a", patch), false},
	} {
		t.Run(name, func(t *testing.T) {
			before, failed := united("a", ""), tc.failed
			failed.Spec.Template.CloneSetTemplate.Spec.MinReadySeconds = 7
			read := func(o client.Object) kinds.Workload {
				t.Helper()
				w, refusal := readUnitedDeployment(o.(*apps.UnitedDeployment))
				if refusal != nil {
					t.Fatal(refusal)
				}
				w.Replicas = 6
				return w
			}
			f := decision.Facts{
				Workload: read(before), Members: members("east south west"), Object: before,
				Rollout: topology.Rollout{Strategy: topology.RolloutWaves, OnFailure: topology.RolloutRollback,
					Waves: []topology.Wave{
						{Name: "canary", Clusters: topology.WaveClusters{Names: []string{"east"}},
							Checks: []topology.WaveCheck{{Name: "never", Expression: "false", Patience: "0s"}}},
					}},
			}
			d := plan(t, f)
			carryOut(&f, &d)
			f.Workload, f.Object = read(failed), failed
			d = plan(t, f)
			told := slices.ContainsFunc(d.Notes, func(n decision.Note) bool {
				return strings.Contains(n.Message, "Rollback does not hold for this update")
			})
			if told == tc.rolls {
				t.Errorf("notes %+v", d.Notes)
			}
			for range 6 {
				carryOut(&f, &d)
				f.Now = f.Now.Add(time.Second)
				d = plan(t, f)
			}
			if d.Spec.Wave == nil || d.Spec.Wave.Failed == nil || (d.Spec.Wave.RolledBack != "") != tc.rolls {
				t.Fatalf("the wave is %+v", d.Spec.Wave)
			}
			s := &State{Object: failed, Placement: &topology.WorkloadPlacement{Spec: d.Spec}}
			if s.rollBack(kindFor(s.Object)); s.rolledBack != tc.rolls {
				t.Fatalf("rolled back %t", s.rolledBack)
			}
			if !tc.rolls {
				return
			}
			back := s.Object.(*apps.UnitedDeployment).Spec.Template.CloneSetTemplate.Spec
			if back.Template.Spec.Containers[0].Image != "a" || back.MinReadySeconds != 7 {
				t.Errorf("the decision is about %+v", back)
			}
			f.Last, f.Workload, f.RolledBack = &d.Spec, read(s.Object), true
			d = plan(t, f)
			if d.Spec.Wave == nil || !decision.RolledBack(&d.Spec) || d.Notes[0].Reason != decision.WaveFailed {
				t.Fatalf("rolled back it is %+v, %+v", d.Spec.Wave, d.Notes)
			}
			placement := &topology.WorkloadPlacement{Spec: d.Spec}
			if got := InForce(kindFor(failed), failed, placement).(*apps.UnitedDeployment); got.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image != "a" {
				t.Error("members do not get the template of before")
			}
			// A patch that comes meanwhile makes a new template: that one is in force, and not the old one.
			third := united("b", patch)
			if InForce(kindFor(third), third, placement) != client.Object(third) {
				t.Error("a new patch is kept from members")
			}
		})
	}
}

// TestUnreadableTemplateOfBefore: what cannot be read is not put back.
func TestUnreadableTemplateOfBefore(t *testing.T) {
	failed := imaged("b")
	w, refusal := readCloneSet(failed)
	if refusal != nil {
		t.Fatal(refusal)
	}
	p := &topology.WorkloadPlacement{Spec: topology.WorkloadPlacementSpec{Revision: "one", Wave: &topology.WaveProgress{
		From: "one", RolledBack: w.Revision, Template: &runtime.RawExtension{Raw: []byte("[]")},
	}}}
	if InForce(kindFor(failed), failed, p) != client.Object(failed) {
		t.Error("it is put back")
	}
}
