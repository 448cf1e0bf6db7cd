package budgets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/disruption"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// labelTemplateHash is on the pods of a Deployment: the last part of the name of their ReplicaSet.
const labelTemplateHash = "pod-template-hash"

// Workload names a workload in the namespace of its pods.
type Workload struct {
	schema.GroupVersionKind
	Name string
}

func (w Workload) is(group, kind string) bool { return w.Group == group && w.Kind == kind }

// owner returns the workload that controls an object, false if none does.
func owner(object metav1.Object) (Workload, bool) {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil {
		return Workload{}, false
	}
	return Workload{schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), ref.Name}, true
}

// WorkloadOf returns the workload of a pod: its controller, and in place of a ReplicaSet the Deployment that made it.
// By the rule of its controller the name of such a ReplicaSet is that of the Deployment, a hyphen and the hash that the
// pods carry as a label.
func WorkloadOf(pod *corev1.Pod) (Workload, bool) {
	w, ok := owner(pod)
	if ok && w.is(appsv1.GroupName, "ReplicaSet") {
		hash := pod.Labels[labelTemplateHash]
		if name, cut := strings.CutSuffix(w.Name, "-"+hash); cut && hash != "" && name != "" {
			w.Kind, w.Name = "Deployment", name
		}
	}
	return w, ok
}

// Members returns the pods of the budget, sorted by name. They are the cache's and must not be changed.
func Members(ctx context.Context, reader client.Reader, pub *v1beta1.PodUnavailableBudget) ([]*corev1.Pod, error) {
	options := []client.ListOption{client.InNamespace(pub.Namespace), client.UnsafeDisableDeepCopy}
	if pub.Spec.TargetReference == nil {
		// The cache copies the head of each pod that it returns: the namespace may have many more.
		options = append(options, client.MatchingLabelsSelector{Selector: disruption.Selector(&pub.Spec)})
	}
	var list corev1.PodList
	if err := reader.List(ctx, &list, options...); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		selected, err := Protects(ctx, reader, pub, &list.Items[i])
		if err != nil {
			return nil, err
		}
		if selected {
			pod := list.Items[i] // of its own, so that the rest of the list is not kept
			out = append(out, &pod)
		}
	}
	// A cache has no order, and messages name the first one.
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Protects reports whether the pod, which is in the namespace of the budget, is one of its pods: by the selector, or
// because its workload, or the one that made its workload, is the target.
func Protects(
	ctx context.Context, reader client.Reader, pub *v1beta1.PodUnavailableBudget, pod *corev1.Pod,
) (bool, error) {
	target := pub.Spec.TargetReference
	if target == nil {
		return disruption.Selects(&pub.Spec, pod), nil
	}
	group := schema.FromAPIVersionAndKind(target.APIVersion, target.Kind).Group
	names := func(w Workload) bool { return w.is(group, target.Kind) && w.Name == target.Name }
	if direct, ok := owner(pod); !ok || names(direct) {
		return ok, nil
	}
	w, _ := WorkloadOf(pod)
	if names(w) {
		return true, nil
	}
	if !indirect(pub) {
		return false, nil
	}
	object, _, err := read(ctx, reader, pub.Namespace, w)
	if err != nil || object == nil {
		return false, err
	}
	parent, ok := owner(object)
	return ok && names(parent), nil
}

// Counting returns the budgets that an event of the pod changes the counts of: those that protect it, and those whose
// targets may do so by workloads that are in the cache later than their pods, or are deleted before them. It errs until
// the budgets are listed.
func (k *Keeper) Counting(ctx context.Context, pod *corev1.Pod) ([]*v1beta1.PodUnavailableBudget, error) {
	all, err := k.known.in(ctx, pod.Namespace)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(pub *v1beta1.PodUnavailableBudget) bool {
		protects, err := Protects(ctx, k.client, pub, pod)
		return !protects && err == nil && !indirect(pub)
	}), nil
}

// indirect reports whether the workloads of the target make the pods.
func indirect(pub *v1beta1.PodUnavailableBudget) bool {
	return pub.Spec.TargetReference != nil && pub.Spec.TargetReference.Kind == apps.UnitedDeploymentKind.Kind
}

