package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// unschedulableIndex is the cache index of active pods that the scheduler finds no node for. There are few, so that
// asking for them costs nothing while all is well.
const unschedulableIndex = "report.unschedulable"

const isUnschedulable = "true"

func indexUnschedulable(pod client.Object) []string {
	if p, ok := pod.(*corev1.Pod); ok && podstate.Active(p) && podstate.Unschedulable(p) {
		return []string{isUnschedulable}
	}
	return nil
}

// criticalOf returns how long a pod of a Work may find no node before it is reported, 0 where none is: the hub does not
// ask, or asks for what is no duration.
func criticalOf(w *work.Work) time.Duration {
	after, err := time.ParseDuration(w.Annotations[topology.AnnotationRescheduleAfter])
	if err != nil {
		return 0
	}
	return max(after, 0)
}

// unschedulable returns the pods of a member object that the hub asks for (critical is how long they may find no node),
// and how long until there may be others, 0 where time alone changes nothing.
func (r *Reconciler) unschedulable(ctx context.Context, live *unstructured.Unstructured, critical time.Duration,
	use []work.SubsetUse) ([]work.UnschedulablePods, time.Duration, error) {
	kind, ok := r.Kinds.of(live)
	if critical == 0 || !ok {
		return nil, 0, nil
	}
	selector, err := selectorOf(live)
	if err != nil {
		return nil, 0, err
	}
	list := func(options ...client.ListOption) ([]corev1.Pod, error) {
		var pods corev1.PodList
		options = append(options, client.InNamespace(live.GetNamespace()),
			client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy)
		if err := r.Pods.List(ctx, &pods, options...); err != nil {
			return nil, fmt.Errorf("list pods of %s %s/%s: %w", live.GetKind(), live.GetNamespace(), live.GetName(), err)
		}
		return pods.Items, nil
	}
	waiting, err := list(client.MatchingFields{unschedulableIndex: isUnschedulable})
	if err != nil || !slices.ContainsFunc(waiting, func(p corev1.Pod) bool { return belongs(kind, live.GetUID(), &p) }) {
		return nil, 0, err
	}
	all, err := list()
	if err != nil {
		return nil, 0, err
	}
	groups := map[string][]*corev1.Pod{} // by the owner that makes them
	for i := range all {
		if pod := &all[i]; podstate.Active(pod) && belongs(kind, live.GetUID(), pod) {
			groups[groupOf(pod)] = append(groups[groupOf(pod)], pod)
		}
	}
	found, next := count(groups, desiredOf(use), func(owner *metav1.OwnerReference) maker {
		return r.makerOf(ctx, live, owner)
	}, critical, r.MemberClock.Now())
	return found, next, nil
}

// unschedulableChanged lets through pods that the scheduler begins or ceases to find no node for.
func unschedulableChanged() predicate.Predicate {
	waits := func(o client.Object) bool { return len(indexUnschedulable(o)) > 0 }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return waits(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return waits(e.ObjectOld) != waits(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return waits(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// worksOf returns the Works whose objects a pod may belong to.
func (r *Reconciler) worksOf(ctx context.Context, pod client.Object) []ctrl.Request {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return nil
	}
	var requests []ctrl.Request
	for ref, name := range r.Objects.Bound(pod.GetNamespace()) {
		switch kind, ok := r.Kinds[ref.GroupKind()]; {
		case !ok:
			continue
		case owner.Kind == ref.Kind && owner.Name == ref.Name: // its pod, whatever else the kind has
		case kind.Maker != nil:
			continue
		default:
			live, err := r.Objects.Get(ctx, ref)
			if err != nil || live == nil || pod.GetLabels()[apps.LabelSubset] == "" {
				continue
			}
			if selector, err := selectorOf(live); err != nil || !selector.Matches(labels.Set(pod.GetLabels())) {
				continue
			}
		}
		requests = append(requests, ctrl.Request{NamespacedName: name})
	}
	return requests
}

func selectorOf(live *unstructured.Unstructured) (labels.Selector, error) {
	fields, _, err := unstructured.NestedMap(live.Object, "spec", "selector")
	var selector metav1.LabelSelector
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &selector)
	}
	var s labels.Selector
	if err == nil {
		s, err = metav1.LabelSelectorAsSelector(&selector)
	}
	if err != nil {
		return nil, fmt.Errorf("read spec.selector of %s %s/%s: %w", live.GetKind(), live.GetNamespace(), live.GetName(), err)
	}
	return s, nil
}

// belongs reports whether a pod that the selector selects is the workload's: the workload is its controller, or the pod
// has the label of a subset.
func belongs(kind workload.Reporting, uid types.UID, pod *corev1.Pod) bool {
	if kind.Maker != nil {
		return controls(uid, pod)
	}
	return metav1.GetControllerOfNoCopy(pod) != nil && pod.Labels[apps.LabelSubset] != ""
}

// controls reports whether the object with the uid is the controller of the pod.
func controls(uid types.UID, pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && ref.UID == uid
}

// groupOf names those who take pods away together: their controller, or all ReplicaSets of a Deployment.
func groupOf(pod *corev1.Pod) string {
	ref := metav1.GetControllerOfNoCopy(pod)
	name := ref.Name
	if ref.Kind == "ReplicaSet" {
		name = strings.TrimSuffix(name, "-"+pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey])
	}
	return ref.Kind + "/" + name
}

