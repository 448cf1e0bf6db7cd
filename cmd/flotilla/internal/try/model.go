package try

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// facts are the hub's objects from which the tree is made.
type facts struct {
	Members           []topology.MemberCluster
	Placements        []topology.WorkloadPlacement
	Works             []work.Work
	UnitedDeployments []apps.UnitedDeployment
	CloneSets         []apps.CloneSet
}

// Tree is what runs where: members, and workload → zone → cluster.
type Tree struct {
	Members   []Member   `json:"members"`
	Workloads []Workload `json:"workloads"`
}

// Member is one member cluster as the hub sees it.
type Member struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	Zones string `json:"zones"`
	Nodes string `json:"nodes"`
	// Message says why it is not Ready.
	Message string `json:"message,omitempty"`
}

// Workload is one workload of a user on the hub.
type Workload struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Images    string `json:"images"`
	// Counts are those of the user's object.
	Counts Counts `json:"counts"`
	Zones  []Zone `json:"zones"`
	// Waiting says what is not yet as asked for; it is empty when all is.
	Waiting string `json:"waiting,omitempty"`
	// Problem is what a person has to look at.
	Problem string `json:"problem,omitempty"`
}

// Zone is a workload's part in one zone; its name is empty where the zone is left to the members' schedulers.
type Zone struct {
	Name     string    `json:"name"`
	Counts   Counts    `json:"counts"`
	Clusters []Cluster `json:"clusters"`
}

// Cluster is a workload's part in one zone of one member.
type Cluster struct {
	Name   string `json:"name"`
	Counts Counts `json:"counts"`
	// Reported tells whether the member has answered the newest order.
	Reported bool `json:"reported"`
}

// Counts are numbers of pods.
type Counts struct {
	Desired int32 `json:"desired"`
	Ready   int32 `json:"ready"`
	Updated int32 `json:"updated"`
}

func (c *Counts) add(more Counts) {
	c.Desired += more.Desired
	c.Ready += more.Ready
	c.Updated += more.Updated
}

// buildTree makes the tree of the facts; it reads nothing else.
func buildTree(f *facts) *Tree {
	tree := &Tree{Members: []Member{}, Workloads: []Workload{}}
	for i := range f.Members {
		tree.Members = append(tree.Members, memberOf(&f.Members[i]))
	}
	for i := range f.UnitedDeployments {
		tree.Workloads = append(tree.Workloads, f.unitedDeployment(&f.UnitedDeployments[i]))
	}
	for i := range f.CloneSets {
		tree.Workloads = append(tree.Workloads, f.cloneSet(&f.CloneSets[i]))
	}
	slices.SortFunc(tree.Members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return tree
}

func memberOf(m *topology.MemberCluster) Member {
	member := Member{Name: m.Name, Zones: m.Status.ZoneNames, Nodes: m.Status.Nodes}
	ready := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady)
	switch {
	case ready == nil:
		member.Message = "the hub has not looked at it yet"
	case ready.Status == metav1.ConditionTrue:
		member.Ready = true
	default:
		member.Message = ready.Message
	}
	return member
}

func (f *facts) unitedDeployment(u *apps.UnitedDeployment) Workload {
	w := Workload{
		Kind: "UnitedDeployment", Namespace: u.Namespace, Name: u.Name,
		Counts: Counts{Desired: orOne(u.Spec.Replicas), Ready: u.Status.ReadyReplicas, Updated: u.Status.UpdatedReplicas},
	}
	switch t := &u.Spec.Template; {
	case t.CloneSetTemplate != nil:
		w.Images = images(&t.CloneSetTemplate.Spec.Template.PodTemplateSpec)
	case t.DeploymentTemplate != nil:
		w.Images = images(&t.DeploymentTemplate.Spec.Template)
	case t.StatefulSetTemplate != nil:
		w.Images = images(&t.StatefulSetTemplate.Spec.Template)
	case t.AdvancedStatefulSetTemplate != nil:
		w.Images = images(&t.AdvancedStatefulSetTemplate.Spec.Template.PodTemplateSpec)
	}
	// With partitions, subsets keep old pods on purpose.
	expected := w.Counts.Desired
	if m := u.Spec.UpdateStrategy.ManualUpdate; m != nil && len(m.Partitions) > 0 {
		expected = 0
	}
	var conditions []condition
	for _, c := range u.Status.Conditions {
		conditions = append(conditions, condition{string(c.Type), c.Status, c.Message})
	}
	f.complete(&w, u.Status.ObservedGeneration == u.Generation, expected, conditions)
	return w
}

