package sidecarset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/rollout"
)

const (
	// mostWorkloads is how many workloads a pass reads from the API server.
	mostWorkloads = 10
	// othersFirst is why a pod waits whose workload was not read.
	othersFirst = "other workloads come first"
)

// eviction is a pod that was evicted, and has not been replaced as far as is known.
type eviction struct {
	pod   types.NamespacedName
	uid   types.UID
	at    time.Time
	owner metav1.OwnerReference
	// hash is that of the sidecars that the new pod is to have, known are the pods that its workload had.
	hash    string
	known   map[types.UID]bool
	version version
}

// version changes whenever the SidecarSet or a workload is changed.
type version struct{ set, workload int64 }

// helped reports whether all pods that the workload has created since have the sidecars that they are to have. If these
// have changed meanwhile, nothing can be said.
func (e *eviction) helped(s *scope, active []*corev1.Pod) bool {
	return e.hash != s.hashes.All || !slices.ContainsFunc(active, func(pod *corev1.Pod) bool {
		return !e.known[pod.UID] && !rollout.Current(pod, s.set.Name, &s.set.Spec, s.hashes)
	})
}

const (
	// evictionTimeout is how long an eviction may take. Clients repeat what the API server refuses for a while only, such
	// as while a PodDisruptionBudget is not counted yet; a pass does not wait for that.
	evictionTimeout = 3 * time.Second
	// evictionSeen is when the cache shows an eviction that was carried out.
	evictionSeen = 10 * time.Second
)

// recreates reports whether pods are evicted for their workloads to create them again. Not while new pods get no
// sidecars, or those of another revision: they would be no better. Not where a hub grants the limits: it does not count
// pods that were evicted.
func (s *scope) recreates() bool {
	return s.wantsRecreation() && s.injects() && s.grant() == nil && !s.Budget.Expired &&
		s.set.Spec.InjectionStrategy.Revision == nil
}

// wantsRecreation reports whether the user asks for that.
func (s *scope) wantsRecreation() bool {
	own := s.set.Spec.Flotilla
	return own != nil && own.Recreate == v1beta1.SidecarSetRecreateIfNeeded
}

// absent reports whether neither the pod is there nor one in its place.
func (e *eviction) absent(active []*corev1.Pod) bool {
	return !slices.ContainsFunc(active, func(pod *corev1.Pod) bool { return pod.UID == e.uid || !e.known[pod.UID] })
}

// settle forgets evictions whose workload has replaced the pod: the pod is gone, and all pods of the workload are
// ready. It returns the uids of the owners that have not, and how many of them have no pod in its place yet.
func (r *Reconciler) settle(ctx context.Context, s *scope) (inFlight map[types.UID]bool, absent int, err error) {
	inFlight = map[types.UID]bool{}
	maps.DeleteFunc(s.Memory.useless, func(_ types.UID, v version) bool { return v.set != s.set.Generation })
	for owner, evicted := range s.Memory.evicted {
		pod := &corev1.Pod{}
		err := r.Client.Get(ctx, evicted.pod, pod, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return nil, 0, fmt.Errorf("read pod %s: %w", evicted.pod, err)
		}
		gone := err != nil || pod.UID != evicted.uid
		if !gone && pod.DeletionTimestamp == nil && r.Clock.Since(evicted.at) > evictionSeen {
			delete(s.Memory.evicted, owner) // nobody knew whether it was carried out: it was not
			continue
		}
		set, err := r.Pods.Observe(owner, nil)
		if err != nil {
			return nil, 0, err
		}
		if gone {
			if gone, err = r.ownerReady(ctx, s, &evicted, set.Active); err != nil {
				return nil, 0, err
			}
		}
		if gone {
			delete(s.Memory.evicted, owner)
			continue
		}
		inFlight[owner] = true
		if evicted.absent(set.Active) {
			absent++
		}
		s.Sooner(askAgain)
	}
	return inFlight, absent, nil
}

// ownerReady reports whether all pods that the owner of an evicted pod is to have are there and ready. So they are of
// one that is gone. It is asked itself: without pods of it there may be no controller that creates any. If the new pod
// lacks what the old one lacked, that is remembered.
func (r *Reconciler) ownerReady(
	ctx context.Context, s *scope, evicted *eviction, active []*corev1.Pod,
) (bool, error) {
	object, err := r.read(ctx, &evicted.owner, evicted.pod.Namespace)
	if err != nil || object == nil {
		return err == nil, err
	}
	if !rollout.WorkloadOf(object).Complete(active) {
		return false, nil
	}
	if !evicted.helped(s, active) {
		if s.Memory.useless == nil {
			s.Memory.useless = map[types.UID]version{}
		}
		s.Memory.useless[evicted.owner.UID] = evicted.version
	}
	return true, nil
}

