package volumes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// lost returns the claims that pods wait for and that are gone: somebody deleted such a claim just when its pod was
// made, and no kubelet starts the pod without it. A claim whose pod runs is protected by the API server.
func (f Facts) lost() []*corev1.PersistentVolumeClaim {
	if len(f.Set.Templates) == 0 || f.Named == nil {
		return nil
	}
	var out []*corev1.PersistentVolumeClaim
	for _, pod := range f.Pods.Active {
		id := f.Set.ID(pod)
		if pod.Status.Phase == corev1.PodRunning || pod.DeletionTimestamp != nil || id == "" ||
			slices.Contains(f.Leaving, pod) {
			continue
		}
		for i := range f.Set.Templates {
			template := &f.Set.Templates[i]
			name := Name(template.Name, f.Set.Object.GetName(), id)
			if mounts(pod, name) && f.Named(name) == nil {
				out = append(out, f.Set.New(template, id))
			}
		}
	}
	return out
}
