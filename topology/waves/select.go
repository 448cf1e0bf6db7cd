package waves

import (
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// selects tells whether a wave selects a place. A selector that cannot be read selects nothing.
func selects(w *topology.Wave, p *Place) bool {
	named := len(w.Clusters.Names) == 0 || slices.Contains(w.Clusters.Names, p.Cluster)
	subset := len(w.Subsets) == 0 || slices.Contains(w.Subsets, p.Subset)
	zone := len(w.Zones) == 0 ||
		len(p.Zones) > 0 && !slices.ContainsFunc(p.Zones, func(z string) bool { return !slices.Contains(w.Zones, z) })
	if !named || !subset || !zone {
		return false
	}
	if w.Clusters.Selector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(w.Clusters.Selector)
	return err == nil && selector.Matches(labels.Set(p.Labels))
}

// ceilings returns how many pods of each place may be updated while the last of some waves is under way. A wave's
// number goes over its places in proportion to their replicas, with what earlier waves gave them as the least, and
// first of all to what may be updated already: where replicas move to another place, the number is not given a second
// time.
func ceilings(list []topology.Wave, places []Place) []int32 {
	ceiling := make([]int32, len(places))
	for i := range list {
		var at []int
		var entries []division.Entry
		var all int64
		for j := range places {
			if p := &places[j]; selects(&list[i], p) {
				n := int64(max(p.Replicas, 0))
				at, all = append(at, j), all+n
				entries = append(
					entries,
					division.Entry{Weight: n, Min: min(int64(ceiling[j]), n), Max: n, Key: p.Subset + "/" + p.Cluster},
				)
			}
		}
		size := sizeOf(&list[i], all)
		had := slices.Clone(entries)
		for k, j := range at {
			had[k].Max = max(had[k].Min, min(int64(places[j].Reserved), had[k].Max))
		}
		kept, _ := division.Proportional(size, had)
		for k := range entries {
			entries[k].Min = kept[k]
		}
		shares, _ := division.Proportional(size, entries)
		for k, j := range at {
			ceiling[j] = max(ceiling[j], int32(shares[k]))
		}
	}
	return ceiling
}

// sizeOf returns how many of all the pods that a wave selects it is to update.
func sizeOf(w *topology.Wave, all int64) int64 {
	if w.Size == nil {
		return all
	}
	if w.Size.Type == intstr.Int {
		return min(int64(w.Size.IntVal), all)
	}
	percent, err := strconv.ParseInt(strings.TrimSuffix(w.Size.StrVal, "%"), 10, 64)
	if err != nil {
		return all // the schema refuses what cannot be read
	}
	return min((all*percent+99)/100, all)
}
