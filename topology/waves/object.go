package waves

import (
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// StepsOf returns the steps of a workload as those of a policy.
func StepsOf(spec *apps.FlotillaSpec) []topology.RolloutStep {
	if spec == nil {
		return nil
	}
	var out []topology.RolloutStep
	for _, s := range spec.Steps {
		out = append(out, topology.RolloutStep{Partition: s.Partition, Soak: s.Soak, Timeout: s.Timeout,
			Approval: topology.WaveApproval(s.Approval)})
	}
	return out
}

// ReadProgress returns how far the update of a workload in one cluster is, as its status says, and the sequence that
// tells it apart from other updates to its revision. Nil for an update without steps.
func ReadProgress(status *apps.UpdateProgress) (*topology.WaveProgress, int64) {
	if status == nil {
		return nil, 0
	}
	p := &topology.WaveProgress{Number: status.Number, Of: status.Of, Name: status.Partition, Since: status.Since,
		Steps: true, From: status.From, Settled: status.Settled, Watched: status.Watched, Held: status.Held}
	if status.FailedAt != nil {
		p.Failed = &topology.WaveFailed{At: *status.FailedAt, Message: status.Failure}
	}
	return p, status.Began.Unix()
}

// WriteProgress is the opposite of ReadProgress. last is what the status says, nil for nothing.
func WriteProgress(p *topology.WaveProgress, revision string, last *apps.UpdateProgress) *apps.UpdateProgress {
	if p == nil {
		return nil
	}
	out := &apps.UpdateProgress{Revision: revision, Began: p.Since, Number: p.Number, Of: p.Of, Partition: p.Name,
		Since: p.Since, From: p.From, Settled: p.Settled, Watched: p.Watched, Held: p.Held}
	if last != nil && last.Revision == revision {
		out.Began = last.Began
	}
	if p.Failed != nil {
		out.FailedAt, out.Failure = &p.Failed.At, p.Failed.Message
	}
	return out
}