// workload reads the owner of a pod, or the Deployment of a ReplicaSet; nil if it is gone. Each is read once in a
// pass.
func (r *Reconciler) workload(
	ctx context.Context, s *scope, ref *metav1.OwnerReference, namespace string,
) (*rollout.Workload, error) {
	if have, known := s.workloads[ref.UID]; known {
		return have, nil
	}
	object, err := r.read(ctx, ref, namespace)
	if err != nil {
		return nil, err
	}
	if object != nil && object.GetKind() == "ReplicaSet" {
		if parent := metav1.GetControllerOfNoCopy(object); parent != nil &&
			parent.APIVersion == appsv1.SchemeGroupVersion.String() && parent.Kind == "Deployment" {
			if object, err = r.read(ctx, parent, namespace); err != nil {
				return nil, err
			}
		}
	}
	if object == nil {
		s.workloads[ref.UID] = nil
		return nil, nil
	}
	w := rollout.WorkloadOf(object)
	granted, err := r.Gate.Budget(ctx, object)
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask for the budget of %s: %w", w.Name, err)
	case granted.Expired:
		w.Waits = "the hub is not in contact, or has granted its limits to other clusters"
	case granted.Amounts != nil && granted.Amounts.Unavailable <= 0:
		w.Waits = "the hub lets none of its pods in this cluster be unavailable now"
	}
	s.workloads[ref.UID] = &w
	return &w, nil
}

// read returns an owner from the API server, nil if it is gone.
func (r *Reconciler) read(
	ctx context.Context, ref *metav1.OwnerReference, namespace string,
) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(ref.APIVersion)
	object.SetKind(ref.Kind)
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, object)
	if apierrors.IsNotFound(err) || err == nil && object.GetUID() != ref.UID {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
	}
	return object, nil
}

// refuses returns why a pod must not be evicted now, "" if it may be.
func (r *Reconciler) refuses(ctx context.Context, s *scope, pod *corev1.Pod) (string, error) {
	ref := rollout.Owner(pod)
	set, err := r.Pods.Observe(ref.UID, nil)
	if err != nil {
		return "", err
	}
	if _, known := s.workloads[ref.UID]; !known && len(s.workloads) >= mostWorkloads {
		return othersFirst, nil
	}
	w, err := r.workload(ctx, s, ref, pod.Namespace)
	if err != nil {
		return "", err
	}
	if w == nil {
		return ref.Kind + " " + ref.Name + " is gone", nil
	}
	if why := w.Refuses(pod, set.Active); why != "" {
		return why, nil
	}
	if last, is := s.Memory.useless[ref.UID]; is && last == (version{s.set.Generation, w.Generation}) {
		return w.Name + ": the pod that replaced the last one lacks the sidecars too: none is evicted until the " +
			"workload or the SidecarSet is changed", nil
	}
	return r.probe(ctx, s, pod, w)
}

