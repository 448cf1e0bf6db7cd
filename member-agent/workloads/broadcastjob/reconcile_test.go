package broadcastjob

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/completions"
)

// The watch of nodes can be behind that of jobs: a job whose known nodes are done does not end before all are known.
func TestEndsOnlyWithAllNodes(t *testing.T) {
	completed, ended := completions.PhaseCompleted, time.Unix(1, 0)
	for name, c := range map[string]struct {
		phase  completions.Phase
		ended  time.Time
		order  *completions.Order
		names  []string
		failed error
		waits  bool
	}{
		"all nodes are known":     {phase: completed, names: []string{"a"}},
		"a node is gone":          {phase: completed},
		"a node is not known yet": {phase: completed, names: []string{"a", "b"}, waits: true},
		"the job still runs":      {phase: completions.PhaseRunning, names: []string{"a", "b"}},
		"the job has ended":       {phase: completed, ended: ended, names: []string{"a", "b"}},
		"a hub ends the job": {phase: completed, order: &completions.Order{Ended: true},
			names: []string{"a", "b"}},
		"a hub lets the job run": {phase: completed, order: &completions.Order{},
			names: []string{"a", "b"}, waits: true},
		"the API server does not answer": {phase: completed, failed: errors.New("timeout")},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{nodeNames: func(context.Context) ([]string, error) { return c.names, c.failed }}
			s := &scope{pass: &pass{}, job: &v1beta1.BroadcastJob{}}
			s.facts.Nodes = []completions.Node{{Name: "a"}}
			s.plan.Decided.Phase, s.facts.Progress.Ended, s.facts.Policy.Order = c.phase, c.ended, c.order
			waits, err := r.lacksNodes(t.Context(), s)
			if waits != c.waits || !errors.Is(err, c.failed) || c.waits && s.Wake != nodesAgain {
				t.Errorf("waits %t, %v, again after %s", waits, err, s.Wake)
			}
		})
	}
}
