package podtemplate

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// template is a pod template with one container.
func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}}}
}

// TestBySubset applies the patch of each subset to the template.
func TestBySubset(t *testing.T) {
	ud := &apps.UnitedDeployment{}
	ud.Spec.Template.DeploymentTemplate = &apps.DeploymentTemplateSpec{}
	ud.Spec.Template.DeploymentTemplate.Spec.Template = template()
	ud.Spec.Topology.Subsets = []apps.Subset{{Name: "plain"}, {Name: "patched", Patch: runtime.RawExtension{
		Raw: []byte(`{"spec":{"containers":[{"name":"main","image":"web:2"}]}}`)}}}
	all, err := BySubset(ud)
	if err != nil || len(all) != 3 {
		t.Fatalf("%v, %d templates", err, len(all))
	}
	for name, want := range map[string]string{"": "web:1", "plain": "web:1", "patched": "web:2"} {
		if got := all[name].Spec.Containers[0].Image; got != want {
			t.Errorf("subset %q has %s, want %s", name, got, want)
		}
	}
	ud.Spec.Topology.Subsets[1].Patch.Raw = []byte(`{"spec":{"containers":"none"}}`)
	if _, err := BySubset(ud); err == nil {
		t.Error("a patch that cannot be applied is taken")
	}
	if all, err := BySubset(&apps.SidecarSet{}); all != nil || err != nil {
		t.Errorf("a kind without a template: %v, %v", all, err)
	}
}

func TestPolicyOf(t *testing.T) {
	rolling := func(policy apps.PodUpdatePolicyType) apps.CloneSetSpec {
		return apps.CloneSetSpec{UpdateStrategy: apps.CloneSetUpdateStrategy{
			RollingUpdate: &apps.RollingUpdateCloneSetStrategy{PodUpdatePolicy: policy}}}
	}
	onDelete := apps.CloneSetSpec{}
	onDelete.UpdateStrategy.Type = apps.OnDeleteCloneSetUpdateStrategyType
	united := &apps.UnitedDeployment{}
	united.Spec.Template.CloneSetTemplate = &apps.CloneSetTemplateSpec{Spec: rolling(apps.InPlaceOnlyPodUpdatePolicy)}
	native := &apps.UnitedDeployment{}
	native.Spec.Template.StatefulSetTemplate = &apps.StatefulSetTemplateSpec{}
	native.Spec.Template.StatefulSetTemplate.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	daemon := &apps.DaemonSet{}
	daemon.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateDaemonSet{
		Type: apps.InPlaceIfPossibleDaemonSetRollingUpdateType}
	for name, tt := range map[string]struct {
		object client.Object
		want   Policy
	}{
		"default":               {&apps.CloneSet{}, Recreate},
		"in place if possible":  {&apps.CloneSet{Spec: rolling(apps.InPlaceIfPossiblePodUpdatePolicy)}, InPlaceIfPossible},
		"on delete":             {&apps.CloneSet{Spec: onDelete}, OnDelete},
		"of children":           {united, InPlaceOnly},
		"of native children":    {native, OnDelete},
		"of a DaemonSet":        {daemon, InPlaceIfPossible},
		"of a plain DaemonSet":  {&apps.DaemonSet{}, Recreate},
		"of a StatefulSet":      {&apps.StatefulSet{}, Recreate},
		"of a kind without any": {&apps.SidecarSet{}, Recreate},
	} {
		if got := PolicyOf(tt.object); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
