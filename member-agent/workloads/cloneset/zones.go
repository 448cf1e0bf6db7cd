package cloneset

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// ReasonInvalidZones is why a CloneSet is stalled whose annotation that divides its pods over zones cannot be used.
const ReasonInvalidZones = "InvalidZones"

// reasonInvalidSpread: the WorkloadSpread of a hub cannot be used.
const reasonInvalidSpread = "InvalidSpread"

// readZones returns the numbers of pods by zone that a hub gave the CloneSet, nil if it gave none, or what is wrong
// with them.
func readZones(cs *v1beta1.CloneSet) (map[string]int32, *conditions.Cause) {
	text, ok := cs.Annotations[topology.AnnotationZones]
	if !ok {
		return nil, nil
	}
	invalid := func(why string) *conditions.Cause {
		return &conditions.Cause{Reason: ReasonInvalidZones, Message: fmt.Sprintf(
			`annotation %s is %s: %s; the hub writes it as {"<zone>": <pods>}, remove it if no hub owns this object`,
			topology.AnnotationZones, workload.Quote(text), why)}
	}
	var zones map[string]int32
	if err := json.Unmarshal([]byte(text), &zones); err != nil {
		return nil, invalid(err.Error())
	}
	if zones == nil {
		return nil, invalid("it names no zone")
	}
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		if wrong := validation.IsValidLabelValue(zone); zone == "" || len(wrong) > 0 {
			return nil, invalid(fmt.Sprintf("zone %q is no value of a node label%s", zone,
				strings.Join(append([]string{""}, wrong...), ": ")))
		}
		if zones[zone] < 0 {
			return nil, invalid(fmt.Sprintf("zone %s has %d pods, which is less than 0", zone, zones[zone]))
		}
	}
	return zones, nil
}

// zoneRule is the rule of a spread over zones: each zone is a subset that takes its number of pods, in the order of
// their names.
func zoneRule(zones map[string]int32, replicas int32) spread.Rule {
	rule := spread.Rule{Replicas: replicas}
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		rule.Subsets = append(rule.Subsets, spread.Subset{Name: zone, Cap: zones[zone], Open: true})
	}
	return rule
}

// zonal reports whether the spread is over zones of a hub.
func (s *Spread) zonal() bool { return s != nil && s.Object == nil }

// zoneOf returns the zone of a pod: that of its node, which may have another name by now; without a node that is known
// the one that it was made for, "" if it was made for none.
func (s *Spread) zoneOf(pod *corev1.Pod) string {
	if node := s.Node(pod.Spec.NodeName); node != nil {
		return node.Labels[corev1.LabelTopologyZone]
	}
	return pod.Annotations[topology.AnnotationZone]
}

// pickZone returns the zone of a new pod: the one that lacks most, and of several the first. A pod that is made
// although none lacks any goes where it is least above the number. "" if no zone is to have pods.
func (s *Spread) pickZone(count map[string]int32) string {
	best, most := "", int32(0)
	for _, zone := range s.Rule.Subsets {
		if lacks := zone.Cap - count[zone.Name]; zone.Cap > 0 && (best == "" || lacks > most) {
			best, most = zone.Name, lacks
		}
	}
	return best
}

// findMisplaced returns the pods that no node takes in a zone that is gone, or has more than its number, while others
// have fewer: they are recreated there. So do those in a subset of a hub's WorkloadSpread that is removed or has more
// than its number; the controller of WorkloadSpreads sees to those of the member's own. A pod with a node is never one
// of them.
func (p *planner) findMisplaced() map[*corev1.Pod]bool {
	if p.Spread == nil || !p.Spread.zonal() && !p.Spread.OfHub {
		return nil
	}
	var waiting []*corev1.Pod
	for _, pod := range p.Pods.Active {
		if pod.Spec.NodeName == "" && podstate.Unschedulable(pod) {
			waiting = append(waiting, pod)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	count := map[string]int32{}
	for _, zone := range p.placed() {
		count[zone]++
	}
	room := int32(0)
	for _, zone := range p.Spread.Rule.Subsets {
		room += max(0, zone.Cap-count[zone.Name])
		count[zone.Name] -= zone.Cap
	}
	// count is now how many pods each zone has too many.
	order.Sort(waiting)
	out := map[*corev1.Pod]bool{}
	for _, pod := range waiting {
		zone := p.placed()[pod]
		if room <= 0 || count[zone] <= 0 && zone != "" {
			continue
		}
		if zone == "" && !p.Spread.removedSubset(pod) {
			continue // a pod that was made for no zone is bound to none, nor is one in no subset
		}
		out[pod] = true
		count[zone]--
		room--
	}
	return out
}

// zoneStep is between the deletion costs of pods that are too many in their zone and those of others: more than any
// cost that a pod can have by its annotation.
const zoneStep = int64(1) << 40

// zoneCosts returns the deletion costs of the pods of a bucket: first go pods of zones that have no number, then those
// above the number of their zone, and among them and the others their own costs hold.
func (p *planner) zoneCosts(b *bucket) func(*corev1.Pod) int64 {
	assigned, gone := p.placed(), p.gone()
	in, own, others := map[*corev1.Pod]bool{}, map[string][]*corev1.Pod{}, map[string]int32{}
	for _, pod := range b.all() {
		in[pod] = true
		own[assigned[pod]] = append(own[assigned[pod]], pod)
	}
	for pod, zone := range assigned {
		if !in[pod] && !gone[pod] {
			others[zone]++
		}
	}
	removal := order.Removal{MinReadySeconds: p.CloneSet.Spec.MinReadySeconds, Now: p.Now}
	steps := map[*corev1.Pod]int64{}
	for zone, pods := range own {
		at := p.Spread.Rule.Index(zone)
		if at < 0 {
			for _, pod := range pods {
				steps[pod] = 2
			}
			continue
		}
		above := min(len(pods), max(0, len(pods)+int(others[zone]-p.Spread.Rule.Subsets[at].Cap)))
		if above == 0 {
			continue
		}
		removal.Sort(pods)
		for _, pod := range pods[:above] {
			steps[pod] = 1
		}
	}
	return func(pod *corev1.Pod) int64 { return order.DeletionCost(pod) - steps[pod]*zoneStep }
}

// stampZone binds a pod that is not created yet to a zone; "" binds it to none.
func stampZone(pod *corev1.Pod, zone string) {
	if zone == "" {
		return
	}
	spread.Require(pod, &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
	}})
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[topology.AnnotationZone] = zone
}
