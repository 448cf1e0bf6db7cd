// Package sidecars owns the question "what does a revision of a SidecarSet keep". The agent writes such revisions, and
// the hub keeps them in placements. It is pure.
package sidecars

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/defaults"
	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history/normal"
)

// Content is what a revision keeps of a SidecarSet, as published: all five fields are there, null if absent.
type Content struct {
	Volumes          []v1beta1.SidecarVolume              `json:"volumes"`
	Containers       []v1beta1.SidecarContainer           `json:"containers"`
	InitContainers   []v1beta1.SidecarContainer           `json:"initContainers"`
	ImagePullSecrets []corev1.LocalObjectReference        `json:"imagePullSecrets"`
	PatchPodMetadata []v1beta1.SidecarSetPatchPodMetadata `json:"patchPodMetadata"`
}

// ContentOf returns what a revision keeps of a SidecarSet.
func ContentOf(spec *v1beta1.SidecarSetSpec) Content {
	return Content{
		Volumes: spec.Volumes, Containers: spec.Containers, InitContainers: spec.InitContainers,
		ImagePullSecrets: spec.ImagePullSecrets, PatchPodMetadata: spec.PatchPodMetadata,
	}
}

// In returns the spec with the content of a revision.
func (c Content) In(spec *v1beta1.SidecarSetSpec) *v1beta1.SidecarSetSpec {
	out := spec.DeepCopy()
	c = c.copy()
	out.Volumes, out.Containers, out.InitContainers = c.Volumes, c.Containers, c.InitContainers
	out.ImagePullSecrets, out.PatchPodMetadata = c.ImagePullSecrets, c.PatchPodMetadata
	return out
}

// copy returns a copy that shares nothing with c.
func (c Content) copy() Content {
	spec := (&v1beta1.SidecarSetSpec{
		Volumes: c.Volumes, Containers: c.Containers, InitContainers: c.InitContainers,
		ImagePullSecrets: c.ImagePullSecrets, PatchPodMetadata: c.PatchPodMetadata,
	}).DeepCopy()
	return ContentOf(spec)
}

// Encode returns the data of the revision with this content. Its keys are sorted, as those of a manager of OpenKruise.
func Encode(c Content) ([]byte, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the content of a revision: %w", err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("encode the content of a revision: %w", err)
	}
	fields[normal.PatchDirective] = json.RawMessage(`"replace"`)
	return json.Marshal(map[string]any{"spec": fields})
}

// Canonical returns bytes that are equal for contents that mean the same. [Read] reads them.
func Canonical(c Content) ([]byte, error) {
	fields, err := meaning(c)
	if err != nil {
		return nil, fmt.Errorf("encode the content of a revision: %w", err)
	}
	return json.Marshal(fields["spec"])
}

// Read returns the content that its own JSON holds: the five fields. It errs for what is no such object.
func Read(data []byte) (Content, error) {
	var c *Content
	if err := json.Unmarshal(data, &c); err != nil {
		return Content{}, fmt.Errorf("decode the content of a revision: %w", err)
	}
	if c == nil {
		return Content{}, fmt.Errorf("decode the content of a revision: it is null")
	}
	return *c, nil
}

// Decode returns the content that the data of a revision holds.
func Decode(data []byte) (Content, error) {
	var in struct {
		Spec Content `json:"spec"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return Content{}, fmt.Errorf("decode the content of a revision: %w", err)
	}
	return in.Spec, nil
}

// Same reports whether two revisions mean the same: whatever absent fields are, and however values are written.
func Same(a, b Content) bool {
	x, errX := meaning(a)
	y, errY := meaning(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func meaning(c Content) (map[string]any, error) {
	spec := c.In(&v1beta1.SidecarSetSpec{})
	for i := range spec.Containers {
		defaults.Sidecar(&spec.Containers[i], v1beta1.BeforeAppContainerType)
	}
	for i := range spec.InitContainers {
		defaults.Sidecar(&spec.InitContainers[i], v1beta1.AfterAppContainerType)
	}
	for i := range spec.PatchPodMetadata {
		spec.PatchPodMetadata[i].PatchPolicy = cmp.Or(spec.PatchPodMetadata[i].PatchPolicy,
			v1beta1.SidecarSetRetainPatchPolicy)
	}
	return normal.Fields(map[string]any{"spec": ContentOf(spec)})
}
