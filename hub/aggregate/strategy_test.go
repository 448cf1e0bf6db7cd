package aggregate

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

func TestOnDelete(t *testing.T) {
	const others = "the others are when somebody deletes them, as type OnDelete asks"
	tests := []struct {
		name        string
		east, west  *work.Work
		ready       string
		reconciling string
		done        bool
	}{
		{"nobody has deleted a pod", report(5, 4, 0), report(4, 2, 0),
			"True AllAvailable: 6 of 6 pods are available; 0 are updated, " + others, "False AllAvailable", true},
		{"some were deleted", report(5, 4, 3), report(4, 2, 0),
			"True AllAvailable: 6 of 6 pods are available; 3 are updated, " + others, "False AllAvailable", true},
		{"all were deleted", report(5, 4, 4), report(4, 2, 2), "True AllAvailable: 6 of 6 pods are available",
			"False AllAvailable", true},
		{"one is missing", report(5, 3, 0), report(4, 2, 0), "False Scaling: 5 pods exist, 6 are wanted",
			"True Scaling: 5 pods exist, 6 are wanted", false},
		{"a member has not answered the new template", report(5, 4, 0), report(3, 2, 2),
			"False MembersNotAnswered: 6 of 6 pods are available; 0 are updated, " + others +
				"; members have not all carried out what the placement asks",
			"True MembersNotAnswered: members have not all carried out what the placement asks", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cs, f := example()
			cs.Spec.UpdateStrategy.Type = apps.OnDeleteCloneSetUpdateStrategyType
			f.observe(cs)
			f.Works["east"], f.Works["west"] = tt.east, tt.west
			sum := Summarise(f)
			got := cloneSetStatus(cs, f, &sum, time.Unix(100, 0))
			if ready, reconciling := shown(got, "Ready"), shown(got, "Reconciling"); ready != tt.ready ||
				reconciling != tt.reconciling {
				t.Errorf("Ready %q, Reconciling %q", ready, reconciling)
			}
			want := "True CloneSetUpdated: CloneSet is progressing"
			if got.UpdatedReplicas == 6 {
				want = "True CloneSetAvailable: CloneSet is available"
			}
			if progressing := shown(got, "Progressing"); progressing != want {
				t.Errorf("Progressing %q, want %q", progressing, want)
			}
			if got.ExpectedUpdatedReplicas != 6 || sum.Done() != tt.done {
				t.Errorf("expected %d, done %t", got.ExpectedUpdatedReplicas, sum.Done())
			}
		})
	}
}

func TestPausedTemplate(t *testing.T) {
	clone, deployment := &apps.UnitedDeployment{}, &apps.UnitedDeployment{}
	clone.Spec.Template.CloneSetTemplate = &apps.CloneSetTemplateSpec{Spec: apps.CloneSetSpec{
		UpdateStrategy: apps.CloneSetUpdateStrategy{RollingUpdate: &apps.RollingUpdateCloneSetStrategy{Paused: true}},
	}}
	deployment.Spec.Template.DeploymentTemplate = &apps.DeploymentTemplateSpec{Spec: apps.NativeDeploymentSpec{DeploymentSpec: appsv1.DeploymentSpec{Paused: true}}}
	for name, ud := range map[string]*apps.UnitedDeployment{"of CloneSets": clone, "of Deployments": deployment} {
		t.Run(name, func(t *testing.T) {
			_, f := example()
			ud.Spec.Replicas = new(int32(6))
			f.Key.Kind = apps.UnitedDeploymentKind.Kind
			f.observe(ud)
			f.Works["east"], f.Works["west"] = report(5, 4, 1), report(4, 2, 0)
			sum := Summarise(f)
			got := map[string]string{}
			for _, c := range unitedDeploymentStatus(ud, f, &sum, time.Unix(100, 0)).Conditions {
				got[string(c.Type)] = string(c.Status) + " " + c.Reason
			}
			for conditionType, want := range map[string]string{
				"Ready": "False Paused", "Reconciling": "False Paused", "Stalled": "False NotStalled",
				"Progressing": "True UnitedDeploymentPaused",
			} {
				if got[conditionType] != want {
					t.Errorf("%s is %q, want %q", conditionType, got[conditionType], want)
				}
			}
		})
	}
}

func TestPausedCloneSet(t *testing.T) {
	cs, f := example()
	cs.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateCloneSetStrategy{Paused: true}
	f.observe(cs)
	f.Works["east"], f.Works["west"] = report(5, 4, 1), report(4, 2, 0)
	sum := Summarise(f)
	if got := cloneSetStatus(cs, f, &sum, time.Unix(100, 0)); shown(got, "Reconciling") != "False Paused" {
		t.Errorf("Reconciling %q", shown(got, "Reconciling"))
	}
}