// read returns a workload of a kind that the cache has, nil for others and if there is none.
func read(ctx context.Context, reader client.Reader, namespace string, w Workload) (client.Object, *int32, error) {
	var object client.Object
	var replicas func() *int32
	switch {
	case w.is(apps.GroupVersion.Group, apps.CloneSetKind.Kind):
		o := &apps.CloneSet{}
		object, replicas = o, func() *int32 { return o.Spec.Replicas }
	case w.is(apps.GroupVersion.Group, apps.StatefulSetKind.Kind):
		o := &apps.StatefulSet{}
		object, replicas = o, func() *int32 { return o.Spec.Replicas }
	case w.is(appsv1.GroupName, "Deployment"):
		o := &appsv1.Deployment{}
		object, replicas = o, func() *int32 { return o.Spec.Replicas }
	case w.is(appsv1.GroupName, "StatefulSet"):
		o := &appsv1.StatefulSet{}
		object, replicas = o, func() *int32 { return o.Spec.Replicas }
	case w.is(appsv1.GroupName, "ReplicaSet"):
		o := &appsv1.ReplicaSet{}
		object, replicas = o, func() *int32 { return o.Spec.Replicas }
	case w.is(apps.GroupVersion.Group, apps.UnitedDeploymentKind.Kind):
		o := &apps.UnitedDeployment{}
		object, replicas = o, func() *int32 { return o.Spec.Replicas }
	case w.is(apps.GroupVersion.Group, apps.DaemonSetKind.Kind):
		o := &apps.DaemonSet{}
		object, replicas = o, func() *int32 { return &o.Status.DesiredNumberScheduled }
	default:
		return nil, nil, nil
	}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: w.Name}, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, new(int32(0)), nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s %s: %w", w.Kind, w.Name, err)
	}
	return object, new(ptr.Deref(replicas(), 1)), nil
}

// ScaleError says that nothing tells how many pods a workload asks for.
type ScaleError struct {
	Workload
	Err error
}

// Error says what to do.
func (e *ScaleError) Error() string {
	return fmt.Sprintf("%s %s of the protected pods does not say how many pods it asks for: set protectTotalReplicas (%v)",
		e.Kind, e.Name, e.Err)
}

// OnHub says what to do where a hub grants the budget: its protectTotalReplicas is for all clusters.
func (e *ScaleError) OnHub() string {
	return fmt.Sprintf("%s %s of the protected pods does not say how many pods it asks for: set annotation %s to this "+
		"cluster's number of pods by an override of the FederationPolicy (%v)", e.Kind, e.Name,
		v1beta1.AnnotationProtectTotalReplicas, e.Err)
}

// Unwrap returns the error of the request.
func (e *ScaleError) Unwrap() error { return e.Err }

// Total is how many pods there are to be.
type Total struct {
	Pods int32
	// Unwatched: a workload of a kind that is not watched is part of it, so that it may change without an event.
	Unwatched bool
}

// Total returns how many pods there are to be: protectTotalReplicas, or what the workloads of the pods ask for, and
// one for each pod without a workload. Workloads of the kinds that the cache has count also while they have no pods,
// if the selector selects those of their template. A workload that is gone asks for none, but the ReplicaSets that a
// Deployment left behind do. The error is a ScaleError if a workload says nothing.
func (k *Keeper) Total(
	ctx context.Context, pub *v1beta1.PodUnavailableBudget, members []*corev1.Pod,
) (Total, error) {
	if fixed, ok := pub.FixedTotal(); ok {
		return Total{Pods: fixed}, nil
	}
	s := &sum{keeper: k, namespace: pub.Namespace, asked: map[workloadKey]int32{}, gone: map[workloadKey]bool{}}
	if target := pub.Spec.TargetReference; target != nil {
		w := Workload{schema.FromAPIVersionAndKind(target.APIVersion, target.Kind), target.Name}
		if err := s.add(ctx, w); err != nil || !s.gone[keyOf(w)] {
			return s.Total, err
		}
	} else {
		var err error
		if s.asked, err = templates(ctx, k.client, pub); err != nil {
			return Total{}, err
		}
		for _, n := range s.asked {
			s.Pods += n
		}
	}
	for _, pod := range members {
		if podstate.Ended(pod) { // as of a Job
			continue
		}
		if err := s.addPod(ctx, pod); err != nil {
			return Total{}, err
		}
	}
	return s.Total, nil
}

// sum adds up what workloads ask for.
type sum struct {
	Total
	keeper    *Keeper
	namespace string
	asked     map[workloadKey]int32
	gone      map[workloadKey]bool
}

// add adds what a workload asks for, unless that is counted.
func (s *sum) add(ctx context.Context, w Workload) error {
	key := keyOf(w)
	if _, done := s.asked[key]; done {
		return nil
	}
	n, found, err := s.keeper.scaleOf(ctx, s.namespace, w)
	if err != nil {
		return err
	}
	s.asked[key], s.gone[key] = n, !found
	s.Pods += n
	s.Unwatched = s.Unwatched || !Watched(w)
	return nil
}

// addPod adds what the workload of a pod asks for. If its Deployment was deleted without its ReplicaSets, they go on.
func (s *sum) addPod(ctx context.Context, pod *corev1.Pod) error {
	w, ok := WorkloadOf(pod)
	if !ok {
		if pod.DeletionTimestamp == nil {
			s.Pods++
		}
		return nil
	}
	if err := s.add(ctx, w); err != nil || !s.gone[keyOf(w)] {
		return err
	}
	direct, _ := owner(pod)
	return s.add(ctx, direct)
}

// workloadKey names a workload whatever version of its kind an owner reference has.
type workloadKey struct {
	schema.GroupKind
	name string
}

