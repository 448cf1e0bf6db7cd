package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// jobUID is on the pods of a Job: the UID of the Job.
const jobUID = "batch.kubernetes.io/controller-uid"

// target is what an argument names: a pod, or a workload.
type target struct {
	argument string
	// pod is the name of a pod, "" for a workload.
	pod string
	key wire.Key
}

// targetOf reads POD, pod/POD, or KIND/NAME of a workload that has pods of its own.
func targetOf(argument, namespace string) (*target, error) {
	kind, name, slash := strings.Cut(argument, "/")
	if !slash {
		kind, name = "pod", argument
	}
	if slices.Contains([]string{"pod", "pods", "po"}, strings.ToLower(kind)) {
		if name == "" {
			return nil, console.Usagef("%q names no pod; write POD, or KIND/NAME of a workload, as in clone/api", argument)
		}
		return &target{argument: argument, pod: name}, nil
	}
	key, err := console.Workload(argument, namespace)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(withPods(), key.GroupKind()) {
		return nil, console.Usagef("%s has no pods of its own; name the workload whose pods you mean, as in clone/api",
			key.Sentence())
	}
	return &target{argument: argument, key: key}, nil
}

// withPods are the kinds whose objects have pods.
func withPods() []schema.GroupKind {
	var all []schema.GroupKind
	for _, kind := range []string{"AdvancedCronJob", "BroadcastJob", "CloneSet", "DaemonSet", "StatefulSet",
		"UnitedDeployment"} {
		all = append(all, schema.GroupKind{Group: apps.GroupVersion.Group, Kind: kind})
	}
	return all
}

// workload returns the workload to reach members for, nil for a pod.
func (t *target) workload() *wire.Key {
	if t == nil || t.pod != "" {
		return nil
	}
	return &t.key
}

// absent is the error of a member that does not have what was asked for.
type absent struct{ sentence string }

func (a *absent) Error() string { return a.sentence }

func absentf(format string, args ...any) error { return &absent{fmt.Sprintf(format, args...)} }

// pods returns the pods of the target in the member, sorted by name. It fails where there are none.
func (r *reached) pods(ctx context.Context, t *target) ([]corev1.Pod, error) {
	if t.pod != "" {
		pod, err := r.core.CoreV1().Pods(r.namespace).Get(ctx, t.pod, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, absentf("member %s has no pod %s in namespace %s; name its workload, as in clone/api, for all its "+
				"pods there", r.name, t.pod, r.namespace)
		}
		if err != nil {
			return nil, r.failed(fmt.Sprintf("read pod %s/%s", r.namespace, t.pod), err)
		}
		return []corev1.Pod{*pod}, nil
	}
	selectors, err := r.selectors(ctx, t)
	if err != nil {
		return nil, err
	}
	r.expected = true // it has the workload
	var found []corev1.Pod
	for _, selector := range selectors {
		some, err := r.list(ctx, selector)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	if len(found) == 0 {
		return nil, absentf("%s has no pods in member %s; flotilla why %s -C %s says why", t.key.Sentence(), r.name,
			t.argument, r.name)
	}
	return sortedPods(found), nil
}

func sortedPods(found []corev1.Pod) []corev1.Pod {
	slices.SortFunc(found, func(a, b corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return found
}

// list lists the pods with the labels, page by page.
func (r *reached) list(ctx context.Context, selector string) ([]corev1.Pod, error) {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return r.core.CoreV1().Pods(r.namespace).List(ctx, options)
	})
	var found []corev1.Pod
	err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(item runtime.Object) error {
		if pod, ok := item.(*corev1.Pod); ok {
			pod.ManagedFields = nil
			found = append(found, *pod)
		}
		return nil
	})
	if err != nil {
		return nil, r.failed("list pods"+r.place(), err)
	}
	return found, nil
}

// place says where the verb looks.
func (r *reached) place() string {
	if r.namespace == "" {
		return " in all namespaces"
	}
	return " in namespace " + r.namespace
}

// selectors returns the selectors of the workload's pods in the member; a pod has at most one of them. It fails where
// the member does not have the workload.
func (r *reached) selectors(ctx context.Context, t *target) ([]string, error) {
	workload := &unstructured.Unstructured{}
	workload.SetGroupVersionKind(kinds.Workloads()[t.key.GroupKind()].GVK)
	err := r.client.Get(ctx, t.key.Workload(), workload)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, absentf("member %s has no %s; flotilla why %s -C %s says why", r.name, t.key.Sentence(), t.argument,
			r.name)
	}
	if err != nil {
		return nil, r.failed("read "+t.key.Sentence(), err)
	}
	if by := workload.GetLabels()[topology.LabelHub]; r.placed && (by == "" || r.hubID != "" && by != r.hubID) {
		return nil, absentf("%s in member %s was not placed by this hub; name the member with -C to look at it",
			t.key.Sentence(), r.name)
	}
	return r.selectorsOf(ctx, workload)
}

