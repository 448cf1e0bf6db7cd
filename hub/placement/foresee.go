package placement

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Foresight tells what the hub does next about workloads, without doing it. It decides by the same code as the
// [Reconciler].
type Foresight struct {
	gatherer
}

// NewForesight returns a foresight that reads from reader, which must know the indexes of [store.Index]. hubID is the
// identity of the hub: reports for another one do not count.
func NewForesight(reader client.Reader, hubID string) *Foresight {
	return &Foresight{gatherer{reader: reader, rules: kinds.All(kinds.HubRunsBuiltIns), hubID: hubID, clock: clock.RealClock{}}}
}

// Outcome is what the hub does about a workload.
type Outcome struct {
	// Object is the user's workload, nil if there is none.
	Object client.Object
	// Present is the placement as it stands, nil if there is none.
	Present *topology.WorkloadPlacement
	// Next is the decision, nil where none is made: then Present stays, or is removed.
	Next *topology.WorkloadPlacementSpec
	// Remove: what is placed is removed.
	Remove bool
	// Verdict is what the user's object says of it, nil where the workload is not the hub's.
	Verdict *Verdict
	// Workload is what the decision read of the object, Policy the policy that holds, nil if none does.
	Workload kinds.Workload
	Policy   *Policy
	members  []topology.MemberCluster
	// promised names by member the other workloads whose pods are still to get ready there, where replicas of this one wait for a place.
	promised map[string][]string
	// judged are the members as the policy's failover sees them, by name; nil where no policy holds.
	judged map[string]Member
}

// Of returns what the hub does about a workload now. It fails for a kind that the hub does not divide, and where the
// reader fails.
func (f *Foresight) Of(ctx context.Context, key wire.Key) (Outcome, error) {
	if _, ok := f.rules[key.GroupKind()]; !ok {
		return Outcome{}, fmt.Errorf("%s: the hub does not place the kind %s; it places %s", key.Sentence(), key.Kind, kinds.Names(f.rules))
	}
	s, err := f.gather(ctx, key)
	if err != nil {
		return Outcome{}, err
	}
	next := decide(s, f.rules)
	out := Outcome{Object: s.object, Present: s.placement, Next: next.spec, Remove: next.remove, Verdict: next.verdict, members: s.members}
	if out.members == nil { // a decision without them: the namespace is not federated
		if out.members, err = listMembers(ctx, f.reader); err != nil {
			return Outcome{}, err
		}
	}
	if s.object != nil {
		// What cannot be read is refused in the verdict.
		out.Workload, _ = f.rules[key.GroupKind()].Read(s.object)
		var recorded *topology.PolicyReference
		if s.placement != nil {
			recorded = s.placement.Spec.Policy
		}
		out.Policy = SelectPolicy(&out.Workload, s.policies, recorded)
		out.judge(s)
	}
	if s.placement != nil && len(s.placement.Spec.Unplaced) > 0 && next.spec != nil {
		out.promised, err = f.promises(ctx, key)
	}
	return out, err
}

// promises finds which other workloads have been told to have pods in members and have not reported all of them Ready. The hub holds
// room back for those; who reads from outside does not know how much.
func (f *Foresight) promises(ctx context.Context, key wire.Key) (map[string][]string, error) {
	placements := &topology.WorkloadPlacementList{}
	if err := f.reader.List(ctx, placements, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list placements: %w", err)
	}
	out := map[string][]string{}
	for i := range placements.Items {
		other := &state{key: wire.KeyOfPlacement(&placements.Items[i]), placement: &placements.Items[i]}
		if other.key == key || other.placement.DeletionTimestamp != nil {
			continue
		}
		if err := f.gatherReports(ctx, other); err != nil {
			return nil, err
		}
		missing := map[string]int32{}
		for j := range other.placement.Spec.Cells {
			c := &other.placement.Spec.Cells[j]
			missing[c.Cluster] += c.Replicas
		}
		for cluster, n := range missing {
			for _, use := range other.reports[cluster].Use {
				n -= use.Ready
			}
			if n > 0 {
				out[cluster] = append(out[cluster], other.key.Sentence())
			}
		}
	}
	for cluster := range out {
		slices.Sort(out[cluster])
	}
	return out, nil
}

// Promised names the other workloads whose pods are still to get ready in a member, where replicas of this one wait for a place.
func (o *Outcome) Promised(cluster string) []string { return o.promised[cluster] }
