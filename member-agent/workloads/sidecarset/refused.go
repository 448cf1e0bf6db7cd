package sidecarset

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/rollout"
)

// refusedFor is for how long the status says why a pod waits, since it was asked about last.
const refusedFor = 30 * time.Second

// refusal is why a pod could not be disrupted when it was asked about last. Without a text the status does not say it.
type refusal struct {
	name, why string
	at        time.Time
	// owner is the workload that was to lose the pod by an eviction, "" for a change in place.
	owner types.UID
}

// refuse remembers that a pod cannot be disrupted now: others go first, in this pass and in later ones. owner is nil
// for a change in place.
func (s *scope) refuse(pod *corev1.Pod, owner *types.UID, why string, now time.Time) {
	one := refusal{name: pod.Namespace + "/" + pod.Name, why: why, at: now}
	if owner != nil {
		one.owner = *owner
	}
	if s.Memory.refused == nil {
		s.Memory.refused = map[types.UID]refusal{}
	}
	s.Memory.refused[pod.UID] = one
}

// hold keeps a pod as it is in this pass, and remembers why.
func (s *scope) hold(pod *corev1.Pod, why string, now time.Time) {
	s.held[pod.UID] = true
	s.refuse(pod, nil, why, now)
	s.Sooner(askAgain)
}

// stay keeps a pod from being evicted in this pass, and remembers why.
func (s *scope) stay(pod *corev1.Pod, why string, now time.Time) {
	s.held[pod.UID] = true
	s.refuse(pod, &rollout.Owner(pod).UID, why, now)
	s.Sooner(recreateInterval)
}

// refusedAt returns when pods were refused last, and of evictions, their workloads.
func (s *scope) refusedAt() map[types.UID]time.Time {
	out := make(map[types.UID]time.Time, len(s.Memory.refused))
	for pod, one := range s.Memory.refused {
		out[pod] = one.at
		if one.owner != "" && one.at.After(out[one.owner]) {
			out[one.owner] = one.at
		}
	}
	return out
}

// budgetText returns the text of a refusal that may be that of a budget. The API server refuses what is invalid itself,
// which is the failure of the pass.
func budgetText(err error) string {
	if apierrors.IsInvalid(err) {
		return ""
	}
	return err.Error()
}

// reasons says why pods wait, and forgets what is over: pods that need no change any more, or got it.
func (r *Reconciler) reasons(_ context.Context, s *scope) (bool, error) {
	s.waits, s.stays = s.Memory.reasons(s.plan.Due, s.recreate || !s.recreates(), r.Clock.Now())
	return true, nil
}

// reasons returns why pods wait: for a change in place, and for an eviction. It forgets what is over. Without all, due
// has no pods that are to be evicted.
func (m *memory) reasons(due map[types.UID]bool, all bool, now time.Time) (waits, stays []string) {
	maps.DeleteFunc(m.refused, func(pod types.UID, one refusal) bool {
		return !due[pod] && (all || one.owner == "")
	})
	for _, one := range slices.SortedFunc(maps.Values(m.refused), func(a, b refusal) int {
		return cmp.Compare(a.name, b.name)
	}) {
		text := fmt.Sprintf("%s: %s", one.name, one.why)
		switch {
		case one.why == "" || now.Sub(one.at) >= refusedFor:
		case one.owner == "":
			waits = append(waits, text)
		default:
			stays = append(stays, text)
		}
	}
	return waits, stays
}
