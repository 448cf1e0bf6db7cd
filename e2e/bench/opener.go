package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// gatedPhases measures a Deployment whose pods have a readiness gate, while an opener opens each gate as soon as it
// sees the pod. That is the second write for each pod, which updates in place cost.
func (r *rollout) gatedPhases(ctx context.Context) error {
	k := gatedDeploymentKind()
	return r.whileOpening(ctx, r.named(nameOf(k)), func(ctx context.Context) error { return r.deploymentPhases(ctx, k) })
}

// whileOpening calls do while an opener opens the readiness gates of the workload.
func (r *rollout) whileOpening(ctx context.Context, name string, do func(context.Context) error) error {
	life, stop := context.WithCancel(ctx)
	defer stop()
	group, life := errgroup.WithContext(life)
	opener, err := r.opener(ctx, name)
	if err != nil {
		return err
	}
	group.Go(func() error { return opener(life) })
	group.Go(func() error {
		defer stop()
		return do(life)
	})
	return group.Wait()
}

// opener returns a function that opens, until its context ends, all readiness gates of new pods of the workload, with
// one patch for each pod and as many workers as a bare client has.
func (r *rollout) opener(ctx context.Context, name string) (func(context.Context) error, error) {
	pods := r.core.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: labelApp + "=" + name, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("open gates: list pods: %w", err)
	}
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		// The watch never waits for a patch: then the API server would end it.
		queue := newOpenings()
		group.Go(func() error {
			err := r.followPods(ctx, name, list.ResourceVersion, func(pod *corev1.Pod, gone bool) bool {
				if !gone {
					queue.add(pod)
				}
				return false
			})
			if ctx.Err() != nil {
				return nil // the phases are over
			}
			return err
		})
		for range workers {
			group.Go(func() error {
				for {
					pod, ok := queue.next(ctx)
					if !ok {
						return nil
					}
					patch, err := openGates(pod, time.Now())
					if err != nil {
						return err
					}
					_, err = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
					if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
						return fmt.Errorf("open the gates of pod %s: %w", pod.Name, err)
					}
				}
			})
		}
		return group.Wait()
	}, nil
}

// openGates returns the patch of a pod's status that opens all its readiness gates.
func openGates(pod *corev1.Pod, now time.Time) ([]byte, error) {
	conditions := make([]corev1.PodCondition, 0, len(pod.Spec.ReadinessGates))
	for _, gate := range pod.Spec.ReadinessGates {
		conditions = append(
			conditions,
			corev1.PodCondition{Type: gate.ConditionType, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)},
		)
	}
	return json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
}

// openings are the pods whose gates are to be opened, each once.
type openings struct {
	mu    sync.Mutex
	known map[types.UID]bool
	list  []*corev1.Pod
	more  chan struct{}
}

func newOpenings() *openings {
	return &openings{known: map[types.UID]bool{}, more: make(chan struct{}, 1)}
}

func (o *openings) add(pod *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.known[pod.UID] {
		o.known[pod.UID] = true
		o.list = append(o.list, pod)
		o.wake()
	}
}

func (o *openings) wake() {
	select {
	case o.more <- struct{}{}:
	default:
	}
}

// next returns the next pod, or false when ctx ends.
func (o *openings) next(ctx context.Context) (*corev1.Pod, bool) {
	for {
		o.mu.Lock()
		if len(o.list) > 0 {
			pod := o.list[0]
			o.list = o.list[1:]
			if len(o.list) > 0 {
				o.wake()
			}
			o.mu.Unlock()
			return pod, true
		}
		o.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, false
		case <-o.more:
		}
	}
}
