package tree

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// Facts are the hub's objects that a tree is made from.
type Facts struct {
	Workloads  []client.Object
	Placements []topology.WorkloadPlacement
	Works      []work.Work
	Members    []topology.MemberCluster
	// HubID is the identity of the hub: reports for another one do not count.
	HubID string
}

// Tree is what runs where: workload → zone → cluster → pods by state.
type Tree struct {
	Workloads []Workload `json:"workloads"`
	// noMembers: the cluster that was read has none, so it may not be the hub.
	noMembers bool
}

// Workload is one workload of a user.
type Workload struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Pods      Pods   `json:"pods"`
	Zones     []Zone `json:"zones"`
	// States are the pods in states that probes found.
	States []kinds.State `json:"states,omitempty"`
	// Unplaced is how many replicas have no cell.
	Unplaced int32 `json:"unplaced,omitempty"`
	// Problem is what needs a person, or keeps the workload from being placed, or what a deleted one waits for.
	Problem string `json:"problem,omitempty"`
	// Deleting: the workload was deleted and still exists.
	Deleting bool `json:"deleting,omitempty"`
}

// Zone is a workload's part in one zone. The name is empty where the zone is left to the members, and has all zones,
// with commas between them, where a member has several and reports them together.
type Zone struct {
	Name     string    `json:"name"`
	Pods     Pods      `json:"pods"`
	Clusters []Cluster `json:"clusters"`
}

// Cluster is a workload's part in one zone of a member.
type Cluster struct {
	Name string `json:"name"`
	Pods Pods   `json:"pods"`
	// Waiting says what the numbers wait for, empty if nothing.
	Waiting string `json:"waiting,omitempty"`
}

// Pods are numbers of pods by state, as the members reported them last.
type Pods struct {
	// Desired is how many there are to be, by the placement.
	Desired int32 `json:"desired"`
	// Ready and NotReady are the pods that there are, without those that are being deleted.
	Ready    int32 `json:"ready"`
	NotReady int32 `json:"notReady"`
	// Missing are still to be created, Surplus still to go.
	Missing int32 `json:"missing"`
	Surplus int32 `json:"surplus"`
	// Unavailable are not available: missing, not ready, or not ready for long enough.
	Unavailable int32 `json:"unavailable"`
	// Updated are of the newest revision.
	Updated int32 `json:"updated"`
}

func (p *Pods) add(more Pods) {
	p.Desired += more.Desired
	p.Ready += more.Ready
	p.NotReady += more.NotReady
	p.Missing += more.Missing
	p.Surplus += more.Surplus
	p.Unavailable += more.Unavailable
	p.Updated += more.Updated
}

// podsOf sorts a report of a subset by state. Negative numbers count as 0.
func podsOf(desired int32, use *work.SubsetUse, current bool) Pods {
	total, ready := max(use.Total, 0), max(min(use.Ready, use.Total), 0)
	p := Pods{
		Desired: desired, Ready: ready, NotReady: total - ready,
		Missing: max(desired-total, 0), Surplus: max(total-desired, 0), Unavailable: max(desired-max(use.Available, 0), 0),
	}
	if current {
		p.Updated = max(use.Updated, 0) // else it counted pods of the template before
	}
	return p
}

// Build makes the tree of the facts, in the order of the workloads. It is pure, and takes time in proportion to the
// facts.
func Build(f *Facts) *Tree {
	b := builder{
		hubID: f.HubID, placements: map[wire.Key]*topology.WorkloadPlacement{}, works: map[wire.Key]map[string]*work.Work{},
		notReady: map[string]string{},
	}
	for i := range f.Placements {
		b.placements[wire.KeyOfPlacement(&f.Placements[i])] = &f.Placements[i]
	}
	for i := range f.Works {
		w := &f.Works[i]
		key, ours := wire.KeyOf(w)
		cluster, members := wire.MemberOf(w.Namespace)
		if !ours || !members {
			continue
		}
		if b.works[key] == nil {
			b.works[key] = map[string]*work.Work{}
		}
		b.works[key][cluster] = w
	}
	for i := range f.Members {
		m := &f.Members[i]
		if c := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady); c == nil ||
			c.Status != metav1.ConditionTrue {
			b.notReady[m.Name] = "the member is not Ready; the numbers are its last"
		}
	}
	tree := &Tree{Workloads: []Workload{}}
	for _, object := range f.Workloads {
		tree.Workloads = append(tree.Workloads, b.workload(object))
	}
	return tree
}

type builder struct {
	hubID      string
	placements map[wire.Key]*topology.WorkloadPlacement
	works      map[wire.Key]map[string]*work.Work
	notReady   map[string]string
}

func (b *builder) workload(object client.Object) Workload {
	key := wire.KeyFor(object.GetObjectKind().GroupVersionKind().GroupKind(), object)
	w := Workload{
		Kind:      key.Kind,
		Namespace: key.Namespace,
		Name:      key.Name,
		Zones:     []Zone{},
		Problem:   problemOf(object),
		Deleting:  object.GetDeletionTimestamp() != nil,
	}
	p := b.placements[key]
	if p == nil {
		w.Problem = cmp.Or(w.Problem, "not placed yet")
		return w
	}
	w.Zones = b.zones(p, b.works[key])
	for i := range w.Zones {
		w.Pods.add(w.Zones[i].Pods)
	}
	for _, u := range p.Spec.Unplaced {
		w.Unplaced += u.Replicas
	}
	w.States = kinds.SumStates(b.reports(b.works[key]))
	return w
}