// selectorsOf returns the selectors of the pods of a member object.
func (r *reached) selectorsOf(ctx context.Context, workload *unstructured.Unstructured) ([]string, error) {
	switch workload.GetKind() {
	case "BroadcastJob":
		return []string{apps.LabelBroadcastJobUID + "=" + string(workload.GetUID())}, nil
	case "AdvancedCronJob":
		return r.jobSelectors(ctx, workload)
	}
	selector, err := selectorOf(workload)
	if err != nil {
		return nil, fmt.Errorf("read the selector of %s %s/%s in member %s: %w", workload.GetKind(),
			workload.GetNamespace(), workload.GetName(), r.name, err)
	}
	return []string{selector}, nil
}

// jobSelectors returns the selectors of the pods of the jobs that an AdvancedCronJob has started.
func (r *reached) jobSelectors(ctx context.Context, cron *unstructured.Unstructured) ([]string, error) {
	var all []string
	for _, of := range []struct {
		kind  schema.GroupVersionKind
		label string
	}{
		{apps.GroupVersion.WithKind("BroadcastJob"), apps.LabelBroadcastJobUID},
		{schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, jobUID},
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(of.kind.GroupVersion().WithKind(of.kind.Kind + "List"))
		err := r.client.List(ctx, list, client.InNamespace(cron.GetNamespace()))
		if err != nil {
			return nil, r.failed(fmt.Sprintf("list the %ss of %s %s/%s", of.kind.Kind, cron.GetKind(),
				cron.GetNamespace(), cron.GetName()), err)
		}
		if uids := ownedBy(list.Items, cron.GetUID()); len(uids) > 0 {
			all = append(all, of.label+" in ("+strings.Join(uids, ",")+")")
		}
	}
	return all, nil
}

func ownedBy(objects []metav1.PartialObjectMetadata, owner types.UID) []string {
	var uids []string
	for i := range objects {
		if c := metav1.GetControllerOfNoCopy(&objects[i]); c != nil && c.UID == owner {
			uids = append(uids, string(objects[i].UID))
		}
	}
	return uids
}

// federated returns the selectors of the pods of all workloads that a hub placed in the member, by their namespaces.
func (r *reached) federated(ctx context.Context) (map[string][]string, error) {
	all := map[string][]string{}
	for _, kind := range withPods() {
		list := &unstructured.UnstructuredList{}
		gvk := kinds.Workloads()[kind].GVK
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := r.client.List(ctx, list, client.InNamespace(r.namespace), client.HasLabels{topology.LabelHub})
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, r.failed(fmt.Sprintf("list the kind %s%s", gvk.Kind, r.place()), err)
		}
		for i := range list.Items {
			texts, err := r.selectorsOf(ctx, &list.Items[i])
			if err != nil {
				return nil, err
			}
			namespace := list.Items[i].GetNamespace()
			all[namespace] = append(all[namespace], texts...)
		}
	}
	return all, nil
}

// ofFederated returns a function that reports whether a pod has one of the selectors of its namespace.
func ofFederated(selectors map[string][]string) (func(*corev1.Pod) bool, error) {
	byNamespace := map[string][]labels.Selector{}
	for namespace, texts := range selectors {
		for _, text := range texts {
			selector, err := labels.Parse(text)
			if err != nil {
				return nil, fmt.Errorf("read the selector %q: %w", text, err)
			}
			byNamespace[namespace] = append(byNamespace[namespace], selector)
		}
	}
	return func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(byNamespace[pod.Namespace], func(s labels.Selector) bool {
			return s.Matches(labels.Set(pod.Labels))
		})
	}, nil
}

// isAbsent reports whether a member does not have what was asked for.
func isAbsent(err error) bool {
	var nothing *absent
	return errors.As(err, &nothing)
}

func selectorOf(workload *unstructured.Unstructured) (string, error) {
	raw, found, err := unstructured.NestedMap(workload.Object, "spec", "selector")
	if err != nil {
		return "", err
	}
	if !found {
		return "", errors.New("spec.selector is missing")
	}
	selector := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, selector); err != nil {
		return "", err
	}
	text, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "", err
	}
	return text.String(), nil
}