func keyOf(w Workload) workloadKey { return workloadKey{w.GroupKind(), w.Name} }

// templates returns how many pods the workloads ask for whose template the budget's selector selects, of those kinds
// that the cache has. UnitedDeployments have workloads of their own.
func templates(
	ctx context.Context, reader client.Reader, pub *v1beta1.PodUnavailableBudget,
) (map[workloadKey]int32, error) {
	out := map[workloadKey]int32{}
	add := func(group, kind string, object metav1.Object, labels map[string]string, replicas int32) {
		if disruption.Selects(&pub.Spec, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}}) {
			out[workloadKey{schema.GroupKind{Group: group, Kind: kind}, object.GetName()}] = replicas
		}
	}
	var (
		cloneSets    apps.CloneSetList
		statefulSets apps.StatefulSetList
		daemonSets   apps.DaemonSetList
		deployments  appsv1.DeploymentList
		natives      appsv1.StatefulSetList
	)
	for _, list := range []client.ObjectList{&cloneSets, &statefulSets, &daemonSets, &deployments, &natives} {
		err := reader.List(ctx, list, client.InNamespace(pub.Namespace), client.UnsafeDisableDeepCopy)
		if err != nil && !meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("list the workloads of namespace %s: %w", pub.Namespace, err)
		}
	}
	for i := range cloneSets.Items {
		o := &cloneSets.Items[i]
		add(apps.GroupVersion.Group, apps.CloneSetKind.Kind, o, o.Spec.Template.Labels, ptr.Deref(o.Spec.Replicas, 1))
	}
	for i := range statefulSets.Items {
		o := &statefulSets.Items[i]
		add(apps.GroupVersion.Group, apps.StatefulSetKind.Kind, o, o.Spec.Template.Labels, ptr.Deref(o.Spec.Replicas, 1))
	}
	for i := range daemonSets.Items {
		o := &daemonSets.Items[i]
		add(apps.GroupVersion.Group, apps.DaemonSetKind.Kind, o, o.Spec.Template.Labels, o.Status.DesiredNumberScheduled)
	}
	for i := range deployments.Items {
		o := &deployments.Items[i]
		add(appsv1.GroupName, "Deployment", o, o.Spec.Template.Labels, ptr.Deref(o.Spec.Replicas, 1))
	}
	for i := range natives.Items {
		o := &natives.Items[i]
		add(appsv1.GroupName, "StatefulSet", o, o.Spec.Template.Labels, ptr.Deref(o.Spec.Replicas, 1))
	}
	return out, nil
}

// scaleOf returns how many pods a workload asks for, from the cache or by its scale subresource: none if it is not
// found.
func (k *Keeper) scaleOf(ctx context.Context, namespace string, w Workload) (n int32, found bool, err error) {
	known, replicas, err := read(ctx, k.client, namespace, w)
	if err != nil || replicas != nil {
		return ptr.Deref(replicas, 0), known != nil, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(w.GroupVersionKind)
	object.SetNamespace(namespace)
	object.SetName(w.Name)
	scale := &autoscalingv1.Scale{}
	err = k.client.SubResource("scale").Get(ctx, object, scale)
	switch {
	case err == nil:
		return scale.Spec.Replicas, true, nil
	case apierrors.IsNotFound(err):
		scales, err := k.scales(w.GroupVersionKind)
		if err != nil {
			return 0, false, fmt.Errorf("find out whether %s %s has a scale subresource: %w", w.Kind, w.Name, err)
		}
		if scales {
			return 0, false, nil
		}
		return 0, false, &ScaleError{w, errNoScale}
	case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		return 0, false, &ScaleError{w, err}
	}
	return 0, false, fmt.Errorf("read the scale of %s %s: %w", w.Kind, w.Name, err)
}

var errNoScale = errors.New("its kind has no scale subresource")

// scalesOf returns the function that reports whether a kind has a scale subresource, by what the API server says of its
// kinds. A request for a scale is answered with 404 also where the kind has none.
func scalesOf(kinds discovery.ServerResourcesInterface) func(schema.GroupVersionKind) (bool, error) {
	return func(gvk schema.GroupVersionKind) (bool, error) {
		list, err := kinds.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		var resource string
		for i := range list.APIResources {
			if r := &list.APIResources[i]; r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
				resource = r.Name
			}
		}
		return resource != "" && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
			return r.Name == resource+"/scale"
		}), nil
	}
}

// Watched reports whether events of workloads of this kind bring a new count.
func Watched(w Workload) bool {
	switch w.Group {
	case appsv1.GroupName:
		return w.Kind == "Deployment" || w.Kind == "StatefulSet"
	case apps.GroupVersion.Group:
		return slices.Contains([]string{apps.CloneSetKind.Kind, apps.DaemonSetKind.Kind, apps.StatefulSetKind.Kind,
			apps.UnitedDeploymentKind.Kind}, w.Kind)
	}
	return false
}
