// Package kinds is what the hub knows of each kind: one file per kind, one table. Of the hub's other packages
// only rights names workload kinds. It is pure.
//
// # How to add a kind
//
// A kind is a file here with its entry, which [Workloads] lists, and a folder of member-agent/workloads with its
// controller, which member-agent/setup.go lists. The stages are generic: e2e/newkind adds two kinds with no other
// change. A kind of the product has more, each declared by itself:
//
//	apis/apps                          the types, their definitions, apis/apps/conversion if there is an older version
//	apis/apps/strict/templates.go      where its pod templates are, and cmd/internal/serving/templates.go the resource
//	hub/rights, member-agent/rights    the rights and their golden files, which are reviewed by hand
//	member-agent/apply/allowed.go      carried: a hub may bring the kind
//	e2e/kinds                          the entry for chaos and faults
//	docs/kinds                         the page
//
// The entry of the table has:
//
//	GVK, Mode, ClusterScoped   what the kind is called, and how its objects get to members
//	New, NewList               empty objects
//	Read                       the number of replicas, the revision, and the limits: a function of the number of pods
//	Render                     the spec of one member, with the integers that its cells are granted
//	Observe, Status, StatusOf  what a sum depends on, and the sum written onto the user's object
//
// All other fields may be nil: they say what a kind has beside that, as subsets, templates to go back to, or a kind
// that divides it.
//
// # Modes
//
//	Divide     Replicas are divided. Read returns them, and the limits of each subset.
//	PerMember  Each selected member gets the whole object. Read returns at most one subset, with an empty name; without
//	           one the kind has no limits. Its limits are resolved on the number of pods that members report as desired. A
//	           limit that is not one of updates, such as a parallelism, is granted as Unavailable.
//	Copy       Each selected member gets the metadata and content; the object has no status on the hub.
//	Never      No hub places the kind.
package kinds

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Object is any API object. It has the methods of controller-runtime's client.Object, which pure code does not import.
type Object interface {
	metav1.Object
	runtime.Object
}

// ObjectList is a list of API objects.
type ObjectList interface {
	metav1.ListInterface
	runtime.Object
}

// Mode is how the objects of a kind get to members.
type Mode int

const (
	// Divide means that replicas and limits are divided over members.
	Divide Mode = iota
	// PerMember means that every selected member gets the whole object. Each member decides how many pods it has; the
	// limits hold over all members together, and the status is the sum.
	PerMember
	// Copy means that every selected member gets the whole object, without a status on the hub.
	Copy
	// Never means that no hub places the kind: its objects name pods or nodes of one cluster.
	Never
)

// Kind is what the hub knows of one kind. Functions that a mode does not use are nil.
type Kind struct {
	GVK  schema.GroupVersionKind
	Mode Mode
	// ClusterScoped: objects of the kind have no namespace. The hub takes those with the label
	// topology.flotilla.dev/federated=true that a ClusterFederationPolicy selects.
	ClusterScoped bool
	// New returns an empty object, NewList an empty list.
	New     func() Object
	NewList func() ObjectList
	// Read returns what a decision depends on. The Rejection says what the user has to correct.
	Read func(Object) (Workload, *Rejection)
	// Divider is the kind whose objects divide workloads of this kind into subsets, nil for none.
	Divider *Divider
	// Template is how pod templates are kept and put back.
	Template *Template
	// NewPodsUpdated reports whether new pods of a member get the newest template once all of its pods may have it. nil,
	// or false: in a kind of mode PerMember new pods get the previous one for as long as the update does not reach all.
	NewPodsUpdated func(Object) bool
	// Ticks reads what a member says of the schedule in the status of its object, and without a status what the user's
	// object says. It is for kinds of mode PerMember that a policy can place in one member (placement One).
	Ticks func(o Object, status []byte) Ticks

	// Expires returns when the hub deletes an object that has ended, false for never. nil: objects of the kind do not end.
	Expires func(Object) (time.Time, bool)

	// Render returns what members get of the workload.
	Render func(Object, *Order) (Manifest, error)
	// Budget reports whether members get what they are granted in [topology.AnnotationBudget], and the limits of the spec
	// as the user wrote them. For members whose agents do not read that, Render writes the amounts into the spec. The
	// member's controller says in status.observedSequence which order it follows: the annotation changes no generation.
	Budget bool
	// Former keeps subsets in manifests that the user's object no longer has, nil for kinds without subsets.
	Former *FormerSubsets
	// UpdateStrategy returns the user's update strategy, which Works carry as JSON; nil for kinds without one.
	UpdateStrategy func(Object) any
	// Guarded are the paths of a manifest that no override may change: what the hub divides. * stands for each entry.
	Guarded []string
	// Strip removes from a copy what an API server or a controller of the hub's own cluster wrote. It changes its
	// arguments.
	Strip func(object *unstructured.Unstructured, labels, annotations map[string]string)

	// Reflect reads the use of a member object from its status, for agents that write no report of their own. nil: the
	// generation that the status has observed is all that counts.
	Reflect func(*Reflected) (Usage, error)
	// Shown returns the use of a cell as `flotilla tree` shows it, as pods: total, ready, available and updated. nil: the
	// reported numbers count pods already.
	Shown func(work.SubsetUse) work.SubsetUse
	// NoPods: what members report as used are no pods of the object's own, but those of other workloads, or copies,
	// schedules or nodes. Sums of a member's pods leave it out.
	NoPods bool
	// Observe reads what the sum depends on of the user's object.
	Observe func(Object) Observed
	// Failures are the published conditions by which a member object tells of what its controller retries.
	Failures []Failure
	// Held are reasons of Ready=False of a member's object that the hub shows for the whole workload: only a person ends
	// them.
	Held []string
	// AnswersWhenStalled reports whether a member object answers an order that it cannot carry out.
	AnswersWhenStalled bool
	// Status writes the sum onto the user's object and reports whether that changed its status.
	Status func(Object, *Sum, time.Time) bool
	// StatusOf returns the status of an object, to compare two of them.
	StatusOf func(Object) any
}

