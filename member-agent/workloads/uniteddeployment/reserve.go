package uniteddeployment

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// LabelReservedPod is on a pod that waits, or once waited, while others run in its place; autoscalers do not count
// those with the value true. As published.
const LabelReservedPod = "apps.kruise.io/united-deployment-reserved-pod"

// The values of LabelReservedPod.
const (
	reservedValue = "true"
	releasedValue = "false"
)

// What may be unavailable in a rollout where the template does not say, as the APIs of the children have it.
const (
	cloneSetShare   = "20%"
	deploymentShare = "25%"
)

// mark is a pod that gets LabelReservedPod with this value.
type mark struct {
	pod   *corev1.Pod
	value string
}

// reservation says which pods of a subset are reserved.
type reservation struct {
	pods  int32         // that are reserved once the marks are made
	ready int32         // of these
	marks []mark        // to be made
	next  time.Duration // until another pod is reserved or released; 0 if none waits
}

// reserve decides which pods of a child that is to have replicas of them are reserved. A pod becomes it when it is
// stuck, or when it has no node yet and its subset is closed; as many as the child has too many, as during a surge, are
// left out. It stays so until it has been ready for as long as the strategy says. was is how many of the subset were
// reserved at the last pass: where an update replaces them, new pods take their place that the scheduler has not looked
// at yet, or that do not even exist. known are our own marks, which the cache may not show yet.
func reserve(pods []*corev1.Pod, replicas, was int32, known map[types.UID]string, s *schedule,
	now time.Time) reservation {
	var r reservation
	var stuck, waiting, others []*corev1.Pod
	released := int32(0)
	for _, pod := range pods {
		value, ok := known[pod.UID]
		if !ok {
			value = pod.Labels[LabelReservedPod]
		}
		is, after := spread.Stuck(pod, s.critical, now)
		switch {
		case value == reservedValue:
			missing, ready := readyFor(pod, s.closed, now)
			if ready && missing <= 0 {
				r.marks = append(r.marks, mark{pod, releasedValue})
				released++
				continue
			}
			r.next = podstate.Sooner(r.next, missing)
			r.pods++
			if ready {
				r.ready++
			}
		case is:
			stuck = append(stuck, pod)
		case podstate.Unschedulable(pod):
			waiting = append(waiting, pod)
			r.next = podstate.Sooner(r.next, after)
		case !podstate.Ready(pod):
			others = append(others, pod)
		}
	}
	if was > 0 || r.pods > 0 || len(stuck) > 0 {
		stuck = append(stuck, waiting...)
	}
	// Pods without a node come first: one that has a node may be another pod that is updated.
	slices.SortStableFunc(others, func(a, b *corev1.Pod) int {
		return cmp.Compare(len(a.Spec.NodeName), len(b.Spec.NodeName))
	})
	room := int(replicas) - len(pods)
	surplus := max(0, -room)
	others, surplus = others[:max(0, len(others)-surplus)], max(0, surplus-len(others))
	stuck = stuck[:max(0, len(stuck)-surplus)]
	replaced := max(0, int(min(was-released, replicas)-r.pods)-len(stuck))
	stuck = append(stuck, others[:min(len(others), replaced)]...)
	for _, pod := range stuck {
		r.marks = append(r.marks, mark{pod, reservedValue})
		r.pods++
	}
	r.pods += int32(min(max(0, replaced-len(others)), max(0, room)))
	return r
}

// release takes the mark off pods that were reserved by a strategy that is not in force any more.
func release(pods []*corev1.Pod, known map[types.UID]string) []mark {
	var marks []mark
	for _, pod := range pods {
		if pod.Labels[LabelReservedPod] == reservedValue && known[pod.UID] != releasedValue {
			marks = append(marks, mark{pod, releasedValue})
		}
	}
	return marks
}

// readyFor reports whether the pod is ready, and how much is missing until it has been for so long.
func readyFor(pod *corev1.Pod, long time.Duration, now time.Time) (missing time.Duration, ready bool) {
	if !podstate.Ready(pod) {
		return 0, false
	}
	since := podstate.Condition(pod, corev1.PodReady).LastTransitionTime
	return since.Add(long).Sub(now), true
}

// allowReserved returns how many pods of a child may be unavailable in a rollout while some are reserved, which are not
// available either: what value says of the other pods, a percentage rounded up so that a rollout goes on, and the
// reserved ones. Of those that are ready, or that the rollout itself may have made reserved, only as many count as
// others serve in their place, so that it never takes more than value from those that serve; what the child may do
// already stays. It returns value where none is reserved, or where it cannot be read: then the child's controller says
// so.
func allowReserved(value *intstr.IntOrString, share string, o order) *intstr.IntOrString {
	if o.reserved == 0 {
		return value
	}
	if value == nil {
		value = new(intstr.FromString(share))
	}
	most, err := unavailable(value, o.replicas, o.waiting+min(o.covered, o.reserved-o.waiting, o.replicas-o.waiting))
	if err != nil {
		return value
	}
	if !o.updating {
		return new(intstr.FromInt32(most))
	}
	allowed, _ := unavailable(value, o.replicas, min(o.covered, o.reserved)) // it could be read before
	if has := liveUnavailable(o.live.object); has != nil && has.Type == intstr.Int {
		allowed = max(allowed, has.IntVal)
	}
	return new(intstr.FromInt32(min(allowed, most)))
}

