package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/podtemplate"
)

// patchOf returns the patch that changes base, as it was read, into object. A patch has whole lists, and the
// definitions keep fields of pod templates that this program does not know: where lists of a template change, the patch
// is made of the tree of the object, and carries those fields over. It errs with a conflict if the object has changed
// since it was read.
func patchOf(ctx context.Context, c client.Client, base, object client.Object) (client.Patch, error) {
	had, wants := podtemplate.Of(base), podtemplate.Of(object)
	if had == nil || wants == nil || reflect.DeepEqual(had.Spec, wants.Spec) {
		return client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}), nil
	}
	kind, err := c.GroupVersionKindFor(base)
	if err != nil {
		return nil, err
	}
	tree := &unstructured.Unstructured{}
	tree.SetGroupVersionKind(kind)
	if err := c.Get(ctx, client.ObjectKeyFromObject(base), tree); err != nil {
		return nil, err
	}
	if tree.GetResourceVersion() != base.GetResourceVersion() {
		resource := schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}
		return nil, apierrors.NewConflict(resource, base.GetName(), errors.New("it has changed meanwhile"))
	}
	changed, err := carry(tree, base, object)
	if err != nil {
		return nil, err
	}
	data, err := client.MergeFromWithOptions(tree, client.MergeFromWithOptimisticLock{}).Data(changed)
	if err != nil {
		return nil, err
	}
	return client.RawPatch(types.MergePatchType, data), nil
}

// carry returns the tree with the changes that were made between base and object. Fields of the tree that base does not
// have stay. It is pure.
func carry(tree *unstructured.Unstructured, base, object client.Object) (*unstructured.Unstructured, error) {
	had, wants := podtemplate.Of(base), podtemplate.Of(object)
	rest, _ := object.DeepCopyObject().(client.Object) // it is one
	*podtemplate.Of(rest) = *had.DeepCopy()
	others, err := client.MergeFrom(base).Data(rest)
	if err != nil {
		return nil, err
	}
	before, err := tree.MarshalJSON()
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, others)
	if err != nil {
		return nil, err
	}
	changed := &unstructured.Unstructured{}
	if err := changed.UnmarshalJSON(after); err != nil {
		return nil, err
	}
	path := podtemplate.Path(object)
	template, _, err := unstructured.NestedMap(changed.Object, path...)
	if err != nil {
		return nil, err
	}
	merged, err := carryTemplate(template, had, wants)
	if err != nil {
		return nil, err
	}
	return changed, unstructured.SetNestedMap(changed.Object, merged, path...)
}

// carryTemplate is carry for a pod template. Containers, volumes and the like are the same ones if they have the same
// names.
func carryTemplate(tree map[string]any, had, wants *corev1.PodTemplateSpec) (map[string]any, error) {
	before, err := json.Marshal(had)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(wants)
	if err != nil {
		return nil, err
	}
	present, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	merged, err := mergeTemplate(present, before, after)
	if err != nil {
		merged = after // an entry of a list lacks its key
	}
	// Lists with two entries of one key, such as ports of TCP and UDP, cannot be merged: all comes as it is wanted.
	var got corev1.PodTemplateSpec
	if err := json.Unmarshal(merged, &got); err != nil {
		return nil, err
	}
	same, err := sameTemplate(&got, wants)
	if err != nil {
		return nil, err
	}
	if !same {
		merged = after
	}
	out := map[string]any{}
	err = utiljson.Unmarshal(merged, &out) // whole numbers stay whole
	return out, err
}

// mergeTemplate makes the change between two templates in the present one. It errs if an entry of a list lacks its key.
func mergeTemplate(present, before, after []byte) ([]byte, error) {
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergePatch(present, patch, corev1.PodTemplateSpec{})
}
