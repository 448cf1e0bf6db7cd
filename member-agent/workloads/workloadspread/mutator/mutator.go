package mutator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// mutator spreads new pods. It reads the cache only, and it refuses no pod.
type mutator struct {
	reader     client.Reader
	workloads  workloads
	placements *placements
	synced     func() bool
	federated  func(ctx context.Context, namespace string) (bool, error)
	clock      clock.PassiveClock
	admissions *prometheus.CounterVec
	log        logr.Logger
}

// mutate gives the pod a subset where a WorkloadSpread applies to it. Whatever goes wrong, the pod starts as it is: a
// pod in the wrong place is corrected later, one that is refused is an outage. So there is no error.
func (m *mutator) mutate(ctx context.Context, request *admission.Request) error {
	log := m.log.WithValues("namespace", request.Namespace, "pod", request.Name, "request", request.UID)
	defer func() {
		if p := recover(); p != nil {
			log.Error(fmt.Errorf("panic: %v", p), "admitted a pod without a subset")
			m.admissions.WithLabelValues(string(outcomeFailed)).Inc()
		}
	}()
	result, err := m.spread(ctx, request)
	if err != nil {
		log.Error(err, "admitted a pod without a subset", "outcome", result)
	}
	m.admissions.WithLabelValues(string(result)).Inc()
	return nil
}

