package adopt

import (
	"context"
	"fmt"
	"io"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

const (
	// exchangeLimit is how long each step of an exchange may take.
	exchangeLimit = 2 * time.Minute
	exchangePoll  = 500 * time.Millisecond
)

// find reads the workload in a member: its object, and the apps/v1 StatefulSet that still runs its pods, or nil. Where
// only the latter exists, the object is the one that it is to become, without a resourceVersion.
func find(ctx context.Context, c client.Client, key wire.Key, member string) (live, native *unstructured.Unstructured,
	err error) {
	live = &unstructured.Unstructured{}
	live.SetGroupVersionKind(kinds.Workloads()[key.GroupKind()].GVK)
	missing := c.Get(ctx, key.Workload(), live)
	if missing != nil && !apierrors.IsNotFound(missing) {
		return nil, nil, fmt.Errorf("read %s in %s: %w", key.Sentence(), member, missing)
	}
	if key.Kind == apps.StatefulSetKind.Kind {
		native = &unstructured.Unstructured{}
		native.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(key.Kind))
		if err := c.Get(ctx, key.Workload(), native); apierrors.IsNotFound(err) {
			native = nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("read StatefulSet (apps) %s in %s: %w", key.Workload(), member, err)
		}
	}
	switch {
	case missing == nil && native != nil:
		return nil, nil, fmt.Errorf("%s exists in %s as StatefulSet of apps and of apps.kruise.io, which make pods of the "+
			"same names: delete one of them", key.Sentence(), member)
	case missing == nil:
		return live, nil, nil
	case native == nil:
		return nil, nil, fmt.Errorf("%s does not run in %s: leave that member out of --from, "+
			"or look at the namespace and the name", key.Sentence(), member)
	}
	live, err = advanced(native)
	return live, native, err
}

// advanced returns the apps.kruise.io StatefulSet with the pods of an apps/v1 one. It is pure.
func advanced(native *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(apps.StatefulSetKind)
	out.SetNamespace(native.GetNamespace())
	out.SetName(native.GetName())
	out.SetLabels(native.GetLabels())
	annotations := maps.Clone(native.GetAnnotations())
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	out.SetAnnotations(annotations)
	spec, _, err := unstructured.NestedMap(native.Object, "spec")
	if err != nil {
		return nil, fmt.Errorf("read the spec of StatefulSet (apps) %s: %w", native.GetName(), err)
	}
	if seconds, has := spec["minReadySeconds"]; has {
		delete(spec, "minReadySeconds")
		kind, _, _ := unstructured.NestedString(spec, "updateStrategy", "type")
		if kind != string(appsv1.OnDeleteStatefulSetStrategyType) {
			err = unstructured.SetNestedField(spec, seconds, "updateStrategy", "rollingUpdate", "minReadySeconds")
		}
	}
	claims, _ := spec["volumeClaimTemplates"].([]any)
	for _, claim := range claims {
		if template, ok := claim.(map[string]any); ok {
			delete(template, "status")
		}
	}
	out.Object["spec"] = spec
	if err != nil {
		return nil, fmt.Errorf("set minReadySeconds of StatefulSet (apps) %s: %w", native.GetName(), err)
	}
	return out, nil
}

// exchangeAll replaces the apps/v1 StatefulSets of all members.
func exchangeAll(ctx context.Context, out io.Writer, members []member) error {
	for i := range members {
		if err := members[i].exchange(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

// exchange replaces the apps/v1 StatefulSet of a member: its pods, claims and revisions stay, and the object that
// replaces it takes them over. Where that object cannot be created, it is printed.
func (m *member) exchange(ctx context.Context, out io.Writer) error {
	if m.native == nil {
		return nil
	}
	uid, name := m.native.GetUID(), client.ObjectKeyFromObject(m.native)
	err := m.client.Delete(ctx, m.native.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationOrphan),
		client.Preconditions{UID: &uid})
	if err == nil {
		err = poll(ctx, func(ctx context.Context) (bool, error) {
			err := m.client.Get(ctx, name, m.native.DeepCopy())
			return apierrors.IsNotFound(err), nil
		})
	}
	if err != nil {
		return fmt.Errorf("delete StatefulSet (apps) %s in %s without its pods: %w", name, m.name, err)
	}
	var last error
	err = poll(ctx, func(ctx context.Context) (bool, error) {
		last = client.IgnoreAlreadyExists(m.client.Create(ctx, m.live, client.FieldOwner("flotilla-adopt")))
		return last == nil, nil
	})
	if err != nil {
		if text, err := yaml.Marshal(m.live.Object); err == nil {
			_, _ = out.Write(text) // the error below says what it is for
		}
		return fmt.Errorf("create StatefulSet %s in %s: %w; its pods run without a controller: create the object above there",
			name, m.name, last)
	}
	ready, _, _ := unstructured.NestedInt64(m.native.Object, "status", "readyReplicas")
	err = poll(ctx, func(ctx context.Context) (bool, error) {
		if m.client.Get(ctx, name, m.live) != nil {
			return false, nil
		}
		has, _, _ := unstructured.NestedInt64(m.live.Object, "status", "readyReplicas")
		return has >= ready, nil
	})
	if err != nil {
		return fmt.Errorf("wait until StatefulSet %s in %s has the %d ready pods of the native one: %w; "+
			"look at its conditions, then adopt it again", name, m.name, ready, err)
	}
	_, err = fmt.Fprintf(out, "StatefulSet (apps) %s in %s is a StatefulSet of apps.kruise.io now, with the same pods\n",
		name, m.name)
	return err
}

func poll(ctx context.Context, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, exchangePoll, exchangeLimit, true, done)
}
