package kinds

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// defaultKept is how many earlier templates are kept where the workload does not say.
const defaultKept = 10

// defaultReplicas is the default of all kinds.
const defaultReplicas = 1

// Template is how the template of a kind is kept in a placement or a ControllerRevision, and put back. raw is a
// template as a placement keeps it.
type Template struct {
	// Set returns a copy of the workload with this template.
	Set func(o Object, raw []byte) (Object, error)
	// Restore returns a copy of the workload that runs a previous revision, nil where this template no longer makes it.
	Restore func(o Object, raw []byte, revision string) Object
	// Revision returns the revision of the workload's own template, empty where it cannot be read.
	Revision func(o Object) string
	// StillApplies reports whether the template still makes the revision that it made.
	StillApplies func(o Object, raw []byte, revision string) bool
	// RevisionData returns the data of a ControllerRevision with the template, in the form that the kind has in a cluster.
	RevisionData func(raw []byte) ([]byte, error)
	// Canonical returns the data of a ControllerRevision so that equal bytes mean equal templates.
	Canonical func(data []byte) ([]byte, error)
	// Of returns the template in the spec of a manifest, as members get it for pods that keep it. nil: it is the field
	// template.
	Of func(spec []byte) ([]byte, error)
}

// plainTemplate is the template of a kind that has one pod template, which field returns.
func plainTemplate(field func(Object) *apps.PodTemplate) *Template {
	decode := decodeTemplate[corev1.PodTemplateSpec]
	set := func(o Object, raw []byte) (Object, error) {
		template, err := decode(raw)
		if err != nil {
			return nil, err
		}
		out := o.DeepCopyObject().(Object)
		*field(out) = apps.NewPodTemplate(template)
		return out, nil
	}
	return &Template{
		Set: set,
		Restore: func(o Object, raw []byte, _ string) Object {
			out, err := set(o, raw)
			if err != nil {
				return nil
			}
			return out
		},
		Revision: func(o Object) string {
			data, err := history.Canonical(field(o).PodTemplateSpec)
			if err != nil {
				return ""
			}
			return history.Hash(data, nil)
		},
		StillApplies: func(Object, []byte, string) bool { return true },
		RevisionData: func(raw []byte) ([]byte, error) { return revisionData[corev1.PodTemplateSpec](raw) },
		Canonical:    history.CanonicalData[corev1.PodTemplateSpec],
	}
}

// keptOf returns a template as a placement keeps it, and how many earlier ones are kept.
func keptOf[T any](key wire.Key, template T, limit *int32) ([]byte, int32, *Rejection) {
	data, err := history.Canonical(template)
	if err != nil {
		return nil, 0, &Rejection{
			InvalidTemplate,
			fmt.Sprintf("the template of %s cannot be read: %v; correct it", key.Sentence(), err),
		}
	}
	if limit == nil {
		return data, defaultKept, nil
	}
	return data, max(*limit, 0), nil
}

// decodeTemplate reads a template as a placement keeps it.
func decodeTemplate[T any](raw []byte) (T, error) {
	return history.Decode[T]([]byte(`{"spec":{"template":` + string(raw) + `}}`))
}

func revisionData[T any](raw []byte) ([]byte, error) {
	template, err := decodeTemplate[T](raw)
	if err != nil {
		return nil, err
	}
	return history.Encode(template)
}

// revisionOf returns the hash of a pod template, by meaning, and of the texts that change it.
func revisionOf(key wire.Key, template corev1.PodTemplateSpec, patches ...[]byte) (string, *Rejection) {
	data, err := history.Canonical(template)
	if err != nil {
		return "", &Rejection{
			InvalidTemplate,
			fmt.Sprintf("the pod template of %s cannot be read: %v; correct it", key.Sentence(), err),
		}
	}
	for _, patch := range patches {
		data = append(append(data, '\n'), patch...)
	}
	return history.Hash(data, nil), nil
}

// PodRequests returns what one pod of a template requests, with its place among a node's pods.
func PodRequests(template *corev1.PodTemplateSpec) corev1.ResourceList {
	requests := resourcehelper.PodRequests(&corev1.Pod{Spec: template.Spec}, resourcehelper.PodResourcesOptions{})
	if requests == nil {
		requests = corev1.ResourceList{}
	}
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return requests
}
