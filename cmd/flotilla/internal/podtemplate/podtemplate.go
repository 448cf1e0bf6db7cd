// Package podtemplate finds the pod template, the containers and the update policy in workloads of all kinds. It is
// pure.
package podtemplate

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Of returns the pod template within an object, nil if it has none that can change.
func Of(object client.Object) *corev1.PodTemplateSpec {
	switch o := object.(type) {
	case *apps.CloneSet:
		return &o.Spec.Template.PodTemplateSpec
	case *apps.DaemonSet:
		return &o.Spec.Template.PodTemplateSpec
	case *apps.StatefulSet:
		return &o.Spec.Template.PodTemplateSpec
	case *apps.UnitedDeployment:
		switch t := &o.Spec.Template; {
		case t.CloneSetTemplate != nil:
			return &t.CloneSetTemplate.Spec.Template.PodTemplateSpec
		case t.DeploymentTemplate != nil:
			return &t.DeploymentTemplate.Spec.Template
		case t.StatefulSetTemplate != nil:
			return &t.StatefulSetTemplate.Spec.Template
		case t.AdvancedStatefulSetTemplate != nil:
			return &t.AdvancedStatefulSetTemplate.Spec.Template.PodTemplateSpec
		}
	}
	return nil
}

// Path returns the fields that lead to the pod template of Of within an object, nil if it has none.
func Path(object client.Object) []string {
	switch o := object.(type) {
	case *apps.CloneSet, *apps.DaemonSet, *apps.StatefulSet:
		return []string{"spec", "template"}
	case *apps.UnitedDeployment:
		within := func(children string) []string { return []string{"spec", "template", children, "spec", "template"} }
		switch t := &o.Spec.Template; {
		case t.CloneSetTemplate != nil:
			return within("cloneSetTemplate")
		case t.DeploymentTemplate != nil:
			return within("deploymentTemplate")
		case t.StatefulSetTemplate != nil:
			return within("statefulSetTemplate")
		case t.AdvancedStatefulSetTemplate != nil:
			return within("advancedStatefulSetTemplate")
		}
	}
	return nil
}

// Containers returns the containers of an object that can change: those of its pod template, or of a SidecarSet.
// object is the tree of a manifest, which the containers belong to. The second result are the init containers. It fails
// for a list that is none of containers.
func Containers(object map[string]any) (containers, initial []map[string]any, err error) {
	spec, _, err := unstructured.NestedFieldNoCopy(object, "spec")
	if err != nil {
		return nil, nil, err
	}
	holder, _ := spec.(map[string]any)
	if template, ok := holder["template"].(map[string]any); ok {
		holder, err = podSpec(template)
	}
	if err != nil || holder == nil {
		return nil, nil, err
	}
	if containers, err = listOf(holder, "containers"); err != nil {
		return nil, nil, err
	}
	initial, err = listOf(holder, "initContainers")
	return containers, initial, err
}

// podSpec returns the spec of pods within spec.template: of the template, or of the one of the children of a
// UnitedDeployment.
func podSpec(template map[string]any) (map[string]any, error) {
	for _, children := range []string{"cloneSetTemplate", "deploymentTemplate", "statefulSetTemplate",
		"advancedStatefulSetTemplate"} {
		if template[children] == nil {
			continue
		}
		inner, _, err := unstructured.NestedFieldNoCopy(template, children, "spec", "template", "spec")
		spec, _ := inner.(map[string]any)
		return spec, err
	}
	spec, _ := template["spec"].(map[string]any)
	return spec, nil
}

func listOf(spec map[string]any, name string) ([]map[string]any, error) {
	list, ok := spec[name].([]any)
	if !ok && spec[name] != nil {
		return nil, fmt.Errorf("%s is no list", name)
	}
	var all []map[string]any
	for i := range list {
		container, ok := list[i].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s[%d] is no container", name, i)
		}
		all = append(all, container)
	}
	return all, nil
}

