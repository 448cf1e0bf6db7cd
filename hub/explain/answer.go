package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/forecast"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// Facts are what answers are made from.
type Facts struct {
	Key wire.Key
	// Forecast is what the hub would decide now, with the placement as it stands.
	Forecast forecast.Forecast
	// Conditions are those of the user's object.
	Conditions []metav1.Condition
	// Members are the names of all members, sorted.
	Members []string
	// States are the pods in states that probes found.
	States []kinds.State
	// PodReasons are why pods are not Ready in all members that are Ready, PodReasonsIn in each of them, as they reported
	// it. Those of an unreachable member may be over.
	PodReasons   []kinds.PodReason
	PodReasonsIn map[string][]kinds.PodReason
}

// Question is about a whole workload, or about some of its cells: empty fields ask about all.
type Question struct {
	Cluster, Zone, Subset string
}

// Answer says why the numbers of a workload are what they are.
type Answer struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// PerMember: a member has the whole object, and decides how many pods that are.
	PerMember bool `json:"perMember,omitempty"`
	// Replicas that the user asks for, Placed how many have a cell.
	Replicas int32 `json:"replicas"`
	Placed   int32 `json:"placed"`
	// Policy is the one that the placement records, "<Kind> <name>".
	Policy string `json:"policy,omitempty"`
	// Conditions of the user's object that say something about the placement, or that something is in the way.
	Conditions []Condition `json:"conditions,omitempty"`
	// Cells that the question is about.
	Cells []CellAnswer `json:"cells"`
	// Unplaced are the replicas without a cell.
	Unplaced []UnplacedAnswer `json:"unplaced,omitempty"`
	// Without are the members without a cell that the question is about.
	Without []Without `json:"without,omitempty"`
	// States are the pods in states that probes found, in all members.
	States []kinds.State `json:"states,omitempty"`
	// PodReasons are why pods are not Ready in members, the most frequent reason first.
	PodReasons []kinds.PodReason `json:"podReasons,omitempty"`
	// Pending: the hub is about to decide something else than what is recorded.
	Pending string `json:"pending,omitempty"`
}

// Condition is a condition of the user's object.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// See is where the reason is explained.
	See string `json:"see"`
}

// CellAnswer says why a cell has its number.
type CellAnswer struct {
	Cluster  string `json:"cluster"`
	Zone     string `json:"zone,omitempty"`
	Subset   string `json:"subset,omitempty"`
	Replicas int32  `json:"replicas"`
	// Reason as it is recorded, Why in words, See where it is explained.
	Reason topology.Reason `json:"reason"`
	Why    string          `json:"why"`
	See    string          `json:"see"`
	// Now is what keeps the member from getting more at this moment; it is judged now, not recorded.
	Now []string `json:"now,omitempty"`
}

// UnplacedAnswer says why replicas have no cell.
type UnplacedAnswer struct {
	Subset   string          `json:"subset,omitempty"`
	Replicas int32           `json:"replicas"`
	Reason   topology.Reason `json:"reason"`
	Why      string          `json:"why"`
	See      string          `json:"see"`
}

// Without says why a member has no cell; it is judged now, not recorded.
type Without struct {
	Cluster string   `json:"cluster"`
	Now     []string `json:"now"`
}

// Why answers a question. It is pure. The error says that the question is about nothing that there is, and what there
// is.
func Why(f *Facts, q Question) (*Answer, error) {
	a := &Answer{Kind: f.Key.Kind, Namespace: f.Key.Namespace, Name: f.Key.Name, Cells: []CellAnswer{}}
	a.Conditions, a.States, a.PodReasons = telling(f.Conditions), f.States, f.podReasons(q)
	a.Replicas, a.PerMember = f.Forecast.Workload.Replicas, f.Forecast.Mode == kinds.PerMember
	have := map[string]bool{}
	if p := f.Forecast.Present; p != nil {
		a.Replicas, a.Placed = p.Spec.Replicas, p.Spec.Placed
		if p.Spec.Policy != nil {
			a.Policy = p.Spec.Policy.Kind + " " + p.Spec.Policy.Name
		}
		for i := range p.Spec.Cells {
			c := &p.Spec.Cells[i]
			if q.takes(c) {
				have[c.Cluster] = true
				a.Cells = append(a.Cells, f.cell(c))
			}
		}
		for _, u := range p.Spec.Unplaced {
			if q.Subset == "" || q.Subset == u.Subset {
				why, _ := Unplaced(u.Reason)
				a.Unplaced = append(a.Unplaced, UnplacedAnswer{u.Subset, u.Replicas, u.Reason, why, Anchor(u.Reason.Code)})
			}
		}
	}
	if err := f.check(q, len(a.Cells) > 0); err != nil {
		return nil, err
	}
	for _, cluster := range f.Members {
		if !have[cluster] && (q.Cluster == "" && q.Zone == "" || q.Cluster == cluster) {
			a.Without = append(a.Without, Without{cluster, f.without(cluster, q.Subset)})
		}
	}
	a.Pending = f.pending()
	return a, nil
}

