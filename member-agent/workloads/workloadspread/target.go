package workloadspread

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// kindOf returns the kind of the target in the version that is watched; ok is false for kinds whose pods are not
// spread.
func kindOf(target spread.Target) (gvk schema.GroupVersionKind, ok bool) {
	all := []schema.GroupVersionKind{
		v1beta1.CloneSetKind, v1beta1.StatefulSetKind, deploymentGVK, replicaSetGVK, nativeStatefulSetGVK,
		batchv1.SchemeGroupVersion.WithKind("Job"),
	}
	i := slices.IndexFunc(all, func(k schema.GroupVersionKind) bool {
		return k.Group == target.Group && k.Kind == target.Kind
	})
	if i < 0 {
		return schema.GroupVersionKind{}, false
	}
	return all[i], true
}

// emptyTarget returns an empty object of the kind, in the form in which the cache holds it.
func emptyTarget(gvk schema.GroupVersionKind) client.Object {
	switch gvk {
	case v1beta1.CloneSetKind:
		return &v1beta1.CloneSet{}
	case v1beta1.StatefulSetKind:
		return &v1beta1.StatefulSet{}
	case deploymentGVK:
		return &appsv1.Deployment{}
	case nativeStatefulSetGVK:
		return &appsv1.StatefulSet{}
	}
	return metadataOf(gvk)
}

// readTarget returns the target from the cache, nil if there is none or it is being deleted.
func (r *reconciler) readTarget(ctx context.Context, namespace, name string,
	gvk schema.GroupVersionKind) (client.Object, error) {
	object := emptyTarget(gvk)
	key := client.ObjectKey{Namespace: namespace, Name: name}
	err := r.Client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || err == nil && object.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", gvk.Kind, key, err)
	}
	return object, nil
}

// pathError says that a path of targetFilter.replicasPathList leads to no number.
type pathError struct{ path, found string }

func (e *pathError) Error() string {
	return fmt.Sprintf("targetFilter.replicasPathList: %s in the target: %s; name the path of a number, such as "+
		"spec.replicas", e.path, e.found)
}

// number is how many pods a target asks for, by its generation, where the cache does not hold its spec.
type number struct {
	uid        types.UID
	generation int64
	paths      string
	replicas   int32
}

// replicas returns how many pods there are to spread: the sum of what targetFilter.replicasPathList names, or what the
// kind has. Where no cap is a percentage the number has no effect, and a kind without a spec in the cache is not read
// for it: 0 then.
func (r *reconciler) replicas(ctx context.Context, ws *v1beta1.WorkloadSpread, object client.Object,
	known *number) (int32, error) {
	var paths []string
	if ws.Spec.TargetFilter != nil {
		paths = ws.Spec.TargetFilter.ReplicasPathList
	}
	if n, ok := replicasOf(object); ok && len(paths) == 0 {
		return n, nil
	}
	partial, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return 0, fmt.Errorf("read the numbers of %s: %w", client.ObjectKeyFromObject(object), err)
		}
		return sum(content, paths)
	}
	if !slices.ContainsFunc(ws.Spec.Subsets, func(s v1beta1.WorkloadSpreadSubset) bool {
		return s.MaxReplicas != nil && s.MaxReplicas.StrVal != ""
	}) {
		return 0, nil
	}
	want := number{uid: partial.UID, generation: partial.Generation, paths: strings.Join(paths, ","),
		replicas: known.replicas}
	if *known == want {
		return known.replicas, nil
	}
	whole, err := r.readWhole(ctx, partial)
	if err != nil {
		return 0, err
	}
	if len(paths) == 0 {
		paths = []string{"spec.replicas"}
		if partial.Kind == "Job" {
			paths = []string{"spec.parallelism"}
		}
	}
	n, err := sum(whole.Object, paths)
	if err != nil {
		return 0, err
	}
	want.generation, want.replicas = whole.GetGeneration(), n
	*known = want
	return n, nil
}

// replicasOf returns spec.replicas of a target whose spec the cache holds; ok is false for others.
func replicasOf(object client.Object) (n int32, ok bool) {
	var replicas *int32
	switch o := object.(type) {
	case *v1beta1.CloneSet:
		replicas = o.Spec.Replicas
	case *v1beta1.StatefulSet:
		replicas = o.Spec.Replicas
	case *appsv1.Deployment:
		replicas = o.Spec.Replicas
	case *appsv1.StatefulSet:
		replicas = o.Spec.Replicas
	default:
		return 0, false
	}
	return ptr.Deref(replicas, 1), true
}

// readWhole reads a target from the API server of which the cache holds the metadata alone.
func (r *reconciler) readWhole(ctx context.Context,
	partial *metav1.PartialObjectMetadata) (*unstructured.Unstructured, error) {
	whole := &unstructured.Unstructured{}
	whole.SetGroupVersionKind(partial.GroupVersionKind())
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(partial), whole); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", partial.Kind, client.ObjectKeyFromObject(partial), err)
	}
	return whole, nil
}

// sum returns the sum of the numbers at the paths.
func sum(content map[string]any, paths []string) (int32, error) {
	total := int64(0)
	for _, path := range paths {
		n, err := at(content, path)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return int32(max(0, min(total, 1<<31-1))), nil
}

// at returns the number at a path: names of fields and places in lists, with dots between them.
func at(content map[string]any, path string) (int64, error) {
	var value any = content
	for step := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return 0, &pathError{path, fmt.Sprintf("%q is no place in a list of %d", step, len(v))}
			}
			value = v[i]
		default:
			value = nil
		}
	}
	switch n := value.(type) {
	case int64:
		return n, nil
	case float64:
		return int64(n), nil
	case nil:
		return 0, &pathError{path, "there is nothing"}
	}
	return 0, &pathError{path, fmt.Sprintf("%v is no number", value)}
}

// selectorOf returns how the target finds its pods of a version, nil where the cache does not tell.
func selectorOf(object client.Object, version string) labels.Selector {
	var written *metav1.LabelSelector
	switch o := object.(type) {
	case *v1beta1.CloneSet:
		written = o.Spec.Selector
	case *v1beta1.StatefulSet:
		written = o.Spec.Selector
	case *appsv1.Deployment:
		written = o.Spec.Selector.DeepCopy()
		if version != "" {
			written = metav1.AddLabelToSelector(written, appsv1.DefaultDeploymentUniqueLabelKey, version)
		}
	case *appsv1.StatefulSet:
		written = o.Spec.Selector
	}
	selector, err := metav1.LabelSelectorAsSelector(written)
	if written == nil || err != nil {
		return nil
	}
	return selector
}

// templateOf returns a pod with the labels of the target's template, nil where the cache does not have it.
func templateOf(object client.Object) *corev1.Pod {
	var template *corev1.PodTemplateSpec
	switch o := object.(type) {
	case *v1beta1.CloneSet:
		template = &o.Spec.Template.PodTemplateSpec
	case *v1beta1.StatefulSet:
		template = &o.Spec.Template.PodTemplateSpec
	case *appsv1.Deployment:
		template = &o.Spec.Template
	case *appsv1.StatefulSet:
		template = &o.Spec.Template
	default:
		return nil
	}
	return &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
}
