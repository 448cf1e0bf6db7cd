package persistentpodstate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// generatedWeight is the weight of the preferred labels of an annotation, as published.
const generatedWeight = 100

// lookAgain is when it is looked again whether the cluster serves PersistentPodStates.
const lookAgain = time.Minute

// generator keeps the PersistentPodStates of workloads of one kind that ask for one by an annotation.
type generator struct {
	client client.Client
	live   client.Reader
	events events.EventRecorder
	gate   workload.Gate
	kind   schema.GroupVersionKind
	// object returns an empty workload, in the form in which the cache has it.
	object func() client.Object
}

// addGenerator adds the generator of a kind to the manager, as a controller of its own: a kind that is not served, or
// that the agent may not list, stops nothing else.
func addGenerator(env *workload.Env, kind schema.GroupVersionKind, object func() client.Object) error {
	mgr := env.Manager
	name := strings.ToLower("persistentpodstate-" + kind.Kind + "." + kind.Group)
	g := &generator{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), events: mgr.GetEventRecorder("flotilla-persistentpodstate"),
		gate: env.Gate, kind: kind, object: object,
	}
	owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), object(), handler.OnlyControllerOwner())
	err := ctrl.NewControllerManagedBy(mgr).Named(name).
		Watches(object(), &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		Watches(&v1beta1.PersistentPodState{}, owner, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(g)
	if err != nil {
		return fmt.Errorf("set up PersistentPodStates of %s: %w", kind.GroupKind(), err)
	}
	return nil
}

// Reconcile creates, updates or deletes the PersistentPodState of one workload.
func (g *generator) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	object := g.object()
	if err := g.client.Get(ctx, request.NamespacedName, object); err != nil || object.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) // the garbage collector deletes the PersistentPodState
	}
	if g.gate != nil {
		if federated, err := g.gate.Federated(ctx, object); err != nil || federated {
			return reconcile.Result{}, err
		}
	}
	err := g.keep(ctx, object, Generated(object, g.kind))
	switch {
	case meta.IsNoMatchError(err):
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	case err != nil && workload.Refused(err):
		g.events.Eventf(object, nil, corev1.EventTypeWarning, "FailedPersistentPodState", "Generate", "%s",
			workload.Note(err))
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	}
	return reconcile.Result{}, err
}

// keep makes the PersistentPodState of the workload's name be as want, nil for none. One that the workload does not
// control stays as it is.
func (g *generator) keep(ctx context.Context, object client.Object, want *v1beta1.PersistentPodState) error {
	key := client.ObjectKeyFromObject(object)
	have := &v1beta1.PersistentPodState{}
	err := g.client.Get(ctx, key, have)
	if apierrors.IsNotFound(err) {
		if want == nil {
			return nil
		}
		err := g.client.Create(ctx, want, workload.FieldOwner)
		if err != nil && !apierrors.IsAlreadyExists(err) { // what exists brings an event
			return fmt.Errorf("create PersistentPodState %s: %w", key.Name, err)
		}
		return nil
	}
	if err != nil {
		if want == nil && meta.IsNoMatchError(err) {
			return nil
		}
		return fmt.Errorf("read PersistentPodState %s: %w", key.Name, err)
	}
	switch {
	case !metav1.IsControlledBy(have, object):
		if want != nil {
			g.events.Eventf(object, nil, corev1.EventTypeWarning, "FailedPersistentPodState", "Generate",
				"PersistentPodState %s was not made from annotations, and stays as it is: delete it, or the annotation %s",
				key.Name, v1beta1.AnnotationAutoPersistentPodState)
		}
		return nil
	case want == nil:
		err = g.client.Delete(ctx, have, client.Preconditions{UID: &have.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete PersistentPodState %s: %w", key.Name, err)
		}
		return nil
	}
	changed := have.DeepCopy()
	changed.Spec.PersistentPodAnnotations = want.Spec.PersistentPodAnnotations
	changed.Spec.RequiredPersistentTopology = want.Spec.RequiredPersistentTopology
	changed.Spec.PreferredPersistentTopology = want.Spec.PreferredPersistentTopology
	if equality.Semantic.DeepEqual(have.Spec, changed.Spec) {
		return nil
	}
	if err := g.client.Update(ctx, changed, workload.FieldOwner); err != nil {
		return fmt.Errorf("update PersistentPodState %s: %w", key.Name, err)
	}
	return nil
}

// Generated returns the PersistentPodState that the annotations of a workload ask for; nil for none.
func Generated(object client.Object, kind schema.GroupVersionKind) *v1beta1.PersistentPodState {
	annotations := object.GetAnnotations()
	if annotations[v1beta1.AnnotationAutoPersistentPodState] != "true" {
		return nil
	}
	apiVersion, kindName := kind.ToAPIVersionAndKind()
	state := &v1beta1.PersistentPodState{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.GetNamespace(), Name: object.GetName(),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: apiVersion, Kind: kindName, Name: object.GetName(), UID: object.GetUID(), Controller: new(true),
			}},
		},
		Spec: v1beta1.PersistentPodStateSpec{TargetReference: v1beta1.PersistentPodStateTarget{
			APIVersion: apiVersion, Kind: kindName, Name: object.GetName(),
		}},
	}
	spec := &state.Spec
	if keys := topologyKeys(annotations[v1beta1.AnnotationRequiredTopology]); len(keys) > 0 {
		spec.RequiredPersistentTopology = &v1beta1.NodeTopologyTerm{Keys: keys}
	}
	if keys := topologyKeys(annotations[v1beta1.AnnotationPreferredTopology]); len(keys) > 0 {
		spec.PreferredPersistentTopology = []v1beta1.PreferredTopologyTerm{
			{Weight: generatedWeight, Preference: v1beta1.NodeTopologyTerm{Keys: keys}},
		}
	}
	for _, key := range split(annotations[v1beta1.AnnotationPersistentAnnotations]) {
		spec.PersistentPodAnnotations = append(spec.PersistentPodAnnotations, v1beta1.PersistentPodAnnotation{Key: key})
	}
	if spec.RequiredPersistentTopology == nil && spec.PreferredPersistentTopology == nil &&
		spec.PersistentPodAnnotations == nil {
		return nil
	}
	return state
}

func topologyKeys(text string) (keys []v1beta1.TopologyKey) {
	for _, key := range split(text) {
		keys = append(keys, v1beta1.TopologyKey(key))
	}
	return keys
}

// split returns the entries of a list with commas, without spaces around them.
func split(text string) (out []string) {
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			out = append(out, entry)
		}
	}
	return out
}

// custom adds generators for the kinds of the white list, as it is when the agent begins to lead.
func custom(env *workload.Env) func(context.Context) error {
	return func(ctx context.Context) error {
		kinds, err := whiteListed(ctx, env.Manager.GetAPIReader(), env.Namespace)
		for _, kind := range kinds {
			if watched(kind.GroupKind()) {
				continue
			}
			err = errors.Join(err, addGenerator(env, kind, func() client.Object {
				object := &metav1.PartialObjectMetadata{}
				object.SetGroupVersionKind(kind)
				return object
			}))
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "workloads of the white list get no PersistentPodState by annotations")
		}
		return nil
	}
}