// Table has kinds by group and name.
type Table map[schema.GroupKind]Kind

// Workloads returns the kinds whose objects the hub divides, or gives to each member, and whose status it writes.
func Workloads() Table {
	return tableOf(advancedCronJobKind(), broadcastJobKind(), cloneSetKind(), daemonSetKind(), imagePullJobKind(),
		podProbeMarkerKind(), podUnavailableBudgetKind(),
		resourceDistributionKind(), sidecarSetKind(), statefulSetKind(), unitedDeploymentKind())
}

func tableOf(kinds ...Kind) Table {
	table := Table{}
	for _, kind := range kinds {
		table[kind.GVK.GroupKind()] = kind
	}
	return table
}

// Workloads returns the kinds of the table whose status the hub writes.
func (t Table) Workloads() Table {
	workloads := Table{}
	for name, kind := range t {
		if kind.Mode == Divide || kind.Mode == PerMember {
			workloads[name] = kind
		}
	}
	return workloads
}

// All returns all kinds that the hub places. Kubernetes' own workloads are among them where members run them.
func All(workloads BuiltIns) Table {
	table := copied(workloads)
	for name, kind := range Workloads() {
		table[name] = kind
	}
	return table
}

// Order is what a member is to run of a workload.
type Order struct {
	// Cells are those of the member, in the order of the placement.
	Cells []topology.Cell
	// Divider is the object by which the replicas were divided, nil for none.
	Divider Object
	// Ordinals are those of all members, nil if the placement has none.
	Ordinals *topology.Ordinals
	// Budget is what the member gets in [topology.AnnotationBudget], nil if it gets none.
	Budget *topology.MemberBudget
}

// Manifest is what a member gets of a workload beside its name and the user's labels and annotations.
type Manifest struct {
	Spec        any
	Annotations map[string]string
}

// Ticks are what is known of the schedule of a workload in a member.
type Ticks struct {
	// Settled is the newest tick that was started or reported missed; there are no ticks to start before it.
	Settled time.Time
	// Outdated reports whether the member follows another schedule than the user's object has.
	Outdated bool
}

// settle takes those times that are later.
func (t *Ticks) settle(times ...*metav1.Time) {
	for _, at := range times {
		if at != nil && at.After(t.Settled) {
			t.Settled = at.Time
		}
	}
}

// Divider is a kind whose objects divide workloads of other kinds into subsets.
type Divider struct {
	GVK     schema.GroupVersionKind
	New     func() Object
	NewList func() ObjectList
	// Target returns the workload that an object names, false where it names none of a kind that it divides.
	Target func(Object) (wire.Key, bool)
	// Read returns what the dividers of a workload say, oldest first, nil where none holds; and remarks about those that
	// do not hold.
	Read func(w *Workload, workload Object, dividers []Object) (*Division, []string, *Rejection)
	// Hash is the hash of what an object asks for.
	Hash func(Object) (string, error)
}

// Division is what a divider says about one workload.
type Division struct {
	Ref topology.SpreadReference
	// Parts are its subsets, in their order. The last one has no name where replicas remain above the sum of the caps.
	Parts []Subset
	// Adaptive is its strategy of that name, nil where pods that find no node wait.
	Adaptive *Adaptive
	// Remarks are sentences about what is not carried out, in a stable order.
	Remarks []string
	// SelectorName names the node selector of a part, for messages; RemovedFormat says that the divider no longer has the
	// subsets of some replicas, which are its argument.
	SelectorName, RemovedFormat string
}

// CellsOf returns the cells of a subset.
func CellsOf(cells []topology.Cell, subset string) []topology.Cell {
	var own []topology.Cell
	for i := range cells {
		if cells[i].Subset == subset {
			own = append(own, cells[i])
		}
	}
	return own
}

// Total adds up the orders of cells.
func Total(cells []topology.Cell) (replicas int32, granted topology.Budget, waiting bool) {
	waiting = len(cells) > 0
	for i := range cells {
		replicas += cells[i].Replicas
		granted.Updated += cells[i].Granted.Updated
		granted.Unavailable += cells[i].Granted.Unavailable
		granted.Surge += cells[i].Granted.Surge
		waiting = waiting && cells[i].Waiting
	}
	return replicas, granted, waiting
}

// BudgetOf returns what a member is granted, of all its cells together. Neither unavailable nor surge is a pause. end
// is that of a job, nil before it.
func BudgetOf(cells []topology.Cell, end *topology.JobEnd) *topology.MemberBudget {
	replicas, granted, waiting := Total(cells)
	out := &topology.MemberBudget{
		Budget: granted, Paused: waiting || granted.Unavailable == 0 && granted.Surge == 0, Ended: end != nil,
	}
	for i := range cells {
		out.Batch = max(out.Batch, cells[i].Batch)
	}
	if out.Batch > 0 {
		out.Nodes = replicas
	}
	return out
}
