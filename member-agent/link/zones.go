package link

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// maxZones is the most that MemberCluster.status.zones takes.
const maxZones = 128

// survey returns what the agent reports of its nodes: the zones by name, the region that all nodes share (empty if they
// do not), and the texts for the columns. The slices are only read.
func survey(nodes []corev1.Node, pods []*corev1.Pod) topology.MemberClusterStatus {
	zones := map[string]*topology.Zone{}
	zoneOf := map[string]*topology.Zone{} // by ready node
	regions := map[string]bool{}
	ready := 0
	for i := range nodes {
		node := &nodes[i]
		regions[node.Labels[corev1.LabelTopologyRegion]] = true
		name := node.Labels[corev1.LabelTopologyZone]
		zone := zones[name]
		if zone == nil {
			zone = &topology.Zone{Name: name, Allocatable: corev1.ResourceList{}, Requested: corev1.ResourceList{}}
			zones[name] = zone
		}
		zone.Nodes++
		if usable(node) {
			zone.Ready++
			ready++
			zoneOf[node.Name] = zone
			add(zone.Allocatable, capacityOf(node))
		}
	}
	for _, pod := range pods {
		if zone := zoneOf[pod.Spec.NodeName]; zone != nil && pod.Status.Phase != corev1.PodSucceeded &&
			pod.Status.Phase != corev1.PodFailed {
			addRequests(zone, pod)
		}
	}
	status := topology.MemberClusterStatus{Nodes: strconv.Itoa(ready) + "/" + strconv.Itoa(len(nodes))}
	if len(regions) == 1 {
		status.Region = slices.Collect(maps.Keys(regions))[0]
	}
	sorted := slices.SortedFunc(maps.Values(zones), func(a, b *topology.Zone) int { return cmp.Compare(a.Name, b.Name) })
	var names []string
	for _, zone := range sorted[:min(len(sorted), maxZones)] {
		status.Zones = append(status.Zones, *zone)
		if zone.Name != "" {
			names = append(names, zone.Name)
		}
	}
	status.ZoneNames = strings.Join(names, ",")
	return status
}

// usable tells whether new pods can start on the node, taints aside: those a workload may tolerate.
func usable(node *corev1.Node) bool {
	return !node.Spec.Unschedulable && isReady(*node)
}

func isReady(node corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// counted tells whether a resource matters for placement: cpu, memory, pods, and what devices bring (example.com/gpu).
func counted(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods:
		return true
	default:
		return strings.Contains(string(name), "/") && !strings.HasPrefix(string(name), "attachable-volumes-")
	}
}

func capacityOf(node *corev1.Node) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, amount := range node.Status.Allocatable {
		if counted(name) {
			list[name] = amount
		}
	}
	return list
}

func add(to, more corev1.ResourceList) {
	for name, amount := range more {
		sum := to[name]
		sum.Add(amount)
		to[name] = sum
	}
}

// addRequests adds what the pod holds of the resources that the zone has.
func addRequests(zone *topology.Zone, pod *corev1.Pod) {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	for name := range requests {
		if _, ok := zone.Allocatable[name]; !ok {
			delete(requests, name)
		}
	}
	add(zone.Requested, requests)
}

// facts returns the status without the amounts of capacity: a difference there is reported at once.
func facts(status topology.MemberClusterStatus) topology.MemberClusterStatus {
	// Other writers' fields.
	status.Conditions, status.Session, status.OrderFormats, status.RefusedClusterID = nil, 0, nil, ""
	status.SurveyedAt = nil
	status.Zones = slices.Clone(status.Zones)
	for i := range status.Zones {
		status.Zones[i].Allocatable, status.Zones[i].Requested = nil, nil
	}
	return status
}

// capacityMoved tells whether an amount differs by 5 % or more of what its zone has to give. The zones must be the
// same.
func capacityMoved(before, after []topology.Zone) bool {
	for i := range after {
		a, b := &before[i], &after[i]
		names := maps.Clone(b.Allocatable)
		if names == nil {
			names = corev1.ResourceList{}
		}
		maps.Copy(names, a.Allocatable)
		for name := range names {
			whole := max(amount(a.Allocatable, name), amount(b.Allocatable, name))
			if moved(a.Allocatable, b.Allocatable, name, whole) || moved(a.Requested, b.Requested, name, whole) {
				return true
			}
		}
	}
	return false
}

func amount(list corev1.ResourceList, name corev1.ResourceName) float64 {
	quantity := list[name]
	return quantity.AsApproximateFloat64()
}

func moved(before, after corev1.ResourceList, name corev1.ResourceName, whole float64) bool {
	// 5 %: smaller changes of capacity are not worth a write to the hub.
	const threshold = 0.05
	difference := amount(after, name) - amount(before, name)
	return difference != 0 && max(difference, -difference) >= threshold*whole
}
