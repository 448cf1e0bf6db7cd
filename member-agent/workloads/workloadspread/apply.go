package workloadspread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
)

// parallelWrites bounds the requests in flight for one WorkloadSpread. Nothing that serves waits for them.
const parallelWrites = 16

// apply carries out the plan. It goes on after an error; the errors are for the report.
func (r *reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	o, p := s.seen, s.todo
	steps := func(n int) write.Steps { return write.Steps{N: n, Limit: parallelWrites} }
	_, err := write.SlowStart(ctx, steps(len(p.change)), func(i int) error { return r.change(ctx, o, p.change[i]) })
	remove, removeErr := r.permitted(ctx, o, p)
	if removeErr == nil {
		s.removed, removeErr = write.SlowStart(ctx, steps(len(remove)),
			func(i int) error { return r.remove(ctx, o, remove[i]) })
	}
	s.failed = errors.Join(err, removeErr)
	s.Fail(ReasonWriteFailed, s.failed)
	s.Sooner(p.wake)
	return true, nil
}

// change writes what a pod lacks, unless another pod of its name has come meanwhile.
func (r *reconciler) change(ctx context.Context, o *observed, c change) error {
	metadata := map[string]any{"uid": c.pod.UID}
	if len(c.labels) > 0 {
		metadata["labels"] = c.labels
	}
	if len(c.annotations) > 0 {
		metadata["annotations"] = c.annotations
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode the change of pod %s: %w", client.ObjectKeyFromObject(c.pod), err)
	}
	if err := r.Writer.PatchPod(ctx, o.ws.UID, c.pod, patch); err != nil && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}

// permitted returns the pods that may be deleted now, and sets when to look again if there are more.
func (r *reconciler) permitted(ctx context.Context, o *observed, p *plan) ([]*corev1.Pod, error) {
	remove := p.remove
	if len(remove) == 0 {
		return nil, nil
	}
	if job, ok := o.object.(*metav1.PartialObjectMetadata); ok && job.Kind == "Job" {
		whole, err := r.readWhole(ctx, job)
		if err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		remove = remove[:min(len(remove), max(0, spareFailures(whole)-o.leaving))]
	}
	n := r.deletions.take(len(remove), r.Clock.Now())
	if n < len(remove) {
		p.wake = podstate.Sooner(p.wake, time.Second)
	}
	return remove[:n], nil
}

// spareFailures returns how many pods of a Job may be deleted: its controller counts a deleted pod as a failed one, and
// after backoffLimit of them the Job fails. Half of the limit is left to failures of its own. Those that are being
// deleted are not counted yet.
func spareFailures(job *unstructured.Unstructured) int {
	limit, ok, err := unstructured.NestedInt64(job.Object, "spec", "backoffLimit")
	if !ok || err != nil {
		const published = 6 // the API's default
		limit = published
	}
	failed, _, _ := unstructured.NestedInt64(job.Object, "status", "failed")
	uncounted, _, _ := unstructured.NestedSlice(job.Object, "status", "uncountedTerminatedPods", "failed")
	return int(limit/2 - failed - int64(len(uncounted)))
}

// remove deletes a pod that has no node, unless it changed since: then it may have got one, and its event brings the
// next pass.
func (r *reconciler) remove(ctx context.Context, o *observed, pod *corev1.Pod) error {
	key := client.ObjectKeyFromObject(pod)
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err := r.Client.Delete(ctx, target, client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete pod %s, which waits for a node in vain: %w", key, err)
	}
	r.Writer.Fresh.Deleted(o.ws.UID, key)
	return nil
}
