package mutator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history/sidecars"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/allow"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// mutator injects sidecars.
type mutator struct {
	reader     client.Reader // reads from the cache
	caches     *caches
	memo       memo
	allowed    *allow.Source
	namespaces []string
	federated  func(context.Context, client.Object) (bool, error)
	clock      clock.PassiveClock
	log        logr.Logger
}

// mutate gives the pod the sidecars of the SidecarSets that select it. What cannot be computed for a SidecarSet refuses
// the pod if its user chose Fail; otherwise the pod starts without the sidecars of that one.
func (m *mutator) mutate(ctx context.Context, request *admission.Request) error {
	if m.caches.unknown.Load() {
		return nil
	}
	if !m.caches.synced() {
		request.Waited()
	}
	if !m.wait(ctx) {
		panic(http.ErrAbortHandler) // a failed call: the failure policies of the SidecarSets apply
	}
	pod, err := request.Pod()
	if err != nil {
		return err
	}
	matched, err := m.matching(ctx, pod)
	if err != nil || len(matched) == 0 {
		return err
	}
	return m.inject(ctx, request, matched)
}

// wait waits until the caches are filled, until the context ends. It reports whether they are.
func (m *mutator) wait(ctx context.Context) bool {
	const interval = 5 * time.Millisecond
	return wait.PollUntilContextCancel(ctx, interval, true, func(context.Context) (bool, error) {
		return m.caches.synced(), nil
	}) == nil
}

// matching returns the SidecarSets that select the pod. Those whose namespaceSelector cannot be asked, because the
// namespace is not in the cache in time, are left out, or refuse the pod for now, as their failure policy says.
func (m *mutator) matching(ctx context.Context, pod *corev1.Pod) ([]*v1beta1.SidecarSet, error) {
	sets, err := m.all(ctx)
	if err != nil {
		return nil, err
	}
	matched := slices.DeleteFunc(sets, func(set *v1beta1.SidecarSet) bool {
		return !m.memo.of(set).selection.MatchesPod(pod.Labels, pod.Namespace)
	})
	namespaced := func(set *v1beta1.SidecarSet) bool { return m.memo.of(set).selection.Namespaced() }
	if !slices.ContainsFunc(matched, namespaced) {
		return matched, nil
	}
	labels, known, err := m.namespaceLabels(ctx, pod.Namespace)
	if err != nil {
		return nil, err
	}
	if !known {
		for _, set := range matched {
			if namespaced(set) && failurePolicy(set) == admissionregistrationv1.Fail {
				return nil, admission.Later(fmt.Errorf("this replica does not know namespace %s yet, which SidecarSet %s with "+
					"failurePolicy Fail may select: try again in a moment", pod.Namespace, set.Name))
			}
		}
		return slices.DeleteFunc(matched, namespaced), nil
	}
	return slices.DeleteFunc(matched, func(set *v1beta1.SidecarSet) bool {
		return !m.memo.of(set).selection.Matches(pod.Labels, pod.Namespace, labels)
	}), nil
}

