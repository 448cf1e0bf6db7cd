package tree

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Facts are the hub's objects that a tree is made from.
type Facts struct {
	Workloads  []client.Object
	Placements []topology.WorkloadPlacement
	Works      []work.Work
	Members    []topology.MemberCluster
	// HubID is the identity of the hub: reports for another one do not count.
	HubID string
	// Revisions are the data of ControllerRevisions that [Tree.Revisions] asks for, as far as they were read; nil where
	// there is none.
	Revisions map[Stored][]byte
}

// Tree is what runs where: workload → zone → cluster → pods by state.
type Tree struct {
	Workloads []Workload `json:"workloads"`
	// members are those of the hub; a cluster that has none may not be the hub.
	members []topology.MemberCluster
}

// Workload is one workload of a user.
type Workload struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Pods are those of all members. Desired is what the spec asks for.
	Pods Pods `json:"pods"`
	// Images are those of the pods by revision, the previous revision first.
	Images []Image `json:"images,omitempty"`
	Zones  []Zone  `json:"zones"`
	// PodReasons are why pods are not Ready, the most frequent reason first.
	PodReasons []kinds.PodReason `json:"podReasons,omitempty"`
	// States are the pods in states that probes found.
	States []kinds.State `json:"states,omitempty"`
	// Unplaced is how many replicas have no cell.
	Unplaced int32 `json:"unplaced,omitempty"`
	// Paused: the user holds updates.
	Paused bool `json:"paused,omitempty"`
	// Wave is how far an update in waves or steps is, and what it waits for.
	Wave *Wave `json:"wave,omitempty"`
	// Stale are the unreachable members, whose numbers are the last that they reported.
	Stale []string `json:"stale,omitempty"`
	// Waiting is what is not yet as the spec asks, empty if all is.
	Waiting string `json:"waiting,omitempty"`
	// Problem is what needs a person, or keeps the workload from being placed, or what a deleted one waits for.
	Problem string `json:"problem,omitempty"`
	// Deleting: the workload was deleted and still exists.
	Deleting bool `json:"deleting,omitempty"`

	// mistyped says which members the policy names and that do not exist.
	mistyped string
	// previous is the ControllerRevision that has the images of the pods of the previous revision, nil if it was read, or
	// need not be.
	previous *Stored
}

// Image is what the pods of one revision run.
type Image struct {
	// Images are those of the containers, in their order; empty if they are not known.
	Images []string `json:"images"`
	// Pods is how many pods have the revision.
	Pods int32 `json:"pods"`
}

// Wave is a wave or step of an update, or a batch of a job.
type Wave struct {
	// Number is from 1 to Of.
	Number int32  `json:"number"`
	Of     int32  `json:"of"`
	Name   string `json:"name"`
	// Held: the workload is paused, or its partition lets no more pods be updated.
	Held bool `json:"held,omitempty"`
	// Failed is why the wave failed, empty if it did not.
	Failed string `json:"failed,omitempty"`
	// Message is what the hub says of it: how far it is, and what it waits for, such as an approval.
	Message string `json:"message"`
}

// Zone is a workload's part in one zone. The name is empty where the zone is left to the members, and has all zones,
// with commas between them, where a member has several and reports them together.
type Zone struct {
	Name     string    `json:"name"`
	Pods     Pods      `json:"pods"`
	Clusters []Cluster `json:"clusters"`
	// Stale are the unreachable members of the zone.
	Stale []string `json:"stale,omitempty"`
}

// Cluster is a workload's part in one zone of a member.
type Cluster struct {
	Name string `json:"name"`
	Pods Pods   `json:"pods"`
	// Stale: the member is unreachable, and the numbers are the last that it reported.
	Stale bool `json:"stale,omitempty"`
	// Waiting says what the numbers wait for, empty if nothing.
	Waiting string `json:"waiting,omitempty"`
}

// Pods are numbers of pods by state, as the members reported them last.
type Pods struct {
	// Desired is how many there are to be: of a workload by its spec, of a zone and a cluster by the placement.
	Desired int32 `json:"desired"`
	// Placed is how many of them have a place.
	Placed int32 `json:"placed"`
	// Replaced already run elsewhere. They count no more, and go as their replacements become available.
	Replaced int32 `json:"replaced,omitempty"`
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

// Add adds the numbers of other pods.
func (p *Pods) Add(more Pods) {
	p.Desired += more.Desired
	p.Placed += more.Placed
	p.Replaced += more.Replaced
	p.Ready += more.Ready
	p.NotReady += more.NotReady
	p.Missing += more.Missing
	p.Surplus += more.Surplus
	p.Unavailable += more.Unavailable
	p.Updated += more.Updated
}

// podsOf sorts a report of a subset by state. replaced of the replicas run elsewhere: no more than the others count.
// Negative numbers count as 0.
func podsOf(replicas, replaced int32, use *work.SubsetUse, current bool) Pods {
	desired := max(replicas-replaced, 0)
	total := max(use.Total, 0)
	if replaced > 0 {
		total = min(total, desired)
	}
	ready := max(min(use.Ready, total), 0)
	p := Pods{
		Desired: desired, Placed: desired, Replaced: replaced, Ready: ready, NotReady: total - ready,
		Missing: max(desired-total, 0), Surplus: max(total-desired, 0), Unavailable: max(desired-max(use.Available, 0), 0),
	}
	if current {
		p.Updated = max(use.Updated, 0) // else it counted pods of the previous template
		if replaced > 0 {
			p.Updated = min(p.Updated, total)
		}
	}
	return p
}

// Build makes the tree of the facts, in the order of the workloads. It is pure, and takes time in proportion to the
// facts.
func Build(f *Facts) *Tree {
	b := builder{
		hubID: f.HubID, revisions: f.Revisions,
		placements: map[wire.Key]*topology.WorkloadPlacement{}, works: map[wire.Key]map[string]*work.Work{},
		notReady: map[string]bool{}, leaving: map[string]string{}, members: len(f.Members),
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
		b.leaving[m.Name] = ""
		if m.DeletionTimestamp != nil {
			b.leaving[m.Name] = "the member is being removed from the hub"
		}
		if c := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady); c == nil ||
			c.Status != metav1.ConditionTrue {
			b.notReady[m.Name] = true
		}
	}
	tree := &Tree{Workloads: []Workload{}, members: f.Members}
	for _, object := range f.Workloads {
		tree.Workloads = append(tree.Workloads, b.workload(object))
	}
	return tree
}

