package sidecarset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
)

const (
	// scanInterval is how often all pods of the cache are looked at for those without their sidecars. No event of such a
	// pod names the SidecarSet.
	scanInterval = 30 * time.Second
	// headStart is how much younger than the begin of the injection a pod must be to count as missing: the API server
	// learns of a new SidecarSet a moment later, and the clocks of several API servers differ.
	headStart = 10 * time.Second
)

// injects reports whether new pods get sidecars of the SidecarSet.
func (s *scope) injects() bool {
	spec := &s.set.Spec
	return s.Leaving == nil && s.Stalled == nil && !spec.InjectionStrategy.Paused &&
		len(spec.Containers)+len(spec.InitContainers) > 0
}

// progress returns since when new pods of the selection get sidecars. What the status says holds for as long as the
// selection is the same: a pod that was created before the selector matched it is no victim of an outage.
func (s *scope) progress(now time.Time) (*v1beta1.SidecarSetProgress, error) {
	data, err := json.Marshal([]any{s.set.Spec.Selector, s.set.Spec.NamespaceSelector, inject.Base(s.set)})
	if err != nil {
		return nil, fmt.Errorf("encode its selectors: %w", err)
	}
	sum := sha256.Sum256(data)
	out := &v1beta1.SidecarSetProgress{Selection: hex.EncodeToString(sum[:8])}
	have := s.set.Status.Flotilla
	switch {
	case !s.injects():
	case have != nil && have.Selection == out.Selection && have.InjectingSince != nil:
		out.InjectingSince = have.InjectingSince
	case have == nil && s.set.Generation == 1:
		out.InjectingSince = s.set.CreationTimestamp.DeepCopy()
	default:
		out.InjectingSince = new(metav1.NewTime(now.UTC().Truncate(time.Second)))
	}
	return out, nil
}

// missing finds the pods that were created without the sidecars. Those of the last scan are looked at in each pass.
func (r *Reconciler) missing(ctx context.Context, s *scope, selection inject.Selection) error {
	now := r.Clock.Now()
	since := s.progressed.InjectingSince
	if since == nil {
		s.Memory.missing, s.Memory.scanned = nil, time.Time{}
		return nil
	}
	canaries, err := r.canaries(ctx, s.set.Name)
	if err != nil {
		return err
	}
	is := func(pod *corev1.Pod) (bool, error) {
		if !lacks(pod, s.set.Name, canaries, since.Time) || !selection.MatchesPod(pod.Labels, pod.Namespace) {
			return false, nil
		}
		labels, err := r.namespaceLabels(ctx, pod.Namespace)
		return err == nil && selection.Matches(pod.Labels, pod.Namespace, labels), err
	}
	if now.Sub(s.Memory.scanned) >= scanInterval {
		if s.Memory.missing, err = r.scan(ctx, selection, is); err != nil {
			return err
		}
		s.Memory.scanned = now
	}
	s.Sooner(max(s.Memory.scanned.Add(scanInterval).Sub(now), time.Second))
	s.missing, err = r.still(ctx, s.Memory.missing, is)
	return err
}

// scan returns the pods of the cache that are missing their sidecars. The cache copies the head of each pod that it
// returns, so it is asked for the selected ones alone.
func (r *Reconciler) scan(
	ctx context.Context, selection inject.Selection, is func(*corev1.Pod) (bool, error),
) (out []types.NamespacedName, err error) {
	var list corev1.PodList
	selected := client.MatchingLabelsSelector{Selector: selection.Pods()}
	err = r.Client.List(ctx, &list, selected, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	for i := range list.Items {
		missing, err := is(&list.Items[i])
		if err != nil {
			return nil, err
		}
		if missing {
			out = append(out, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return out, nil
}

// still returns those of the pods of a scan that are there, and miss their sidecars.
func (r *Reconciler) still(
	ctx context.Context, keys []types.NamespacedName, is func(*corev1.Pod) (bool, error),
) (out []*corev1.Pod, err error) {
	for _, key := range keys {
		pod := &corev1.Pod{}
		if err := r.Client.Get(ctx, key, pod, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read pod %s: %w", key, err)
		} else if err != nil {
			continue
		}
		missing, err := is(pod)
		if err != nil {
			return nil, err
		}
		if missing {
			out = append(out, pod)
		}
	}
	return out, nil
}

// canaries returns the names of the canaries of a SidecarSet: pods have their sidecars in its place.
func (r *Reconciler) canaries(ctx context.Context, base string) ([]string, error) {
	sets, err := r.sets(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, set := range sets {
		if inject.Base(set) == base {
			out = append(out, set.Name)
		}
	}
	return out, nil
}

// lacks reports whether a pod that is selected was created without the sidecars since then. Pods of the kubelet, which
// the API server only mirrors, never get any.
func lacks(pod *corev1.Pod, set string, canaries []string, since time.Time) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	if mirror || !podstate.Active(pod) || !pod.CreationTimestamp.After(since.Add(headStart)) {
		return false
	}
	return !slices.ContainsFunc(marks.Sets(pod), func(name string) bool {
		return name == set || slices.Contains(canaries, name)
	})
}
