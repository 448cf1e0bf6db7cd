package revision

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
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
	out.Volumes, out.Containers, out.InitContainers = c.Volumes, c.Containers, c.InitContainers
	out.ImagePullSecrets, out.PatchPodMetadata = c.ImagePullSecrets, c.PatchPodMetadata
	return out
}

// Err reports the first container or volume that cannot be decoded, nil if all can.
func Err(spec *v1beta1.SidecarSetSpec) error {
	path := field.NewPath("spec")
	for i := range spec.Containers {
		if err := spec.Containers[i].Err(path.Child("containers").Index(i)); err != nil {
			return err
		}
	}
	for i := range spec.InitContainers {
		if err := spec.InitContainers[i].Err(path.Child("initContainers").Index(i)); err != nil {
			return err
		}
	}
	for i := range spec.Volumes {
		if err := spec.Volumes[i].Err(path.Child("volumes").Index(i)); err != nil {
			return err
		}
	}
	return nil
}
