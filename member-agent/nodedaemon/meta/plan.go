package meta

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

const (
	// annotationMeta is the published annotation with what the containers of a pod run.
	annotationMeta = "apps.kruise.io/runtime-containers-meta"
	// annotationState is the published record of an update in place.
	annotationState = "apps.kruise.io/inplace-update-state"
	// annotationHash is what kubelets write on containers: the hash of their spec.
	annotationHash = "io.kubernetes.container.hash"
)

// containersMeta is the value of annotationMeta.
type containersMeta struct {
	Containers []containerMeta `json:"containers"`
}

type containerMeta struct {
	Name         string `json:"name"`
	ContainerID  string `json:"containerID"`
	RestartCount int32  `json:"restartCount"`
	Hashes       hashes `json:"hashes"`
}

type hashes struct {
	PlainHash                    uint64 `json:"plainHash"`
	ExtractedEnvFromMetadataHash uint64 `json:"extractedEnvFromMetadataHash"`
}

// created is what the runtime says of a container: what it was created with does not change.
type created struct {
	env  map[string]string
	hash uint64
}

// read parses the environment in the verbose status of a container. It errs if the runtime does not say it.
func read(info map[string]string, annotations map[string]string) (created, error) {
	var verbose struct {
		RuntimeSpec struct {
			Process struct {
				Env []string `json:"env"`
			} `json:"process"`
		} `json:"runtimeSpec"`
	}
	if err := json.Unmarshal([]byte(info["info"]), &verbose); err != nil {
		return created{}, fmt.Errorf("read the verbose status: %w", err)
	}
	if len(verbose.RuntimeSpec.Process.Env) == 0 {
		return created{}, fmt.Errorf("the verbose status has no environment")
	}
	out := created{env: map[string]string{}}
	for _, variable := range verbose.RuntimeSpec.Process.Env {
		name, value, _ := strings.Cut(variable, "=")
		out.env[name] = value
	}
	out.hash, _ = strconv.ParseUint(annotations[annotationHash], 16, 64) // 0 without one
	return out, nil
}

// fed returns the variables of a container that read a label or annotation of the pod, with what they are to be.
func fed(pod *corev1.Pod, container *corev1.Container) map[string]string {
	out := map[string]string{}
	for _, variable := range container.Env {
		if variable.ValueFrom == nil || variable.ValueFrom.FieldRef == nil {
			delete(out, variable.Name) // a later one of the same name
			continue
		}
		path := variable.ValueFrom.FieldRef.FieldPath
		if key, ok := keyIn(path, "metadata.labels["); ok {
			out[variable.Name] = pod.Labels[key]
		} else if key, ok := keyIn(path, "metadata.annotations["); ok {
			out[variable.Name] = pod.Annotations[key]
		} else {
			delete(out, variable.Name)
		}
	}
	return out
}

// keyIn returns the key of a path such as metadata.labels['key'].
func keyIn(path, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(path, prefix+"'")
	key, closed := strings.CutSuffix(rest, "']")
	return key, ok && closed
}

// cares reports whether the daemon cares for a pod: one that can be updated in place, with a container that reads
// metadata.
func cares(pod *corev1.Pod) bool {
	if !podstate.Active(pod) || !slices.Contains(pod.Spec.ReadinessGates,
		corev1.PodReadinessGate{ConditionType: v1beta1.InPlaceUpdateReady}) {
		return false
	}
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return len(fed(pod, &c)) > 0 })
}

// runs returns the ID of the running container of that name, as the runtime has it, and its status; "" for none.
func runs(pod *corev1.Pod, name string) (id string, status *corev1.ContainerStatus) {
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		if _, id, ok := strings.Cut(s.ContainerID, "://"); ok && s.Name == name && s.State.Running != nil {
			return id, s
		}
	}
	return "", nil
}

// plan returns the annotation of a pod, and the names of the containers to restart, given what containers were created
// with, by ID. It returns no annotation as long as nothing is known of one that runs and reads metadata.
func plan(pod *corev1.Pod, known map[string]created) (annotation string, restart []string, err error) {
	meta := containersMeta{}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		want := fed(pod, container)
		id, status := runs(pod, container.Name)
		if len(want) == 0 || id == "" {
			continue
		}
		have, ok := known[id]
		if !ok {
			return "", nil, nil
		}
		if differs(have.env, want) && updating(pod) {
			restart = append(restart, container.Name)
		}
		meta.Containers = append(meta.Containers, containerMeta{Name: container.Name, ContainerID: status.ContainerID,
			RestartCount: status.RestartCount, Hashes: hashes{have.hash, hashOf(have.env, want)}})
	}
	if len(meta.Containers) == 0 {
		return "", nil, nil
	}
	slices.SortFunc(meta.Containers, func(a, b containerMeta) int { return cmp.Compare(a.Name, b.Name) })
	text, err := json.Marshal(meta)
	if err != nil {
		return "", nil, fmt.Errorf("encode annotation %s: %w", annotationMeta, err)
	}
	return string(text), restart, nil
}

func differs(have, want map[string]string) bool {
	for name, value := range want {
		if have[name] != value {
			return true
		}
	}
	return false
}

// hashOf hashes what the container has of the variables that read metadata.
func hashOf(have, names map[string]string) uint64 {
	var lines []string
	for name := range names {
		lines = append(lines, name+"="+have[name])
	}
	slices.Sort(lines)
	sum := fnv.New64a()
	for _, line := range lines {
		_, _ = sum.Write([]byte(line + "\n")) // it never fails
	}
	return sum.Sum64()
}

// wanted hashes what the containers of a pod are to see of its metadata.
func wanted(pod *corev1.Pod) uint64 {
	all := map[string]string{}
	for i := range pod.Spec.Containers {
		for name, value := range fed(pod, &pod.Spec.Containers[i]) {
			all[pod.Spec.Containers[i].Name+"/"+name] = value
		}
	}
	return hashOf(all, all)
}

// updating reports whether an update in place of metadata is under way: its gate is shut, and its record names it.
func updating(pod *corev1.Pod) bool {
	gate := podstate.Condition(pod, v1beta1.InPlaceUpdateReady)
	if gate == nil || gate.Status != corev1.ConditionFalse {
		return false
	}
	var state struct {
		UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata"`
	}
	err := json.Unmarshal([]byte(pod.Annotations[annotationState]), &state)
	return err == nil && state.UpdateEnvFromMetadata
}