// podReasons returns the reasons of the member that the question is about, as it reported them.
func (f *Facts) podReasons(q Question) []kinds.PodReason {
	if q.Cluster == "" {
		return f.PodReasons
	}
	return f.PodReasonsIn[q.Cluster]
}

func (q Question) takes(c *topology.Cell) bool {
	return (q.Cluster == "" || q.Cluster == c.Cluster) && (q.Zone == "" || q.Zone == c.Zone) &&
		(q.Subset == "" || q.Subset == subsetOf(c))
}

func (f *Facts) cell(c *topology.Cell) CellAnswer {
	why, _ := Cell(c.Reason)
	now := f.Forecast.Blockers(c.Cluster, c.Subset)
	if passed(c.Reason.Code, now) {
		now = []string{isOver}
	}
	return CellAnswer{
		Cluster: c.Cluster, Zone: c.Zone, Subset: subsetOf(c), Replicas: c.Replicas,
		Reason: c.Reason, Why: why, See: Anchor(c.Reason.Code), Now: now,
	}
}

// isOver is said of a cell whose reason was of a time that is over: a number that stays keeps its reason.
const isOver = "that is over, and nothing that runs is moved back: added replicas come here first"

// passed tells whether a reason names an obstacle that is no more.
func passed(code string, now []string) bool {
	return (code == division.CellTainted || code == division.CellFrozen) && len(now) == 0
}

// without says why a member has no cell.
func (f *Facts) without(cluster, subset string) []string {
	if f.Forecast.Outcome == nil {
		return []string{"the hub does not place the workload: its namespace is not federated"}
	}
	if now := f.Forecast.Blockers(cluster, subset); len(now) > 0 {
		return now
	}
	if v := f.Forecast.Outcome; !v.Decided {
		return []string{v.Message}
	}
	if next := f.Forecast.Next; next != nil &&
		slices.ContainsFunc(next.Cells, func(c topology.Cell) bool { return c.Cluster == cluster }) {
		return []string{"nothing keeps it out; the hub is about to give it a cell"}
	}
	if f.Forecast.Workload.Alone {
		return []string{"nothing keeps it out; the policy lets one member start the jobs, and it is another one"}
	}
	return []string{
		"nothing keeps it out; the replicas are fewer than the places that could take one, and the others were served first",
	}
}

// check refuses a question about a name that is nowhere.
func (f *Facts) check(q Question, found bool) error {
	var zones, subsets []string
	if p := f.Forecast.Present; p != nil {
		for i := range p.Spec.Cells {
			zones, subsets = append(zones, p.Spec.Cells[i].Zone), append(subsets, subsetOf(&p.Spec.Cells[i]))
		}
	}
	for i := range f.Forecast.Workload.Subsets {
		subsets = append(subsets, f.Forecast.Workload.Subsets[i].Name)
	}
	for _, asked := range []struct {
		what, name string
		known      []string
	}{{"member", q.Cluster, f.Members}, {"zone", q.Zone, zones}, {"subset", q.Subset, subsets}} {
		if asked.name != "" && !found && !slices.Contains(asked.known, asked.name) {
			return fmt.Errorf("%s has no %s %q; there is %s", f.Key.Sentence(), asked.what, asked.name, listed(asked.known))
		}
	}
	return nil
}

