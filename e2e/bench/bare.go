package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const bareName = "bare"

// bareClient creates, updates in place and deletes the pods with nothing but requests: what the API server and the
// simulated kubelets allow at best.
func (r *rollout) bareClient(ctx context.Context) error {
	pods := r.core.CoreV1().Pods(namespace)
	name := func(i int) string { return fmt.Sprintf("%s-%d", bareName, i) }
	newImage := fmt.Appendf(nil, `{"spec":{"containers":[{"name":"app","image":%q}]}}`, image(2))
	for _, p := range []struct {
		phase, title, answered string
		// done tells that a pod is where the phase wants it.
		done func(pod *corev1.Pod, gone bool) bool
		do   func(ctx context.Context, i int) error
	}{
		{
			phase: phaseOut, title: "created and Ready", answered: "created",
			done: func(pod *corev1.Pod, gone bool) bool { return !gone && podReady(pod) },
			do: func(ctx context.Context, i int) error {
				t := template(bareName, image(1))
				_, err := pods.Create(ctx, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: name(i), Labels: t.Labels}, Spec: t.Spec,
				}, metav1.CreateOptions{})
				return err
			},
		},
		{
			phase: phaseInPlace, title: "patched and restarted", answered: "patched",
			done: func(pod *corev1.Pod, gone bool) bool {
				seen := pod.Status.ContainerStatuses
				return !gone && podReady(pod) && len(seen) == 1 && seen[0].Image == image(2)
			},
			do: func(ctx context.Context, i int) error {
				_, err := pods.Patch(ctx, name(i), types.StrategicMergePatchType, newImage, metav1.PatchOptions{})
				return err
			},
		},
		{
			phase: phaseIn, title: "deleted and gone", answered: "deleted",
			done: func(_ *corev1.Pod, gone bool) bool { return gone },
			do: func(ctx context.Context, i int) error {
				return pods.Delete(ctx, name(i), metav1.DeleteOptions{})
			},
		},
	} {
		title := fmt.Sprintf("bare client, %d pods %s", r.bench.pods, p.title)
		r.say("%s", title)
		answered, all, err := r.barePhase(ctx, title, bareName, p.done, p.do)
		if err != nil {
			return err
		}
		r.bare[p.phase] = answered
		r.report.add(rolloutSectionName, fmt.Sprintf("bare client, %d pods %s", r.bench.pods, p.answered), "s", answered)
		r.report.add(rolloutSectionName, title, "s", all)
	}
	return nil
}

// barePhase calls do once for each pod of that name and returns the seconds until all requests were answered and until
// every pod was where it was to be.
func (r *rollout) barePhase(
	ctx context.Context,
	title, name string,
	done func(*corev1.Pod, bool) bool,
	do func(context.Context, int) error,
) (float64, float64, error) {
	ctx, cancel, explain := r.bound(ctx, title)
	defer cancel()
	list, err := r.core.CoreV1().
		Pods(namespace).
		List(ctx, metav1.ListOptions{LabelSelector: labelApp + "=" + name, Limit: 1})
	if err != nil {
		return 0, 0, fmt.Errorf("%s: list pods: %w", title, err)
	}
	before, err := r.meters.read()
	if err != nil {
		return 0, 0, err
	}
	finished := map[string]bool{}
	var unfinished *corev1.Pod
	var answered, all time.Time
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return r.followPods(ctx, name, list.ResourceVersion, func(pod *corev1.Pod, gone bool) bool {
			if done(pod, gone) {
				finished[pod.Name] = true
			} else if !finished[pod.Name] {
				unfinished = pod
			}
			all = time.Now()
			return len(finished) == r.bench.pods
		})
	})
	group.Go(func() error {
		err := parallel(ctx, r.bench.pods, do)
		answered = time.Now()
		return err
	})
	err = explain(group.Wait(), func() string {
		return fmt.Sprintf(
			"%d of %d pods done; the last change of one that is not: %s",
			len(finished),
			r.bench.pods,
			podText(unfinished),
		)
	})
	if err != nil {
		return 0, 0, err
	}
	if _, err := r.used(title, before); err != nil {
		return 0, 0, err
	}
	return seconds(answered.Sub(began)), seconds(all.Sub(began)), r.requests(title, began)
}

// podText says what a controller would look at in a pod that does not get where it should.
func podText(pod *corev1.Pod) string {
	if pod == nil {
		return "none"
	}
	text := fmt.Sprintf("pod %s, %s on node %q", pod.Name, pod.Status.Phase, pod.Spec.NodeName)
	for _, container := range pod.Spec.Containers {
		text += ", wants " + container.Image
	}
	for _, container := range pod.Status.ContainerStatuses {
		text += fmt.Sprintf(", runs %s (ready %t)", container.Image, container.Ready)
	}
	for _, condition := range pod.Status.Conditions {
		text += fmt.Sprintf(", %s=%s", condition.Type, condition.Status)
	}
	return text
}
