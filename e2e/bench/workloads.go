package main

import (
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// counts are the numbers that a Deployment and a CloneSet both report.
type counts struct {
	generation, observed          int64
	replicas, ready, updated, all int32 // all: what spec.replicas asks for
}

func (c counts) String() string {
	return fmt.Sprintf("generation %d (observed %d), replicas %d of %d, ready %d, updated %d",
		c.generation, c.observed, c.replicas, c.all, c.ready, c.updated)
}

// settled: every pod that the spec asks for is there, ready and of the newest revision, and no other.
func (c counts) settled() bool {
	return c.observed >= c.generation && c.replicas == c.all && c.ready == c.all && c.updated == c.all
}

// kind is a workload kind that takes part in the comparison.
type kind struct {
	name string
	// anew: an update replaces pods, it has no way to update them in place.
	anew   bool
	build  func(namespace, name string, replicas int32, image string) client.Object
	list   func() client.ObjectList
	counts func(client.Object) counts
}

func deploymentKind() kind {
	return kind{
		name: "Deployment", anew: true,
		build: func(namespace, name string, replicas int32, image string) client.Object {
			return &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Spec: appsv1.DeploymentSpec{
					Replicas: new(replicas), Selector: selector(name), Template: template(name, image),
					// No surge, as is a CloneSet's default: both then exchange all pods at once.
					Strategy: appsv1.DeploymentStrategy{
						Type: appsv1.RollingUpdateDeploymentStrategyType,
						RollingUpdate: &appsv1.RollingUpdateDeployment{
							MaxUnavailable: new(intstr.FromString("100%")), MaxSurge: new(intstr.FromInt32(0)),
						},
					},
				},
			}
		},
		list: func() client.ObjectList { return &appsv1.DeploymentList{} },
		counts: func(object client.Object) counts {
			d := object.(*appsv1.Deployment)
			return counts{
				generation: d.Generation, observed: d.Status.ObservedGeneration, all: *d.Spec.Replicas,
				replicas: d.Status.Replicas, ready: d.Status.ReadyReplicas, updated: d.Status.UpdatedReplicas,
			}
		},
	}
}

// gatedDeploymentKind is a Deployment whose pods have the readiness gate that a CloneSet's have. Somebody else must
// open it.
func gatedDeploymentKind() kind {
	k := deploymentKind()
	plain := k.build
	k.name = "Deployment with gate"
	k.build = func(namespace, name string, replicas int32, image string) client.Object {
		d := plain(namespace, name, replicas, image).(*appsv1.Deployment)
		d.Spec.Template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: appsv1beta1.InPlaceUpdateReady}}
		return d
	}
	return k
}

func cloneSetKind() kind {
	return kind{
		name: "CloneSet",
		build: func(namespace, name string, replicas int32, image string) client.Object {
			return &appsv1beta1.CloneSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Spec: appsv1beta1.CloneSetSpec{
					Replicas: new(replicas), Selector: selector(name), Template: appsv1beta1.NewPodTemplate(template(name, image)),
					UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{
						Type: appsv1beta1.RollingUpdateCloneSetUpdateStrategyType,
						RollingUpdate: &appsv1beta1.RollingUpdateCloneSetStrategy{
							PodUpdatePolicy: appsv1beta1.InPlaceIfPossiblePodUpdatePolicy,
							MaxUnavailable:  new(intstr.FromString("100%")),
						},
					},
				},
			}
		},
		list: func() client.ObjectList { return &appsv1beta1.CloneSetList{} },
		counts: func(object client.Object) counts {
			c := object.(*appsv1beta1.CloneSet)
			n := counts{
				generation: c.Generation, observed: c.Status.ObservedGeneration,
				replicas: c.Status.Replicas, ready: c.Status.ReadyReplicas, updated: c.Status.UpdatedReplicas,
			}
			if c.Spec.Replicas != nil {
				n.all = *c.Spec.Replicas
			}
			return n
		},
	}
}

const labelApp = "app"

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{labelApp: name}}
}

// template is a pod that no node refuses and no admission changes much.
func template(name, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelApp: name}},
		Spec:       corev1.PodSpec{Containers: containers(image)},
	}
}

func containers(image string) []corev1.Container {
	return []corev1.Container{{
		Name: "app", Image: image,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
		}},
	}}
}

// image returns the name of version n of the application.
func image(n int) string { return fmt.Sprintf("registry.example/app:v%d", n) }

// patchOf returns a merge patch of a workload's spec.
func patchOf(spec map[string]any) (client.Patch, error) {
	data, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return nil, fmt.Errorf("make patch: %w", err)
	}
	return client.RawPatch("application/merge-patch+json", data), nil
}

func replicasPatch(n int) map[string]any { return map[string]any{"replicas": n} }

func imagePatch(image string) map[string]any {
	return map[string]any{"template": map[string]any{"spec": map[string]any{"containers": containers(image)}}}
}

func policyPatch(policy appsv1beta1.PodUpdatePolicyType) map[string]any {
	return map[string]any{"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"podUpdatePolicy": policy}}}
}

func samePods(before, after map[string]*corev1.Pod) error {
	for name, pod := range before {
		if after[name] == nil || after[name].UID != pod.UID {
			return fmt.Errorf("pod %s is gone, it was to be updated in place", name)
		}
	}
	return nil
}

func otherPods(before, after map[string]*corev1.Pod) error {
	for name, pod := range before {
		if after[name] != nil && after[name].UID == pod.UID {
			return fmt.Errorf("pod %s is still there, it was to be replaced", name)
		}
	}
	return nil
}

func podReady(pod *corev1.Pod) bool { return conditionTrue(pod, corev1.PodReady) }

func conditionTrue(pod *corev1.Pod, condition corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue
	})
}