// namespaceLabels returns the labels of a namespace. One that is not in the cache is waited for, for most of the time
// that the request has: a pod may be created as soon as its namespace.
func (m *mutator) namespaceLabels(ctx context.Context, name string) (labels map[string]string, known bool, err error) {
	const interval = 5 * time.Millisecond
	until := ctx
	if end, has := ctx.Deadline(); has {
		var cancel context.CancelFunc
		until, cancel = context.WithTimeout(ctx, time.Until(end)*3/4)
		defer cancel()
	}
	namespace := namespaceMetadata()
	err = wait.PollUntilContextCancel(until, interval, true, func(ctx context.Context) (bool, error) {
		err := m.reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
		return err == nil, client.IgnoreNotFound(err)
	})
	switch {
	case err == nil:
		return namespace.Labels, true, nil
	case wait.Interrupted(err) || errors.Is(err, context.DeadlineExceeded):
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("read namespace %s: %w", name, err)
}

// inject changes the pod. One SidecarSet after the other is left out that cannot be injected and may be. The base of a
// canary that is left out takes its place.
func (m *mutator) inject(ctx context.Context, request *admission.Request, matched []*v1beta1.SidecarSet) error {
	pod, err := request.Pod()
	if err != nil {
		return err
	}
	allowed, _ := m.allowed.Known()
	for {
		sets, failure := m.sets(ctx, request, pod, inject.Effective(matched))
		if failure == nil {
			err := request.Change(func(pod *corev1.Pod) error { return inject.Pod(pod, sets, allowed, m.clock.Now()) })
			if !errors.As(err, &failure) {
				return err
			}
		}
		at := slices.IndexFunc(matched, func(set *v1beta1.SidecarSet) bool { return set.Name == failure.Set })
		if at < 0 || failurePolicy(matched[at]) == admissionregistrationv1.Fail {
			return failure
		}
		m.logger(request).Error(failure, "admitted a pod without the sidecars of a SidecarSet", "sidecarSet", failure.Set)
		matched = slices.Delete(slices.Clone(matched), at, at+1)
	}
}

// sets returns the SidecarSets as the pod gets them.
func (m *mutator) sets(
	ctx context.Context, request *admission.Request, pod *corev1.Pod, matched []*v1beta1.SidecarSet,
) ([]inject.Set, *inject.Failure) {
	out := make([]inject.Set, 0, len(matched))
	for _, set := range matched {
		s := inject.Set{Name: set.Name, Labels: set.Labels, Spec: &set.Spec, Hashes: m.memo.of(set).hashes}
		var err error
		identity := pod.Namespace + "/" + cmp.Or(request.Name, pod.Name, pod.GenerateName+string(request.UID))
		if inject.Pinned(&set.Spec, pod.Labels, identity) {
			err = m.pin(ctx, set, &s)
		} else if ready := m.memo.of(set); ready.previous != nil {
			s.Spec, s.Hashes = ready.previous, ready.previousHashes
			s.Revision, err = nameOf(set, ready.previous)
		} else {
			s.Revision, err = current(set)
		}
		if err != nil {
			return nil, &inject.Failure{Set: set.Name, Err: err}
		}
		out = append(out, s)
	}
	return out, nil
}

// current returns the name of the current revision: the one in the status, or the one that the controller writes.
func current(set *v1beta1.SidecarSet) (string, error) {
	if set.Status.LatestRevision != "" && set.Status.ObservedGeneration == set.Generation {
		return set.Status.LatestRevision, nil
	}
	return nameOf(set, &set.Spec)
}

// nameOf returns the name of the revision with this spec, as the controller writes it.
func nameOf(set *v1beta1.SidecarSet, spec *v1beta1.SidecarSetSpec) (string, error) {
	data, err := sidecars.Encode(sidecars.ContentOf(spec))
	if err != nil {
		return "", err
	}
	collision := cmp.Or(set.Status.CollisionCount, new(int32(0)))
	return history.Name(set.Name, history.Hash(data, collision)), nil
}

// pin gives s the revision that injectionStrategy names. It errs if there is none.
func (m *mutator) pin(ctx context.Context, set *v1beta1.SidecarSet, s *inject.Set) error {
	found, err := m.named(ctx, set)
	if err != nil {
		return err
	}
	content, err := sidecars.Decode(found.Data.Raw)
	if err != nil {
		return err
	}
	s.Spec, s.Revision = content.In(&set.Spec), found.Name
	s.Hashes, err = revision.HashesOf(s.Spec)
	return err
}

// named returns the revision that injectionStrategy names: by its name, else the newest with the custom version.
func (m *mutator) named(ctx context.Context, set *v1beta1.SidecarSet) (*appsv1.ControllerRevision, error) {
	pinned := set.Spec.InjectionStrategy.Revision
	var newest *appsv1.ControllerRevision
	for _, namespace := range m.namespaces {
		var list appsv1.ControllerRevisionList
		if err := m.reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy,
			client.MatchingLabels{v1beta1.LabelSidecarSetName: set.Name}); err != nil {
			return nil, fmt.Errorf("list its revisions: %w", err)
		}
		for i := range list.Items {
			have := &list.Items[i]
			if is(have, pinned) && (newest == nil || have.Revision > newest.Revision) {
				newest = have
			}
		}
	}
	if newest == nil {
		return nil, fmt.Errorf("injectionStrategy.revision names a revision that is not found (revisionName %q, "+
			"customVersion %q): correct it, or remove it", text(pinned.RevisionName), text(pinned.CustomVersion))
	}
	return newest, nil
}

// is reports whether the revision is the one that is named.
func is(have *appsv1.ControllerRevision, named *v1beta1.SidecarSetInjectRevision) bool {
	if name := text(named.RevisionName); name != "" {
		return have.Name == name
	}
	return have.Labels[v1beta1.LabelSidecarSetCustomVersion] == text(named.CustomVersion)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
