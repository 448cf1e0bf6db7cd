package resourcedistribution

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// resource is what is copied.
type resource struct {
	object *unstructured.Unstructured
	hash   string
}

// parse reads the resource of a ResourceDistribution. The error says what to correct.
func parse(raw []byte) (*resource, error) {
	r := &resource{object: &unstructured.Unstructured{}}
	if err := json.Unmarshal(raw, &r.object.Object); err != nil {
		return nil, fmt.Errorf("spec.resource is no object: %w", err)
	}
	gvk := r.object.GroupVersionKind()
	if gvk != corev1.SchemeGroupVersion.WithKind(kindSecret) && gvk != corev1.SchemeGroupVersion.WithKind(kindConfigMap) {
		return nil, fmt.Errorf("spec.resource is a %s of %s: only Secrets and ConfigMaps of v1 can be distributed", gvk.Kind,
			gvk.GroupVersion())
	}
	if r.object.GetName() == "" {
		return nil, fmt.Errorf("spec.resource.metadata.name is empty: give the name that the copies are to have")
	}
	if gvk.Kind == kindSecret {
		if err := asStored(r.object.Object); err != nil {
			return nil, err
		}
	}
	sum := sha256.Sum256(raw)
	r.hash = hex.EncodeToString(sum[:])
	return r, nil
}

const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// asStored makes a Secret what an API server makes of it: stringData becomes data, and the type has a default.
func asStored(secret map[string]any) error {
	plain, _, err := unstructured.NestedStringMap(secret, "stringData")
	if err != nil {
		return fmt.Errorf("spec.resource.stringData cannot be used; correct it: %w", err)
	}
	delete(secret, "stringData")
	for key, value := range plain {
		encoded := base64.StdEncoding.EncodeToString([]byte(value))
		if err := unstructured.SetNestedField(secret, encoded, "data", key); err != nil {
			return fmt.Errorf("spec.resource.data cannot be used; correct it: %w", err)
		}
	}
	if secret["type"] == nil || secret["type"] == "" {
		secret["type"] = string(corev1.SecretTypeOpaque)
	}
	return nil
}

// copyFor returns the copy of a namespace that has none yet.
func (r *resource) copyFor(d *v1beta1.ResourceDistribution, namespace string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: content(r.object.Object)}
	out.SetGroupVersionKind(r.object.GroupVersionKind())
	out.SetNamespace(namespace)
	out.SetName(r.object.GetName())
	out.SetFinalizers(r.object.GetFinalizers())
	r.mark(d, out)
	return out
}

// mark gives a copy its owner, and the labels and annotations of the resource beside those that it has.
func (r *resource) mark(d *v1beta1.ResourceDistribution, out *unstructured.Unstructured) {
	out.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(d, v1beta1.ResourceDistributionKind)})
	out.SetLabels(merged(out.GetLabels(), r.object.GetLabels(),
		map[string]string{v1beta1.LabelDistribution: string(d.UID)}))
	out.SetAnnotations(merged(out.GetAnnotations(), r.object.GetAnnotations(), map[string]string{
		v1beta1.AnnotationDistributedFrom: d.Name, v1beta1.AnnotationDistributedHash: r.hash}))
}

func merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// content returns a copy of an object without what names it and without its metadata. Empty values are left out.
func content(object map[string]any) map[string]any {
	out := map[string]any{}
	for field, value := range object {
		named := slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, field)
		if named || value == nil || value == false || value == "" {
			continue
		}
		if m, ok := value.(map[string]any); ok && len(m) == 0 {
			continue
		}
		out[field] = value
	}
	return (&unstructured.Unstructured{Object: out}).DeepCopy().Object
}

// brought returns have as it is to be, nil if it is so. What others added to its labels, annotations and finalizers
// stays.
func (r *resource) brought(d *v1beta1.ResourceDistribution,
	have *unstructured.Unstructured) *unstructured.Unstructured {
	out := have.DeepCopy()
	for field := range out.Object {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata"}, field) {
			delete(out.Object, field)
		}
	}
	maps.Copy(out.Object, content(r.object.Object))
	r.mark(d, out)
	same := equality.Semantic.DeepEqual(content(out.Object), content(have.Object)) &&
		maps.Equal(out.GetLabels(), have.GetLabels()) && maps.Equal(out.GetAnnotations(), have.GetAnnotations()) &&
		equality.Semantic.DeepEqual(out.GetOwnerReferences(), have.GetOwnerReferences())
	if same {
		return nil
	}
	return out
}
