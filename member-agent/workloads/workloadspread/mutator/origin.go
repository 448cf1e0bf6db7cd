package mutator

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// workloads reads the workloads of pods from the manager's cache.
type workloads struct{ client.Reader }

// origin is where a pod comes from.
type origin struct {
	// targets are the workloads that a WorkloadSpread for the pod may name: its controller, and the Deployment of a
	// ReplicaSet.
	targets []spread.Target
	// selector is how the controller finds its pods; nil if the cache does not have the controller yet.
	selector labels.Selector
}

// of returns where a pod with this controller comes from. A ReplicaSet that the cache does not have yet is known by its
// name.
func (w workloads) of(ctx context.Context, pod *corev1.Pod, owner *metav1.OwnerReference) (origin, error) {
	found := origin{targets: []spread.Target{{Group: groupApps, Kind: owner.Kind, Name: owner.Name}}}
	if owner.Kind == kindJob {
		found.targets[0].Group = groupBatch
	}
	deployment := ""
	if owner.Kind == kindReplicaSet {
		deployment = deploymentOf(owner.Name, pod.Labels)
	}
	controller, err := w.get(ctx, pod.Namespace, found.targets[0])
	if err != nil {
		return origin{}, err
	}
	// One of the same name that is gone says nothing.
	if controller != nil && controller.GetUID() == owner.UID {
		if written := selectorIn(controller); written != nil {
			if found.selector, err = metav1.LabelSelectorAsSelector(written); err != nil {
				return origin{}, fmt.Errorf("read the selector of %s %s/%s: %w", owner.Kind, pod.Namespace, owner.Name, err)
			}
		}
		if owner.Kind == kindReplicaSet {
			// One that belongs to nobody is no Deployment's, whatever it is called.
			deployment = ""
			if ref := metav1.GetControllerOfNoCopy(controller); ref != nil && ref.Kind == kindDeployment {
				deployment = ref.Name
			}
		}
	}
	if deployment != "" {
		found.targets = append(found.targets, spread.Target{Group: groupApps, Kind: kindDeployment, Name: deployment})
	}
	return found, nil
}

// get returns a workload; nil if the cache does not have it.
func (w workloads) get(ctx context.Context, namespace string, t spread.Target) (client.Object, error) {
	var object client.Object
	switch t.Kind {
	case kindDeployment:
		object = &appsv1.Deployment{}
	case kindReplicaSet:
		object = &appsv1.ReplicaSet{}
	case kindStatefulSet:
		object = &appsv1.StatefulSet{}
	case kindJob:
		object = &batchv1.Job{}
	default:
		return nil, nil
	}
	err := w.Get(ctx, types.NamespacedName{Namespace: namespace, Name: t.Name}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", t.Kind, namespace, t.Name, err)
	}
	return object, nil
}

// scale is what is to be known of a workload to spread its pods.
type scale struct {
	replicas int32
	// start is the first ordinal of a StatefulSet.
	start int32
}

// scaleIn returns the scale of a workload. The defaults are the API server's. A Job has as many pods at a time as its
// parallelism says.
func scaleIn(object client.Object) scale {
	number := func(n *int32) int32 {
		if n == nil {
			return 1
		}
		return *n
	}
	switch w := object.(type) {
	case *appsv1.Deployment:
		return scale{replicas: number(w.Spec.Replicas)}
	case *appsv1.ReplicaSet:
		return scale{replicas: number(w.Spec.Replicas)}
	case *appsv1.StatefulSet:
		s := scale{replicas: number(w.Spec.Replicas)}
		if w.Spec.Ordinals != nil {
			s.start = w.Spec.Ordinals.Start
		}
		return s
	case *batchv1.Job:
		return scale{replicas: number(w.Spec.Parallelism)}
	default:
		return scale{}
	}
}

func selectorIn(controller client.Object) *metav1.LabelSelector {
	switch w := controller.(type) {
	case *appsv1.ReplicaSet:
		return w.Spec.Selector
	case *appsv1.StatefulSet:
		return w.Spec.Selector
	case *batchv1.Job:
		return w.Spec.Selector
	default:
		return nil
	}
}
