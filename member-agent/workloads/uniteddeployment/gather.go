package uniteddeployment

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// indexField is the cache index of children by the uid of the UnitedDeployment that controls them.
const indexField = "uniteddeployment.controller"

// indexChildren indexes the native kinds. CloneSets and StatefulSets of apps.kruise.io have no index: it cannot be made
// before their definitions are there, and its lack would end the agent.
func indexChildren(ctx context.Context, indexer client.FieldIndexer) error {
	for _, k := range []kind{deploymentKind, statefulSetKind} {
		err := indexer.IndexField(ctx, emptyOf(k), indexField, func(object client.Object) []string {
			if ref := metav1.GetControllerOf(object); ref != nil && ref.Kind == kruise.UnitedDeploymentKind.Kind {
				return []string{string(ref.UID)}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("index %ss by their UnitedDeployment: %w", k, err)
		}
	}
	return nil
}

// gatherChildren returns all children. They come from the cache and must not be changed; children that we made and that
// the cache does not know yet are read from the API server.
func (r *reconciler) gatherChildren(ctx context.Context, s *scope) ([]child, error) {
	ud := s.ud
	all := []client.ListOption{client.InNamespace(ud.Namespace), client.UnsafeDisableDeepCopy}
	options := append(slices.Clone(all), client.MatchingFields{indexField: string(ud.UID)})
	var sets kruise.CloneSetList
	if err := r.Client.List(ctx, &sets, all...); err != nil {
		return nil, fmt.Errorf("list its CloneSets: %w", err)
	}
	var deployments appsv1.DeploymentList
	if err := r.Client.List(ctx, &deployments, options...); err != nil {
		return nil, fmt.Errorf("list its Deployments: %w", err)
	}
	var statefulSets appsv1.StatefulSetList
	if err := r.Client.List(ctx, &statefulSets, options...); err != nil {
		return nil, fmt.Errorf("list its StatefulSets: %w", err)
	}
	var advanced kruise.StatefulSetList
	if err := r.Client.List(ctx, &advanced, all...); err != nil {
		return nil, fmt.Errorf("list its StatefulSets of apps.kruise.io: %w", err)
	}
	var children []child
	for i := range sets.Items {
		if metav1.IsControlledBy(&sets.Items[i], ud) {
			children = append(children, fromCloneSet(&sets.Items[i]))
		}
	}
	for i := range deployments.Items {
		children = append(children, fromDeployment(&deployments.Items[i]))
	}
	for i := range statefulSets.Items {
		children = append(children, fromStatefulSet(&statefulSets.Items[i]))
	}
	for i := range advanced.Items {
		if metav1.IsControlledBy(&advanced.Items[i], ud) {
			children = append(children, fromAdvanced(&advanced.Items[i]))
		}
	}
	for _, made := range s.Memory.unseen(children) {
		c, err := r.readMade(ctx, ud, made)
		if err != nil {
			return nil, err
		}
		if c == nil {
			s.Memory.lost(made.uid)
			continue
		}
		children = append(children, *c)
	}
	s.Memory.keep(children)
	s.Memory.correct(children)
	return children, nil
}

// readMade reads a child that we made from the API server; nil if it is gone.
func (r *reconciler) readMade(ctx context.Context, ud *kruise.UnitedDeployment, made created) (*child, error) {
	object := emptyOf(made.kind)
	key := client.ObjectKey{Namespace: ud.Namespace, Name: made.name}
	if err := r.Live.Get(ctx, key, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read %s %s: %w", made.kind, key, err)
	}
	if object.GetUID() != made.uid || !metav1.IsControlledBy(object, ud) {
		return nil, nil
	}
	c := childOf(object)
	return &c, nil
}

// gather reads what the plan needs.
func (r *reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	children, err := r.gatherChildren(ctx, s)
	if err != nil {
		return false, err
	}
	pods, err := r.gatherPods(ctx, s, children)
	if err != nil {
		return false, err
	}
	waiting, err := r.gatherWaits(ctx, children)
	if err != nil {
		return false, err
	}
	revisions, err := r.History.List(ctx, historyOwner(s.ud))
	if err != nil {
		return false, err
	}
	known, marked := s.Memory.own()
	s.seen = &observed{
		ud: s.ud, budget: s.Budget, cluster: r.cluster, now: r.Clock.Now(),
		children: children, revisions: revisions, pods: pods, known: known, marked: marked, waiting: waiting,
	}
	return true, nil
}

// podIndex is the cache index of pods by their child, "<kind>/<name>". Only pods with the label of a subset are in it.
const podIndex = "uniteddeployment.child"

func indexPods(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &corev1.Pod{}, podIndex, func(pod client.Object) []string {
		if k, name, ok := childOfPod(pod); ok {
			return []string{podKey(k, name)}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index pods by the child of a UnitedDeployment: %w", err)
	}
	return nil
}

func podKey(k kind, name string) string { return string(k) + "/" + name }

// childOfPod returns the kind and the name of the child that a pod belongs to; ok is false for pods of no subset. Pods
// of a Deployment belong to its ReplicaSets, whose names are the Deployment's and the hash that their pods have as a
// label.
func childOfPod(pod client.Object) (k kind, name string, ok bool) {
	labels, ref := pod.GetLabels(), metav1.GetControllerOfNoCopy(pod)
	if ref == nil || labels[kruise.LabelSubset] == "" {
		return "", "", false
	}
	own := ref.APIVersion == appsv1.SchemeGroupVersion.String()
	switch {
	case ref.Kind == "ReplicaSet" && own:
		name, ok = strings.CutSuffix(ref.Name, "-"+labels[appsv1.DefaultDeploymentUniqueLabelKey])
		return deploymentKind, name, ok
	case ref.Kind == string(statefulSetKind) && own:
		return statefulSetKind, ref.Name, true
	case ref.Kind == kruise.StatefulSetKind.Kind && strings.HasPrefix(ref.APIVersion, kruise.GroupVersion.Group+"/"):
		return advancedKind, ref.Name, true
	case ref.Kind == string(cloneSetKind):
		return cloneSetKind, ref.Name, true
	}
	return "", "", false
}

// podsOf returns the pods of a child that are neither finished nor being deleted. They are the cache's and must not be
// changed.
func (r *reconciler) podsOf(ctx context.Context, c *child) ([]*corev1.Pod, error) {
	pods, err := r.allPodsOf(ctx, c)
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !podstate.Active(pod) }), err
}

// allPodsOf returns the pods of a child, also those that are finished or being deleted.
func (r *reconciler) allPodsOf(ctx context.Context, c *child) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := r.Client.List(ctx, &list, client.InNamespace(c.object.GetNamespace()),
		client.MatchingFields{podIndex: podKey(c.kind, c.object.GetName())}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", c.name(), err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pod := &list.Items[i]
		if c.kind == deploymentKind || metav1.IsControlledBy(pod, c.object) {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// gatherPods returns the pods of the children by their uid, where the strategy or what a hub grants asks for them, or
// an earlier strategy did.
func (r *reconciler) gatherPods(ctx context.Context, s *scope, children []child) (map[types.UID][]*corev1.Pod, error) {
	ud := s.ud
	if scheduleOf(ud) == nil && ud.Status.ReservedPods == 0 && !countsOrdinals(ud) {
		return nil, nil
	}
	pods := make(map[types.UID][]*corev1.Pod, len(children))
	for i := range children {
		c := &children[i]
		found, err := r.podsOf(ctx, c)
		if err != nil {
			return nil, err
		}
		pods[c.object.GetUID()] = found
	}
	s.Memory.keepMarks(pods)
	return pods, nil
}
