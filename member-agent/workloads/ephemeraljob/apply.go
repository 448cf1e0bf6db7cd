package ephemeraljob

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// inFlight is how many pods get the containers at the same time at most.
const inFlight = 16

// apply carries out the plan.
func (r *Reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	switch {
	case s.Leaving != nil:
		return true, r.release(ctx, s)
	case s.Stalled != nil:
		return true, nil
	case s.plan.Expired:
		return false, r.expire(ctx, s)
	case s.job.Status.StartTime == nil:
		// The deadline counts from the start, so the start is written before a container runs. The write brings the next
		// pass.
		return true, nil
	}
	return true, r.add(ctx, s)
}

// add adds the containers to the pods of the plan.
func (r *Reconciler) add(ctx context.Context, s *scope) error {
	if len(s.plan.Add) == 0 {
		return nil
	}
	containers := containersOf(s.job)
	var mu sync.Mutex
	added, err := write.SlowStart(ctx, write.Steps{N: len(s.plan.Add), Limit: inFlight}, func(i int) error {
		pod := s.plan.Add[i]
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": pod.UID},
			"spec":     map[string]any{"ephemeralContainers": containers},
		})
		if err != nil {
			return fmt.Errorf("encode its containers: %w", err)
		}
		err = r.Writer.AddEphemeralContainers(ctx, s.job.UID, pod, patch)
		mu.Lock()
		defer mu.Unlock()
		s.refuse(pod, err)
		return err
	})
	s.added = added
	s.Fail(reasonContainersRefused, err)
	return nil
}

// refuse remembers whether the pod did not take the containers.
func (s *scope) refuse(pod *corev1.Pod, err error) {
	switch {
	case err == nil:
		delete(s.Memory.refused, pod.UID)
	case workload.Refused(err):
		if s.Memory.refused == nil {
			s.Memory.refused = map[types.UID]bool{}
		}
		s.Memory.refused[pod.UID] = true
	}
}

// expire deletes the job after its time to live.
func (r *Reconciler) expire(ctx context.Context, s *scope) error {
	job := &v1alpha1.EphemeralJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}}
	if err := r.Client.Delete(ctx, job, client.Preconditions{UID: &s.job.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete it after ttlSecondsAfterFinished: %w", err)
	}
	return nil
}

// release takes the finalizer off a job that an OpenKruise manager put on it: nothing is removed from pods.
func (r *Reconciler) release(ctx context.Context, s *scope) error {
	_, err := workload.TakeFinalizer(ctx, r.Client, s.job, v1alpha1.FinalizerEphemeralJob)
	return err
}
