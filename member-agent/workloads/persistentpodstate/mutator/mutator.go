// Package mutator gives new pods what a PersistentPodState has recorded of the pod of the same name before: node labels
// that it needs as a node selector, node labels that it prefers as node affinity, and annotations. What the pod has
// already stays.
//
// No pod is refused: while nobody answers, and in any doubt, it starts as it is (failure policy Ignore).
package mutator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/persistentpodstate"
)

// mutator gives pods back what is recorded. It reads the cache only.
type mutator struct {
	reader client.Reader
	caches interface {
		Wait(context.Context) error
		Synced() bool
	}
	// federated reports whether a hub owns the workloads of a namespace.
	federated func(ctx context.Context, namespace string) (bool, error)
	log       logr.Logger
}

// New returns the mutator, and has the manager fill the caches that it reads. federated reports whether a hub owns the
// workloads of a namespace; their pods get nothing back.
func New(
	mgr ctrl.Manager, federated func(ctx context.Context, namespace string) (bool, error),
) (admission.Mutator, error) {
	caches, err := admission.NewCaches(mgr, &v1beta1.PersistentPodState{})
	if err != nil {
		return admission.Mutator{}, err
	}
	m := &mutator{mgr.GetClient(), caches, federated, mgr.GetLogger().WithName("persistent-pod-state")}
	return admission.Mutator{
		Name: v1beta1.PersistentPodStateKind.Kind, Scope: m.scope, Mutate: m.mutate, Changes: caches.Changes(),
	}, nil
}

// scope returns which pods the API server sends: those that a target of a PersistentPodState controls.
func (m *mutator) scope(ctx context.Context) ([]admission.Scope, error) {
	if !m.caches.Synced() {
		return nil, nil // Changes has an event when they are
	}
	var list v1beta1.PersistentPodStateList
	if err := m.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PersistentPodStates: %w", err)
	}
	targets := map[schema.GroupKind][]string{}
	namespaces := map[string]bool{}
	for i := range list.Items {
		state := &list.Items[i]
		ref := state.Spec.TargetReference
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		if state.DeletionTimestamp != nil || !quotable(kind.Group) || !quotable(strings.ToLower(kind.Kind)) ||
			!quotable(ref.Name) {
			continue
		}
		targets[kind] = append(targets[kind], "'"+state.Namespace+"/"+ref.Name+"'")
		namespaces[state.Namespace] = true
	}
	if len(targets) == 0 {
		return nil, nil
	}
	var narrow, wide []string
	kinds := slices.SortedFunc(maps.Keys(targets), func(a, b schema.GroupKind) int {
		return strings.Compare(a.String(), b.String())
	})
	for _, kind := range kinds {
		owner := fmt.Sprintf("o.apiVersion.startsWith('%s/') && o.kind == '%s'", kind.Group, kind.Kind)
		names := slices.Compact(slices.Sorted(slices.Values(targets[kind])))
		narrow = append(narrow, owner+" && request.namespace + '/' + o.name in ["+strings.Join(names, ", ")+"]")
		wide = append(wide, owner)
	}
	return []admission.Scope{{
		Name: "targets of PersistentPodStates", FailurePolicy: admissionregistrationv1.Ignore,
		Namespaces: slices.Sorted(maps.Keys(namespaces)), Condition: controlledBy(narrow), Wide: controlledBy(wide),
	}}, nil
}

// quotable reports whether a text is a name, which does not break out of the quotes of an expression.
func quotable(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }

// controlledBy returns the expression that the controller of the pod satisfies one of the conditions.
func controlledBy(conditions []string) string {
	return "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, " +
		"has(o.controller) && o.controller && (" + strings.Join(conditions, " || ") + "))"
}

// mutate gives the pod back what is recorded. Whatever goes wrong, the pod starts as it is.
func (m *mutator) mutate(ctx context.Context, request *admission.Request) error {
	log := m.log.WithValues("namespace", request.Namespace, "pod", request.Name)
	defer func() {
		if p := recover(); p != nil {
			log.Error(fmt.Errorf("panic: %v", p), "admitted a pod without what is recorded of it")
		}
	}()
	if err := m.restore(ctx, request); err != nil {
		log.Error(err, "admitted a pod without what is recorded of it")
	}
	return nil
}

func (m *mutator) restore(ctx context.Context, request *admission.Request) error {
	pod, err := request.Pod()
	if err != nil || pod.Name == "" || metav1.GetControllerOfNoCopy(pod) == nil {
		return err
	}
	owners, err := admission.ControlledBy(ctx, m.reader, pod, nil)
	if err != nil {
		return err
	}
	if !m.caches.Synced() {
		request.Waited()
	}
	if err := m.caches.Wait(ctx); err != nil {
		return err
	}
	var list v1beta1.PersistentPodStateList
	err = m.reader.List(ctx, &list, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list PersistentPodStates: %w", err)
	}
	state := persistentpodstate.Ruling(list.Items, func(ref v1beta1.PersistentPodStateTarget) bool {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		return slices.ContainsFunc(owners, func(o admission.Owner) bool { return o.GroupKind == kind && o.Name == ref.Name })
	})
	if state == nil {
		return nil
	}
	record, ok := state.Status.PodStates[pod.Name]
	if !ok {
		return nil
	}
	if federated, err := m.federated(ctx, pod.Namespace); err != nil || federated {
		return err
	}
	return request.Change(func(pod *corev1.Pod) error {
		if give(pod, &state.Spec, record) {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1beta1.AnnotationInjectedPersistentPodState, state.Name)
		}
		return nil
	})
}

// give gives the pod what is recorded of it, and reports whether that changed the pod. A pod that is changed says which
// labels it got, so that those of its template are known.
func give(pod *corev1.Pod, spec *v1beta1.PersistentPodStateSpec, record v1beta1.PodState) (changed bool) {
	var keys []string
	for key, value := range persistentpodstate.Needs(spec, record) {
		if _, has := pod.Spec.NodeSelector[key]; has {
			continue
		}
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[key], changed = value, true
		keys = append(keys, key)
	}
	for _, annotation := range spec.PersistentPodAnnotations {
		value, recorded := record.Annotations[annotation.Key]
		if _, has := pod.Annotations[annotation.Key]; recorded && !has {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotation.Key, value)
			changed = true
		}
	}
	changed = prefer(pod, spec.PreferredPersistentTopology, record) || changed
	if changed && spec.RequiredPersistentTopology != nil {
		slices.Sort(keys)
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1beta1.AnnotationPersistentNodeLabels, strings.Join(keys, ","))
	}
	return changed
}

// prefer gives the pod the terms that it prefers, and reports whether there are any.
func prefer(pod *corev1.Pod, preferred []v1beta1.PreferredTopologyTerm, record v1beta1.PodState) bool {
	var terms []corev1.PreferredSchedulingTerm
	for _, term := range preferred {
		var requirements []corev1.NodeSelectorRequirement
		for _, key := range term.Preference.Keys {
			if value, ok := record.NodeTopologyLabels[string(key)]; ok {
				requirements = append(requirements, corev1.NodeSelectorRequirement{
					Key: string(key), Operator: corev1.NodeSelectorOpIn, Values: []string{value},
				})
			}
		}
		if len(requirements) > 0 {
			terms = append(terms, corev1.PreferredSchedulingTerm{
				Weight: term.Weight, Preference: corev1.NodeSelectorTerm{MatchExpressions: requirements},
			})
		}
	}
	if len(terms) == 0 {
		return false
	}
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := pod.Spec.Affinity.NodeAffinity
	affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
		affinity.PreferredDuringSchedulingIgnoredDuringExecution, terms...)
	return true
}
