// Package restarts answers which pods of a workload have still to restart their containers in place: by the annotation
// of the workload that asks for it, and by what the pods say. It is pure.
package restarts

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// Order is what the annotation of a workload asks for. The zero value asks for nothing.
type Order struct {
	v1beta1.RestartOrder
	// Time is At.
	Time time.Time
}

// Parse reads the annotation. It errs if that is no restart.
func Parse(text string) (Order, error) {
	var o Order
	if err := json.Unmarshal([]byte(text), &o.RestartOrder); err != nil {
		return Order{}, fmt.Errorf("annotation %s is no JSON object of at and containers: %w", v1beta1.AnnotationRestart,
			err)
	}
	at, err := time.Parse(time.RFC3339, o.At)
	if err != nil {
		return Order{}, fmt.Errorf("annotation %s: at is no time of RFC 3339: %w", v1beta1.AnnotationRestart, err)
	}
	o.Time = at
	return o, nil
}

// Through reports whether the pod needs no restart: it had one, it is younger, or it has none of the containers.
func (o Order) Through(pod *corev1.Pod) bool {
	return o.At == "" || pod.Annotations[v1beta1.AnnotationRestarted] == o.At ||
		pod.CreationTimestamp.After(o.Time) || len(o.Named(pod)) == 0
}

// Named returns the containers of the pod to restart: those that the order names, or all.
func (o Order) Named(pod *corev1.Pod) []string {
	var out []string
	for i := range pod.Spec.Containers {
		if name := pod.Spec.Containers[i].Name; len(o.Containers) == 0 || slices.Contains(o.Containers, name) {
			out = append(out, name)
		}
	}
	return out
}

// Open returns the restart of the workload that has not stopped. It reports false if there is none, or if its
// annotation cannot be read.
func Open(of metav1.Object) (Order, bool) {
	text := of.GetAnnotations()[v1beta1.AnnotationRestart]
	if text == "" {
		return Order{}, false
	}
	o, err := Parse(text)
	return o, err == nil && of.GetAnnotations()[v1beta1.AnnotationRestartFailed] != o.At
}

// Left returns how many of the pods have still to restart, and how many of these may not restart now.
func (o Order) Left(pods []*corev1.Pod, refusals *Refusals, now time.Time) (left, refused int32) {
	for _, pod := range pods {
		if !podstate.Active(pod) || o.Through(pod) {
			continue
		}
		if left++; refusals.Refused(pod.UID, now) {
			refused++
		}
	}
	return left, refused
}
