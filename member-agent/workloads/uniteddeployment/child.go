package uniteddeployment

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// kind is the kind of a child.
type kind string

const (
	cloneSetKind    kind = "CloneSet"
	deploymentKind  kind = "Deployment"
	statefulSetKind kind = "StatefulSet" // of apps/v1
)

// child is a child as it was observed. The object comes from the cache and must not be changed.
type child struct {
	kind     kind
	object   client.Object
	subset   string
	revision string // of the UnitedDeployment, by label
	replicas int32  // asked for
	observed bool   // its controller has seen its newest generation
	pods     counters
	// canGoBack: it has an old revision, to which a higher partition brings updated pods back.
	canGoBack bool
	// stalled and failed are what its controller says of it: that only a person can help, or that it tries again.
	stalled, failed *conditions.Cause
}

// counters are numbers of pods.
type counters struct {
	replicas, ready, available, updated, updatedReady, updatedAvailable int32
}

func (c *child) terminating() bool { return c.object.GetDeletionTimestamp() != nil }

// empty tells that the child asks for no pods and has none.
func (c *child) empty() bool { return c.replicas == 0 && c.observed && c.pods.replicas == 0 }

// name returns "Kind name" for sentences.
func (c *child) name() string { return string(c.kind) + " " + c.object.GetName() }

func fromCloneSet(set *kruise.CloneSet) child {
	c := child{
		kind:     cloneSetKind,
		object:   set,
		subset:   subsetOf(set, set.Spec.Selector),
		revision: set.Labels[kruise.LabelSubsetRevision],
		replicas: orOne(set.Spec.Replicas),
		observed: set.Status.ObservedGeneration >= set.Generation,
		pods: counters{
			replicas:     set.Status.Replicas,
			ready:        set.Status.ReadyReplicas,
			available:    set.Status.AvailableReplicas,
			updated:      set.Status.UpdatedReplicas,
			updatedReady: set.Status.UpdatedReadyReplicas,

			updatedAvailable: set.Status.UpdatedAvailableReplicas,
		},
		canGoBack: set.Status.CanGoBack(),
	}
	for i := range set.Status.Conditions {
		condition := &set.Status.Conditions[i]
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		cause := &conditions.Cause{Reason: condition.Reason, Message: condition.Message}
		switch condition.Type {
		case kruise.ConditionStalled:
			c.stalled = cause
		case kruise.CloneSetConditionFailedScale, kruise.CloneSetConditionFailedUpdate:
			c.failed = cause
		}
	}
	return c
}

func fromDeployment(d *appsv1.Deployment) child {
	status := &d.Status
	c := child{
		kind:     deploymentKind,
		object:   d,
		subset:   subsetOf(d, d.Spec.Selector),
		revision: d.Labels[kruise.LabelSubsetRevision],
		replicas: orOne(d.Spec.Replicas),
		observed: status.ObservedGeneration >= d.Generation,
		pods: counters{
			replicas:  status.Replicas,
			ready:     status.ReadyReplicas,
			available: status.AvailableReplicas,
			updated:   status.UpdatedReplicas,

			updatedReady:     certainlyUpdated(status.Replicas, status.UpdatedReplicas, status.ReadyReplicas),
			updatedAvailable: certainlyUpdated(status.Replicas, status.UpdatedReplicas, status.AvailableReplicas),
		},
	}
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			c.failed = &conditions.Cause{Reason: condition.Reason, Message: condition.Message}
		}
	}
	return c
}

// fromStatefulSet observes an apps/v1 StatefulSet. It has no way back: a higher partition makes pods of the old revision
// only where pods are made anew.
func fromStatefulSet(set *appsv1.StatefulSet) child {
	status := &set.Status
	return child{
		kind:     statefulSetKind,
		object:   set,
		subset:   subsetOf(set, set.Spec.Selector),
		revision: set.Labels[kruise.LabelSubsetRevision],
		replicas: orOne(set.Spec.Replicas),
		observed: status.ObservedGeneration >= set.Generation,
		pods: counters{
			replicas:  status.Replicas,
			ready:     status.ReadyReplicas,
			available: status.AvailableReplicas,
			updated:   status.UpdatedReplicas,

			updatedReady:     certainlyUpdated(status.Replicas, status.UpdatedReplicas, status.ReadyReplicas),
			updatedAvailable: certainlyUpdated(status.Replicas, status.UpdatedReplicas, status.AvailableReplicas),
		},
	}
}

// certainlyUpdated returns how many of n pods must be updated ones: Deployments and StatefulSets do not say, so all old
// ones count as being among the n.
func certainlyUpdated(replicas, updated, n int32) int32 {
	return min(updated, max(0, n-(replicas-updated)))
}

// subsetOf returns the subset of a child: its selector says so and cannot be changed by hand as easily as its label.
func subsetOf(object client.Object, selector *metav1.LabelSelector) string {
	if selector != nil && selector.MatchLabels[kruise.LabelSubset] != "" {
		return selector.MatchLabels[kruise.LabelSubset]
	}
	return object.GetLabels()[kruise.LabelSubset]
}

// orOne returns replicas, or the 1 that the API means by leaving it out.
func orOne(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// specOf returns the spec of a child object.
func specOf(object client.Object) any {
	switch o := object.(type) {
	case *kruise.CloneSet:
		return &o.Spec
	case *appsv1.Deployment:
		return &o.Spec
	case *appsv1.StatefulSet:
		return &o.Spec
	}
	return nil
}

// emptyOf returns an empty object of the kind.
func emptyOf(k kind) client.Object {
	switch k {
	case deploymentKind:
		return &appsv1.Deployment{}
	case statefulSetKind:
		return &appsv1.StatefulSet{}
	}
	return &kruise.CloneSet{}
}

// childOf observes an object of any kind of child.
func childOf(object client.Object) child {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return fromDeployment(o)
	case *appsv1.StatefulSet:
		return fromStatefulSet(o)
	}
	set, _ := object.(*kruise.CloneSet)
	return fromCloneSet(set)
}
