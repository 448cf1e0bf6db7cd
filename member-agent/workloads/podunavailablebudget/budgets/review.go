package budgets

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/disruption"
)

const (
	subresourceEviction = "eviction"
	subresourceResize   = "resize"
)

// cleaners delete pods whose owner, namespace or node is gone. They have decided nothing themselves.
func cleaners() []string {
	const accounts = "system:serviceaccount:kube-system:"
	return []string{accounts + "generic-garbage-collector", accounts + "namespace-controller",
		accounts + "pod-garbage-collector"}
}

// Guard returns the guard of pods under PodUnavailableBudgets.
func (k *Keeper) Guard() admission.Guard {
	return admission.Guard{
		Name:  v1beta1.PodUnavailableBudgetKind.Kind,
		Scope: k.scope,
		Watches: []admission.Watch{{Object: &v1beta1.PodUnavailableBudget{},
			Events: predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{},
				predicate.Funcs{UpdateFunc: countsOthers})}},
		Review: k.review,
	}
}

// countsOthers reports whether the pods of a budget under Fail changed, by whose names evictions are found.
func countsOthers(e event.UpdateEvent) bool {
	was, ok := e.ObjectOld.(*v1beta1.PodUnavailableBudget)
	is, isBudget := e.ObjectNew.(*v1beta1.PodUnavailableBudget)
	return ok && isBudget && is.Spec.FailurePolicy() == v1beta1.PubFail &&
		(was.Status.TotalReplicas != is.Status.TotalReplicas || was.Status.CurrentAvailable != is.Status.CurrentAvailable)
}

// review decides about one request.
func (k *Keeper) review(ctx context.Context, request *admissionv1.AdmissionRequest) (*metav1.Status, error) {
	if slices.Contains(cleaners(), request.UserInfo.Username) {
		return nil, nil
	}
	operation, pod, err := k.asked(ctx, request)
	if err != nil || pod == nil || pod.DeletionTimestamp != nil {
		return nil, err
	}
	dryRun, err := isDryRun(request)
	if err != nil {
		return nil, err
	}
	refused, err := k.Ask(ctx, request.Namespace, operation, []*corev1.Pod{pod}, dryRun)
	if err != nil || refused[pod.Name] == nil {
		return nil, err
	}
	if !dryRun {
		k.refused.count(request.Namespace, operation)
		k.events.Eventf(pod, nil, corev1.EventTypeWarning, "PubPreventPodDeletion", string(operation), "%s",
			refused[pod.Name].Error())
	}
	return statusOf(refused[pod.Name]), nil
}

// asked returns the operation that a request is and the pod before it, nil if the request cannot make a pod
// unavailable.
func (k *Keeper) asked(
	ctx context.Context, request *admissionv1.AdmissionRequest,
) (v1beta1.PubOperation, *corev1.Pod, error) {
	if request.SubResource == subresourceEviction {
		pod, err := k.evicted(ctx, client.ObjectKey{Namespace: request.Namespace, Name: request.Name})
		return v1beta1.PubEvictOperation, pod, err
	}
	before, after := &corev1.Pod{}, &corev1.Pod{}
	if err := json.Unmarshal(request.OldObject.Raw, before); err != nil {
		return "", nil, fmt.Errorf("decode it: %w", err)
	}
	before.Namespace = request.Namespace
	if request.Operation == admissionv1.Delete {
		if request.SubResource != "" {
			return "", nil, nil
		}
		return v1beta1.PubDeleteOperation, before, nil
	}
	if err := json.Unmarshal(request.Object.Raw, after); err != nil {
		return "", nil, fmt.Errorf("decode its change: %w", err)
	}
	switch {
	case request.SubResource == subresourceResize && !restarts(before, after):
		return v1beta1.PubResizeOperation, before, nil
	case request.SubResource == subresourceResize, request.SubResource == "" && disrupts(before, after):
		return v1beta1.PubUpdateOperation, before, nil
	}
	return "", nil, nil
}

