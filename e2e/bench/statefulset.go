package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const (
	statefulSetSectionName = "statefulset"
	// orderedPods is the size at which OrderedReady is measured: one pod comes after the other.
	orderedPods = 100
)

// step is one change of a workload's spec that is measured.
type step struct {
	phase string
	spec  map[string]any
	pods  int
	// verify checks the pods before and after, nil for no check.
	verify func(before, after map[string]*corev1.Pod) error
}

// statefulSetSection measures advanced StatefulSets beside native ones with the same pod management, and beside a
// CloneSet.
func statefulSetSection(ctx context.Context, b *bench) error {
	b.pods = b.sizes[0]
	return inOneCluster(ctx, b, nodesFor(b.pods), func(ctx context.Context, r *rollout) error {
		native, err := r.steps(ctx, nativeStatefulSetKind(appsv1.ParallelPodManagement), r.outAndIn())
		if err != nil {
			return err
		}
		ordered, err := r.orderedSteps(ctx, nativeStatefulSetKind(appsv1.OrderedReadyPodManagement))
		if err != nil {
			return err
		}
		gated, err := r.gatedOrdered(ctx)
		if err != nil {
			return err
		}
		if err := r.agent(ctx); err != nil {
			return err
		}
		clones, err := r.steps(ctx, cloneSetKind(), r.allSteps())
		if err != nil {
			return err
		}
		parallel := statefulSetKind(appsv1.ParallelPodManagement)
		took, err := r.steps(ctx, parallel, r.allSteps())
		if err != nil {
			return err
		}
		for _, phase := range []string{phaseOut, phaseIn} {
			r.beside(statefulSetSectionName, parallel, r.pods, phase, took, "StatefulSet of apps/v1, Parallel",
				controllerManager, native)
		}
		for _, phase := range []string{phaseOut, phaseInPlace, phaseRecreate, phaseIn} {
			r.beside(statefulSetSectionName, parallel, r.pods, phase, took, "CloneSet", fleet.AgentProgram, clones)
		}
		inOrder := statefulSetKind(appsv1.OrderedReadyPodManagement)
		if took, err = r.orderedSteps(ctx, inOrder); err != nil {
			return err
		}
		for _, phase := range []string{phaseOut, phaseIn} {
			r.beside(statefulSetSectionName, inOrder, orderedPods, phase, took, "StatefulSet of apps/v1, OrderedReady",
				controllerManager, ordered)
			r.beside(statefulSetSectionName, inOrder, orderedPods, phase, took,
				"StatefulSet of apps/v1, OrderedReady, with the readiness gate", controllerManager, gated)
		}
		return nil
	})
}

func (r *rollout) outAndIn() []step {
	return []step{{phaseOut, replicasPatch(r.pods), r.pods, nil}, {phaseIn, replicasPatch(0), 0, nil}}
}

func (r *rollout) allSteps() []step {
	return []step{
		{phaseOut, replicasPatch(r.pods), r.pods, nil},
		{phaseInPlace, imagePatch(image(2)), r.pods, samePods},
		{"", policyPatch(appsv1beta1.ReCreatePodUpdatePolicy), r.pods, samePods},
		{phaseRecreate, imagePatch(image(3)), r.pods, otherPods},
		{phaseIn, replicasPatch(0), 0, nil},
	}
}

// orderedSteps measures how many pods of orderedPods come and go one by one.
func (r *rollout) orderedSteps(ctx context.Context, k kind) (map[string]measured, error) {
	all := r.pods
	defer func() { r.pods = all }()
	r.pods = orderedPods
	return r.steps(ctx, k, r.outAndIn())
}

// gatedOrdered measures the native OrderedReady with pods that have the readiness gate of updates in place, which a
// client opens as soon as it sees the pod.
func (r *rollout) gatedOrdered(ctx context.Context) (map[string]measured, error) {
	k := nativeStatefulSetKind(appsv1.OrderedReadyPodManagement)
	plain := k.build
	k.name = "Native StatefulSet OrderedReady with gate"
	k.build = func(namespace, name string, replicas int32, image string) client.Object {
		set := plain(namespace, name, replicas, image).(*appsv1.StatefulSet)
		set.Spec.Template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: appsv1beta1.InPlaceUpdateReady}}
		return set
	}
	all := r.pods
	defer func() { r.pods = all }()
	r.pods = orderedPods
	var took map[string]measured
	err := r.whileOpening(ctx, r.named(nameOf(k)), func(ctx context.Context) (err error) {
		took, err = r.steps(ctx, k, r.outAndIn())
		return err
	})
	return took, err
}

