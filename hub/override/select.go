package override

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Entry is an override and its place in the policy.
type Entry struct {
	// Index in spec.overrides of the policy, from 0.
	Index int
	topology.Override
}

// For returns the entries that hold for a member, in the order of the policy. The member's zones are those of its
// status.
func For(overrides []topology.Override, m *topology.MemberCluster) []Entry {
	var entries []Entry
	for i := range overrides {
		o := &overrides[i]
		if selects(&o.Clusters, m) && (len(o.Zones) == 0 || inZones(o.Zones, m)) {
			entries = append(entries, Entry{i, *o})
		}
	}
	return entries
}

// Partly returns sentences on entries that name some, and not all, of the zones of a member: they do not hold there.
// They are in the order of the policy.
func Partly(overrides []topology.Override, members []topology.MemberCluster) []string {
	var sentences []string
	for i := range overrides {
		o := &overrides[i]
		for j := range members {
			m := &members[j]
			if len(o.Zones) == 0 || !selects(&o.Clusters, m) || inZones(o.Zones, m) {
				continue
			}
			zones := zonesOf(m)
			if k := slices.IndexFunc(zones, func(zone string) bool { return slices.Contains(o.Zones, zone) }); k >= 0 {
				other := zones[slices.IndexFunc(zones, func(zone string) bool { return !slices.Contains(o.Zones, zone) })]
				sentences = append(sentences, fmt.Sprintf(
					"overrides[%d] names zone %q, and member %s has zone %q too, so it does not hold there: a manifest is one for "+
						"all zones of a member; use the patch of a subset, or name all its zones",
					i,
					zones[k],
					m.Name,
					other,
				))
				break // one sentence an entry: the next member would say the same
			}
		}
	}
	return sentences
}

func selects(c *topology.OverrideClusters, m *topology.MemberCluster) bool {
	if len(c.Names) > 0 && !slices.Contains(c.Names, m.Name) {
		return false
	}
	if c.Selector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(c.Selector)
	return err == nil && selector.Matches(labels.Set(m.Labels)) // [Check] tells of a selector that cannot be read
}

// inZones tells whether a member has zones, and all of them are named. A zone counts while the member tells of it, with
// nodes or without.
func inZones(zones []string, m *topology.MemberCluster) bool {
	have := zonesOf(m)
	return len(have) > 0 && !slices.ContainsFunc(have, func(zone string) bool { return !slices.Contains(zones, zone) })
}

func zonesOf(m *topology.MemberCluster) []string {
	var zones []string
	for i := range m.Status.Zones {
		zones = append(zones, m.Status.Zones[i].Name)
	}
	return zones
}

// Check finds entries that can hold for nobody, whatever members there are: the first one, nil if there is none.
func Check(overrides []topology.Override) *Misfit {
	for i := range overrides {
		if problem := unusable(&overrides[i]); problem != "" {
			return &Misfit{Index: i, Problem: problem}
		}
		if s := overrides[i].Clusters.Selector; s != nil {
			if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
				return &Misfit{Index: i, Problem: fmt.Sprintf("its clusters.selector cannot be read: %v; correct it", err)}
			}
		}
	}
	return nil
}

// unusable says what every API server would refuse of what an entry sets, "" if nothing.
func unusable(o *topology.Override) string {
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		if errs := metav1validation.ValidateLabels(map[string]string{key: o.Labels[key]}, field.NewPath("labels")); len(
			errs,
		) > 0 {
			return fmt.Sprintf(
				"its label %q with the value %q is none: %s; correct the label",
				key,
				o.Labels[key],
				errs[0].Detail,
			)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(o.Annotations)) {
		if errs := apivalidation.ValidateAnnotations(map[string]string{key: o.Annotations[key]},
			field.NewPath("annotations")); len(
			errs,
		) > 0 {
			return fmt.Sprintf("its annotation %q is none: %s; correct the annotation", key, errs[0].Detail)
		}
	}
	for i := range o.Env {
		if errs := validation.IsRelaxedEnvVarName(o.Env[i].Name); len(errs) > 0 {
			return fmt.Sprintf("its variable %q is none: %s; correct env[%d].name", o.Env[i].Name, errs[0], i)
		}
	}
	return ""
}

// Hash is a short name of what the entries do, "" for none: a placement records it, so that a change of the policy is
// an order like any other.
func Hash(entries []Entry) (string, error) {
	if len(entries) == 0 {
		return "", nil
	}
	sum := fnv.New64a()
	for i := range entries {
		o := entries[i].Override
		o.Clusters, o.Zones = topology.OverrideClusters{}, nil // whom else it holds for does not matter here
		data, err := json.Marshal(o)
		if err != nil {
			return "", fmt.Errorf("encode overrides[%d]: %w", entries[i].Index, err)
		}
		// Write of a hash never fails.
		_, _ = sum.Write(append(data, '\n'))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
