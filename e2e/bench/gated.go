package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

const gatedName = "gated"

// gatedClient does with bare requests what updates in place need beyond plain pods: a readiness gate that is opened
// after the create, shut before the image changes and opened when the container runs again. No controller that keeps
// those promises can be faster.
func (r *rollout) gatedClient(ctx context.Context) error {
	pods := r.core.CoreV1().Pods(namespace)
	name := func(i int) string { return fmt.Sprintf("%s-%d", gatedName, i) }
	set := func(ctx context.Context, name string, status corev1.ConditionStatus) error {
		_, err := pods.Patch(ctx, name, types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":%q,"lastTransitionTime":%q}]}}`,
				appsv1beta1.InPlaceUpdateReady, status, time.Now().UTC().Format(time.RFC3339)),
			metav1.PatchOptions{}, "status")
		return err
	}
	create := func(ctx context.Context, i int) error {
		t := template(gatedName, image(1))
		t.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: appsv1beta1.InPlaceUpdateReady}}
		_, err := pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name(i), Labels: t.Labels}, Spec: t.Spec,
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return set(ctx, name(i), corev1.ConditionTrue)
	}
	title := fmt.Sprintf("bare client, %d pods with the readiness gate created and Ready", r.bench.pods)
	r.say("%s", title)
	_, all, err := r.barePhase(
		ctx,
		title,
		gatedName,
		func(pod *corev1.Pod, gone bool) bool { return !gone && podReady(pod) },
		create,
	)
	if err != nil {
		return err
	}
	r.bareGated[phaseOut] = all
	r.report.add(rolloutSectionName, title, "s", all)

	title = fmt.Sprintf("bare client, %d pods with the readiness gate updated in place and Ready", r.bench.pods)
	r.say("%s", title)
	if all, err = r.gatedUpdate(ctx, title, name, set); err != nil {
		return err
	}
	r.bareGated[phaseInPlace] = all
	r.report.add(rolloutSectionName, title, "s", all)

	_, _, err = r.barePhase(
		ctx,
		"bare client, pods with the readiness gate deleted",
		gatedName,
		func(_ *corev1.Pod, gone bool) bool { return gone },
		func(ctx context.Context, i int) error { return pods.Delete(ctx, name(i), metav1.DeleteOptions{}) },
	)
	return err
}

// gatedUpdate returns the seconds until every pod runs the new image and is Ready.
func (r *rollout) gatedUpdate(
	ctx context.Context,
	title string,
	name func(int) string,
	set func(context.Context, string, corev1.ConditionStatus) error,
) (float64, error) {
	newImage := fmt.Appendf(nil, `{"spec":{"containers":[{"name":"app","image":%q}]}}`, image(2))
	// More room than there can be pods in this state, so that the watch never waits for the requests that it causes.
	restarted := make(chan string, 4*r.bench.pods)
	done := func(pod *corev1.Pod, gone bool) bool {
		containers := pod.Status.ContainerStatuses
		if gone || len(containers) != 1 || containers[0].Image != image(2) {
			return false
		}
		if conditionTrue(pod, appsv1beta1.InPlaceUpdateReady) {
			return podReady(pod)
		}
		select {
		case restarted <- pod.Name:
		default:
		}
		return false
	}
	openCtx, stop := context.WithCancel(ctx)
	defer stop()
	group, groupCtx := errgroup.WithContext(openCtx)
	for range workers {
		group.Go(func() error {
			for {
				select {
				case <-groupCtx.Done():
					return nil
				case pod := <-restarted:
					if err := set(groupCtx, pod, corev1.ConditionTrue); err != nil && groupCtx.Err() == nil {
						return err
					}
				}
			}
		})
	}
	var all float64
	group.Go(func() error {
		defer stop()
		var err error
		_, all, err = r.barePhase(groupCtx, title, gatedName, done, func(ctx context.Context, i int) error {
			if err := set(ctx, name(i), corev1.ConditionFalse); err != nil {
				return err
			}
			_, err := r.core.CoreV1().
				Pods(namespace).
				Patch(ctx, name(i), types.StrategicMergePatchType, newImage, metav1.PatchOptions{})
			return err
		})
		return err
	})
	return all, group.Wait()
}
