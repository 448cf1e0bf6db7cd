package inplace

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resizable reports whether a running container can be given another amount of the resource.
func resizable(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory
}

// effective returns the requests of a container as the API server completes them: a limit without a request is one.
func effective(r corev1.ResourceRequirements) corev1.ResourceList {
	requests := maps.Clone(r.Limits)
	if requests == nil {
		return r.Requests
	}
	maps.Copy(requests, r.Requests)
	return requests
}

// resize returns the cpu and memory of the updated container if they differ from the old ones, nil if nothing differs.
// The refusal is the first field below path that cannot be changed: another resource, or one that is added or taken
// away.
func resize(path string, old, updated corev1.ResourceRequirements) (out *corev1.ResourceRequirements, refusal string) {
	if !slices.Equal(old.Claims, updated.Claims) {
		return nil, path + ".claims"
	}
	changed := false
	for _, list := range []struct {
		name     string
		from, to corev1.ResourceList
	}{{"limits", old.Limits, updated.Limits}, {"requests", effective(old), effective(updated)}} {
		keys := maps.Clone(list.from)
		if keys == nil {
			keys = corev1.ResourceList{}
		}
		maps.Copy(keys, list.to)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			from, had := list.from[key]
			to, has := list.to[key]
			if had && has && from.Cmp(to) == 0 {
				continue
			}
			if had != has || !resizable(key) {
				return nil, path + "." + list.name + "." + string(key)
			}
			changed = true
		}
	}
	if !changed {
		return nil, ""
	}
	return &corev1.ResourceRequirements{Limits: computed(updated.Limits), Requests: computed(effective(updated))}, ""
}

// computed returns the cpu and memory of the list, nil if it has neither.
func computed(list corev1.ResourceList) corev1.ResourceList {
	var out corev1.ResourceList
	for key, quantity := range list {
		if resizable(key) {
			if out == nil {
				out = corev1.ResourceList{}
			}
			out[key] = quantity
		}
	}
	return out
}

// holds reports whether list has exactly these amounts, whatever else it has.
func holds(list, amounts corev1.ResourceList) bool {
	for key, want := range amounts {
		if have, ok := list[key]; !ok || have.Cmp(want) != 0 {
			return false
		}
	}
	return true
}

func holdsBoth(have, want corev1.ResourceRequirements) bool {
	return holds(have.Limits, want.Limits) && holds(have.Requests, want.Requests)
}

// restartsForSize reports whether the container's resize policy demands a restart on the way to these resources.
func restartsForSize(c *corev1.Container, want corev1.ResourceRequirements) bool {
	for _, policy := range c.ResizePolicy {
		if policy.RestartPolicy != corev1.RestartContainer {
			continue
		}
		for _, list := range []struct{ have, want corev1.ResourceList }{
			{c.Resources.Limits, want.Limits}, {c.Resources.Requests, want.Requests},
		} {
			if quantity, ok := list.want[policy.ResourceName]; ok &&
				!holds(list.have, corev1.ResourceList{policy.ResourceName: quantity}) {
				return true
			}
		}
	}
	return false
}

// qosClass returns the quality of service that a pod of this spec has, with the cpu and memory of sizes over what its
// containers say: a webhook may have given them more. The API server refuses a resize that changes it.
func qosClass(spec *corev1.PodSpec, sizes map[string]corev1.ResourceRequirements) corev1.PodQOSClass {
	all := make([]corev1.ResourceRequirements, 0, len(spec.Containers)+len(spec.InitContainers))
	if spec.Resources != nil {
		// Resources of the pod as a whole decide alone.
		all = append(all, *spec.Resources)
	} else {
		for _, c := range spec.Containers {
			r := c.Resources
			if size, ok := sizes[c.Name]; ok {
				r = corev1.ResourceRequirements{Limits: over(r.Limits, size.Limits), Requests: over(r.Requests, size.Requests)}
			}
			all = append(all, r)
		}
		for _, c := range spec.InitContainers {
			all = append(all, c.Resources)
		}
	}
	guaranteed, some := true, false
	for _, r := range all {
		requests := effective(r)
		for _, key := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit, request := r.Limits[key], requests[key]
			some = some || positive(limit) || positive(request)
			guaranteed = guaranteed && positive(limit) && limit.Cmp(request) == 0
		}
	}
	switch {
	case !some:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// over returns the amounts of have with those of size in their places.
func over(have, size corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	maps.Copy(out, have)
	maps.Copy(out, size)
	return out
}

func positive(q resource.Quantity) bool { return q.Sign() > 0 }
