package placement

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Foresight tells what the hub does next about workloads, without doing it. It decides by the same code as the
// [Reconciler].
type Foresight struct {
	gatherer
}

// NewForesight returns a foresight that reads from reader, which must know the indexes of [wire.Index]. hubID is the
// identity of the hub: reports for another one do not count.
func NewForesight(reader client.Reader, hubID string) *Foresight {
	return &Foresight{gatherer{reader: reader, rules: AllRules(), hubID: hubID, clock: clock.RealClock{}}}
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
	Workload Workload
	Policy   *Policy
	members  []topology.MemberCluster
	// judged are the members as the policy's failover sees them, by name; nil where no policy holds.
	judged map[string]Member
}

// Of returns what the hub does about a workload now. It fails for a kind that the hub does not divide, and where the
// reader fails.
func (f *Foresight) Of(ctx context.Context, key wire.Key) (Outcome, error) {
	if _, ok := f.rules[key.Kind]; !ok {
		return Outcome{}, fmt.Errorf("%s: the hub does not place the kind %s; it places %s", key.Sentence(), key.Kind, kindsThatWork())
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
		out.Workload, _ = f.rules[key.Kind].read(s.object)
		var recorded *topology.PolicyReference
		if s.placement != nil {
			recorded = s.placement.Spec.Policy
		}
		out.Policy = SelectPolicy(&out.Workload, s.policies, recorded)
		out.judge(s)
	}
	return out, nil
}
