package persistentpodstate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

const (
	// configuration is the ConfigMap with the white list, which is JSON under whiteList.
	configuration = "kruise-configuration"
	whiteList     = "PPS_Watch_Custom_Workload_WhiteList"
	// published is the namespace that OpenKruise has the ConfigMap in.
	published = "kruise-system"
)

// target is a workload with ordinals.
type target struct {
	uid types.UID
	ordinals.Set
}

func kindOf(ref v1beta1.PersistentPodStateTarget) schema.GroupKind {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
}

func nativeStatefulSet() schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind("StatefulSet")
}

// watched reports whether the cache has the workloads of a kind.
func watched(kind schema.GroupKind) bool {
	return kind == v1beta1.StatefulSetKind.GroupKind() || kind == nativeStatefulSet().GroupKind()
}

// readTarget returns the workload; nil if there is none, or it is being deleted. ok is false for a kind whose pods have
// no records.
func (r *Reconciler) readTarget(
	ctx context.Context, state *v1beta1.PersistentPodState,
) (t *target, ok bool, err error) {
	ref := state.Spec.TargetReference
	key := client.ObjectKey{Namespace: state.Namespace, Name: ref.Name}
	switch kindOf(ref) {
	case v1beta1.StatefulSetKind.GroupKind():
		object := &v1beta1.StatefulSet{}
		if err = r.Client.Get(ctx, key, object); err == nil {
			start := int32(0)
			if o := object.Spec.Ordinals; o != nil {
				start = o.Start
			}
			t = targetOf(object, start, object.Spec.Replicas, object.Spec.ReserveOrdinals)
		}
	case nativeStatefulSet().GroupKind():
		object := &appsv1.StatefulSet{}
		if err = r.Client.Get(ctx, key, object); err == nil {
			start := int32(0)
			if o := object.Spec.Ordinals; o != nil {
				start = o.Start
			}
			t = targetOf(object, start, object.Spec.Replicas, nil)
		}
	default:
		kinds, err := whiteListed(ctx, r.Live, r.Namespace)
		if err != nil {
			return nil, false, err
		}
		if !slices.Contains(kinds, schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)) {
			return nil, false, nil
		}
		t, err = r.readCustom(ctx, key, ref)
		return t, true, err
	}
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %s %s: %w", ref.Kind, ref.Name, err)
	}
	return t, true, nil
}

func targetOf(object client.Object, start int32, replicas *int32, reserved []intstr.IntOrString) *target {
	if object.GetDeletionTimestamp() != nil {
		return nil
	}
	n := int32(1)
	if replicas != nil {
		n = *replicas
	}
	// What cannot be read is no reservation, as for the workload's own controller, which says so.
	set, _ := ordinals.NewSet(start, n, reserved)
	return &target{object.GetUID(), set}
}

// readCustom reads a workload of the white list from the API server: no cache has it.
func (r *Reconciler) readCustom(
	ctx context.Context, key client.ObjectKey, ref v1beta1.PersistentPodStateTarget,
) (*target, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(ref.APIVersion)
	object.SetKind(ref.Kind)
	err := r.Live.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", ref.Kind, ref.Name, err)
	}
	replicas, has, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if !has {
		replicas = 1
	}
	start, _, _ := unstructured.NestedInt64(object.Object, "spec", "ordinals", "start")
	listed, _, _ := unstructured.NestedSlice(object.Object, "spec", "reserveOrdinals")
	var reserved []intstr.IntOrString
	for _, entry := range listed {
		switch v := entry.(type) {
		case int64:
			reserved = append(reserved, intstr.FromInt32(int32(v)))
		case string:
			reserved = append(reserved, intstr.FromString(v))
		}
	}
	return targetOf(object, int32(start), new(int32(replicas)), reserved), nil
}

// whiteListed returns the kinds of the white list in the ConfigMaps of the agent's namespace and of OpenKruise's. One
// that the agent may not read lists none.
func whiteListed(ctx context.Context, live client.Reader, namespace string) ([]schema.GroupVersionKind, error) {
	var out []schema.GroupVersionKind
	if namespace == "" {
		namespace = topology.SystemNamespace
	}
	for _, in := range []string{namespace, published} {
		object := &corev1.ConfigMap{}
		err := live.Get(ctx, client.ObjectKey{Namespace: in, Name: configuration}, object)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read ConfigMap %s/%s: %w", in, configuration, err)
		}
		var list struct {
			Workloads []schema.GroupVersionKind `json:"workloads"`
		}
		if text := object.Data[whiteList]; text != "" {
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				return nil, fmt.Errorf("decode %s of ConfigMap %s/%s; correct it: %w", whiteList, in, configuration, err)
			}
		}
		out = append(out, list.Workloads...)
	}
	return out, nil
}
