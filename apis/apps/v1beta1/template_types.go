package v1beta1

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-dev/flotilla/apis/apps/strict"
)

// PodTemplate is a core/v1 PodTemplateSpec. The definitions keep most of it without a schema, so that it may hold
// values of wrong types. Decoding an object never fails because of them: one such object in a list would keep every
// client from reading the others.
type PodTemplate struct {
	corev1.PodTemplateSpec `json:",inline"`
	// Undecoded is the template as JSON if it cannot be decoded, else nil. PodTemplateSpec then has the metadata alone, if
	// that can be decoded. Encoding returns it, so that a write of another field changes nothing in the template.
	Undecoded []byte `json:"-"`
}

// NewPodTemplate returns a template that can be decoded.
func NewPodTemplate(template corev1.PodTemplateSpec) PodTemplate {
	return PodTemplate{PodTemplateSpec: template}
}

// UnmarshalJSON keeps data that cannot be decoded, and never fails.
func (t *PodTemplate) UnmarshalJSON(data []byte) error {
	if t.PodTemplateSpec, t.Undecoded = decode[corev1.PodTemplateSpec](data); t.Undecoded != nil {
		known, _ := decode[struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}](data)
		t.ObjectMeta = known.Metadata
	}
	return nil
}

// MarshalJSON returns what was decoded.
func (t PodTemplate) MarshalJSON() ([]byte, error) { return encode(t.PodTemplateSpec, t.Undecoded) }

// Err reports why the template at path cannot be decoded, nil if it can.
func (t *PodTemplate) Err(path *field.Path) error {
	return undecodable[corev1.PodTemplateSpec](path, t.Undecoded)
}

// NativeStatefulSetSpec is an apps/v1 StatefulSetSpec that always decodes, like PodTemplate.
type NativeStatefulSetSpec struct {
	appsv1.StatefulSetSpec `json:",inline"`
	// Undecoded is the spec as JSON if it cannot be decoded, else nil. StatefulSetSpec is then empty.
	Undecoded []byte `json:"-"`
}

// UnmarshalJSON keeps data that cannot be decoded, and never fails.
func (s *NativeStatefulSetSpec) UnmarshalJSON(data []byte) error {
	s.StatefulSetSpec, s.Undecoded = decode[appsv1.StatefulSetSpec](data)
	return nil
}

// MarshalJSON returns what was decoded.
func (s NativeStatefulSetSpec) MarshalJSON() ([]byte, error) {
	return encode(s.StatefulSetSpec, s.Undecoded)
}

// NativeDeploymentSpec is an apps/v1 DeploymentSpec that always decodes, like PodTemplate.
type NativeDeploymentSpec struct {
	appsv1.DeploymentSpec `json:",inline"`
	// Undecoded is the spec as JSON if it cannot be decoded, else nil. DeploymentSpec is then empty.
	Undecoded []byte `json:"-"`
}

// UnmarshalJSON keeps data that cannot be decoded, and never fails.
func (s *NativeDeploymentSpec) UnmarshalJSON(data []byte) error {
	s.DeploymentSpec, s.Undecoded = decode[appsv1.DeploymentSpec](data)
	return nil
}

// MarshalJSON returns what was decoded.
func (s NativeDeploymentSpec) MarshalJSON() ([]byte, error) {
	return encode(s.DeploymentSpec, s.Undecoded)
}

// JobTemplate is a batch/v1 JobTemplateSpec that always decodes, like PodTemplate.
type JobTemplate struct {
	batchv1.JobTemplateSpec `json:",inline"`
	// Undecoded is the template as JSON if it cannot be decoded, else nil. JobTemplateSpec is then empty.
	Undecoded []byte `json:"-"`
}

// UnmarshalJSON keeps data that cannot be decoded, and never fails.
func (t *JobTemplate) UnmarshalJSON(data []byte) error {
	t.JobTemplateSpec, t.Undecoded = decode[batchv1.JobTemplateSpec](data)
	return nil
}

// MarshalJSON returns what was decoded.
func (t JobTemplate) MarshalJSON() ([]byte, error) { return encode(t.JobTemplateSpec, t.Undecoded) }

// Err reports why the template at path cannot be decoded, nil if it can.
func (t *JobTemplate) Err(path *field.Path) error {
	return undecodable[batchv1.JobTemplateSpec](path, t.Undecoded)
}

// Err reports why the template at path cannot be decoded, nil if it can.
func (t *SubsetTemplate) Err(path *field.Path) error {
	spec := func(child string) *field.Path { return path.Child(child, "spec") }
	switch {
	case t.CloneSetTemplate != nil:
		return t.CloneSetTemplate.Spec.Template.Err(spec("cloneSetTemplate").Child("template"))
	case t.AdvancedStatefulSetTemplate != nil:
		return t.AdvancedStatefulSetTemplate.Spec.Template.Err(spec("advancedStatefulSetTemplate").Child("template"))
	case t.StatefulSetTemplate != nil:
		return undecodable[appsv1.StatefulSetSpec](spec("statefulSetTemplate"), t.StatefulSetTemplate.Spec.Undecoded)
	case t.DeploymentTemplate != nil:
		return undecodable[appsv1.DeploymentSpec](spec("deploymentTemplate"), t.DeploymentTemplate.Spec.Undecoded)
	}
	return nil
}

// decode returns the value of data, or nothing and a copy of the data if it cannot be decoded.
func decode[T any](data []byte) (T, []byte) {
	var value, none T
	if err := json.Unmarshal(data, &value); err != nil {
		return none, bytes.Clone(data)
	}
	return value, nil
}

// encode returns the value as JSON, or what could not be decoded.
func encode[T any](value T, undecoded []byte) ([]byte, error) {
	if undecoded != nil {
		return undecoded, nil
	}
	return stdjson.Marshal(value)
}

// undecodable returns the first reason why data cannot be decoded, nil without data.
func undecodable[T any](path *field.Path, data []byte) error {
	if data == nil {
		return nil
	}
	if mistakes := strict.Check[T](path, data).Mistakes; len(mistakes) > 0 {
		return fmt.Errorf("%w; correct the value", mistakes[0])
	}
	var value T
	return fmt.Errorf("%s: %w; correct it", path, json.Unmarshal(data, &value))
}
