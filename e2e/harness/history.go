package harness

import (
	"context"
	"slices"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// Mark is a moment in the history of a namespace.
type Mark struct {
	namespace string
	event     int
	pods      map[types.UID]judge.PodView
}

// Mark returns the present moment; what the members have now lies before it.
func (w *Watcher) Mark(ctx context.Context, namespace string) Mark {
	gomega.ExpectWithOffset(1, w.CatchUp(ctx, namespace)).To(gomega.Succeed())
	w.mu.Lock()
	defer w.mu.Unlock()
	m := Mark{namespace: namespace, event: len(w.events), pods: map[types.UID]judge.PodView{}}
	for uid, pod := range w.pods {
		if pod.Namespace == namespace {
			m.pods[uid] = pod
		}
	}
	return m
}

// Since returns what happened from the mark until now.
func (w *Watcher) Since(ctx context.Context, m Mark) judge.History {
	gomega.ExpectWithOffset(1, w.CatchUp(ctx, m.namespace)).To(gomega.Succeed())
	w.mu.Lock()
	defer w.mu.Unlock()
	h := judge.History{Start: m.pods, Stalls: slices.Clone(w.stills)}
	for _, event := range w.events[m.event:] {
		if one := event.Pod(); one.Namespace == m.namespace {
			h.Events = append(h.Events, event)
		}
	}
	return h
}

// ExpectUntouched expects that no pod came, went or restarted.
func ExpectUntouched(h judge.History) {
	gomega.ExpectWithOffset(1, h.Created()).To(gomega.BeEmpty(), "pods were created")
	gomega.ExpectWithOffset(1, h.Gone()).To(gomega.BeEmpty(), "pods were deleted")
	gomega.ExpectWithOffset(1, h.Restarted()).To(gomega.BeEmpty(), "pods were restarted")
}
