package workloadspread

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// Reasons why a WorkloadSpread does nothing: the first ones until a person changes something, TargetNotFound until the
// target comes.
const (
	// ReasonInvalidSpread: the spec cannot be used.
	ReasonInvalidSpread = "InvalidSpread"
	// ReasonUnsupportedTarget: the target is of a kind whose pods are not spread.
	ReasonUnsupportedTarget = "UnsupportedTarget"
	// ReasonTargetTaken: an older WorkloadSpread rules the target.
	ReasonTargetTaken = "TargetTaken"
	// ReasonInvalidPatch: the patch of a subset would make the target lose its pods.
	ReasonInvalidPatch = "InvalidPatch"
	// ReasonTargetNotFound: there is no such workload.
	ReasonTargetNotFound = "TargetNotFound"
)

// observed is what gather saw. Nothing in it is changed by the plan.
type observed struct {
	ws     *v1beta1.WorkloadSpread
	target spread.Target
	now    time.Time
	rule   spread.Rule

	// stalled says why nothing is done before a person changes something, waiting why nothing is done for now.
	stalled, waiting *conditions.Cause
	// patch says which patch cannot be given to the pods of the target; everything else is done.
	patch *conditions.Cause

	object   client.Object // the target, in the form of the cache
	replicas int32         // that it asks for
	newest   string        // the version of it that is rolled out
	pods     []*corev1.Pod // the active ones that targetFilter selects; from the cache
	leaving  int           // pods of the target that are being deleted
	node     func(name string) *corev1.Node
}

// gather reads what the plan needs. A WorkloadSpread that is being deleted is only reported.
func (r *reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	if s.ws.DeletionTimestamp != nil {
		return false, r.reportDeletion(ctx, s)
	}
	s.seen = &observed{ws: s.ws, target: spread.TargetOf(s.ws), now: r.Clock.Now(), node: r.node(ctx)}
	return true, r.observe(ctx, s.seen, s.Memory)
}

// observe fills o, as far as nothing hinders.
func (r *reconciler) observe(ctx context.Context, o *observed, known *number) error {
	if err := spread.Validate(o.ws); err != nil {
		o.stalled = &conditions.Cause{Reason: ReasonInvalidSpread, Message: err.Error()}
		return nil
	}
	gvk, ok := kindOf(o.target)
	if !ok {
		o.stalled = &conditions.Cause{Reason: ReasonUnsupportedTarget, Message: fmt.Sprintf(
			"targetRef is a %s of %s: only pods of CloneSets and StatefulSets (apps.kruise.io), Deployments, ReplicaSets and "+
				"StatefulSets (apps), and Jobs (batch) are spread",
			o.target.Kind, o.ws.Spec.TargetReference.APIVersion)}
		return nil
	}
	rules, err := r.ruling(ctx, o)
	if err != nil {
		return err
	}
	if rules != nil && rules.UID != o.ws.UID {
		o.stalled = &conditions.Cause{Reason: ReasonTargetTaken, Message: fmt.Sprintf(
			"%s %s is spread by the older WorkloadSpread %s, and by one at a time: delete one of the two", o.target.Kind,
			o.target.Name, rules.Name)}
		return nil
	}
	if o.object, err = r.readTarget(ctx, o.ws.Namespace, o.target.Name, gvk); err != nil {
		return err
	}
	if above := deploymentOf(o.object); above != nil && len(r.registry.of(o.ws.Namespace, *above)) > 0 {
		o.stalled = &conditions.Cause{Reason: ReasonTargetTaken, Message: fmt.Sprintf(
			"%s %s belongs to Deployment %s, which the WorkloadSpread %s spreads: delete one of the two",
			o.target.Kind, o.target.Name, above.Name, r.registry.of(o.ws.Namespace, *above)[0].Name)}
		return nil
	}
	if o.object != nil {
		o.replicas, err = r.replicas(ctx, o.ws, o.object, known)
		if wrong := (*pathError)(nil); errors.As(err, &wrong) {
			o.stalled = &conditions.Cause{Reason: ReasonInvalidSpread, Message: wrong.Error()}
			return nil
		}
		if apierrors.IsNotFound(err) {
			o.object, err = nil, nil // it went a moment ago
		}
		if err != nil {
			return err
		}
	}
	if o.object == nil {
		o.waiting = &conditions.Cause{Reason: ReasonTargetNotFound, Message: fmt.Sprintf(
			"there is no %s %s in this namespace; its pods are spread as soon as there is", o.target.Kind, o.target.Name)}
	} else {
		o.patch = refusedPatch(o.ws, o.object)
	}
	if o.rule, err = spread.Resolve(o.ws, o.replicas); err != nil {
		o.stalled = &conditions.Cause{Reason: ReasonInvalidSpread, Message: err.Error()}
		return nil
	}
	return r.observePods(ctx, o)
}