// evicted returns the pod that is to be evicted, nil if there is none. One that may go whatever its budget says is read
// once more, from the API server: the cache of this replica may be older than what its budget counts.
func (k *Keeper) evicted(ctx context.Context, key client.ObjectKey) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := k.client.Get(ctx, key, pod)
	if err == nil && disruption.Available(pod, k.options.Clock.Now()) {
		return pod, nil
	}
	if err == nil || apierrors.IsNotFound(err) {
		err = k.live.Get(ctx, key, pod)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	return pod, nil
}

// disrupts reports whether a change of a pod makes it unavailable: another image, a deadline, or a label that marks it
// so.
func disrupts(before, after *corev1.Pod) bool {
	images := func(containers []corev1.Container) (out []string) {
		for i := range containers {
			out = append(out, containers[i].Image)
		}
		return out
	}
	if !slices.Equal(images(before.Spec.Containers), images(after.Spec.Containers)) ||
		!slices.Equal(images(before.Spec.InitContainers), images(after.Spec.InitContainers)) ||
		!ptr.Equal(before.Spec.ActiveDeadlineSeconds, after.Spec.ActiveDeadlineSeconds) {
		return true
	}
	for key := range after.Labels {
		if _, had := before.Labels[key]; !had && strings.HasPrefix(key, apps.UnavailableLabelPrefix) {
			return true
		}
	}
	return false
}

// restarts reports whether a resize restarts a container or a sidecar among the init containers, which the resizePolicy
// of each says for each resource.
func restarts(before, after *corev1.Pod) bool {
	was := map[string]*corev1.Container{}
	for _, containers := range [][]corev1.Container{before.Spec.Containers, before.Spec.InitContainers} {
		for i := range containers {
			was[containers[i].Name] = &containers[i]
		}
	}
	for _, containers := range [][]corev1.Container{after.Spec.Containers, after.Spec.InitContainers} {
		for i := range containers {
			if had := was[containers[i].Name]; had != nil && restartsFor(had, &containers[i]) {
				return true
			}
		}
	}
	return false
}

// restartsFor reports whether a container restarts to get the resources that it has after the request.
func restartsFor(before, after *corev1.Container) bool {
	for _, policy := range after.ResizePolicy {
		differ := func(a, b corev1.ResourceList) bool {
			return a.Name(policy.ResourceName, "").Cmp(*b.Name(policy.ResourceName, "")) != 0
		}
		if policy.RestartPolicy == corev1.RestartContainer && (differ(before.Resources.Requests, after.Resources.Requests) ||
			differ(before.Resources.Limits, after.Resources.Limits)) {
			return true
		}
	}
	return false
}

// isDryRun reports whether a request changes nothing. An eviction says so in its body too.
func isDryRun(request *admissionv1.AdmissionRequest) (bool, error) {
	if request.DryRun != nil && *request.DryRun {
		return true, nil
	}
	if request.SubResource != subresourceEviction {
		return false, nil
	}
	eviction := &policyv1.Eviction{}
	if err := json.Unmarshal(request.Object.Raw, eviction); err != nil {
		return false, fmt.Errorf("decode its eviction: %w", err)
	}
	return eviction.DeleteOptions != nil && len(eviction.DeleteOptions.DryRun) > 0, nil
}

// retrySoon is the Retry-After of a refusal that does not wait for pods, in seconds. Clients follow it by themselves.
const retrySoon = 1

// statusOf returns the answer for a refusal: 429 for an eviction, so that kubectl drain tries again, 403 for others.
func statusOf(refusal *disruption.Refusal) *metav1.Status {
	status := &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: refusal.Error(),
		Details: &metav1.StatusDetails{Name: refusal.Pod, Kind: "pods", Causes: []metav1.StatusCause{{
			Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf("PodUnavailableBudget %s: %s", refusal.Budget,
				cmp.Or(refusal.Why, disruption.WhyExhausted)),
		}}},
	}
	if refusal.Operation == v1beta1.PubEvictOperation {
		status.Code, status.Reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
		if refusal.Why != disruption.WhyExhausted {
			status.Details.RetryAfterSeconds = retrySoon
		}
	}
	return status
}
