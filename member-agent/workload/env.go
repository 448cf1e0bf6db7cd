package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/disruption"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/nodeimages"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/restarts"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
)

// Env is what the agent gives to the controllers of all kinds.
type Env struct {
	Manager ctrl.Manager
	// Clock is the time of the member's API server; nil is the real time.
	Clock clock.PassiveClock
	// Workers is how many objects of each kind are reconciled in parallel; 0 is the default of each kind.
	Workers int
	// ClusterName is the name of the member on its hub; "" without a hub.
	ClusterName string
	// Namespace has the agent's own objects, and the revisions of cluster-scoped objects; "" is DefaultNamespace.
	Namespace string
	// ShortHash makes new pods name their revision by its hash alone, as OpenKruise does behind a feature gate.
	// Where all pods of a workload do so already, new ones do so anyway.
	ShortHash bool
	// Distributes: the agent may read and write the Secrets and ConfigMaps of all namespaces, for ResourceDistributions.
	Distributes bool
	// PullSecrets: the agent may read the Secrets of all namespaces, to copy those of ImagePullJobs for daemons.
	PullSecrets bool
	// Pods and Claims read the manager's cache. Kinds that need one set it up if it is nil.
	Pods   *podset.Source
	Claims *volumes.Source
	// NodeImages is what Images returns.
	NodeImages *nodeimages.Store
	// Gate says what a hub decides; nil is an agent without a hub.
	Gate Gate
	// Disruptions decides which pods may become unavailable; nil allows all.
	Disruptions Disruptions
	// Refusals are the pods that may not restart in place now. Its kind sets it up if it is nil.
	Refusals *restarts.Refusals
}

// Images returns the NodeImages of the cluster, from one store for all kinds.
func (e *Env) Images() *nodeimages.Store {
	if e.NodeImages == nil {
		e.NodeImages = nodeimages.New(e.Manager.GetClient(), e.Manager.GetAPIReader(), FieldOwner)
	}
	return e.NodeImages
}

// Disruptions decides which pods may become unavailable under PodUnavailableBudgets.
type Disruptions interface {
	// Ask decides about an operation on pods of one namespace, and records those that may become unavailable. It returns
	// the refusals by the names of pods. A dry run records nothing.
	Ask(
		ctx context.Context, namespace string, operation policy.PubOperation, pods []*corev1.Pod, dryRun bool,
	) (map[string]*disruption.Refusal, error)
}

// DefaultNamespace has the agent's own objects where nothing else is said.
const DefaultNamespace = "flotilla-system"

// Gate answers what a hub decides about objects of this cluster.
type Gate interface {
	// Federated reports whether this cluster is a hub that divides the object: nothing is reconciled here then.
	Federated(ctx context.Context, object client.Object) (bool, error)
	// Budget returns what a hub grants the object.
	Budget(ctx context.Context, object client.Object) (Budget, error)
	// Foreign reports whether the object has content that its hub did not order. It is not acted on until Ordered wakes
	// the controller because the content is as ordered again.
	Foreign(object client.Object) bool
	// Ordered wakes the controller of the kind; nil if no hub orders any object of it.
	Ordered(kind schema.GroupVersionKind) source.Source
}

// Budget is what a hub grants an object. The zero value is that of an object without a hub, whose own limits hold.
type Budget struct {
	// Granted: the limits on the object hold for as long as the hub is in contact.
	Granted bool
	// Expired: the hub was not in contact for too long, or has granted the limits to others. No pod is disrupted.
	Expired bool
	// UnconfirmedSince is since when the hub may have moved the ordinals of the object to another member; zero if the
	// object still has them.
	UnconfirmedSince time.Time
	// Amounts are what a hub granted in an annotation, nil for none: then the limits in the object's spec hold.
	Amounts *topology.MemberBudget
}

// Limits returns the limits of an object, given those of its spec: the amounts hold in their place. A limit in the spec
// is the user's for all clusters together. As a number it is too much for one member, and as a percentage of a member's
// replicas it rounds to another one, so it bounds nothing here.
func (b Budget) Limits(spec budget.Limits) budget.Limits {
	if b.Amounts == nil {
		return spec
	}
	spec.Partition = max(spec.Replicas-max(b.Amounts.Updated, 0), 0)
	spec.MaxUnavailable, spec.MaxSurge = max(b.Amounts.Unavailable, 0), max(b.Amounts.Surge, 0)
	if b.Amounts.Paused {
		spec.MaxSurge = 0
	}
	return spec
}

// Paused reports whether updates are stopped, given whether the spec stops them.
func (b Budget) Paused(spec bool) bool { return spec || b.Amounts != nil && b.Amounts.Paused }

// AmountsOf reads the annotation in which a hub grants an object its amounts; nil without one.
func AmountsOf(object client.Object) (*topology.MemberBudget, error) {
	value, ok := object.GetAnnotations()[topology.AnnotationBudget]
	if !ok {
		return nil, nil
	}
	amounts := &topology.MemberBudget{}
	if err := json.Unmarshal([]byte(value), amounts); err != nil {
		return nil, fmt.Errorf("read annotation %s: %w", topology.AnnotationBudget, err)
	}
	return amounts, nil
}

// How soon a workload in the middle of a change asks for its budget again: no event tells that a lease has expired, or
// that the hub is back. It costs no request.
const (
	AskWhileExpired = time.Second
	AskWhileGranted = 5 * time.Second
)

// AskAgain returns when to ask for the budget again; 0 is never.
func (b Budget) AskAgain() time.Duration {
	switch {
	case !b.Granted:
		return 0
	case b.Expired:
		return AskWhileExpired
	}
	return AskWhileGranted
}

// alone is the gate of an agent without a hub.
type alone struct{}

func (alone) Federated(context.Context, client.Object) (bool, error) { return false, nil }
func (alone) Budget(context.Context, client.Object) (Budget, error)  { return Budget{}, nil }
func (alone) Foreign(client.Object) bool                             { return false }
func (alone) Ordered(schema.GroupVersionKind) source.Source          { return nil }
