package completions

import "time"

// batch returns the free nodes that the batch under way takes now.
func (d *decision) batch(batches Batches) []Node {
	size := max(1, batches.Size)
	if d.Counts.Desired == 0 {
		return nil
	}
	if d.Progress.Batch == 0 {
		d.begin(size)
	}
	members, running := d.members()
	open := d.open(size - members)
	if !running && (len(open) == 0 || !d.Progress.Settled.IsZero()) {
		if d.Progress.Settled.IsZero() {
			d.Progress.Settled = d.facts.Now
		}
		if !d.soaked() || len(d.free) == 0 {
			return nil
		}
		d.begin(size)
		return d.open(size)
	}
	d.Progress.Settled = time.Time{}
	return open
}

// begin begins the next batch, which takes so many of the free nodes. It begins after all of them have joined, also if
// the clock that tells when they joined is ahead.
func (d *decision) begin(size int) {
	d.Progress.Batch++
	d.Progress.BatchStarted, d.Progress.Settled, d.Progress.ChecksExcused = d.facts.Now, time.Time{}, false
	d.Progress.Left = max(0, len(d.free)-size)
	for _, n := range d.free {
		if n.Created.After(d.Progress.BatchStarted) {
			d.Progress.BatchStarted = n.Created
		}
	}
}

// open returns the free nodes that the batch under way takes, at most so many. A node of the batch that is gone, or has
// joined again, makes room for no other one. A batch whose checks are excused takes no more nodes, because nothing
// would look at them.
func (d *decision) open(most int) []Node {
	if d.Progress.ChecksExcused {
		return nil
	}
	var open []Node
	for _, n := range d.free {
		if !n.Created.After(d.Progress.BatchStarted) {
			open = append(open, n)
		}
	}
	return open[:max(0, min(most, len(open)-max(0, d.Progress.Left)))]
}

// members returns how many nodes the batch under way has, and whether a pod of it has not ended.
func (d *decision) members() (count int, running bool) {
	for _, pod := range d.pods {
		if pod.Batch == d.Progress.Batch {
			count++
			running = running || !pod.ended()
		}
	}
	for _, pod := range d.leaving {
		if pod.Batch == d.Progress.Batch {
			count++
			running = true
		}
	}
	return count, running
}

// soaked reports whether the soak of the batch is over and all checks have held.
func (d *decision) soaked() bool {
	if d.Progress.ChecksExcused {
		return true
	}
	left := d.Progress.Settled.Add(d.facts.Policy.Batches.Soak).Sub(d.facts.Now)
	d.lookIn(left)
	return left <= 0 && !d.facts.Unchecked
}
