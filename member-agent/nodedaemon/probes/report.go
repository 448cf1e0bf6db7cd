package probes

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
)

// retryReport is the wait after a report that could not be written.
const retryReport = 5 * time.Second

// events of pods, as published.
const (
	eventSucceeded = "KruiseProbeSucceeded"
	eventFailed    = "KruiseProbeFailed"
)

// reporter writes the status of the NodePodProbe.
type reporter struct {
	*prober
	// reported is the status that the NodePodProbe has; nil before it was read.
	reported []v1alpha1.PodProbeStatus
	known    bool
	uid      types.UID
	at       time.Time
}

// read notes the status that the NodePodProbe has when the daemon starts, and when it is another one.
func (r *reporter) read(object *v1alpha1.NodePodProbe) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known || r.uid != object.UID {
		r.known, r.uid, r.reported = true, object.UID, object.DeepCopy().Status.PodProbeStatuses
	}
}

// forget drops what the NodePodProbe had, since it is gone: a new one has no status.
func (r *reporter) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reported = nil
}

// run reports until ctx ends: the first change at once, and then at most one write in the shortest period of a probe.
func (r *reporter) run(ctx context.Context) error {
	wait := time.Duration(0)
	for {
		var due <-chan time.Time
		changed := r.changed
		if wait > 0 {
			timer := r.env.Clock.NewTimer(wait)
			due, changed = timer.C(), nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-due:
		case <-changed:
		}
		var err error
		if wait, err = r.report(ctx); err != nil && ctx.Err() == nil {
			r.env.Log.Error(err, "report the results of probes")
			wait = retryReport
		}
	}
}

// report writes the status if it changed. It returns how long the next write has to wait; 0 if nothing waits.
func (r *reporter) report(ctx context.Context) (time.Duration, error) {
	want, period := r.status()
	r.mu.Lock()
	have, known := r.reported, r.known
	r.mu.Unlock()
	if !known || equality.Semantic.DeepEqual(have, want) {
		return 0, nil
	}
	now := r.env.Clock.Now()
	if left := r.at.Add(period).Sub(now); left > 0 && left <= period { // a clock that is set back holds nothing up
		return left, nil
	}
	if want == nil {
		want = []v1alpha1.PodProbeStatus{}
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"podProbeStatuses": want}})
	if err != nil {
		return 0, fmt.Errorf("encode the status of NodePodProbe %s: %w", r.env.Node, err)
	}
	target := &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: r.env.Node}}
	err = r.env.Client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, body),
		client.FieldOwner(nodedaemon.Program))
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("write the status of NodePodProbe %s: %w", r.env.Node, err)
	}
	r.at = now
	r.mu.Lock()
	r.reported = want
	r.mu.Unlock()
	r.tell(have, want)
	return 0, nil
}

// tell makes an event on each pod with a probe whose state became Succeeded or Failed.
func (r *reporter) tell(have, want []v1alpha1.PodProbeStatus) {
	before := statesOf(&v1alpha1.NodePodProbeStatus{PodProbeStatuses: have})
	for i := range want {
		pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{
			Namespace: want[i].Namespace, Name: want[i].Name, UID: want[i].UID}}
		for _, state := range want[i].ProbeStates {
			if before[id{pod.UID, state.Name}].State == state.State {
				continue
			}
			note := nodedaemon.Note(state.Name + ": " + state.Message)
			switch state.State {
			case v1alpha1.ProbeSucceeded:
				r.env.Events.Eventf(pod, nil, corev1.EventTypeNormal, eventSucceeded, "Probe", "%s", note)
			case v1alpha1.ProbeFailed:
				r.env.Events.Eventf(pod, nil, corev1.EventTypeNormal, eventFailed, "Probe", "%s", note)
			}
		}
	}
}