func listed(names []string) string {
	names = slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" })
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// pending says that what is recorded is not what the hub would decide now.
func (f *Facts) pending() string {
	present, next := f.Forecast.Present, f.Forecast.Next
	switch {
	case f.deleted():
		if f.Forecast.Remove || present != nil && present.DeletionTimestamp != nil {
			return f.Forecast.Outcome.Message + "; what is placed is being removed"
		}
		return f.Forecast.Outcome.Message
	case f.Forecast.Remove:
		return "what is placed is being removed"
	case next == nil && f.Forecast.Outcome != nil && !f.Forecast.Outcome.Decided && present != nil:
		return "the last change is not carried out: " + f.Forecast.Outcome.Message
	case next == nil || present == nil:
		return ""
	}
	moves := Moves(present.Spec.Cells, next.Cells)
	if waits := f.waitsForRoom(present.Spec.Cells, next.Cells); waits != "" {
		return waits
	}
	if len(moves) > 0 {
		return "the hub is about to change " + strings.Join(moves, ", ")
	}
	return ""
}

// deleted reports whether the verdict says that the workload or its namespace is being deleted.
func (f *Facts) deleted() bool {
	v := f.Forecast.Outcome
	return v != nil && (v.Reason == conditions.ReasonDeleting || v.Reason == conditions.ReasonNamespaceTerminating)
}

// waitsForRoom says that what the next decision adds waits for room that is promised to others; "" where that is not
// so, or not all.
func (f *Facts) waitsForRoom(before, after []topology.Cell) string {
	more := map[string]int32{}
	for i := range before {
		more[before[i].Cluster] -= before[i].Replicas
	}
	for i := range after {
		more[after[i].Cluster] += after[i].Replicas
	}
	var others, clusters []string
	for _, cluster := range slices.Sorted(maps.Keys(more)) {
		if more[cluster] == 0 {
			continue
		}
		names := f.Forecast.Promised(cluster)
		if more[cluster] < 0 || len(names) == 0 {
			return ""
		}
		clusters, others = append(clusters, cluster), append(others, names...)
	}
	if len(clusters) == 0 {
		return ""
	}
	slices.Sort(others)
	return fmt.Sprintf(
		"replicas wait for room in %s, which is reserved for %s: their pods are not all Ready there; what those leave is "+
			"given then",
		listed(clusters),
		listed(others),
	)
}

// Moves says how the replicas of cells change from one decision to another, as "east/a 3 → 4", in the order of the
// cells.
func Moves(before, after []topology.Cell) []string {
	was, is, seen := map[[3]string]int32{}, map[[3]string]int32{}, map[[3]string]bool{}
	var places []*topology.Cell
	for _, side := range []struct {
		cells []topology.Cell
		sum   map[[3]string]int32
	}{{before, was}, {after, is}} {
		for i := range side.cells {
			c := &side.cells[i]
			side.sum[placeOf(c)] += c.Replicas
			if !seen[placeOf(c)] {
				seen[placeOf(c)] = true
				places = append(places, c)
			}
		}
	}
	var moves []string
	for _, c := range places {
		if at := placeOf(c); was[at] != is[at] {
			moves = append(moves, fmt.Sprintf("%s %d → %d", Place(c.Cluster, c.Zone, subsetOf(c)), was[at], is[at]))
		}
	}
	return moves
}

// Place names a cell in text: "east", "east/a", "east/a (subset x)".
func Place(cluster, zone, subset string) string {
	text := cluster
	if zone != "" {
		text += "/" + zone
	}
	if subset != "" {
		text += " (subset " + subset + ")"
	}
	return text
}

// telling returns the conditions that a person asks about: where the workload is placed, and what is in the way.
func telling(all []metav1.Condition) []Condition {
	var out []Condition
	for _, c := range all {
		wrong := c.Type == "Ready" && c.Status != metav1.ConditionTrue ||
			c.Type == "Stalled" && c.Status == metav1.ConditionTrue ||
			c.Type == "Progressing" && c.Status == metav1.ConditionFalse
		if c.Type == "Federated" || wrong {
			out = append(out, Condition{c.Type, string(c.Status), c.Reason, c.Message, Anchor(c.Reason)})
		}
	}
	return out
}
