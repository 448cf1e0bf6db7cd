package waves

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// Batches divide the nodes of a job.
type Batches struct {
	// Size returns how many of n nodes a batch has, at least 1.
	Size func(n int32) int32
	// Soak is a duration.
	Soak string
}

// decideBatches says how far the batches of a job are, and how many nodes it may touch.
func decideBatches(f Facts) Decision {
	w := walk{Facts: f, at: metav1.NewTime(f.Now.Truncate(time.Second))}
	switch w.p = f.Last.DeepCopy(); {
	case w.p == nil:
		w.begin(1)
	case w.p.Number > w.p.Of:
		if w.begin(w.p.Number); w.over() {
			w.p = f.Last // it says the same
		}
	}
	// One decision ends one batch at most: reports are about the nodes of that one.
	if !w.over() && w.passesBatch() && w.next() && !w.over() && w.passesBatch() {
		w.wait("begins")
	}
	if w.over() {
		return Decision{Progress: w.p}
	}
	nodes, _ := w.nodes()
	w.p.Of = w.p.Number + w.later(nodes-w.bound(), nodes)
	return Decision{Progress: w.p, Limits: sums(f.Places, w.shares(w.bound())), Again: w.again,
		Waits: sentence(w.p, w.waits)}
}

// over reports whether no batch is under way.
func (w *walk) over() bool { return w.p.Number > w.p.Of }

// passesBatch reports whether the batch under way is over.
func (w *walk) passesBatch() bool {
	wave := topology.Wave{Name: w.p.Name, Soak: w.Batches.Soak, Size: new(intstr.FromInt32(w.bound()))}
	return w.passes(&wave, w.shares(w.bound()))
}

// nodes counts the nodes of all places, and those that may be touched already.
func (w *walk) nodes() (all, touched int32) {
	for i := range w.Places {
		p := &w.Places[i]
		all, touched = all+p.Replicas, touched+min(p.Reserved, p.Replicas)
	}
	return all, touched
}

// later returns how many batches so many nodes make.
func (w *walk) later(left, all int32) int32 {
	size := max(w.Batches.Size(all), 1)
	return (max(left, 0) + size - 1) / size
}

// begin begins the batch with this number. Without nodes that are left, all batches are over.
func (w *walk) begin(number int32) {
	all, touched := w.nodes()
	limit := min(touched+max(w.Batches.Size(all), 1), all)
	w.p = &topology.WaveProgress{Number: number, Of: number, Since: w.at, Steps: true, Limit: limit}
	if limit <= touched {
		w.p.Of, w.p.Limit = max(number-1, 1), 0
		w.p.Number = w.p.Of + 1
		return
	}
	w.p.Name = strconv.Itoa(int(all - limit))
}

// next begins the next batch after one that is over. It returns false if that one stays under way, since the nodes that
// are left are in places that cannot touch them now.
func (w *walk) next() bool {
	last := w.p
	if w.unconfirmed() > w.bound() {
		return w.wait("is over; it waits until members confirm smaller grants, because nodes were deleted")
	}
	w.begin(last.Number + 1)
	_, touched := w.nodes()
	var open int32
	for _, n := range w.shares(w.bound()) {
		open += n
	}
	if w.over() || open > touched {
		return true
	}
	w.p = last
	return w.wait("is over; the nodes that are left are in members that are not heard of")
}

// sums adds up the shares of each subset. Unlike the limit of a step, that of a batch falls below what may have been
// touched already when nodes go: their part is taken back, and no other node is touched in their place.
func sums(places []Place, shares []int32) map[string]int32 {
	out := map[string]int32{}
	for i := range places {
		out[places[i].Subset] += shares[i]
	}
	return out
}

// unconfirmed returns how many nodes may have a pod while members have not confirmed a smaller grant, or 0 if all of
// these nodes are reported to have one.
func (w *walk) unconfirmed() (reserved int32) {
	var touched int32
	for i := range w.Places {
		p := &w.Places[i]
		reserved += p.Reserved
		if touched += p.Touched; p.Lost {
			touched += p.Reserved - p.Touched
		}
	}
	if touched >= reserved {
		return 0
	}
	return reserved
}

// bound returns how many nodes may be touched up to the end of the batch under way. Nodes that go make room for no
// others, and nodes that come are left for later.
func (w *walk) bound() int32 {
	all, _ := w.nodes()
	left, err := strconv.Atoi(w.p.Name)
	if err != nil {
		left = 0 // another writer changed it: the limit holds
	}
	return max(min(w.p.Limit, all-int32(left)), 0)
}

// shares divides a number of nodes over the places: first what they may have touched already, then what they can still
// touch, by their nodes. Lost places touch nothing more.
func (w *walk) shares(number int32) []int32 {
	had, entries := make([]division.Entry, len(w.Places)), make([]division.Entry, len(w.Places))
	othersLeft := false
	for i := range w.Places {
		p := &w.Places[i]
		othersLeft = othersLeft || !p.Last && !p.Lost && p.Reserved < p.Replicas
	}
	for i := range w.Places {
		p := &w.Places[i]
		all, touched := int64(max(p.Replicas, 0)), int64(max(min(p.Reserved, p.Replicas), 0))
		entries[i] = division.Entry{Weight: all, Max: all, Key: p.Subset + "/" + p.Cluster}
		had[i] = entries[i]
		had[i].Max = touched
		if p.Lost || p.Last && othersLeft {
			entries[i].Max = touched
		}
	}
	kept, _ := division.Proportional(int64(number), had)
	for i := range entries {
		entries[i].Min = kept[i]
	}
	parts, _ := division.Proportional(int64(number), entries)
	out := make([]int32, len(parts))
	for i := range parts {
		out[i] = int32(parts[i])
	}
	return out
}