// reports returns what members reported to this hub, by their names.
func (b *builder) reports(works map[string]*work.Work) map[string]*work.Report {
	table, out := kinds.Workloads(), map[string]*work.Report{}
	for cluster, w := range works {
		if report, _ := table.ReportOf(w); report != nil && report.HubID == b.hubID {
			out[cluster] = report
		}
	}
	return out
}

// part is what a member reports as one: a subset in a member, whatever zones it has there.
type part struct {
	subset, cluster string
	zones           []string
	replicas        int32
	sequence        int64
}

// zones groups the parts by zone and member, and adds what the members report.
func (b *builder) zones(p *topology.WorkloadPlacement, works map[string]*work.Work) []Zone {
	type id struct{ subset, cluster string }
	index := map[id]int{}
	var parts []part
	for i := range p.Spec.Cells {
		c := &p.Spec.Cells[i]
		at, ok := index[id{c.Subset, c.Cluster}]
		if !ok {
			at = len(parts)
			index[id{c.Subset, c.Cluster}] = at
			parts = append(parts, part{subset: c.Subset, cluster: c.Cluster})
		}
		parts[at].replicas += c.Replicas
		parts[at].sequence = max(parts[at].sequence, c.Sequence)
		if c.Zone != "" && !slices.Contains(parts[at].zones, c.Zone) {
			parts[at].zones = append(parts[at].zones, c.Zone)
		}
	}
	zones := map[string]map[string]*Cluster{}
	for i := range parts {
		slices.Sort(parts[i].zones)
		zone := strings.Join(parts[i].zones, ",")
		if zones[zone] == nil {
			zones[zone] = map[string]*Cluster{}
		}
		cluster := zones[zone][parts[i].cluster]
		if cluster == nil {
			cluster = &Cluster{Name: parts[i].cluster}
			zones[zone][parts[i].cluster] = cluster
		}
		pods, waiting := b.report(&parts[i], p.Spec.RevisionSequence, works[parts[i].cluster])
		cluster.Pods.add(pods)
		cluster.Waiting = cmp.Or(cluster.Waiting, waiting)
	}
	return sorted(zones)
}

// report returns the pods of a part by state, and what their numbers wait for.
func (b *builder) report(p *part, revision int64, w *work.Work) (Pods, string) {
	none := Pods{Desired: p.replicas, Missing: p.replicas, Unavailable: p.replicas}
	if w == nil {
		return none, "no Work yet"
	}
	waiting := b.notReady[p.cluster]
	if w.DeletionTimestamp != nil {
		waiting = cmp.Or(waiting, "being deleted in the member")
	}
	if c := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied); c != nil &&
		c.Status == metav1.ConditionFalse {
		waiting = cmp.Or(waiting, c.Message)
	}
	table := kinds.Workloads()
	report, _ := table.ReportOf(w)
	if report == nil || report.HubID != b.hubID {
		return none, cmp.Or(waiting, "no report yet")
	}
	if report.Sequence < p.sequence {
		waiting = cmp.Or(waiting, "the newest order is not answered yet")
	}
	key, _ := wire.KeyOf(w)
	shown := table[key.GroupKind()].Shown
	for _, use := range report.InUse {
		if use.Subset != p.subset {
			continue
		}
		if shown != nil {
			use = shown(use)
		}
		return podsOf(p.replicas, &use, report.Sequence >= revision), waiting
	}
	return none, waiting
}

func sorted(zones map[string]map[string]*Cluster) []Zone {
	out := make([]Zone, 0, len(zones))
	for name, clusters := range zones {
		zone := Zone{Name: name}
		for _, cluster := range clusters {
			zone.Clusters = append(zone.Clusters, *cluster)
			zone.Pods.add(cluster.Pods)
		}
		slices.SortFunc(zone.Clusters, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
		out = append(out, zone)
	}
	slices.SortFunc(out, func(a, b Zone) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// problemOf returns the message of the condition that tells what needs a person, or why the workload is not placed; of
// a deleted workload what it waits for.
func problemOf(object client.Object) string {
	data, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	var read struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return err.Error()
	}
	problem := ""
	for _, c := range read.Status.Conditions {
		deleting := c.Reason == conditions.ReasonDeleting || c.Reason == conditions.ReasonNamespaceTerminating
		if object.GetDeletionTimestamp() != nil && c.Type == "Ready" && deleting {
			return c.Message
		}
	}
	if object.GetDeletionTimestamp() != nil {
		return conditions.Waiting(object)
	}
	for _, c := range read.Status.Conditions {
		if c.Type == "Stalled" && c.Status == metav1.ConditionTrue ||
			c.Type == "Federated" && c.Status == metav1.ConditionFalse {
			problem = cmp.Or(problem, c.Message)
		}
	}
	return problem
}
