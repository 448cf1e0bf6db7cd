package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/waits"
)

// failingIndex is the cache index of pods that are not Ready, or not gone, for a known reason: by the UID of their
// controller, and as inSubset if they have the label of a subset. There are few while all is well.
const failingIndex = "report.failing"

const inSubset = "subset"

func indexFailing(object client.Object) []string {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || waits.NotReadyOf(pod) == nil {
		return nil
	}
	values := []string{string(owner.UID)}
	if pod.Labels[apps.LabelSubset] != "" {
		values = append(values, inSubset)
	}
	return values
}

// reasons returns the most frequent reasons why pods of a member object are not Ready, and how long until there may be
// others, 0 where time alone changes nothing.
func (r *Reconciler) reasons(ctx context.Context, live *unstructured.Unstructured, hubID string) (
	[]work.PodReason, time.Duration, error,
) {
	kind, ok := r.Kinds.of(live)
	if !ok || hubID == "" || apply.Owner(live) != hubID {
		return nil, 0, nil
	}
	selector, value := labels.Everything(), string(live.GetUID())
	if kind.InSubsets {
		var err error
		if selector, err = selectorOf(live); err != nil {
			return nil, 0, err
		}
		value = inSubset
	}
	var list corev1.PodList
	if err := r.Pods.List(ctx, &list, client.InNamespace(live.GetNamespace()), client.MatchingFields{failingIndex: value},
		client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, 0, fmt.Errorf("list pods of %s %s/%s: %w", live.GetKind(), live.GetNamespace(), live.GetName(), err)
	}
	found, next := reasonsOf(list.Items, r.MemberClock.Now())
	return found, next, nil
}

// reasonsOf counts pods by the reasons that count now, and returns the most frequent ones, and how long until there
// may be others, 0 where time alone changes nothing. It is pure.
func reasonsOf(pods []corev1.Pod, now time.Time) (out []work.PodReason, next time.Duration) {
	type id struct{ reason, container, message string }
	found := map[id]*work.PodReason{}
	for i := range pods {
		pod := &pods[i]
		why := waits.NotReadyAt(pod, now)
		if why == nil {
			continue
		}
		if !why.Until.IsZero() {
			next = podstate.Sooner(next, why.Until.Sub(now))
		}
		if left := why.Left(now); left > 0 {
			next = podstate.Sooner(next, left)
			continue
		}
		key := id{why.Reason, why.Container, why.Message}
		if why.Reason == work.ReasonUnschedulable {
			key.message = ""
		}
		r := found[key]
		if r == nil {
			r = &work.PodReason{Reason: why.Reason, Container: why.Container}
			found[key] = r
		}
		if r.Count++; r.Pod == "" || pod.Name < r.Pod {
			r.Pod, r.Message = pod.Name, why.Message
		}
	}
	for _, r := range found {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b work.PodReason) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Reason, b.Reason),
			strings.Compare(a.Container, b.Container), strings.Compare(a.Message, b.Message))
	})
	return out[:min(len(out), work.MostPodReasons)], next
}

// reasonsChanged lets through pods that begin or cease to have a reason, or get another one.
func reasonsChanged() predicate.Predicate {
	why := func(object client.Object) waits.NotReady {
		if pod, ok := object.(*corev1.Pod); ok {
			if found := waits.NotReadyOf(pod); found != nil {
				return *found
			}
		}
		return waits.NotReady{}
	}
	has := func(object client.Object) bool { return why(object) != waits.NotReady{} }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return has(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return why(e.ObjectOld) != why(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return has(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// Reports that differ from the last one in reasons of pods alone can wait: no decision of the hub depends on them.
// They leave with any other report.
const (
	// reasonsSettle is how long reasons are gathered, so that pods that fail together are one report.
	reasonsSettle = 2 * time.Second
	// reasonsEvery is the least time between two reports of other reasons or counts: a container in a crash loop changes
	// its state several times a minute.
	reasonsEvery = 10 * time.Second
	// wordsEvery is the least time between two reports of other messages and examples: the scheduler's message changes
	// with each node that comes or goes.
	wordsEvery = time.Minute
)

// differsInReasons reports whether two statuses differ in reasons of pods and in nothing else.
func differsInReasons(last, next work.WorkStatus) bool {
	if last.Report == nil || next.Report == nil || slices.Equal(last.Report.NotReady, next.Report.NotReady) {
		return false
	}
	report := *next.Report
	report.NotReady = last.Report.NotReady
	next.Report = &report
	return Same(last, next)
}

// reasonsPause returns how long a report that differs in reasons alone has to wait; 0 means that it leaves now. seen
// is when the difference was seen first, sent when reasons left last, zero if none did.
func reasonsPause(seen, sent, now time.Time, last, next []work.PodReason) time.Duration {
	wait := seen.Add(reasonsSettle).Sub(now)
	if !sent.IsZero() {
		least := reasonsEvery
		if slices.EqualFunc(last, next, func(a, b work.PodReason) bool {
			return a.Reason == b.Reason && a.Container == b.Container && a.Count == b.Count
		}) {
			least = wordsEvery
		}
		wait = max(wait, sent.Add(least).Sub(now))
	}
	return max(wait, 0)
}

// lacksReasons reports whether the last report has other reasons of pods than a status.
func (m *memo) lacksReasons(status work.WorkStatus) bool {
	var last []work.PodReason
	if m.status.Report != nil {
		last = m.status.Report.NotReady
	}
	return !slices.Equal(last, status.Report.NotReady)
}

// holdReasons returns how long a status has to wait because nothing of it is new but reasons of pods, 0 for not at
// all.
func (m *memo) holdReasons(status work.WorkStatus, now time.Time) time.Duration {
	if !m.lacksReasons(status) {
		m.unlike = time.Time{}
		return 0
	}
	if m.unlike.IsZero() {
		m.unlike = now
	}
	if !differsInReasons(m.status, status) {
		return 0
	}
	return reasonsPause(m.unlike, m.reasonsAt, now, m.status.Report.NotReady, status.Report.NotReady)
}

// sentReasons records that a status was sent in a session of the hub. changed reports whether it had other reasons
// than the one before.
func (m *memo) sentReasons(changed bool, status work.WorkStatus, now time.Time, round int64) {
	if !changed {
		return
	}
	m.reasonsAt = now
	if len(status.Report.NotReady) > 0 && m.status.Report != nil && len(m.status.Report.NotReady) == 0 {
		m.unkept = round
	}
}
