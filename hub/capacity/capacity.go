package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

const (
	// Usable is the percentage of what a zone has that is counted on. Agents report an amount when it moved by 5 % of its
	// zone, so up to as much may be taken already; it also stands for room that lies in pieces too small for a pod.
	Usable = 95
	// MostPods is more pods than any zone runs (Kubernetes is tested with 150 000 in a cluster). A report of more is
	// taken for this.
	MostPods = 1_000_000
	// mostAmount is more of anything than a zone has, in thousandths: a report of more is taken for this. It leaves room
	// to multiply by a percentage.
	mostAmount = 1 << 62
)

// Capacity is what a member has for more pods, as its agent reports it.
type Capacity struct {
	// Zones are those of the member, with what they have and what is requested there.
	Zones []topology.Zone
	// Reserved is for pods of other workloads that the report does not count yet.
	Reserved Amounts
}

// Room returns how many more pods with these requests fit into some zones, 0 to MostPods each; all zones
// if names is empty. nil if that is not known: then there is assumed to be enough.
func (c *Capacity) Room(names []string, requests corev1.ResourceList) *int32 {
	var sum int32
	known := false
	for i := range c.Zones {
		zone := &c.Zones[i]
		if len(names) > 0 && !slices.Contains(names, zone.Name) {
			continue
		}
		room, ok := zoneRoom(zone, requests, c.Reserved.Zones[zone.Name])
		if !ok {
			return nil
		}
		known = true
		sum = min(sum+room, MostPods)
	}
	if !known || len(requests) == 0 {
		return nil
	}
	if len(names) == 0 {
		sum = min(sum, c.wholeRoom(requests))
	}
	return &sum
}

// wholeRoom returns how many pods fit into a member beside what others were promised there, however its room is cut:
// what they were promised may be in any zone. It is MostPods where nothing was promised.
func (c *Capacity) wholeRoom(requests corev1.ResourceList) int32 {
	room := int64(MostPods)
	for name, amount := range c.Reserved.All {
		need := thousandths(requests, name)
		if need == 0 || !c.limited(name) {
			continue
		}
		var free int64
		for i := range c.Zones {
			free = mostAmount - max(mostAmount-free-freeIn(&c.Zones[i], name), 0)
		}
		room = min(room, max(free-whole64(amount), 0)/need)
	}
	return int32(room)
}

// limited tells whether a member's report bounds a resource.
func (c *Capacity) limited(name corev1.ResourceName) bool {
	return counted(name) && (name != corev1.ResourcePods || !slices.ContainsFunc(c.Zones, func(z topology.Zone) bool {
		_, says := z.Allocatable[name]
		return z.Ready > 0 && !says
	}))
}

// zoneRoom returns how many pods fit into a zone beside what others were promised there, false if the zone does not
// say what it has.
func zoneRoom(
	zone *topology.Zone,
	requests corev1.ResourceList,
	reserved map[corev1.ResourceName]float64,
) (int32, bool) {
	if zone.Ready <= 0 {
		return 0, true
	}
	if len(zone.Allocatable) == 0 {
		return 0, false
	}
	room := int64(MostPods)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		need := thousandths(requests, name)
		if need == 0 || !counted(name) {
			continue
		}
		if _, says := zone.Allocatable[name]; !says && name == corev1.ResourcePods {
			continue
		}
		room = min(room, max(freeIn(zone, name)-whole64(reserved[name]), 0)/need)
	}
	return int32(room), true
}

// freeIn returns how much of a resource a zone has for more pods, in thousandths.
func freeIn(zone *topology.Zone, name corev1.ResourceName) int64 {
	return max(thousandths(zone.Allocatable, name)/100*Usable-thousandths(zone.Requested, name), 0)
}

// Shortages says for each of some zones that has no room for a pod what it lacks, all zones if names is empty.
func Shortages(zones []topology.Zone, names []string, requests corev1.ResourceList) []string {
	var out []string
	for i := range zones {
		zone := &zones[i]
		if len(names) > 0 && !slices.Contains(names, zone.Name) {
			continue
		}
		if lack := shortage(zone, requests); lack != "" {
			title := "its part without a zone"
			if zone.Name != "" {
				title = fmt.Sprintf("zone %q", zone.Name)
			}
			out = append(out, title+" "+lack)
		}
	}
	return out
}

// shortage names the first resource of which a zone has less than one pod asks for, empty for none.
func shortage(zone *topology.Zone, requests corev1.ResourceList) string {
	if zone.Ready <= 0 {
		return "has no node that is ready"
	}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		_, says := zone.Allocatable[name]
		free := freeIn(zone, name)
		if !counted(name) || !says && name == corev1.ResourcePods || free >= thousandths(requests, name) {
			continue
		}
		need := requests[name]
		return fmt.Sprintf("has %s of %s free, a pod asks for %s", readable(free, need.Format), name, need.String())
	}
	return ""
}

// readable prints an amount that is given in thousandths, and bytes in whole mebibytes where there is one.
func readable(amount int64, format resource.Format) string {
	const mebi = 1000 << 20
	if format == resource.BinarySI && amount >= mebi {
		amount -= amount % mebi
	}
	return resource.NewMilliQuantity(amount, format).String()
}

// counted tells whether agents report a resource for their zones: what they do not report cannot be missing.
func counted(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods:
		return true
	}
	return strings.Contains(string(name), "/") // a device's, such as example.com/gpu
}

// thousandths returns an amount, from 0 to mostAmount.
func thousandths(list corev1.ResourceList, name corev1.ResourceName) int64 {
	quantity, ok := list[name]
	if !ok || quantity.Sign() <= 0 {
		return 0
	}
	if quantity.Cmp(*resource.NewMilliQuantity(mostAmount, resource.DecimalSI)) >= 0 {
		return mostAmount
	}
	return quantity.MilliValue()
}

// Free is what is left of a room for new replicas: those that were ordered and are not there yet will take some of it.
func Free(room *int32, ordered, there int32) *int32 {
	if room == nil {
		return nil
	}
	return new(max(*room-max(ordered-there, 0), 0))
}
