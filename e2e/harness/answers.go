package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/explain"
)

// answers looks at every number that the hub ever places, also at those that stand for a moment only, and keeps those
// without an answer to the question why.
type answers struct {
	mu      sync.Mutex
	looked  int
	without []string
}

// follow looks until ctx ends. While the hub's API server is stopped it tries again.
func (a *answers) follow(ctx context.Context, hub client.WithWatch) {
	const pause = 200 * time.Millisecond // a hub that starts is seen soon enough
	_ = wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (bool, error) {
		list := &topology.WorkloadPlacementList{}
		if err := hub.List(ctx, list); err != nil {
			return false, nil
		}
		for i := range list.Items {
			a.look(&list.Items[i])
		}
		stream, err := hub.Watch(ctx, &topology.WorkloadPlacementList{},
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
		if err != nil {
			return false, nil
		}
		defer stream.Stop()
		for event := range stream.ResultChan() {
			if p, ok := event.Object.(*topology.WorkloadPlacement); ok && event.Type != watch.Deleted {
				a.look(p)
			}
		}
		return false, nil
	})
}

func (a *answers) look(p *topology.WorkloadPlacement) {
	without := unexplained(p)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looked += len(p.Spec.Cells) + len(p.Spec.Unplaced)
	for _, number := range without {
		if number = p.Namespace + "/" + number; !slices.Contains(a.without, number) {
			a.without = append(a.without, number)
		}
	}
}

// EverUnexplained returns the numbers that the hub placed since the last call, if only for a moment, and that had no
// answer to the question why; empty if all had. looked is how many numbers were looked at since the start.
func (h *Harness) EverUnexplained() (without string, looked int) {
	h.answers.mu.Lock()
	defer h.answers.mu.Unlock()
	without = strings.Join(h.answers.without, "; ")
	h.answers.without = nil
	return without, h.answers.looked
}

// unexplained returns the numbers of a placement that have no answer to the question why.
func unexplained(p *topology.WorkloadPlacement) (without []string) {
	for _, c := range p.Spec.Cells {
		if _, ok := explain.Cell(c.Reason); !ok {
			without = append(without, fmt.Sprintf("%s, %s: %+v", p.Name, explain.Place(c.Cluster, c.Zone, c.Subset), c.Reason))
		}
	}
	for _, u := range p.Spec.Unplaced {
		if _, ok := explain.Unplaced(u.Reason); !ok {
			without = append(without, fmt.Sprintf("%s, not placed: %+v", p.Name, u.Reason))
		}
	}
	return without
}
