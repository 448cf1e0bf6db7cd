package karmada

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire/karmada"
)

const (
	// ownPrefix begins Flotilla's own labels and taints, which people and flotilla drain set on a MemberCluster.
	ownPrefix = "topology.flotilla.dev/"
	// maxZones is how many zones a MemberCluster has.
	maxZones = 128
	// moved is the part of what a zone has, in percent, by which an amount must have moved to be written: Karmada counts
	// every 10 s, and most of what it counts decides nothing. Agents of Flotilla report by the same measure.
	moved = 5
)

// mirror sets labels and spec of a member as the Cluster says. What is a person's stays.
func mirror(c *karmada.Cluster, m *topology.MemberCluster) {
	labels := maps.Clone(c.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range m.Labels {
		if strings.HasPrefix(key, ownPrefix) {
			labels[key] = value
		}
	}
	labels[topology.LabelInventory] = topology.InventoryKarmada
	delete(labels, topology.LabelProvider)
	if c.Spec.Provider != "" && len(validation.IsValidLabelValue(c.Spec.Provider)) == 0 {
		labels[topology.LabelProvider] = c.Spec.Provider
	}
	m.Labels = labels
	if m.Spec.ClusterID == "" && len(c.Spec.ID) <= 64 { // as long as the field takes
		m.Spec.ClusterID = c.Spec.ID
	}
	m.Spec.Taints = taintsOf(c, m.Spec.Taints)
}

// taintsOf are the Cluster's without those that say what Ready and the deletion say, and those with Flotilla's keys
// that stand. When a taint was set decides nothing.
func taintsOf(c *karmada.Cluster, have []corev1.Taint) []corev1.Taint {
	var taints []corev1.Taint
	for _, t := range c.Spec.Taints {
		if strings.HasPrefix(t.Key, karmada.TaintPrefix) && t.Key != karmada.TaintUnschedulable ||
			strings.HasPrefix(t.Key, ownPrefix) {
			continue
		}
		taints = append(taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	for _, t := range have {
		if strings.HasPrefix(t.Key, ownPrefix) {
			taints = append(taints, t)
		}
	}
	return taints
}

// observe sets what the Cluster's status says: everything but conditions.
func observe(c *karmada.Cluster, s *topology.MemberClusterStatus) {
	s.ClusterID, s.Region, s.KubernetesVersion = c.Spec.ID, c.Spec.Region, c.Status.KubernetesVersion
	zones := zonesOf(c)
	if !near(s.Zones, zones) {
		s.Zones = zones
	}
	names := make([]string, 0, len(zones))
	for i := range zones {
		names = append(names, zones[i].Name)
	}
	s.ZoneNames, s.Nodes = strings.Join(names, ","), ""
	if n := c.Status.NodeSummary; n != nil {
		s.Nodes = fmt.Sprintf("%d/%d", n.ReadyNum, n.TotalNum)
	}
}

// zonesOf are the Cluster's zones, sorted, each with an equal part of what the whole has; one without a name where it
// names none. A zone that Karmada names counts as having a node, also where there are fewer nodes than zones: which of
// them has none, nobody says.
func zonesOf(c *karmada.Cluster) []topology.Zone {
	named := slices.Clone(c.Spec.Zones)
	if len(named) == 0 && c.Spec.Zone != "" {
		named = []string{c.Spec.Zone}
	}
	slices.Sort(named)
	named = slices.DeleteFunc(
		slices.Compact(named),
		func(zone string) bool { return zone == "" || len(validation.IsValidLabelValue(zone)) > 0 },
	)
	named = named[:min(len(named), maxZones)]
	if len(named) == 0 {
		named = []string{""}
	}
	parts := int64(len(named))
	zones := make([]topology.Zone, parts)
	for i := range zones {
		z := &zones[i]
		z.Name, z.Nodes, z.Ready = named[i], 1, 1 // where Karmada does not count nodes
		if n := c.Status.NodeSummary; n != nil {
			z.Nodes, z.Ready = share(n.TotalNum, i, len(zones)), share(n.ReadyNum, i, len(zones))
		}
		if r := c.Status.ResourceSummary; r != nil {
			z.Allocatable = part(r.Allocatable, parts)
			z.Requested = part(sum(r.Allocated, r.Allocating), parts)
		}
	}
	return zones
}

// share is the i-th of n parts of some nodes: the first ones get what is left over, and none gets nothing of something.
func share(nodes int32, i, n int) int32 {
	if nodes <= 0 {
		return 0
	}
	own := nodes / int32(n)
	if int32(i) < nodes%int32(n) {
		own++
	}
	return max(own, 1)
}

// counted tells whether zones of members have a resource.
func counted(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourcePods ||
		strings.Contains(string(name), "/")
}

// part is one of n equal parts of what is counted, rounded down. Thousandths are told of processors alone.
func part(list corev1.ResourceList, n int64) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		switch {
		case !counted(name) || q.Sign() < 0:
		case name == corev1.ResourceCPU:
			out[name] = *resource.NewMilliQuantity(q.MilliValue()/n, q.Format)
		default:
			out[name] = *resource.NewQuantity(q.Value()/n, q.Format)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func sum(a, b corev1.ResourceList) corev1.ResourceList {
	out := a.DeepCopy()
	for name, q := range b {
		if out == nil {
			out = corev1.ResourceList{}
		}
		total := out[name]
		total.Add(q)
		out[name] = total
	}
	return out
}

// near tells whether two lists of zones are so alike that nothing is written.
func near(a, b []topology.Zone) bool {
	return slices.EqualFunc(a, b, func(x, y topology.Zone) bool {
		return x.Name == y.Name && x.Nodes == y.Nodes && x.Ready == y.Ready &&
			closeTo(x.Allocatable, y.Allocatable, y.Allocatable) && closeTo(x.Requested, y.Requested, y.Allocatable)
	})
}

// closeTo tells whether no amount moved by its part of what the zone has.
func closeTo(a, b, whole corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, x := range a {
		y, has := b[name]
		if !has {
			return false
		}
		total := whole[name]
		if total.Sign() <= 0 {
			if x.Cmp(y) != 0 {
				return false
			}
			continue
		}
		difference := x.AsApproximateFloat64() - y.AsApproximateFloat64()
		if cmp.Compare(max(difference, -difference)*100, total.AsApproximateFloat64()*moved) >= 0 {
			return false
		}
	}
	return true
}