func (f *facts) cloneSet(c *apps.CloneSet) Workload {
	w := Workload{
		Kind: "CloneSet", Namespace: c.Namespace, Name: c.Name, Images: images(&c.Spec.Template.PodTemplateSpec),
		Counts: Counts{Desired: orOne(c.Spec.Replicas), Ready: c.Status.ReadyReplicas, Updated: c.Status.UpdatedReplicas},
	}
	var conditions []condition
	for _, c := range c.Status.Conditions {
		conditions = append(conditions, condition{string(c.Type), c.Status, c.Message})
	}
	f.complete(&w, c.Status.ObservedGeneration == c.Generation, c.Status.ExpectedUpdatedReplicas, conditions)
	return w
}

// condition is what the conditions of all kinds have in common.
type condition struct {
	kind    string
	status  corev1.ConditionStatus
	message string
}

// complete adds the zones, what the workload waits for, and what is wrong with it.
func (f *facts) complete(w *Workload, observed bool, expectedUpdated int32, conditions []condition) {
	for _, c := range conditions {
		if c.kind == "Stalled" && c.status == corev1.ConditionTrue ||
			c.kind == "Federated" && c.status == corev1.ConditionFalse {
			w.Problem = c.message
		}
	}
	placement := f.placement(w)
	w.Zones = []Zone{}
	if placement != nil {
		w.Zones = f.zones(w, placement)
	}
	switch {
	case placement == nil:
		w.Waiting = "not placed yet"
	case placement.Spec.Placed < w.Counts.Desired:
		w.Waiting = fmt.Sprintf("%d of %d placed", placement.Spec.Placed, w.Counts.Desired)
	case w.Counts.Ready != w.Counts.Desired:
		w.Waiting = fmt.Sprintf("%d of %d ready", w.Counts.Ready, w.Counts.Desired)
	case w.Counts.Updated < expectedUpdated:
		w.Waiting = fmt.Sprintf("%d of %d updated", w.Counts.Updated, expectedUpdated)
	case !observed:
		w.Waiting = "the hub has not seen the last change yet"
	}
}

func (f *facts) placement(w *Workload) *topology.WorkloadPlacement {
	key := wire.Key{Group: apps.GroupVersion.Group, Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}
	i := slices.IndexFunc(f.Placements, func(p topology.WorkloadPlacement) bool { return wire.KeyOfPlacement(&p) == key })
	if i < 0 {
		return nil
	}
	return &f.Placements[i]
}

// zones groups the cells of the placement by zone, and adds what the members report of them.
func (f *facts) zones(w *Workload, p *topology.WorkloadPlacement) []Zone {
	type place struct{ zone, cluster string }
	parts := map[place]*Cluster{}
	told := map[string]bool{}
	for _, cell := range p.Spec.Cells {
		part := parts[place{cell.Zone, cell.Cluster}]
		if part == nil {
			part = &Cluster{Name: cell.Cluster, Reported: true}
			parts[place{cell.Zone, cell.Cluster}] = part
		}
		counts := Counts{Desired: cell.Replicas}
		use, reported := f.use(p, cell)
		// A report counts subsets, not zones: a subset in two zones of a member is told once.
		if key := cell.Subset + "/" + cell.Cluster; !told[key] {
			told[key] = true
			counts.Ready, counts.Updated = use.Ready, use.Updated
		}
		part.Counts.add(counts)
		part.Reported = part.Reported && reported
	}
	var zones []Zone
	for at, part := range parts {
		i := slices.IndexFunc(zones, func(z Zone) bool { return z.Name == at.zone })
		if i < 0 {
			i = len(zones)
			zones = append(zones, Zone{Name: at.zone})
		}
		zones[i].Clusters = append(zones[i].Clusters, *part)
		zones[i].Counts.add(part.Counts)
	}
	slices.SortFunc(zones, func(a, b Zone) int { return cmp.Compare(a.Name, b.Name) })
	for _, zone := range zones {
		slices.SortFunc(zone.Clusters, func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	}
	return zones
}

// use returns what the cell's member reports of the cell's subset, and whether it has answered the cell's order.
func (f *facts) use(p *topology.WorkloadPlacement, cell topology.Cell) (work.SubsetUse, bool) {
	key := wire.KeyOfPlacement(p).String()
	for i := range f.Works {
		order := &f.Works[i]
		if order.Namespace != work.NamespacePrefix+cell.Cluster || order.Annotations[topology.AnnotationWorkload] != key {
			continue
		}
		report := order.Status.Report
		if report == nil {
			return work.SubsetUse{}, false
		}
		for _, use := range report.InUse {
			if use.Subset != cell.Subset {
				continue
			}
			if report.Sequence < p.Spec.RevisionSequence {
				use.Updated = 0 // it counted pods of the template before
			}
			return use, report.Sequence >= cell.Sequence
		}
	}
	return work.SubsetUse{}, false
}

func images(template *corev1.PodTemplateSpec) string {
	var names []string
	for i := range template.Spec.Containers {
		names = append(names, template.Spec.Containers[i].Image)
	}
	return strings.Join(names, ", ")
}

func orOne(n *int32) int32 {
	if n == nil {
		return 1 // the default of all kinds
	}
	return *n
}
