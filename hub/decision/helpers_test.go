package decision

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// kindFor returns what the hub knows of a workload's kind.
func kindFor(o kinds.Object) kinds.Kind {
	if _, ok := o.(*apps.CloneSet); ok {
		return kinds.Workloads()[apps.CloneSetKind.GroupKind()]
	}
	return kinds.Workloads()[apps.UnitedDeploymentKind.GroupKind()]
}

func readCloneSet(o *apps.CloneSet) (kinds.Workload, *kinds.Rejection) { return kindFor(o).Read(o) }

func readUnitedDeployment(o *apps.UnitedDeployment) (kinds.Workload, *kinds.Rejection) {
	return kindFor(o).Read(o)
}

// divisionOf reads what WorkloadSpreads say about a CloneSet.
func divisionOf(w *kinds.Workload, o *apps.CloneSet, spreads []apps.WorkloadSpread) (*kinds.Division, []string,
	*kinds.Rejection) {
	var dividers []kinds.Object
	for i := range spreads {
		dividers = append(dividers, &spreads[i])
	}
	return kindFor(o).Divider.Read(w, o, dividers)
}

func podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	}
}

func cloneSet(change ...func(*apps.CloneSet)) *apps.CloneSet {
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	cs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	cs.Spec.Template.PodTemplateSpec = podTemplate()
	cs.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateCloneSetStrategy{}
	for _, c := range change {
		c(cs)
	}
	return cs
}

func unitedDeployment(change ...func(*apps.UnitedDeployment)) *apps.UnitedDeployment {
	ud := &apps.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	ud.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	ud.Spec.Template.DeploymentTemplate = &apps.DeploymentTemplateSpec{Spec: apps.NativeDeploymentSpec{DeploymentSpec: appsv1.DeploymentSpec{Template: podTemplate()}}}
	ud.Spec.Topology.Subsets = []apps.Subset{{Name: "a"}, {Name: "b"}}
	for _, c := range change {
		c(ud)
	}
	return ud
}