// probe asks the API server, by a dry run, whether a new pod like this one gets the current sidecars. It returns why
// not, "" if it does. An eviction while the webhook is away would only make another pod without.
func (r *Reconciler) probe(
	ctx context.Context, s *scope, pod *corev1.Pod, w *rollout.Workload,
) (string, error) {
	whole := &corev1.Pod{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(pod), whole); apierrors.IsNotFound(err) {
		return "it is gone", nil
	} else if err != nil {
		return "", fmt.Errorf("read pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	like := rollout.Like(whole, w)
	err := r.Client.Create(ctx, like, client.DryRunAll)
	if err != nil {
		return "a new pod in its place would be refused: " + err.Error(), nil
	}
	if !rollout.Current(like, s.set.Name, &s.set.Spec, s.hashes) {
		return "a new pod in its place would not get the current sidecars, as while the webhook of the agent is away or if " +
			"the template of its workload is not selected", nil
	}
	return "", nil
}

// admit holds the pods of the plan that must not be evicted now: because of their workload, because a new pod would be
// no better, or because a budget refuses. It reports whether there are any.
func (r *Reconciler) admit(ctx context.Context, s *scope, granted map[types.UID]bool) (held bool, err error) {
	for _, pod := range s.plan.Recreate {
		if granted[pod.UID] {
			continue
		}
		why, err := r.refuses(ctx, s, pod)
		if err == nil && why == "" {
			why, err = r.disrupts(ctx, pod)
		}
		if err != nil {
			return false, err
		}
		switch {
		case why == othersFirst: // it was not asked about: it comes before those that were
			s.held[pod.UID], held = true, true
			s.Sooner(recreateInterval)
		case why != "":
			s.stay(pod, why, r.Clock.Now())
			held = true
		default:
			granted[pod.UID] = true
			delete(s.Memory.refused, pod.UID)
		}
	}
	return held, nil
}

// disrupts asks the budgets of a pod, and returns why one refuses, "" if none does. A PodUnavailableBudget records what
// it allows, so it decides after the API server: else a pod that a PodDisruptionBudget refuses would keep an allowance.
func (r *Reconciler) disrupts(ctx context.Context, pod *corev1.Pod) (string, error) {
	return askBoth(
		func(dryRun bool) (string, error) {
			if r.Disruptions == nil {
				return "", nil
			}
			refusals, err := r.Disruptions.Ask(ctx, pod.Namespace, policy.PubEvictOperation, []*corev1.Pod{pod}, dryRun)
			if err != nil {
				return "", fmt.Errorf("ask the budgets of namespace %s: %w", pod.Namespace, err)
			}
			if refusal := refusals[pod.Name]; refusal != nil {
				return refusal.Error(), nil
			}
			return "", nil
		},
		func() string { return unwanted(r.evictOne(ctx, pod, client.DryRunAll)) },
	)
}

// askBoth asks the PodUnavailableBudgets and, by a dry run, the API server. A refusal of the former is asked for once
// more: then they record that the pod waits.
func askBoth(budgets func(dryRun bool) (string, error), server func() string) (string, error) {
	why, err := budgets(true)
	if err != nil {
		return "", err
	}
	if why != "" {
		_, err = budgets(false)
		return why, err
	}
	if why = server(); why != "" {
		return why, nil
	}
	return budgets(false)
}

// unwanted returns why the API server does not evict a pod, "" for no error.
func unwanted(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.DeadlineExceeded):
		return "the API server has not decided about its eviction, as while its disruption budget is being processed"
	}
	return strings.TrimSuffix(err.Error(), ".") // names the budget
}

// evict evicts the pods of the plan. One that a PodDisruptionBudget refuses waits.
func (r *Reconciler) evict(ctx context.Context, s *scope) {
	for _, pod := range s.plan.Recreate {
		before := r.evicted(s, pod)
		err := r.evictOne(ctx, pod)
		switch {
		case apierrors.IsTooManyRequests(err):
			s.stay(pod, unwanted(err), r.Clock.Now())
			continue
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			s.Sooner(podDelay)
			continue
		case errors.Is(err, context.DeadlineExceeded):
			s.stay(pod, unwanted(err), r.Clock.Now())
		case err != nil:
			s.stay(pod, unwanted(err), r.Clock.Now())
			s.Fail(failureUpdate, fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err))
			continue
		default:
			s.evicted, s.worked = append(s.evicted, pod.Namespace+"/"+pod.Name), true
			s.Sooner(askAgain)
		}
		if s.Memory.evicted == nil {
			s.Memory.evicted = map[types.UID]eviction{}
		}
		s.Memory.evicted[before.owner.UID] = before
	}
}

// evicted returns what is remembered of an eviction that begins now.
func (r *Reconciler) evicted(s *scope, pod *corev1.Pod) eviction {
	e := eviction{pod: client.ObjectKeyFromObject(pod), uid: pod.UID, at: r.Clock.Now(), owner: *rollout.Owner(pod),
		hash: s.hashes.All, known: map[types.UID]bool{}}
	if w := s.workloads[e.owner.UID]; w != nil {
		e.version = version{s.set.Generation, w.Generation}
	}
	set, err := r.Pods.Observe(e.owner.UID, nil)
	if err != nil {
		e.hash = "" // nothing is said about whether it has helped
	}
	for _, pod := range set.Active {
		e.known[pod.UID] = true
	}
	return e
}

func (r *Reconciler) evictOne(
	ctx context.Context, pod *corev1.Pod, options ...client.SubResourceCreateOption,
) error {
	ctx, cancel := context.WithTimeout(ctx, evictionTimeout)
	defer cancel()
	return r.Client.SubResource("eviction").Create(ctx, pod.DeepCopy(), &policyv1.Eviction{
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	}, options...)
}

// recreateInterval is how often workloads are asked whether one of their pods may go. Each time costs requests.
const recreateInterval = 2 * time.Second

// due reports whether pods may be evicted in this pass.
func (s *scope) due(now time.Time) bool {
	wait := s.Memory.recreated.Add(recreateInterval).Sub(now)
	if wait > 0 {
		s.Sooner(wait)
	}
	return wait <= 0
}
