package inject

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
)

// container returns the container that the pod gets for a sidecar. pod is what its creator sent.
func container(sidecar *v1beta1.SidecarContainer, pod *corev1.Pod) corev1.Container {
	c := *sidecar.Container.DeepCopy()
	apps := slices.DeleteFunc(slices.Clone(pod.Spec.Containers),
		func(c corev1.Container) bool { return marks.IsInjected(&c) })
	if sidecar.ShareVolumePolicy.Type == v1beta1.ShareVolumePolicyEnabled {
		shareMounts(&c, apps)
	}
	if share := sidecar.ShareVolumeDevicePolicy; share != nil && share.Type == v1beta1.ShareVolumePolicyEnabled {
		for i := range apps {
			c.VolumeDevices = appendNew(c.VolumeDevices, apps[i].VolumeDevices,
				func(d corev1.VolumeDevice) string { return d.DevicePath })
		}
	}
	c.Env = appendNew(c.Env, transferred(sidecar.TransferEnv, pod), envName)
	c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == marks.EnvInjected })
	c.Env = append(c.Env, corev1.EnvVar{Name: marks.EnvInjected, Value: "true"})
	return c
}

func envName(e corev1.EnvVar) string { return e.Name }

// appendNew appends those of more whose key the list does not have.
func appendNew[T any](list, more []T, key func(T) string) []T {
	for _, item := range more {
		if !slices.ContainsFunc(list, func(have T) bool { return key(have) == key(item) }) {
			list = append(list, item)
		}
	}
	return list
}

// shareMounts mounts what the containers mount, and takes the variables that their subPathExpr read.
func shareMounts(c *corev1.Container, apps []corev1.Container) {
	for i := range apps {
		for _, mount := range apps[i].VolumeMounts {
			before := len(c.VolumeMounts)
			c.VolumeMounts = appendNew(c.VolumeMounts, []corev1.VolumeMount{mount},
				func(m corev1.VolumeMount) string { return m.MountPath })
			if len(c.VolumeMounts) == before {
				continue
			}
			for _, name := range variables(mount.SubPathExpr) {
				c.Env = appendNew(c.Env, envNamed(apps[i].Env, name), envName)
			}
		}
	}
}

// variables returns the names in $(NAME).
func variables(text string) []string {
	if !strings.Contains(text, "$(") {
		return nil
	}
	var out []string
	for _, match := range regexp.MustCompile(`\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)`).FindAllStringSubmatch(text, -1) {
		out = append(out, match[1])
	}
	return out
}

func envNamed(env []corev1.EnvVar, name string) []corev1.EnvVar {
	if i := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == name }); i >= 0 {
		return env[i : i+1]
	}
	return nil
}

// transferred returns the variables of other containers, by name; those that are not there are left out.
func transferred(transfers []v1beta1.TransferEnvVar, pod *corev1.Pod) []corev1.EnvVar {
	var out []corev1.EnvVar
	for i := range transfers {
		source := sourceOf(&transfers[i], pod)
		isSource := func(c corev1.Container) bool { return source != "" && c.Name == source }
		at := slices.IndexFunc(pod.Spec.Containers, isSource)
		if at < 0 {
			continue
		}
		for _, name := range append([]string{transfers[i].EnvName}, transfers[i].EnvNames...) {
			out = appendNew(out, envNamed(pod.Spec.Containers[at].Env, name), envName)
		}
	}
	slices.SortFunc(out, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// sourceOf returns the name of the container that variables are taken from, "" if the pod does not say it.
func sourceOf(transfer *v1beta1.TransferEnvVar, pod *corev1.Pod) string {
	from := transfer.SourceContainerNameFrom
	if from == nil || from.FieldRef == nil {
		return transfer.SourceContainerName
	}
	for prefix, values := range map[string]map[string]string{
		"metadata.labels['": pod.Labels, "metadata.annotations['": pod.Annotations,
	} {
		if key, ok := strings.CutPrefix(from.FieldRef.FieldPath, prefix); ok {
			return values[strings.TrimSuffix(key, "']")]
		}
	}
	return ""
}
