package decision

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
)

// TestOrderedRolloutsEnd: whatever pods are broken before an update, it brings the highest ordinals to the new revision
// within maxUnavailable over all members, and ends. Without broken pods no ordinal is updated before a higher one, but
// for those that may be unavailable together.
func TestOrderedRolloutsEnd(t *testing.T) {
	for seed := range uint64(120) {
		w := newRolloutWorld(t, rand.New(rand.NewPCG(seed, 2)))
		for step := 0; !w.done(); step++ {
			if step > 2000 {
				t.Fatalf("seed %d: the rollout of %d replicas, partition %d, maxUnavailable %d does not end: %s", seed,
					w.replicas, w.partition, w.unavailable, w.show())
			}
			if err := w.step(); err != nil {
				t.Fatalf("seed %d, step %d: %v: %s", seed, step, err, w.show())
			}
		}
	}
}

type rolloutPod struct {
	ordinal                    int32
	member                     string
	updated, available, broken bool
}

type rolloutWorld struct {
	t                                *testing.T
	r                                *rand.Rand
	replicas, partition, unavailable int32
	anyBroken                        bool
	facts                            Facts
	pods                             []*rolloutPod
	cells                            map[string]topology.Cell // what members follow
	seen                             map[string]capacity.Report
}

func newRolloutWorld(t *testing.T, r *rand.Rand) *rolloutWorld {
	w := &rolloutWorld{t: t, r: r, replicas: 1 + r.Int32N(12), unavailable: 1 + r.Int32N(3),
		cells: map[string]topology.Cell{}, seen: map[string]capacity.Report{}}
	if r.IntN(2) == 0 {
		w.partition = r.Int32N(w.replicas)
	}
	set := statefulSet(w.replicas, func(set *apps.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateStatefulSetStrategy{
			Partition: &w.partition, MaxUnavailable: new(intstr.FromInt32(w.unavailable))}
	})
	w.facts = identities(t, set)
	w.facts.Members = flags(strings.Join(identityMembers[:2+r.IntN(3)], " "))
	w.decide()
	for _, c := range w.facts.Last.Cells {
		for _, o := range orderOf(t, set, w.facts.Last, c.Cluster) {
			pod := &rolloutPod{ordinal: o, member: c.Cluster, updated: true, available: true}
			w.pods = append(w.pods, pod)
		}
		w.obey(c.Cluster)
		w.report(c.Cluster)
	}
	w.decide()
	broken := w.partition == 0 && r.IntN(2) == 0
	for _, pod := range w.pods { // of the previous revision
		pod.updated, pod.broken = false, broken && r.IntN(2) == 0
		pod.available = !pod.broken
		w.anyBroken = w.anyBroken || pod.broken
	}
	for _, c := range w.facts.Last.Cells {
		w.obey(c.Cluster)
		w.report(c.Cluster)
	}
	w.facts.Workload.Revision = "two"
	w.decide()
	return w
}

func (w *rolloutWorld) decide() {
	w.facts.Reports = w.seen
	d := planOf(w.t, w.facts)
	w.facts.Last = &d.Spec
}

func (w *rolloutWorld) obey(member string) {
	for _, c := range w.facts.Last.Cells {
		if c.Cluster == member {
			w.cells[member] = c
		}
	}
}

func (w *rolloutWorld) of(member string) []*rolloutPod {
	pods := slices.Clone(w.pods)
	return slices.DeleteFunc(pods, func(p *rolloutPod) bool { return p.member != member })
}

func (w *rolloutWorld) report(member string) {
	use := work.SubsetUse{}
	for _, p := range w.of(member) {
		use.Desired, use.Total = use.Desired+1, use.Total+1
		if p.available {
			use.Available++
		}
		if p.updated {
			use.Updated++
			if p.available {
				use.UpdatedAvailable++
			}
		}
	}
	use.Ready, use.UpdatedReady = use.Available, use.UpdatedAvailable
	w.seen[member] = capacity.Report{Sequence: w.cells[member].Sequence, Applied: true,
		Use: map[string]work.SubsetUse{"": use}}
}

func (w *rolloutWorld) step() error {
	member := w.facts.Members[w.r.IntN(len(w.facts.Members))].Name
	switch w.r.IntN(4) {
	case 0:
		w.obey(member)
	case 1:
		w.report(member)
	case 2:
		for _, p := range w.of(member) {
			p.available = p.available || p.updated && w.r.IntN(2) == 0
		}
	default:
		if err := w.update(member); err != nil {
			return err
		}
	}
	w.decide()
	return nil
}

// update is a pass of a member's controller: broken pods first, which need no permission to be unavailable.
func (w *rolloutWorld) update(member string) error {
	cell, pods := w.cells[member], w.of(member)
	if cell.Sequence < w.facts.Last.RevisionSequence || cell.Waiting {
		return nil // it does not have the new template, or waits for its turn
	}
	down := int32(0)
	for _, p := range pods {
		if !p.available {
			down++
		}
	}
	kept := max(len(pods)-int(cell.Granted.Updated), 0)
	for _, serving := range []bool{false, true} {
		for i := len(pods) - 1; i >= kept; i-- {
			p := pods[i]
			if p.updated || p.available != serving {
				continue
			}
			if serving {
				if down >= cell.Granted.Unavailable {
					return nil
				}
				down++
			}
			p.updated, p.available, p.broken = true, false, false
			if err := w.check(p, serving); err != nil {
				return err
			}
		}
	}
	return nil
}

// check holds the limits after an update.
func (w *rolloutWorld) check(updated *rolloutPod, serving bool) error {
	down, above, below := int32(0), int32(0), int32(0)
	for _, p := range w.pods {
		switch {
		case p.updated && !p.available:
			down++
		case !p.updated && p.ordinal > updated.ordinal:
			above++
		}
		if p.ordinal < updated.ordinal {
			below++
		}
	}
	switch {
	case below < w.partition:
		return fmt.Errorf("db-%d is updated, which the partition keeps", updated.ordinal)
	case w.anyBroken || !serving:
		return nil
	case down > w.unavailable:
		return fmt.Errorf("%d pods are unavailable", down)
	case above >= w.unavailable:
		return fmt.Errorf("db-%d is updated before %d pods of higher ordinals", updated.ordinal, above)
	}
	return nil
}

func (w *rolloutWorld) done() bool {
	n := int32(0)
	for _, p := range w.pods {
		if p.updated && p.available {
			n++
		}
	}
	return n >= w.replicas-w.partition
}

func (w *rolloutWorld) show() string {
	var parts []string
	for _, p := range w.pods {
		parts = append(parts, fmt.Sprintf("%s-%d:%t/%t", p.member, p.ordinal, p.updated, p.available))
	}
	for _, c := range w.facts.Last.Cells {
		parts = append(parts, fmt.Sprintf("%s granted %+v reserved %+v", c.Cluster, c.Granted, c.Reserved))
	}
	return strings.Join(parts, " ")
}