type builder struct {
	hubID      string
	revisions  map[Stored][]byte
	placements map[wire.Key]*topology.WorkloadPlacement
	works      map[wire.Key]map[string]*work.Work
	notReady   map[string]bool
	// leaving says for each member that it is being removed, "" for one that stays; members is how many there are.
	leaving map[string]string
	members int
}

// gone says of a member that it is no member any more, or not for long; "" for one that stays. Without any member
// nothing is known of them.
func (b *builder) gone(cluster string) string {
	note, known := b.leaving[cluster]
	if !known && b.members > 0 {
		return "the hub has no member of this name any more"
	}
	return note
}

func (b *builder) workload(object client.Object) Workload {
	key := wire.KeyFor(object.GetObjectKind().GroupVersionKind().GroupKind(), object)
	w := Workload{
		Kind:      key.Kind,
		Namespace: key.Namespace,
		Name:      key.Name,
		Zones:     []Zone{},
		Problem:   problemOf(object),
		mistyped:  mistypedIn(object),
		Deleting:  object.GetDeletionTimestamp() != nil,
	}
	kind := kinds.Workloads()[key.GroupKind()]
	var observed kinds.Observed
	if kind.Observe != nil {
		observed = kind.Observe(object)
	}
	w.Paused = observed.Paused
	p := b.placements[key]
	if p == nil {
		if kind.Mode == kinds.Divide {
			w.Pods.Desired = observed.Desired
		}
		w.Waiting = cmp.Or(w.Problem, "not placed yet")
		return w
	}
	w.Zones = b.zones(p, b.works[key])
	for i := range w.Zones {
		w.Pods.Add(w.Zones[i].Pods)
		w.Stale = append(w.Stale, w.Zones[i].Stale...)
	}
	slices.Sort(w.Stale)
	w.Stale = slices.Compact(w.Stale)
	if kind.Mode == kinds.Divide {
		w.Pods.Desired = observed.Desired
	}
	said := readyOf(object)
	w.Wave = waveOf(p.Spec.Wave, said.message)
	w.Waiting = said.waiting(object, observed.Generation)
	b.addImages(&w, kind, object, p)
	w.PodReasons = kinds.Workloads().PodReasons(kind, b.hubID, b.reachable(b.works[key]))
	for _, u := range p.Spec.Unplaced {
		w.Unplaced += u.Replicas
	}
	w.States = kinds.SumStates(b.reports(b.works[key]))
	return w
}

// reachable returns the Works of members that are Ready: reasons of others may be over.
func (b *builder) reachable(works map[string]*work.Work) map[string]*work.Work {
	out := maps.Clone(works)
	maps.DeleteFunc(out, func(cluster string, _ *work.Work) bool { return b.notReady[cluster] })
	return out
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
	replaced        int32
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
		parts[at].replaced += c.Replaced
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
			cluster = &Cluster{Name: parts[i].cluster, Stale: b.notReady[parts[i].cluster]}
			zones[zone][parts[i].cluster] = cluster
		}
		pods, waiting := b.report(&parts[i], p.Spec.RevisionSequence, works[parts[i].cluster])
		cluster.Pods.Add(pods)
		cluster.Waiting = cmp.Or(b.gone(cluster.Name), cluster.Waiting, waiting)
	}
	return sorted(zones)
}

// report returns the pods of a part by state, and what their numbers wait for.
func (b *builder) report(p *part, revision int64, w *work.Work) (Pods, string) {
	none := podsOf(p.replicas, p.replaced, &work.SubsetUse{}, false)
	if w == nil {
		return none, "no Work yet"
	}
	waiting := ""
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
		return podsOf(p.replicas, p.replaced, &use, report.Sequence >= revision), waiting
	}
	return none, waiting
}

func sorted(zones map[string]map[string]*Cluster) []Zone {
	out := make([]Zone, 0, len(zones))
	for name, clusters := range zones {
		zone := Zone{Name: name}
		for _, cluster := range clusters {
			zone.Clusters = append(zone.Clusters, *cluster)
			zone.Pods.Add(cluster.Pods)
			if cluster.Stale {
				zone.Stale = append(zone.Stale, cluster.Name)
			}
		}
		slices.Sort(zone.Stale)
		slices.SortFunc(zone.Clusters, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
		out = append(out, zone)
	}
	slices.SortFunc(out, func(a, b Zone) int { return strings.Compare(a.Name, b.Name) })
	return out
}
