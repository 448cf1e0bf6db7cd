package forecast

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/policy"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Forecaster tells what the hub does next about workloads, without doing it.
type Forecaster struct {
	gatherer *placement.Gatherer
	reader   client.Reader
	table    kinds.Table
}

// New returns a forecaster that reads from reader, which must know the indexes of [store.Index]. hubID is the identity
// of the hub: reports for another one do not count.
func New(reader client.Reader, hubID string) *Forecaster {
	table := kinds.All(kinds.HubRunsBuiltIns)
	return &Forecaster{gatherer: placement.NewGatherer(reader, table, hubID), reader: reader, table: table}
}

// Forecast is what the hub does about a workload.
type Forecast struct {
	// Object is the user's workload, nil if there is none.
	Object client.Object
	// Present is the placement as it stands, nil if there is none.
	Present *topology.WorkloadPlacement
	// Next is the decision, nil where none is made: then Present stays, or is removed.
	Next *topology.WorkloadPlacementSpec
	// Remove: what is placed is removed.
	Remove bool
	// Outcome is what the user's object says of it, nil where the workload is not the hub's.
	Outcome *placement.Outcome
	// Mode is that of the kind. Workload is what the decision read of the object, Policy the policy that holds, nil if
	// none does.
	Mode     kinds.Mode
	Workload kinds.Workload
	Policy   *policy.Policy
	members  []topology.MemberCluster
	// promised names by member the other workloads whose pods are still to get ready there, where replicas of this one
	// wait for a place.
	promised map[string][]string
	// judged are the members as the policy's failover sees them, by name; nil where no policy holds.
	judged map[string]decision.Member
}

// Of returns what the hub does about a workload now. It fails for a kind that the hub does not divide, and where the
// reader fails.
func (f *Forecaster) Of(ctx context.Context, key wire.Key) (Forecast, error) {
	kind, ok := f.table[key.GroupKind()]
	if !ok {
		return Forecast{}, fmt.Errorf(
			"%s: the hub does not place the kind %s; it places %s",
			key.Sentence(),
			key.Kind,
			kinds.Names(f.table),
		)
	}
	s, err := f.gatherer.Gather(ctx, key)
	if err != nil {
		return Forecast{}, err
	}
	next := placement.Decide(s, f.table)
	out := Forecast{Object: s.Object, Present: s.Placement, Next: next.Spec, Remove: next.Remove, Outcome: next.Outcome,
		Mode: kind.Mode, members: s.Members}
	if out.members == nil { // a decision without them: the namespace is not federated
		if out.members, err = store.ListMembers(ctx, f.reader); err != nil {
			return Forecast{}, err
		}
	}
	if s.Object != nil {
		// What cannot be read is refused in the verdict.
		out.Workload, _ = kind.Read(s.Object)
		var recorded *topology.PolicyReference
		if s.Placement != nil {
			recorded = s.Placement.Spec.Policy
		}
		if out.Policy = policy.Select(&out.Workload, s.Policies, recorded); out.Policy != nil {
			decision.PlaceOne(kind, &out.Workload, out.Policy.Ref, out.Policy.Spec.Placement)
		}
		out.judge(s)
	}
	if s.Placement != nil && len(s.Placement.Spec.Unplaced) > 0 && next.Spec != nil {
		out.promised, err = f.promises(ctx, key)
	}
	return out, err
}

// promises finds which other workloads have been told to have pods in members and have not reported all of them Ready.
// The hub holds room back for those; who reads from outside does not know how much.
func (f *Forecaster) promises(ctx context.Context, key wire.Key) (map[string][]string, error) {
	placements := &topology.WorkloadPlacementList{}
	if err := f.reader.List(ctx, placements, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list placements: %w", err)
	}
	out := map[string][]string{}
	for i := range placements.Items {
		other := &placements.Items[i]
		otherKey := wire.KeyOfPlacement(other)
		if otherKey == key || other.DeletionTimestamp != nil {
			continue
		}
		reports, err := f.gatherer.Reports(ctx, otherKey, other)
		if err != nil {
			return nil, err
		}
		missing := map[string]int32{}
		for j := range other.Spec.Cells {
			c := &other.Spec.Cells[j]
			missing[c.Cluster] += c.Replicas
		}
		for cluster, n := range missing {
			for _, use := range reports[cluster].Use {
				n -= use.Ready
			}
			if n > 0 {
				out[cluster] = append(out[cluster], otherKey.Sentence())
			}
		}
	}
	for cluster := range out {
		slices.Sort(out[cluster])
	}
	return out, nil
}

// Promised names the other workloads whose pods are still to get ready in a member, where replicas of this one wait
// for a place.
func (o *Forecast) Promised(cluster string) []string { return o.promised[cluster] }
