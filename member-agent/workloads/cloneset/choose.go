package cloneset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/delta"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
)

// bucket holds the pods of one group by what may be done with them.
type bucket struct{ available, unavailable, busy []*corev1.Pod }

func (b *bucket) group() delta.Group {
	return delta.Group{Available: int32(len(b.available)), Unavailable: int32(len(b.unavailable)), Busy: int32(len(b.busy))}
}

// choose picks the pods for the numbers.
func (p *planner) choose(d delta.Delta) error {
	crowd := order.Crowd(p.Pods.Active)
	p.remove(&p.doomed, d.Doomed, delta.Doomed, crowd)
	p.remove(&p.old, d.RemoveOld, delta.ScaleIn, crowd)
	p.remove(&p.new, d.RemoveNew, delta.ScaleIn, crowd)
	forward, err := p.move(&p.old, d.MoveToNew, p.Update, delta.Move)
	if err != nil {
		return err
	}
	back, err := p.move(&p.new, d.MoveToOld, p.Current, delta.MoveBack)
	if err != nil {
		return err
	}
	left := d.CreateLimit
	for _, c := range []Creation{{p.Current, d.CreateOld + back}, {p.Update, d.CreateNew + forward}} {
		if c.Count = min(c.Count, left); c.Count > 0 {
			p.plan.Create = append(p.plan.Create, c)
			left -= c.Count
		}
	}
	return nil
}

// take cuts the first pods in the order of the rules off the bucket.
func take(b *bucket, t delta.Take, busyToo bool, rules []order.Rule) []*corev1.Pod {
	var out []*corev1.Pod
	if busyToo && t.Unavailable > 0 {
		b.unavailable, b.busy = append(b.unavailable, b.busy...), nil
	}
	cut := func(list *[]*corev1.Pod, n int32) {
		if n == 0 {
			return
		}
		order.Sort(*list, rules...)
		k := min(int(n), len(*list))
		out = append(out, (*list)[:k]...)
		*list = (*list)[k:]
	}
	cut(&b.unavailable, t.Unavailable)
	cut(&b.available, t.Available)
	return out
}

func (p *planner) remove(b *bucket, t delta.Take, reason string, crowd map[string]int) {
	if t.Total() == 0 {
		return
	}
	for _, pod := range take(b, t, true, order.Removal(crowd)) {
		p.plan.Delete = append(p.plan.Delete, Removal{Pod: pod, Reason: reason})
	}
}

// move plans updates in place, and removals of pods that must be made anew; it returns how many of the latter.
func (p *planner) move(b *bucket, t delta.Take, to Revision, reason string) (int32, error) {
	if t.Total() == 0 {
		return 0, nil
	}
	anew := int32(0)
	for _, pod := range take(b, t, false, order.Update()) {
		v := verdict{refusal: "podUpdatePolicy"}
		if p.updatePolicy() != v1beta1.ReCreatePodUpdatePolicy {
			var err error
			if v, err = p.verdict(pod, to); err != nil {
				return 0, err
			}
		}
		if v.refusal != "" {
			anew++
			p.plan.Delete = append(p.plan.Delete, Removal{Pod: pod, Reason: reason})
			continue
		}
		p.plan.Update = append(p.plan.Update, Update{Pod: pod, Change: v.change, To: to.Revision})
		// A pod whose gate was to be opened for the last update gets its next one first.
		p.plan.Open = slices.DeleteFunc(p.plan.Open, func(o *corev1.Pod) bool { return o == pod })
	}
	return anew, nil
}
