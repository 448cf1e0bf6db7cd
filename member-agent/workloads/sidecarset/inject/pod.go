package inject

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// Environment variables of the two containers of a hot sidecar.
const (
	EnvVersion    = "SIDECARSET_VERSION"
	EnvVersionAlt = "SIDECARSET_VERSION_ALT"
)

// Set is a SidecarSet as a new pod gets it: Spec is that of the revision.
type Set struct {
	Name     string
	Labels   map[string]string
	Spec     *v1beta1.SidecarSetSpec
	Hashes   revision.Hashes
	Revision string
}

// Failure says why a pod cannot have the sidecars of a SidecarSet.
type Failure struct {
	Set string
	Err error
}

// Error names the SidecarSet.
func (f *Failure) Error() string { return "SidecarSet " + f.Set + ": " + f.Err.Error() }

// Unwrap returns what went wrong.
func (f *Failure) Unwrap() error { return f.Err }

// Pod changes a new pod into one with the sidecars of the sets. It returns a [Failure] for what cannot be
// computed; the pod is then of no use.
func Pod(pod *corev1.Pod, sets []Set, allowed Allowed, now time.Time) error {
	sent := *pod // what it shares with pod stays as it is until finish
	sent.Annotations = maps.Clone(pod.Annotations)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	marks.Clear(pod.Annotations)
	for i := range sets {
		patches := sets[i].Spec.PatchPodMetadata
		if err := patchAnnotations(pod.Annotations, sets[i].Labels, patches, allowed); err != nil {
			return &Failure{Set: sets[i].Name, Err: err}
		}
	}
	b := &builder{sent: &sent, sidecars: sidecarNames(sets)}
	for i := range sets {
		if len(sets[i].Spec.Containers)+len(sets[i].Spec.InitContainers) == 0 {
			continue
		}
		if err := b.add(pod, &sets[i], now); err != nil {
			return &Failure{Set: sets[i].Name, Err: err}
		}
	}
	b.finish(pod)
	return nil
}

// sidecarNames returns the names of all containers of the sets.
func sidecarNames(sets []Set) map[string]bool {
	out := map[string]bool{}
	for i := range sets {
		for _, name := range marks.Names(sets[i].Spec) {
			out[name] = true
		}
		for _, list := range [][]v1beta1.SidecarContainer{sets[i].Spec.Containers, sets[i].Spec.InitContainers} {
			for j := range list {
				out[list[j].Name] = true
			}
		}
	}
	return out
}

// builder collects what a pod gets.
type builder struct {
	sent                 *corev1.Pod
	sidecars             map[string]bool
	before, after, inits []corev1.Container
}

// add adds what the pod gets of one SidecarSet.
func (b *builder) add(pod *corev1.Pod, set *Set, now time.Time) error {
	var added []corev1.Container
	for i := range set.Spec.InitContainers {
		c, err := b.container(&set.Spec.InitContainers[i])
		if err != nil {
			return err
		}
		added, b.inits = append(added, c), append(b.inits, c)
	}
	for i := range set.Spec.Containers {
		sidecar := &set.Spec.Containers[i]
		c, err := b.container(sidecar)
		if err != nil {
			return err
		}
		list := []corev1.Container{c}
		if marks.Hot(sidecar) {
			if list, err = hotPair(pod.Annotations, sidecar, c); err != nil {
				return err
			}
		}
		added = append(added, list...)
		if sidecar.PodInjectPolicy == v1beta1.AfterAppContainerType {
			b.after = append(b.after, list...)
		} else {
			b.before = append(b.before, list...)
		}
	}
	addVolumes(pod, set.Spec.Volumes, added)
	pod.Spec.ImagePullSecrets = appendNew(pod.Spec.ImagePullSecrets, set.Spec.ImagePullSecrets,
		func(r corev1.LocalObjectReference) string { return r.Name })
	return marks.Inject(pod.Annotations, marks.Record{
		UpdateTimestamp: metav1.NewTime(now.UTC().Truncate(time.Second)), Hash: set.Hashes.All, SidecarSet: set.Name,
		Sidecars: marks.Names(set.Spec), Revision: set.Revision,
	}, set.Hashes.WithoutImage)
}

// container returns the container of a sidecar with its resources.
func (b *builder) container(sidecar *v1beta1.SidecarContainer) (corev1.Container, error) {
	c := container(sidecar, b.sent)
	if sidecar.ResourcesPolicy == nil {
		return c, nil
	}
	var err error
	if c.Resources, err = resources(sidecar.ResourcesPolicy, b.sent, b.sidecars); err != nil {
		return c, fmt.Errorf("compute the resources of container %s: %w", sidecar.Name, err)
	}
	return c, nil
}

// hotPair returns the two containers of a hot sidecar: the first works, the second waits with the empty image.
func hotPair(
	annotations map[string]string, sidecar *v1beta1.SidecarContainer, c corev1.Container,
) ([]corev1.Container, error) {
	pair := marks.Pair(sidecar.Name)
	if err := marks.Put(annotations, v1beta1.AnnotationSidecarSetWorking, sidecar.Name, pair[0]); err != nil {
		return nil, err
	}
	out := make([]corev1.Container, len(pair))
	for i, name := range pair {
		out[i] = *c.DeepCopy()
		out[i].Name = name
		for _, version := range [][3]string{
			{EnvVersion, v1beta1.PrefixSidecarVersion, []string{"1", "0"}[i]},
			{EnvVersionAlt, v1beta1.PrefixSidecarVersionAlt, []string{"0", "1"}[i]},
		} {
			annotation := version[1] + name
			annotations[annotation] = version[2]
			out[i].Env = append(out[i].Env, corev1.EnvVar{Name: version[0], ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + annotation + "']"},
			}})
		}
	}
	out[1].Image = sidecar.UpgradeStrategy.HotUpgradeEmptyImage
	return out, nil
}

// addVolumes adds the volumes that the containers name. A volume that the pod has stays as it is.
func addVolumes(pod *corev1.Pod, volumes []v1beta1.SidecarVolume, containers []corev1.Container) {
	used := map[string]bool{}
	for i := range containers {
		for _, mount := range containers[i].VolumeMounts {
			used[mount.Name] = true
		}
		for _, device := range containers[i].VolumeDevices {
			used[device.Name] = true
		}
	}
	for i := range volumes {
		if used[volumes[i].Name] {
			pod.Spec.Volumes = appendNew(pod.Spec.Volumes, []corev1.Volume{*volumes[i].Volume.DeepCopy()},
				func(v corev1.Volume) string { return v.Name })
		}
	}
}

// finish puts the containers into the pod. A container of the same name that the pod has is replaced where it is.
func (b *builder) finish(pod *corev1.Pod) {
	slices.SortStableFunc(b.inits, func(a, c corev1.Container) int { return cmp.Compare(a.Name, c.Name) })
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, replace(pod.Spec.InitContainers, b.inits)...)
	before, after := replace(pod.Spec.Containers, b.before), replace(pod.Spec.Containers, b.after)
	pod.Spec.Containers = slices.Concat(before, pod.Spec.Containers, after)
}

// replace replaces containers of the list that have the same name, and returns the others.
func replace(list, containers []corev1.Container) []corev1.Container {
	var others []corev1.Container
	for i := range containers {
		same := func(c corev1.Container) bool { return c.Name == containers[i].Name }
		if at := slices.IndexFunc(list, same); at >= 0 {
			list[at] = containers[i]
		} else {
			others = append(others, containers[i])
		}
	}
	return others
}