// refusedPatch tells which patch makes the target lose its pods, nil if none does.
func refusedPatch(ws *v1beta1.WorkloadSpread, target client.Object) *conditions.Cause {
	template := templateOf(target)
	if template == nil {
		return nil
	}
	for i := range ws.Spec.Subsets {
		if err := spread.Stamp(template.DeepCopy(), ws, ws.Spec.Subsets[i].Name, selectorOf(target, "")); err != nil {
			return &conditions.Cause{Reason: ReasonInvalidPatch, Message: err.Error()}
		}
	}
	return nil
}

// deploymentOf returns the Deployment that a ReplicaSet belongs to; nil for all else.
func deploymentOf(target client.Object) *spread.Target {
	if target == nil {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(target)
	if owner == nil || owner.Kind != "Deployment" {
		return nil
	}
	above := controllerTarget(owner)
	return &above
}

// ruling returns the WorkloadSpread that rules the target.
func (r *reconciler) ruling(ctx context.Context, o *observed) (*v1beta1.WorkloadSpread, error) {
	spreads := []*v1beta1.WorkloadSpread{o.ws}
	for _, key := range r.registry.of(o.ws.Namespace, o.target) {
		if key.Name == o.ws.Name {
			continue
		}
		other := &v1beta1.WorkloadSpread{}
		if err := r.Client.Get(ctx, key, other); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return nil, fmt.Errorf("read the other WorkloadSpread %s: %w", key.Name, err)
		}
		spreads = append(spreads, other)
	}
	return spread.Ruling(spreads), nil
}

// observePods finds the pods of the target, and its newest version.
func (r *reconciler) observePods(ctx context.Context, o *observed) error {
	if o.object == nil {
		return nil
	}
	owners := []types.UID{o.object.GetUID()}
	switch o.target.Kind {
	case "ReplicaSet":
		o.newest = o.object.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]
	case "Deployment":
		sets, err := r.replicaSets(ctx, o.object)
		if err != nil {
			return err
		}
		owners = owners[:0]
		best := int64(-1)
		for i := range sets {
			owners = append(owners, sets[i].UID)
			// The Deployment controller counts up, also when it goes back to an older template.
			if n, _ := strconv.ParseInt(sets[i].Annotations[annotationRevision], 10, 64); n > best {
				best, o.newest = n, sets[i].Labels[appsv1.DefaultDeploymentUniqueLabelKey]
			}
		}
	}
	for _, uid := range owners {
		set, err := r.Pods.Observe(uid, nil)
		if err != nil {
			return err
		}
		o.leaving += len(set.Terminating)
		for _, pod := range set.Active {
			if o.rule.Selects(pod) {
				o.pods = append(o.pods, pod)
			}
		}
	}
	return nil
}

// annotationRevision is on a ReplicaSet of a Deployment: the number of the rollout that it came or came back with.
const annotationRevision = "deployment.kubernetes.io/revision"

// indexField is the cache's index of ReplicaSets by the uid of their controller.
const indexField = "workloadspread.controller"

func indexReplicaSets(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, metadataOf(replicaSetGVK), indexField, func(object client.Object) []string {
		if ref := metav1.GetControllerOfNoCopy(object); ref != nil {
			return []string{string(ref.UID)}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index ReplicaSets by their Deployment: %w", err)
	}
	return nil
}

func (r *reconciler) replicaSets(ctx context.Context, deployment client.Object) ([]metav1.PartialObjectMetadata,
	error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(replicaSetGVK.GroupVersion().WithKind("ReplicaSetList"))
	err := r.Client.List(ctx, &list, client.InNamespace(deployment.GetNamespace()),
		client.MatchingFields{indexField: string(deployment.GetUID())}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the ReplicaSets of Deployment %s: %w", client.ObjectKeyFromObject(deployment), err)
	}
	return list.Items, nil
}

// node returns what reads a node with its name and labels, nil if the cache does not have it.
func (r *reconciler) node(ctx context.Context) func(name string) *corev1.Node {
	known := map[string]*corev1.Node{}
	return func(name string) *corev1.Node {
		found, ok := known[name]
		if !ok {
			object := metadataOf(corev1.SchemeGroupVersion.WithKind("Node"))
			if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, object, client.UnsafeDisableDeepCopy); err == nil {
				found = &corev1.Node{ObjectMeta: object.ObjectMeta}
			}
			known[name] = found
		}
		return found
	}
}
