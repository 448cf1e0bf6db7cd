package statefulset

import (
	"context"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podname"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workload/ahead"
	"github.com/flotilla-dev/flotilla/topology/handover"
)

// apply carries out the plan.
func (r *Reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	work := workload.Work{Actions: s.plan.Actions, Claims: s.plan.Claims, InPlace: inplace.Options{NameOnly: true}}
	if strategy := rollingOf(s.set).InPlaceUpdateStrategy; strategy != nil {
		work.InPlace.Grace = time.Duration(strategy.GracePeriodSeconds) * time.Second
	}
	s.Fail(string(v1beta1.StatefulSetConditionFailedCreatePod), s.plan.Blocked)
	s.done = r.Act(ctx, s.pass, work, func(pace workload.Pace) int { return r.create(ctx, s, pace) })
	r.TurnAway(s.pass, nil)
	grown, err := write.SlowStart(ctx, write.Steps{N: len(s.plan.Grow), Limit: write.InFlight}, func(i int) error {
		return r.Writer.GrowClaim(ctx, s.set.UID, s.plan.Grow[i], v1beta1.AnnotationOwnedByStatefulSet, s.set.Name)
	})
	s.Fail(string(v1beta1.StatefulSetConditionFailedUpdatePod), err)
	if grown > 0 {
		r.Events.Eventf(s.set, nil, corev1.EventTypeNormal, "SuccessfulResize", "Update", "resized %d claims", grown)
	}
	r.pullAhead(ctx, s)
	return true, nil
}

// pullAhead has the nodes of pods that are to be updated in place pull the new images.
func (r *Reconciler) pullAhead(ctx context.Context, s *scope) {
	rolling, limits := rollingOf(s.set), s.facts.Limits
	wish := ahead.Of(s.set, rolling.InPlaceUpdateStrategy)
	wish.Kind, wish.Selector, wish.Revisions = v1beta1.StatefulSetKind, s.set.Spec.Selector, s.facts.Revisions
	wish.Pods = s.facts.Pods.Active
	wish.InPlace = rolling.PodUpdatePolicy == v1beta1.InPlaceIfPossiblePodUpdatePolicy ||
		rolling.PodUpdatePolicy == v1beta1.InPlaceOnlyPodUpdatePolicy
	wish.AtOnce = limits.Partition == 0 && limits.MaxUnavailable >= limits.Replicas
	ahead.Pull(ctx, r.Controller, s.pass, &s.Memory.ahead, wish)
}

// create creates the pods of the plan, each after its claims.
func (r *Reconciler) create(ctx context.Context, s *scope, pace workload.Pace) int {
	if len(s.plan.Create) == 0 {
		return 0
	}
	given, err := handover.Given(s.set)
	if err != nil {
		s.Fail(string(v1beta1.StatefulSetConditionFailedCreatePod), err)
		return 0
	}
	now := r.Clock.Now()
	opened := r.Opening(s.pass, now)
	if opened == nil {
		return 0
	}
	created, err := write.SlowStart(ctx, pace(len(s.plan.Create), 1), func(i int) error {
		creation := s.plan.Create[i]
		id := strconv.Itoa(int(creation.Ordinal))
		provision := claimSet(s.set).For(creation.Revision.Template, "", nil)
		for _, claim := range provision.Missing(id, s.facts.Claim) {
			if err := r.Writer.CreateClaim(ctx, s.set.UID, claim); err != nil {
				return err
			}
		}
		pod := newPod(s.set, creation, now)
		provision.Attach(pod, id)
		handOver(pod, given[creation.Ordinal])
		err := r.CreatePod(ctx, s.pass, pod, opened)
		if apierrors.IsAlreadyExists(err) {
			return r.taken(ctx, pod, err)
		}
		return err
	})
	what := "the template"
	if s.facts.Spread != nil {
		what = "the template, or WorkloadSpread " + s.facts.Spread.Object.Name + " on top of it,"
	}
	r.CreateFailed(s.pass, err, what)
	return created
}

// taken says whose the pod is that has the name of the one to create: that of a workload of another kind, or no one's.
func (r *Reconciler) taken(ctx context.Context, pod *corev1.Pod, err error) error {
	key, have := client.ObjectKeyFromObject(pod), &corev1.Pod{}
	if r.Live.Get(ctx, key, have) != nil {
		return err
	}
	owner := "has no controller"
	if ref := metav1.GetControllerOfNoCopy(have); ref != nil {
		owner = fmt.Sprintf("belongs to %s %s of %s", ref.Kind, ref.Name, ref.APIVersion)
	}
	return fmt.Errorf("create pod %s: a pod of this name exists and %s; delete it, or rename its workload: %w", key, owner,
		err)
}

// newPod returns the pod, ready to be created, without the volumes of its claims.
func newPod(set *v1beta1.StatefulSet, c Creation, now time.Time) *corev1.Pod {
	name := podname.New(set.Name, c.Ordinal)
	pod := workload.WithGates(
		workload.NewPod(set, v1beta1.StatefulSetKind, name, c.Revision, history.FullForm, set.Spec.Lifecycle, now))
	pod.Labels[appsv1.StatefulSetPodNameLabel] = name
	pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(int(c.Ordinal))
	pod.Spec.Hostname, pod.Spec.Subdomain = name, set.Spec.ServiceName
	return pod
}

// trim deletes revisions that no pod uses, beyond the limit of the history.
func (r *Reconciler) trim(ctx context.Context, s *scope) (bool, error) {
	return r.Unused(ctx, s.pass, &s.facts.Revisions, s.facts.Pods, s.set.Spec.RevisionHistoryLimit)
}
