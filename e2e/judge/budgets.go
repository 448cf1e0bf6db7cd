package judge

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// A pod that a PodUnavailableBudget lets go stays on record for these times, as published.
const (
	disruptedFor = 20 * time.Second
	updatedFor   = 10 * time.Second
)

// Budget is a version of a PodUnavailableBudget in one member.
type Budget struct {
	UID  types.UID
	Name string
	// Workload is whose pods it protects.
	Workload string
	// Granted is how many pods the hub lets be unavailable in this member.
	Granted int32
	// Records are until when each pod that may go is on record, by the member's clock; Newest is when the last one came.
	Records map[string]time.Time
	Newest  time.Time
	Gone    bool
}

// ReadBudget reads a version of a PodUnavailableBudget, which selects the pods with the label app of one workload; gone
// is its last one. nil: no hub grants it anything.
func ReadBudget(object client.Object, gone bool) *Budget {
	pub := object.(*policy.PodUnavailableBudget)
	amounts, err := workload.AmountsOf(pub)
	if amounts == nil || err != nil {
		return nil
	}
	b := &Budget{UID: pub.UID, Name: pub.Name, Workload: pub.Spec.Selector.MatchLabels["app"],
		Granted: amounts.Unavailable, Records: map[string]time.Time{}, Gone: gone}
	for pod, at := range pub.Status.DisruptedPods {
		b.add(pod, at.Time, disruptedFor)
	}
	for pod, at := range pub.Status.UnavailablePods {
		b.add(pod, at.Time, updatedFor)
	}
	return b
}

func (b *Budget) add(pod string, at time.Time, holds time.Duration) {
	if until := at.Add(holds); until.After(b.Records[pod]) {
		b.Records[pod] = until
	}
	if at.After(b.Newest) {
		b.Newest = at
	}
}

// holding returns how many records hold at a time.
func (b *Budget) holding(at time.Time) int32 {
	var n int32
	for _, until := range b.Records {
		if until.After(at) {
			n++
		}
	}
	return n
}

// heldBudget is a budget of a member as it was seen last.
type heldBudget struct {
	cluster string
	Budget
}

// takeBudget wants that a member lets no more pods go at a time than the hub granted it, and all members together no
// more than the budget on the hub allows: of the pods that there are to be, since those above that number may go. A
// record leaves when its pod is gone, also before there is another one, so less is counted here than is unavailable.
func (c *Checker) takeBudget(e *Entry) {
	b, before := e.Budget, c.budgets[e.Budget.UID]
	if b.Gone {
		delete(c.budgets, b.UID)
		return
	}
	var added []string
	for pod, until := range b.Records {
		if !before.Records[pod].Equal(until) {
			added = append(added, pod)
		}
	}
	c.budgets[b.UID] = heldBudget{e.Cluster, *b}
	if len(added) == 0 {
		return
	}
	slices.Sort(added)
	c.record(e.At, e.Cluster, fmt.Sprintf("PodUnavailableBudget %s lets go %v, %d are granted", b.Name, added, b.Granted))
	c.Evictions += len(added)
	if n := b.holding(b.Newest); n > b.Granted && c.missing(b.Workload, e.Cluster) > b.Granted {
		c.violate(e.At, ruleBudget, fmt.Sprintf("PodUnavailableBudget %s lets %d pods of %s go at a time: the hub granted %d",
			b.Name, n, e.Cluster, b.Granted))
	}
	c.checkBudget(e)
}

// missing returns how many pods a workload lacks in a cluster, "" for all of them, if those that may go are gone.
func (c *Checker) missing(workload, cluster string) int32 {
	going := map[string]bool{}
	for _, held := range c.budgets {
		for pod := range held.Records {
			going[held.cluster+"/"+pod] = held.Workload == workload
		}
	}
	var missing int32
	for _, cell := range c.cells {
		if cell.Of.Workload != workload || cluster != "" && cell.cluster != cluster {
			continue
		}
		missing += cell.lowest()
		for _, pod := range c.pods {
			if pod.Owner == cell.UID && pod.Active && pod.Ready && !going[pod.cluster+"/"+pod.Name] {
				missing--
			}
		}
	}
	return missing
}

// checkBudget wants that all members together let no more pods of a budget go than its limit.
func (c *Checker) checkBudget(e *Entry) {
	most, known := c.inForce(Place{Workload: e.Budget.Name}, e.At, false)
	if !known || c.unseen(gapKey{workload: e.Budget.Name}, e.At) {
		return
	}
	var total int32
	for _, held := range c.budgets {
		if held.Name == e.Budget.Name {
			// What is about to expire may be gone already where its member looks.
			total += held.holding(c.stalls.after(e.At, settling))
		}
	}
	if total > most && c.missing(e.Budget.Workload, "") > most {
		c.violate(e.At, ruleBudget, fmt.Sprintf("PodUnavailableBudget %s lets %d pods of all members go at a time: at most "+
			"%d may be unavailable", e.Budget.Name, total, most))
	}
}
