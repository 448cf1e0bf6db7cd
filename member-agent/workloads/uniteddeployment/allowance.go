package uniteddeployment

import (
	"context"
	"time"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// allowance says whether a hub lends what may be disrupted, and whether that has run out.
type allowance struct{ lent, over bool }

// How soon a UnitedDeployment asks again for its allowance while children are being updated: the end of a lease wakes nobody,
// and neither does the hub that is heard again.
const (
	askWhileOver = time.Second
	askWhileLent = 5 * time.Second
)

func (r *reconciler) allowed(ctx context.Context, ud *kruise.UnitedDeployment) allowance {
	var a allowance
	if r.allowance != nil {
		a.lent, a.over = r.allowance(ctx, ud)
	}
	return a
}

// updatedAll tells whether as many pods are updated as are to be, and for a Deployment also that no others are left.
func updatedAll(live *child, expected int32) bool {
	return live.pods.updated >= expected && (live.kind != deploymentKind || live.pods.replicas == live.pods.updated)
}

// pause pauses a child that is being updated while there is no allowance. Children that are CloneSets ask for it themselves.
func (p *plan) pause(o *observed, s *subsetPlan, asked *order) {
	live := s.live
	if !o.allowance.lent || live == nil || live.revision == o.revision && live.observed && updatedAll(live, s.expected()) {
		return
	}
	p.sooner(askWhileLent)
	if !o.allowance.over {
		return
	}
	p.sooner(askWhileOver)
	if live.kind == cloneSetKind {
		return
	}
	limit := topology.SubsetLimit{}
	if asked.limit != nil {
		limit = *asked.limit
	}
	limit.Paused = true
	asked.limit = &limit
}