// BySubset returns the pod template of each subset of a UnitedDeployment, with the patch of the subset; of other kinds
// their template under the name "". It fails for a patch that cannot be applied.
func BySubset(object client.Object) (map[string]*corev1.PodTemplateSpec, error) {
	template := Of(object)
	if template == nil {
		return nil, nil
	}
	all := map[string]*corev1.PodTemplateSpec{"": template}
	ud, ok := object.(*apps.UnitedDeployment)
	if !ok {
		return all, nil
	}
	for i := range ud.Spec.Topology.Subsets {
		subset := &ud.Spec.Topology.Subsets[i]
		all[subset.Name] = template
		if len(subset.Patch.Raw) == 0 {
			continue
		}
		patched, err := patch(template, subset.Patch.Raw)
		if err != nil {
			return nil, fmt.Errorf("apply the patch of subset %s of UnitedDeployment %s/%s: %w", subset.Name,
				ud.Namespace, ud.Name, err)
		}
		all[subset.Name] = patched
	}
	return all, nil
}

func patch(template *corev1.PodTemplateSpec, change []byte) (*corev1.PodTemplateSpec, error) {
	original, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(original, change, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, err
	}
	patched := &corev1.PodTemplateSpec{}
	err = json.Unmarshal(merged, patched)
	return patched, err
}

// Policy is how pods get a new template.
type Policy string

// The policies.
const (
	// Recreate replaces pods.
	Recreate Policy = "Recreate"
	// InPlaceIfPossible changes running pods where the change allows it, and else replaces them.
	InPlaceIfPossible Policy = "InPlaceIfPossible"
	// InPlaceOnly changes running pods and never replaces them.
	InPlaceOnly Policy = "InPlaceOnly"
	// OnDelete waits until a user deletes a pod.
	OnDelete Policy = "OnDelete"
)

// PolicyOf returns the update policy of an object.
func PolicyOf(object client.Object) Policy {
	switch o := object.(type) {
	case *apps.CloneSet:
		return cloneSetPolicy(&o.Spec)
	case *apps.DaemonSet:
		return daemonSetPolicy(&o.Spec.UpdateStrategy)
	case *apps.StatefulSet:
		return statefulSetPolicy(&o.Spec)
	case *apps.UnitedDeployment:
		switch t := &o.Spec.Template; {
		case t.CloneSetTemplate != nil:
			return cloneSetPolicy(&t.CloneSetTemplate.Spec)
		case t.AdvancedStatefulSetTemplate != nil:
			return statefulSetPolicy(&t.AdvancedStatefulSetTemplate.Spec)
		case t.StatefulSetTemplate != nil:
			if t.StatefulSetTemplate.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
				return OnDelete
			}
		}
	}
	return Recreate
}

func cloneSetPolicy(spec *apps.CloneSetSpec) Policy {
	if spec.UpdateStrategy.Type == apps.OnDeleteCloneSetUpdateStrategyType {
		return OnDelete
	}
	if spec.UpdateStrategy.RollingUpdate == nil {
		return Recreate
	}
	return podPolicy(spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy)
}

func statefulSetPolicy(spec *apps.StatefulSetSpec) Policy {
	if spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return OnDelete
	}
	if spec.UpdateStrategy.RollingUpdate == nil {
		return Recreate
	}
	return podPolicy(spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy)
}

func daemonSetPolicy(update *apps.DaemonSetUpdateStrategy) Policy {
	switch {
	case update.Type == appsv1.OnDeleteDaemonSetStrategyType:
		return OnDelete
	case update.RollingUpdate != nil &&
		update.RollingUpdate.Type == apps.InPlaceIfPossibleDaemonSetRollingUpdateType:
		return InPlaceIfPossible
	}
	return Recreate
}

func podPolicy(policy apps.PodUpdatePolicyType) Policy {
	switch policy {
	case apps.InPlaceIfPossiblePodUpdatePolicy:
		return InPlaceIfPossible
	case apps.InPlaceOnlyPodUpdatePolicy:
		return InPlaceOnly
	}
	return Recreate
}

// Undecodable reports why the template of an object cannot be decoded: such a template cannot be changed either.
func Undecodable(object client.Object) error {
	path := field.NewPath("spec", "template")
	switch o := object.(type) {
	case *apps.BroadcastJob:
		return o.Spec.Template.Err(path)
	case *apps.CloneSet:
		return o.Spec.Template.Err(path)
	case *apps.DaemonSet:
		return o.Spec.Template.Err(path)
	case *apps.StatefulSet:
		return o.Spec.Template.Err(path)
	case *apps.UnitedDeployment:
		return o.Spec.Template.Err(path)
	}
	return nil
}