// spread decides about the pod and changes it. An error says why a pod to which a WorkloadSpread may apply stays as it
// is.
func (m *mutator) spread(ctx context.Context, request *admission.Request) (outcome, error) {
	// A read from a cache that is not filled yet would wait for it, and the pod with it.
	if !m.synced() {
		return outcomeNotSynced, errors.New("this replica has just started and its caches are not filled yet")
	}
	pod, err := request.Pod()
	if err != nil {
		return outcomeFailed, err
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || !ownsSpreadPods(owner) {
		return outcomeForeign, nil
	}
	var list v1beta1.WorkloadSpreadList
	if err := m.reader.List(ctx, &list, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return outcomeFailed, fmt.Errorf("list WorkloadSpreads: %w", err)
	}
	if len(list.Items) == 0 {
		return outcomeForeign, nil
	}
	if m.federated != nil {
		if federated, err := m.federated(ctx, pod.Namespace); err != nil {
			return outcomeFailed, fmt.Errorf("ask whether namespace %s is federated: %w", pod.Namespace, err)
		} else if federated {
			return outcomeForeign, nil // the hub decides there
		}
	}
	from, err := m.workloads.of(ctx, pod, owner)
	if err != nil {
		return outcomeFailed, err
	}
	ws := ruling(list.Items, from.targets)
	if ws == nil {
		return outcomeForeign, nil
	}
	return m.place(ctx, request, &podRequest{pod: pod, owner: owner, origin: from, ws: ws, target: spread.TargetOf(ws)})
}

// ruling returns the WorkloadSpread that applies to pods of these targets; nil if there is none. That of a Deployment
// goes before one of its ReplicaSets; of those of one target the oldest applies.
func ruling(spreads []v1beta1.WorkloadSpread, targets []spread.Target) *v1beta1.WorkloadSpread {
	var candidates []*v1beta1.WorkloadSpread
	for i := range spreads {
		target := spread.TargetOf(&spreads[i])
		if !slices.Contains(targets, target) {
			continue
		}
		if len(candidates) > 0 && target.Kind != candidates[0].Spec.TargetReference.Kind {
			if target.Kind != kindDeployment {
				continue
			}
			candidates = nil
		}
		candidates = append(candidates, &spreads[i])
	}
	return spread.Ruling(candidates)
}

// podRequest is a pod that is to be created, with the WorkloadSpread that applies to it.
type podRequest struct {
	pod   *corev1.Pod
	owner *metav1.OwnerReference
	origin
	ws     *v1beta1.WorkloadSpread
	target spread.Target
}

// place finds the subset of the pod and stamps it.
func (m *mutator) place(ctx context.Context, request *admission.Request, r *podRequest) (outcome, error) {
	if subset, _ := spread.Assigned(r.pod, r.ws); subset != "" {
		return outcomeAssigned, nil
	}
	if hasPercentages(r.ws) && countsElsewhere(r.ws) {
		return outcomeUnknownTarget, fmt.Errorf(
			"WorkloadSpread %s has percentages of numbers that targetFilter.replicasPathList names, which are not known here",
			r.ws.Name)
	}
	uid := ""
	if r.pod.Name == "" {
		uid = string(request.UID)
	}
	id := podID(r.pod.Namespace, r.pod.Name, uid)
	dry := request.DryRun != nil && *request.DryRun
	subset, result, err := m.subset(ctx, request, r, id, dry)
	if result != outcomeSpread && result != outcomeNoRoom {
		return result, err
	}
	if err := request.Change(func(pod *corev1.Pod) error { return stamp(pod, r, subset, uid) }); err != nil {
		m.placements.release(id)
		return outcomeFailed, fmt.Errorf("stamp subset %q of WorkloadSpread %s: %w", subset, r.ws.Name, err)
	}
	return result, nil
}

// subset decides in which subset the pod starts, and reserves a place in it. The cache may be behind the controller
// that creates the pod: the workload has just been created or scaled out, or a pod that this one replaces has just been
// deleted. Where that shows, it waits for the cache until ctx ends; a cache that has not caught up by then decides as
// it is.
func (m *mutator) subset(
	ctx context.Context, request *admission.Request, r *podRequest, id string, dry bool,
) (subset string, result outcome, err error) {
	const interval = 5 * time.Millisecond
	decide := func(last bool) (done bool) {
		var behind bool
		if subset, result, behind, err = m.decide(ctx, r, id, dry, last); behind {
			request.Waited()
		}
		return !behind
	}
	waited := wait.PollUntilContextCancel(ctx, interval, true, func(context.Context) (bool, error) {
		return decide(false), nil
	})
	if waited != nil {
		decide(true)
	}
	return subset, result, err
}

// decide is one try of subset. behind reports whether the cache cannot be what the workload's controller saw; then no
// place is reserved, unless this is the last try.
func (m *mutator) decide(
	ctx context.Context, r *podRequest, id string, dry, last bool,
) (subset string, result outcome, behind bool, err error) {
	workload, err := m.workloads.get(ctx, r.pod.Namespace, r.target)
	if err != nil {
		return "", outcomeFailed, false, err
	}
	if workload == nil && needsWorkload(r.ws, r.target) {
		return "", outcomeUnknownTarget, true, fmt.Errorf("%s %s, which WorkloadSpread %s names, is not in the cache yet",
			r.target.Kind, r.target.Name, r.ws.Name)
	}
	size := scaleIn(workload)
	rule, err := spread.Resolve(r.ws, size.replicas)
	if err != nil {
		return "", outcomeInvalid, false, fmt.Errorf("use WorkloadSpread %s: %w", r.ws.Name, err)
	}
	if !rule.Selects(r.pod) {
		return "", outcomeForeign, false, nil
	}
	full := func(pods int32) bool {
		behind = workload != nil && pods >= size.replicas && !last
		return behind
	}
	subset, ok := m.pick(rule, r, id, size.start, dry, full)
	if !ok {
		return "", outcomeNoRoom, behind, nil
	}
	return subset, outcomeSpread, false, nil
}

// pick returns the subset of the pod, and reserves a place in it where places are counted; a dry run reserves none.
// full reports whether the workload has all its pods with so many: then its controller would not create this one, and
// no subset is returned. Ordinals do not depend on the number of pods.
func (m *mutator) pick(
	rule spread.Rule, r *podRequest, id string, start int32, dry bool, full func(pods int32) bool,
) (string, bool) {
	if r.target.Ordinal() {
		ordinal, ok := ordinalOf(r.pod)
		if !ok || ordinal < start {
			return "", false
		}
		return rule.PickOrdinal(ordinal - start)
	}
	room := func(counts map[string]int32) (string, bool) {
		var pods int32
		for _, count := range counts {
			pods += count
		}
		if full(pods) {
			return "", false
		}
		return rule.Pick(counts)
	}
	g := groupOf(r.pod, r.owner, r.ws.Name)
	if dry {
		return m.placements.peek(g, m.clock.Now(), room)
	}
	return m.placements.reserve(g, id, m.clock.Now(), room)
}

// needsWorkload reports whether the pod's subset depends on what the workload says: on its replicas, or on its first
// ordinal.
func needsWorkload(ws *v1beta1.WorkloadSpread, t spread.Target) bool {
	return t.Ordinal() || hasPercentages(ws)
}

// hasPercentages reports whether caps depend on the number of replicas.
func hasPercentages(ws *v1beta1.WorkloadSpread) bool {
	return slices.ContainsFunc(ws.Spec.Subsets, func(s v1beta1.WorkloadSpreadSubset) bool {
		return s.MaxReplicas != nil && s.MaxReplicas.Type == intstr.String
	})
}

// countsElsewhere reports whether the number of replicas is not the one that the kind has.
func countsElsewhere(ws *v1beta1.WorkloadSpread) bool {
	return ws.Spec.TargetFilter != nil && len(ws.Spec.TargetFilter.ReplicasPathList) > 0
}

// ordinalOf returns the ordinal of a pod of a StatefulSet: its label, or the end of its name.
func ordinalOf(pod *corev1.Pod) (int32, bool) {
	text := pod.Labels[appsv1.PodIndexLabel]
	if text == "" {
		text = pod.Name[strings.LastIndex(pod.Name, "-")+1:]
	}
	ordinal, err := strconv.ParseInt(text, 10, 32)
	return int32(ordinal), err == nil && ordinal >= 0
}

// stamp gives the pod the subset; "" is none. A pod without a name is marked by the uid, so that it is known again when
// the cache shows it.
func stamp(pod *corev1.Pod, r *podRequest, subset, uid string) error {
	if err := spread.Stamp(pod, r.ws, subset, r.selector); err != nil {
		return err
	}
	if subset == "" || uid == "" {
		return nil
	}
	mark, err := json.Marshal(v1beta1.MatchedWorkloadSpread{Name: r.ws.Name, Subset: subset, UID: uid})
	if err != nil {
		return fmt.Errorf("write the annotation: %w", err)
	}
	pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread] = string(mark)
	return nil
}
