package uniteddeployment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// assign finds the child of each subset; the rest goes to p.others.
func assign(o *observed, want kind, p *plan) map[string]*child {
	candidates := map[string][]*child{}
	for _, s := range o.ud.Spec.Topology.Subsets {
		candidates[s.Name] = nil
	}
	for i := range o.children {
		c := &o.children[i]
		if _, ok := candidates[c.subset]; ok && c.kind == want && !c.terminating() {
			candidates[c.subset] = append(candidates[c.subset], c)
		} else {
			p.others = append(p.others, c)
		}
	}
	kept := map[string]*child{}
	for subset, found := range candidates {
		if len(found) > 0 {
			slices.SortFunc(found, byAge)
			kept[subset] = found[0]
			p.others = append(p.others, found[1:]...)
		}
	}
	slices.SortFunc(p.others, byAge)
	return kept
}

// standing is the child that has the pods of a subset now: its own, or where another kind of child is about to be replaced
// that one; nil if there is none.
func standing(kept *child, others []*child, subset string) *child {
	if kept != nil {
		return kept
	}
	i := slices.IndexFunc(others, func(c *child) bool { return c.subset == subset && !c.terminating() })
	if i < 0 {
		return nil
	}
	return others[i]
}

func byAge(a, b *child) int {
	at, bt := a.object.GetCreationTimestamp(), b.object.GetCreationTimestamp()
	return cmp.Or(at.Compare(bt.Time), strings.Compare(a.object.GetName(), b.object.GetName()))
}

// drainage is a child that is to go, and how many pods it keeps until then.
type drainage struct {
	child *child
	keeps int32
}

// planOthers decides the children that no subset keeps: of a removed subset, of another kind, or doubled. That of a removed
// subset keeps as many pods as the subsets lack.
func (p *plan) planOthers(o *observed, want kind) {
	lacking := p.lacking(orOne(o.ud.Spec.Replicas))
	for _, c := range p.others {
		i := slices.IndexFunc(p.subsets, func(s subsetPlan) bool { return s.name == c.subset })
		switch {
		case c.terminating(), c.object.GetGeneration() < o.known[c.object.GetUID()].generation:
			// It goes already, or the cache has not seen yet that we drained it.
		case c.empty():
			p.remove = append(p.remove, c)
		case i >= 0 && c.kind == want:
			p.problems = append(p.problems, problem{ReasonDuplicateChild, fmt.Sprintf("subset %s has two children, and %s runs pods beside %s: scale it to 0 or delete it",
				c.subset, c.name(), p.subsets[i].live.name())})
		case i >= 0 && !p.subsets[i].available():
			// The child of the new kind comes first.
		case i >= 0:
			p.drainTo(c, 0)
		default:
			keeps := min(c.replicas, lacking)
			if c.pods.available == 0 {
				keeps = 0 // nobody is served by what it has
			}
			lacking -= keeps
			p.drainTo(c, keeps)
		}
	}
}

func (p *plan) drainTo(c *child, keeps int32) {
	p.waits = p.waits || keeps > 0
	if c.replicas > keeps {
		p.drain = append(p.drain, drainage{c, keeps})
	}
}

// lacking is how many of n pods the subsets do not have available yet.
func (p *plan) lacking(n int32) int32 {
	for i := range p.subsets {
		if s := &p.subsets[i]; s.live != nil {
			n -= min(s.live.pods.available, s.live.replicas, s.desired)
		}
	}
	return max(0, n)
}

// available tells whether the subset's child is as planned and all its pods are available.
func (s *subsetPlan) available() bool {
	return s.live != nil && !s.settling && s.live.pods.available >= s.counted()
}

// all returns every child.
func all(o *observed) []*child {
	out := make([]*child, 0, len(o.children))
	for i := range o.children {
		out = append(out, &o.children[i])
	}
	return out
}
