package revision

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

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
