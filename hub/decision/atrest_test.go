package decision

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// breaks prints what each cell may break and holds of it.
func breaks(d *Decision) string {
	var parts []string
	for i := range d.Spec.Cells {
		c := &d.Spec.Cells[i]
		parts = append(parts, fmt.Sprintf("%s:%d/%d", c.Cluster, c.Granted.Unavailable, c.Reserved.Unavailable))
	}
	return strings.Join(parts, " ")
}

// TestBreakGoesBackAtRest: what the last cell of a rollout has of maxUnavailable goes back to all cells in two
// decisions, by orders that ask nothing else of members, and then nothing is written any more.
func TestBreakGoesBackAtRest(t *testing.T) {
	w := open(9)
	w.Subsets = []kinds.Subset{{Amounts: limits(3)}}
	f := Facts{Workload: w, Members: members("east south west")}
	d := plan(t, f)
	carryOut(&f, &d)
	for i := range f.Last.Cells {
		n := map[string]int32{"west": 3}[f.Last.Cells[i].Cluster]
		f.Last.Cells[i].Granted.Unavailable, f.Last.Cells[i].Reserved.Unavailable = n, n
	}
	task := map[string]int64{}
	for i := range f.Last.Cells {
		task[f.Last.Cells[i].Cluster] = f.Last.Cells[i].TaskSequence
	}
	for _, want := range []string{"east:0/0 south:0/0 west:1/3", "east:1/1 south:1/1 west:1/1",
		"east:1/1 south:1/1 west:1/1"} {
		before := f.Last.Sequence
		d = plan(t, f)
		if got := breaks(&d); got != want {
			t.Fatalf("break is %s, want %s", got, want)
		}
		for i := range d.Spec.Cells {
			if c := &d.Spec.Cells[i]; c.TaskSequence == 0 || c.TaskSequence != task[c.Cluster] {
				t.Errorf("%s: order %d asks for something, the one that did is %d", c.Cluster, c.TaskSequence, task[c.Cluster])
			}
		}
		if again := plan(t, f); d.Spec.Sequence == before && breaks(&again) != want {
			t.Errorf("again it is %s", breaks(&again))
		}
		carryOut(&f, &d)
	}
	if d = plan(t, f); d.Spec.Sequence != f.Last.Sequence {
		t.Errorf("at rest there is another order, %d after %d", d.Spec.Sequence, f.Last.Sequence)
	}
	f.Workload.Replicas = 12
	d = plan(t, f)
	for i := range d.Spec.Cells {
		if c := &d.Spec.Cells[i]; c.TaskSequence != d.Spec.Sequence || c.Sequence != d.Spec.Sequence {
			t.Errorf("%s is asked for more replicas by order %d, and that is told as %d", c.Cluster, c.Sequence, c.TaskSequence)
		}
	}
}
