package completions

import "time"

// Order is a hub's part of the decision for a job that runs in several clusters. The hub begins the batches and ends
// the job.
type Order struct {
	// Touch is on how many nodes there may be a pod, ended or not.
	Touch int
	// Nodes is how many nodes the cluster had when the hub ordered that, 0 if the hub does not say. Nodes - Touch of them
	// stay without a pod, also when one that has a pod goes.
	Nodes int
	// Batch is the number of the batch of the nodes that are touched now, 0 for none.
	Batch int
	// Waiting: no pods are created now.
	Waiting bool
	// Ended: the job is over in all clusters. It ends here when its pods have ended.
	Ended bool
}

// endsByOrder reports whether a hub ended the job. It ends here when its pods have ended.
func (d *decision) endsByOrder() bool {
	if d.facts.Policy.Order == nil || !d.facts.Policy.Order.Ended {
		return false
	}
	d.Phase = PhaseRunning
	if d.active == 0 {
		d.complete("The hub ended the job")
	}
	return true
}

// follow begins the batch that a hub ordered, and returns how many more nodes the hub lets the job touch.
func (d *decision) follow() int {
	order := d.facts.Policy.Order
	if order == nil {
		return 0
	}
	open := max(0, min(order.Touch-d.Touched, len(d.free)-max(0, order.Nodes-order.Touch)))
	if d.facts.Policy.Batches != nil && order.Batch > 0 {
		if order.Batch > d.Progress.Batch {
			d.begin(open)
			d.Progress.Batch = order.Batch
		}
		_, running := d.members()
		switch {
		case running || open > 0:
			d.Progress.Settled = time.Time{}
		case d.Progress.Settled.IsZero():
			d.Progress.Settled = d.facts.Now
		}
	}
	if order.Waiting {
		return 0
	}
	return open
}

// prove counts the nodes whose pod has ended, without those of a batch whose checks do not hold.
func (d *decision) prove() {
	p := d.Progress
	holds := d.facts.Policy.Batches == nil || p.ChecksExcused ||
		!p.Settled.IsZero() && !d.facts.Unchecked && len(d.facts.Findings) == 0
	for _, pod := range d.pods {
		if pod.ended() && (holds || pod.Batch != p.Batch) {
			d.Proven++
		}
	}
}
