package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// curveSection measures the agent's CPU for each changed pod with CloneSets of growing size: a curve that rises says
// that something in the controller looks at all pods once for each one. It has a column for each phase.
func curveSection(ctx context.Context, b *bench) error {
	return inOneCluster(ctx, b, slices.Max(b.curve), func(ctx context.Context, r *rollout) error {
		if err := r.agent(ctx); err != nil {
			return err
		}
		for _, size := range b.curve {
			r.bench.pods = size
			if err := r.curvePoint(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// curvePoint measures one size.
func (r *rollout) curvePoint(ctx context.Context) error {
	const section = "curve: CPU and writes of the agent per changed pod"
	k, name := cloneSetKind(), r.named("curve")
	if err := r.start(ctx, k, name); err != nil {
		return err
	}
	for _, p := range []struct {
		name string
		spec map[string]any
		pods int
	}{
		{phaseOut, replicasPatch(r.pods), r.pods},
		{phaseInPlace, imagePatch(image(2)), r.pods},
		{phaseIn, replicasPatch(0), 0},
	} {
		took, err := r.phase(ctx, k, name, p.name, p.spec, p.pods)
		if err != nil {
			return err
		}
		row := fmt.Sprintf("%d pods", r.pods)
		r.report.addCell(section, row, p.name, "ms", r.perPod(took.cpu[fleet.AgentProgram]))
		r.report.addCell(section, row, p.name, "s in all", took.seconds)
		if p.name == phaseInPlace {
			if err := r.memory(); err != nil {
				return err
			}
		}
	}
	return nil
}
