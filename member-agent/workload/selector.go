package workload

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

// Select returns the selector, or what is wrong with selector and template that the schema could not know. own are
// labels beside the revision and the lifecycle state that the kind writes on pods itself.
func Select(
	kind string, selector *metav1.LabelSelector, template *v1beta1.PodTemplate, own ...string,
) (labels.Selector, *conditions.Cause) {
	out, err := metav1.LabelSelectorAsSelector(selector)
	switch {
	case err != nil:
		return nil, &conditions.Cause{Reason: "InvalidSelector", Message: fmt.Sprintf(
			"selector cannot be used: %v; it cannot change either: delete the %s, and apply it again with one that can "+
				"be used", err, kind)}
	case out.Empty():
		return nil, &conditions.Cause{Reason: "InvalidSelector",
			Message: "selector is empty: name a label of the template in it"}
	case ownLabel(out, own) != "":
		return nil, &conditions.Cause{Reason: "InvalidSelector", Message: fmt.Sprintf(
			"selector %q asks for label %s, which the controller itself writes on pods: take it out, and make the %s "+
				"again", out, ownLabel(out, own), kind)}
	case template.Undecoded != nil:
		err := template.Err(field.NewPath("spec", "template"))
		return out, &conditions.Cause{Reason: ReasonInvalidTemplate, Message: err.Error()}
	case !out.Matches(labels.Set(template.Labels)):
		return nil, &conditions.Cause{Reason: "SelectorMismatch", Message: fmt.Sprintf(
			"selector %q does not match the labels of the template, %q: add them to template.metadata.labels", out,
			labels.Set(template.Labels))}
	}
	if _, ok := template.Labels[v1beta1.LabelSpecifiedDelete]; ok {
		return nil, &conditions.Cause{Reason: ReasonInvalidTemplate, Message: fmt.Sprintf(
			"template.metadata.labels has %s, which asks to delete every pod as soon as it is made: remove it",
			v1beta1.LabelSpecifiedDelete)}
	}
	return out, nil
}

// ownLabel returns a label that the selector asks for and that pods get from their controller, or "". Such pods would
// not match, or not for long, and each pass would make others.
func ownLabel(selector labels.Selector, own []string) string {
	requirements, _ := selector.Requirements()
	for _, requirement := range requirements {
		key := requirement.Key()
		if key == podset.LabelRevision || key == v1beta1.LabelLifecycleState || slices.Contains(own, key) {
			return key
		}
	}
	return ""
}

// Adopt makes the object the controller of pods that match the selector and have none. It reports whether there were
// any: then the pass ends, and the events of the pods bring the next one.
func (c *Controller[T, M]) Adopt(ctx context.Context, p *Pass[T, M], selector labels.Selector) (bool, error) {
	pods, err := c.Pods.Orphans(p.Key.Namespace, selector)
	if c.kind.Member != nil {
		pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !c.kind.Member(p.Object, pod.Name) })
	}
	if err != nil || len(pods) == 0 {
		return false, err
	}
	if stays, err := c.stays(ctx, p); err != nil || !stays {
		p.Wake = freshness.RetryAfter
		return !stays, err
	}
	for _, pod := range pods {
		ref := *metav1.NewControllerRef(p.Object, c.kind.GVK)
		if err := c.Writer.AdoptPod(ctx, p.Object.GetUID(), pod, ref); err != nil {
			return false, err
		}
	}
	return true, nil
}

// stays asks the API server whether the object still exists and is not being deleted. Deleting it with orphaning
// releases its pods, and the cache may not show the deletion yet: pods that were adopted then would be garbage
// collected.
func (c *Controller[T, M]) stays(ctx context.Context, p *Pass[T, M]) (bool, error) {
	now := c.kind.New()
	switch err := c.Live.Get(ctx, p.Key, now); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read it, to adopt pods: %w", err)
	}
	return now.GetUID() == p.Object.GetUID() && now.GetDeletionTimestamp() == nil, nil
}