// steps creates a workload of the kind, measures its steps and returns what each phase took.
func (r *rollout) steps(ctx context.Context, k kind, steps []step) (map[string]measured, error) {
	name := r.named(nameOf(k))
	if err := r.start(ctx, k, name); err != nil {
		return nil, err
	}
	out := map[string]measured{}
	var before map[string]*corev1.Pod
	for _, s := range steps {
		took, err := r.phase(ctx, k, name, s.phase, s.spec, s.pods)
		if err != nil {
			return nil, err
		}
		after, err := r.podsOf(ctx, name)
		if err != nil {
			return nil, err
		}
		if s.verify != nil {
			if err := s.verify(before, after); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", k.name, s.phase, err)
			}
		}
		before, out[s.phase] = after, took
	}
	return out, nil
}

// beside reports the seconds and the controller's CPU of a phase beside those of another kind in the same run.
func (r *rollout) beside(section string, k kind, pods int, phase string, took map[string]measured, floor,
	program string, floors map[string]measured) {
	title := fmt.Sprintf("%s of %d, %s", k.name, pods, phase)
	r.report.addWithFloor(section, title, "s", took[phase].seconds, floor, floors[phase].seconds)
	perPod := func(seconds float64) float64 { return seconds * 1000 / float64(pods) }
	r.report.addWithFloor(section+", CPU of the controller per pod", title, "ms",
		perPod(took[phase].cpu[fleet.AgentProgram]), program+" for the "+floor, perPod(floors[phase].cpu[program]))
}

// statefulSetKind is an advanced StatefulSet, updated in place.
func statefulSetKind(policy appsv1.PodManagementPolicyType) kind {
	return kind{
		name: "StatefulSet " + string(policy),
		build: func(namespace, name string, replicas int32, image string) client.Object {
			rolling := &appsv1beta1.RollingUpdateStatefulSetStrategy{
				PodUpdatePolicy: appsv1beta1.InPlaceIfPossiblePodUpdatePolicy,
			}
			if policy == appsv1.ParallelPodManagement {
				rolling.MaxUnavailable = new(intstr.FromString("100%"))
			}
			return &appsv1beta1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Spec: appsv1beta1.StatefulSetSpec{
					Replicas: new(replicas), Selector: selector(name), PodManagementPolicy: policy,
					Template:       appsv1beta1.NewPodTemplate(template(name, image)),
					UpdateStrategy: appsv1beta1.StatefulSetUpdateStrategy{RollingUpdate: rolling},
				},
			}
		},
		list: func() client.ObjectList { return &appsv1beta1.StatefulSetList{} },
		counts: func(object client.Object) counts {
			s := object.(*appsv1beta1.StatefulSet)
			return counts{
				generation: s.Generation, observed: s.Status.ObservedGeneration, all: ptr.Deref(s.Spec.Replicas, 1),
				replicas: s.Status.Replicas, ready: s.Status.ReadyReplicas, updated: s.Status.UpdatedReplicas,
			}
		},
	}
}

// nativeStatefulSetKind is the StatefulSet of apps/v1, whose updates replace pods.
func nativeStatefulSetKind(policy appsv1.PodManagementPolicyType) kind {
	return kind{
		name: "Native StatefulSet " + string(policy), anew: true,
		build: func(namespace, name string, replicas int32, image string) client.Object {
			return &appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Spec: appsv1.StatefulSetSpec{
					Replicas: new(replicas), Selector: selector(name), PodManagementPolicy: policy,
					Template: template(name, image),
				},
			}
		},
		list: func() client.ObjectList { return &appsv1.StatefulSetList{} },
		counts: func(object client.Object) counts {
			s := object.(*appsv1.StatefulSet)
			return counts{
				generation: s.Generation, observed: s.Status.ObservedGeneration, all: ptr.Deref(s.Spec.Replicas, 1),
				replicas: s.Status.Replicas, ready: s.Status.ReadyReplicas, updated: s.Status.UpdatedReplicas,
			}
		},
	}
}