func desiredOf(use []work.SubsetUse) map[string]int32 {
	desired := make(map[string]int32, len(use))
	for i := range use {
		desired[use[i].Subset] = use[i].Desired
	}
	return desired
}

// at is where pods were made for: a subset, of the object or of a WorkloadSpread of the hub, and a zone; "" for none.
type at struct{ subset, zone string }

// count says how many pods have found no node for critical, with those that are not made before they have one, without
// those that their owners would not take away before pods that have one, and without those that are too many anyway:
// what is granted for a rollout may wait. It is pure.
func count(groups map[string][]*corev1.Pod, desired map[string]int32, makerOf func(*metav1.OwnerReference) maker,
	critical time.Duration, now time.Time) ([]work.UnschedulablePods, time.Duration) {
	var next time.Duration
	found, active := map[at]int32{}, map[string]int32{}
	within := map[at]string{} // the subset that the pods of a place are counted in
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		pods := groups[name]
		subset := pods[0].Labels[apps.LabelSubset]
		if _, ok := desired[subset]; !ok {
			subset = "" // the object has no subsets, and its pods have the label by chance
		}
		active[subset] += int32(len(pods))
		if !slices.ContainsFunc(pods, podstate.Unschedulable) {
			continue
		}
		owner, waits := makerOf(metav1.GetControllerOfNoCopy(pods[0])), map[string]int32{}
		for _, pod := range leaveFirst(pods, owner.Update) {
			stuck, after := spread.Stuck(pod, critical, now)
			next = podstate.Sooner(next, after)
			if stuck {
				waits[owner.part(pod)]++
			}
		}
		for part, n := range waits {
			found[owner.at(subset, part)] += n
			within[owner.at(subset, part)] = subset
		}
		for part, n := range owner.unmade(pods, desired[subset], waits) {
			found[owner.at(subset, part)] += n
			within[owner.at(subset, part)] = subset
		}
	}
	var out []work.UnschedulablePods
	for place, n := range found {
		if n -= max(active[within[place]]-desired[within[place]], 0); n > 0 {
			out = append(out, work.UnschedulablePods{Subset: place.subset, Zone: place.zone, Pods: n})
		}
	}
	slices.SortFunc(out, func(a, b work.UnschedulablePods) int {
		return cmp.Or(cmp.Compare(a.Subset, b.Subset), cmp.Compare(a.Zone, b.Zone))
	})
	return out, next
}

// leaveFirst returns the pods without a node of one owner that it takes away before any pod that has one, when it is to
// have fewer:
//
//	StatefulSet  those above the last one that has a node
//	Deployment   all of them, but none while several ReplicaSets have pods: it takes from each in proportion
//	others       all of them if all pods have one revision, else those of the revision that the others are brought to
func leaveFirst(pods []*corev1.Pod, update string) []*corev1.Pod {
	owner := metav1.GetControllerOfNoCopy(pods[0])
	mixed := slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return revision(p) != revision(pods[0]) })
	newest, top := "", -1
	switch {
	case owner.Kind == "StatefulSet":
		for _, pod := range pods {
			if !podstate.Unschedulable(pod) {
				top = max(top, ordinal(pod))
			}
		}
	case mixed && owner.Kind != "ReplicaSet":
		newest = update
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		switch {
		case !podstate.Unschedulable(pod):
			return true
		case owner.Kind == "StatefulSet":
			return ordinal(pod) < top
		case mixed:
			return newest == "" || revision(pod) != history.ShortName(newest)
		}
		return false
	})
}

func revision(pod *corev1.Pod) string {
	return cmp.Or(history.ShortName(pod.Labels[podset.LabelRevision]), pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey])
}

func ordinal(pod *corev1.Pod) int {
	n, err := strconv.Atoi(pod.Name[strings.LastIndexByte(pod.Name, '-')+1:])
	if err != nil {
		return 0
	}
	return n
}