// unavailable returns what value allows of replicas pods beside those that are reserved, and these.
func unavailable(value *intstr.IntOrString, replicas, reserved int32) (int32, error) {
	allowed, err := budget.Scaled(*value, max(0, replicas-reserved), budget.Up)
	return allowed + reserved, err
}

func allowReservedInCloneSet(spec *kruise.CloneSetSpec, o order) {
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil {
		rolling.MaxUnavailable = allowReserved(rolling.MaxUnavailable, cloneSetShare, o)
	}
}

func allowReservedInDeployment(spec *appsv1.DeploymentSpec, o order) {
	if o.reserved == 0 || spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return
	}
	if spec.Strategy.RollingUpdate == nil {
		spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
	}
	rolling := spec.Strategy.RollingUpdate
	rolling.MaxUnavailable = allowReserved(rolling.MaxUnavailable, deploymentShare, o)
}

// cover finds how many of the reserved pods of each subset others serve in place of, those of the first subsets first.
// A subset that shrinks gives up waiting pods first. A reserved pod that is ready serves as well, as long as fewer than
// n do.
func (p *plan) cover(now []*child, n int32) {
	standIns, spare := int32(0), -n
	for i := range p.subsets {
		if s := &p.subsets[i]; now[i] != nil {
			available := min(now[i].pods.available, s.desired)
			standIns += max(0, available-s.plain)
			spare += available
		}
	}
	// Some replace pods that closed subsets do not have at all.
	for i := range p.subsets {
		standIns -= max(0, p.subsets[i].plain-p.subsets[i].desired)
	}
	standIns = max(0, standIns)
	for i := range p.subsets {
		s := &p.subsets[i]
		if now[i] != nil {
			s.waiting = max(0, s.waiting-max(0, now[i].replicas-s.desired))
		}
		s.covered = min(s.reserved, standIns, s.waiting+max(0, spare))
		standIns -= s.covered
		spare -= max(0, s.covered-s.waiting)
	}
}

// updating reports whether pods of a child are being updated, or are about to.
func (s *subsetPlan) updating(revision string) bool {
	live := s.live
	return live != nil && (live.revision != revision || !live.observed ||
		live.pods.updated < live.pods.replicas-s.partition)
}

// loose reports whether the child's controller may still take down more pods than the reserved ones let it, because it
// has not seen yet that pods were released. Until it has, its ready pods replace no others.
func loose(o *observed, live *child, reserved int32) bool {
	if !seen(live, o.known) {
		return true
	}
	value, share, has := o.templateUnavailable(), cloneSetShare, liveUnavailable(live.object)
	if live.kind == deploymentKind {
		share = deploymentShare
	}
	if has == nil || has.Type != intstr.Int {
		return false
	}
	if value == nil {
		value = new(intstr.FromString(share))
	}
	most, err := unavailable(value, live.replicas, reserved)
	return err == nil && has.IntVal > most
}

// templateUnavailable returns maxUnavailable of the template, nil where it has none.
func (o *observed) templateUnavailable() *intstr.IntOrString {
	template := &o.ud.Spec.Template
	switch {
	case template.CloneSetTemplate != nil:
		return cloneSetUnavailable(&template.CloneSetTemplate.Spec)
	case template.DeploymentTemplate != nil:
		return deploymentUnavailable(&template.DeploymentTemplate.Spec.DeploymentSpec)
	case template.AdvancedStatefulSetTemplate != nil:
		return advancedUnavailable(&template.AdvancedStatefulSetTemplate.Spec)
	}
	return nil
}

// liveUnavailable returns maxUnavailable of a child, nil where it has none.
func liveUnavailable(object client.Object) *intstr.IntOrString {
	switch o := object.(type) {
	case *kruise.CloneSet:
		return cloneSetUnavailable(&o.Spec)
	case *appsv1.Deployment:
		return deploymentUnavailable(&o.Spec)
	case *kruise.StatefulSet:
		return advancedUnavailable(&o.Spec)
	}
	return nil
}

func cloneSetUnavailable(spec *kruise.CloneSetSpec) *intstr.IntOrString {
	if spec.UpdateStrategy.RollingUpdate == nil {
		return nil
	}
	return spec.UpdateStrategy.RollingUpdate.MaxUnavailable
}

func advancedUnavailable(spec *kruise.StatefulSetSpec) *intstr.IntOrString {
	if spec.UpdateStrategy.RollingUpdate == nil {
		return nil
	}
	return spec.UpdateStrategy.RollingUpdate.MaxUnavailable
}

func deploymentUnavailable(spec *appsv1.DeploymentSpec) *intstr.IntOrString {
	if spec.Strategy.RollingUpdate == nil {
		return nil
	}
	return spec.Strategy.RollingUpdate.MaxUnavailable
}
