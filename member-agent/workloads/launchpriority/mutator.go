// Package launchpriority starts the containers of pods in the order of their priorities, as package kernel/launch has
// it: a mutator makes the containers of new pods wait for their barrier, and a controller opens it step by step.
//
// Example: pod web has the annotation apps.kruise.io/container-launch-priority=Ordered and containers a and b. a waits
// for key p_0 of ConfigMap web-barrier, b for p_-1. The controller creates the ConfigMap with p_0, and adds p_-1 when a
// is ready. Updates in place restart containers in the same order; package kernel/inplace does that.
package launchpriority

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/launch"
)

const (
	// most is how long the beginning of a generated name is, suffix how many characters follow, as the API server has it.
	most   = 58
	suffix = 5
)

// New returns the mutator. It reads nothing but the pod.
func New() admission.Mutator {
	return admission.Mutator{Name: "container launch priority", Scope: scope, Mutate: mutate}
}

// scope returns which pods the API server sends: those that ask for an order.
func scope(context.Context) ([]admission.Scope, error) {
	condition := fmt.Sprintf("has(object.metadata.annotations) && '%[1]s' in object.metadata.annotations && "+
		"object.metadata.annotations['%[1]s'] == '%[2]s' || "+
		"object.spec.containers.exists(c, has(c.env) && c.env.exists(e, e.name == '%[3]s'))",
		launch.Annotation, launch.Ordered, launch.EnvPriority)
	return []admission.Scope{{
		Name: "container launch priority", FailurePolicy: admissionregistrationv1.Ignore, Condition: condition,
		Wide: condition,
	}}, nil
}

// mutate makes the containers wait. It refuses a pod whose priorities are no numbers.
func mutate(_ context.Context, request *admission.Request) error {
	pod, err := request.Pod()
	if err != nil {
		return err
	}
	needed, err := launch.Needed(pod)
	if err != nil || !needed {
		return err
	}
	return request.Change(func(pod *corev1.Pod) error {
		if pod.Name == "" {
			// The environment names the ConfigMap of the pod.
			pod.Name = pod.GenerateName[:min(len(pod.GenerateName), most)] + utilrand.String(suffix)
		}
		delete(pod.Annotations, launch.AnnotationCompleted) // of the pod that this one is a copy of
		launch.Inject(pod)
		return nil
	})
}
