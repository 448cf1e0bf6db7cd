package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

const daemonSetSectionName = "daemonset"

// daemonSetSection measures DaemonSets beside those of apps/v1, on as many nodes as the flag says.
func daemonSetSection(ctx context.Context, b *bench) error {
	b.pods = b.nodes
	return inOneCluster(ctx, b, b.nodes, func(ctx context.Context, r *rollout) error {
		native, err := r.steps(ctx, nativeDaemonSetKind(), r.daemonSteps())
		if err != nil {
			return err
		}
		if err := r.agent(ctx); err != nil {
			return err
		}
		own := daemonSetKind()
		took, err := r.steps(ctx, own, r.daemonSteps())
		if err != nil {
			return err
		}
		// Pods have the readiness gates of updates in place only if they are created for them.
		inPlace, err := r.steps(ctx, inPlaceDaemonSetKind(), []step{
			{phaseOut, nodesPatch(nil), r.pods, nil}, {phaseInPlace, imagePatch(image(2)), r.pods, samePods},
			{phaseIn, nodesPatch(noNodes()), 0, nil},
		})
		if err != nil {
			return err
		}
		for _, phase := range []string{phaseOut, phaseRecreate, phaseIn} {
			r.beside(daemonSetSectionName, own, r.pods, phase, took, "DaemonSet of apps/v1", controllerManager, native)
		}
		r.beside(daemonSetSectionName, inPlaceDaemonSetKind(), r.pods, phaseOut, inPlace, "DaemonSet of apps/v1",
			controllerManager, native)
		// Kubernetes' own replaces all pods for a new image.
		native[phaseInPlace] = native[phaseRecreate]
		r.beside(daemonSetSectionName, inPlaceDaemonSetKind(), r.pods, phaseInPlace, inPlace,
			"DaemonSet of apps/v1, all replaced", controllerManager, native)
		return nil
	})
}

// daemonSteps brings pods onto all nodes, replaces them, and takes them away.
func (r *rollout) daemonSteps() []step {
	return []step{
		{phaseOut, nodesPatch(nil), r.pods, nil}, {phaseRecreate, imagePatch(image(3)), r.pods, otherPods},
		{phaseIn, nodesPatch(noNodes()), 0, nil},
	}
}

// noNodes selects no node.
func noNodes() map[string]any { return map[string]any{"bench": "none"} }

// nodesPatch selects the nodes of a DaemonSet, nil for all.
func nodesPatch(selector map[string]any) map[string]any {
	return map[string]any{"template": map[string]any{"spec": map[string]any{"nodeSelector": selector}}}
}

// daemonSetKind is a DaemonSet of ours, whose updates replace pods. New ones select no node.
func daemonSetKind() kind {
	return daemonSetOf("DaemonSet", appsv1beta1.StandardDaemonSetRollingUpdateType)
}

// inPlaceDaemonSetKind is one whose pods are updated in place.
func inPlaceDaemonSetKind() kind {
	return daemonSetOf("DaemonSet InPlaceIfPossible", appsv1beta1.InPlaceIfPossibleDaemonSetRollingUpdateType)
}

func daemonSetOf(title string, rolling appsv1beta1.DaemonSetRollingUpdateType) kind {
	return kind{
		name: title,
		build: func(namespace, name string, _ int32, image string) client.Object {
			pods := template(name, image)
			pods.Spec.NodeSelector = map[string]string{"bench": "none"}
			return &appsv1beta1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Spec: appsv1beta1.DaemonSetSpec{
					Selector: selector(name), Template: appsv1beta1.NewPodTemplate(pods),
					UpdateStrategy: appsv1beta1.DaemonSetUpdateStrategy{RollingUpdate: &appsv1beta1.RollingUpdateDaemonSet{
						Type:           rolling,
						MaxUnavailable: new(intstr.FromString("100%")),
					}},
				},
			}
		},
		list: func() client.ObjectList { return &appsv1beta1.DaemonSetList{} },
		counts: func(object client.Object) counts {
			s := object.(*appsv1beta1.DaemonSet)
			return counts{
				generation: s.Generation, observed: s.Status.ObservedGeneration, all: s.Status.DesiredNumberScheduled,
				replicas: s.Status.CurrentNumberScheduled, ready: s.Status.NumberReady, updated: s.Status.UpdatedNumberScheduled,
			}
		},
	}
}

// nativeDaemonSetKind is the DaemonSet of apps/v1, whose updates replace pods.
func nativeDaemonSetKind() kind {
	return kind{
		name: "Native DaemonSet", anew: true,
		build: func(namespace, name string, _ int32, image string) client.Object {
			pods := template(name, image)
			pods.Spec.NodeSelector = map[string]string{"bench": "none"}
			return &appsv1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Spec: appsv1.DaemonSetSpec{
					Selector: selector(name), Template: pods,
					UpdateStrategy: appsv1.DaemonSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateDaemonSet{
						MaxUnavailable: new(intstr.FromString("100%")),
					}},
				},
			}
		},
		list: func() client.ObjectList { return &appsv1.DaemonSetList{} },
		counts: func(object client.Object) counts {
			s := object.(*appsv1.DaemonSet)
			return counts{
				generation: s.Generation, observed: s.Status.ObservedGeneration, all: s.Status.DesiredNumberScheduled,
				replicas: s.Status.CurrentNumberScheduled, ready: s.Status.NumberReady, updated: s.Status.UpdatedNumberScheduled,
			}
		},
	}
}
