package admission

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
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// podHandler answers the API server about pods that are created. It reads the cache only, and it admits every pod.
type podHandler struct {
	reader     client.Reader
	workloads  workloads
	book       *book
	synced     func() bool
	federated  func(ctx context.Context, namespace string) (bool, error)
	clock      clock.PassiveClock
	admissions *prometheus.CounterVec
	log        logr.Logger
	// patience is how long a pod waits for the cache to show its workload as the workload's controller saw it.
	patience time.Duration
}

// verdict is what is to become of a pod.
type verdict struct {
	outcome outcome
	// change is the answer that changes the pod; nil if it stays as it is.
	change *admission.Response
}

// Handle admits the pod, with a subset where a WorkloadSpread gives it one. Whatever goes wrong, the pod is admitted as it is: a
// pod in the wrong place is put right later, one that is refused is an outage.
func (h *podHandler) Handle(ctx context.Context, request admission.Request) (response admission.Response) {
	log := h.log.WithValues("namespace", request.Namespace, "pod", request.Name, "request", request.UID)
	defer func() {
		if p := recover(); p != nil {
			log.Error(fmt.Errorf("panic: %v", p), "admitted a pod without a subset")
			h.admissions.WithLabelValues(string(outcomeFailed)).Inc()
			response = admission.Allowed("")
		}
	}()
	v, err := h.judge(ctx, &request.AdmissionRequest)
	if err != nil {
		log.Error(err, "admitted a pod without a subset", "outcome", v.outcome)
	}
	h.admissions.WithLabelValues(string(v.outcome)).Inc()
	if v.change != nil {
		return *v.change
	}
	return admission.Allowed("")
}

// judge decides about the pod. An error says why a pod that a WorkloadSpread may be for gets nothing from it.
func (h *podHandler) judge(ctx context.Context, request *admissionv1.AdmissionRequest) (verdict, error) {
	if request.Operation != admissionv1.Create || request.Kind.Kind != "Pod" || request.SubResource != "" {
		return verdict{outcome: outcomeForeign}, nil
	}
	// A read from a cache that is not filled yet would wait for it, and the pod with it.
	if !h.synced() {
		return verdict{outcome: outcomeNotSynced}, errors.New("this replica has just started and does not know the cluster yet")
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
		return verdict{outcome: outcomeFailed}, fmt.Errorf("read the pod: %w", err)
	}
	pod.Namespace = request.Namespace
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || !ownsSpreadPods(owner) {
		return verdict{outcome: outcomeForeign}, nil
	}
	var list v1beta1.WorkloadSpreadList
	if err := h.reader.List(ctx, &list, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return verdict{outcome: outcomeFailed}, fmt.Errorf("list WorkloadSpreads: %w", err)
	}
	if len(list.Items) == 0 {
		return verdict{outcome: outcomeForeign}, nil
	}
	if h.federated != nil {
		if federated, err := h.federated(ctx, pod.Namespace); err != nil {
			return verdict{outcome: outcomeFailed}, fmt.Errorf("ask whether namespace %s is federated: %w", pod.Namespace, err)
		} else if federated {
			return verdict{outcome: outcomeForeign}, nil // the hub's business
		}
	}
	from, err := h.workloads.of(ctx, pod, owner)
	if err != nil {
		return verdict{outcome: outcomeFailed}, err
	}
	ws := ruling(list.Items, from.targets)
	if ws == nil {
		return verdict{outcome: outcomeForeign}, nil
	}
	return h.place(ctx, request, &newcomer{pod: pod, owner: owner, origin: from, ws: ws, target: spread.TargetOf(ws)})
}

// ruling returns the WorkloadSpread that holds for pods of these targets; nil if there is none. That of a Deployment goes before
// one of its ReplicaSets; of those of one target the oldest holds.
func ruling(spreads []v1beta1.WorkloadSpread, targets []spread.Target) *v1beta1.WorkloadSpread {
	var rivals []*v1beta1.WorkloadSpread
	for i := range spreads {
		target := spread.TargetOf(&spreads[i])
		if !slices.Contains(targets, target) {
			continue
		}
		if len(rivals) > 0 && target.Kind != rivals[0].Spec.TargetReference.Kind {
			if target.Kind != kindDeployment {
				continue
			}
			rivals = nil
		}
		rivals = append(rivals, &spreads[i])
	}
	return spread.Ruling(rivals)
}

// newcomer is a pod that is to be created, with the WorkloadSpread that holds for it.
type newcomer struct {
	pod   *corev1.Pod
	owner *metav1.OwnerReference
	origin
	ws     *v1beta1.WorkloadSpread
	target spread.Target
}

// place finds the subset of the pod and stamps it.
func (h *podHandler) place(ctx context.Context, request *admissionv1.AdmissionRequest, n *newcomer) (verdict, error) {
	if subset, _ := spread.Assigned(n.pod, n.ws); subset != "" {
		return verdict{outcome: outcomeAssigned}, nil
	}
	if hasPercentages(n.ws) && countsElsewhere(n.ws) {
		return verdict{outcome: outcomeUnknownTarget}, fmt.Errorf("WorkloadSpread %s has percentages of numbers that targetFilter.replicasPathList names, which are not known here", n.ws.Name)
	}
	uid := ""
	if n.pod.Name == "" {
		uid = string(request.UID)
	}
	id := flightID(n.pod.Namespace, n.pod.Name, uid)
	dry := request.DryRun != nil && *request.DryRun
	subset, result, err := h.subset(ctx, n, id, dry)
	if result != outcomeSpread && result != outcomeNoRoom {
		return verdict{outcome: result}, err
	}
	change, err := patchOf(request.Object.Raw, func(pod *corev1.Pod) error { return stamp(pod, n, subset, uid) })
	if err != nil {
		h.book.release(id)
		return verdict{outcome: outcomeFailed}, fmt.Errorf("stamp subset %q of WorkloadSpread %s: %w", subset, n.ws.Name, err)
	}
	return verdict{outcome: result, change: change}, nil
}

// subset decides in which subset the pod starts, and keeps a place in it. The cache may be a moment behind the controller that makes
// the pod: the workload has just been made or scaled out, or a pod that this one replaces has just gone. Where that shows, it is
// worth a wait; a cache that does not catch up in time decides as it is.
func (h *podHandler) subset(ctx context.Context, n *newcomer, id string, dry bool) (subset string, result outcome, err error) {
	const often = 5 * time.Millisecond
	decide := func(last bool) (done bool) {
		var behind bool
		subset, result, behind, err = h.decide(ctx, n, id, dry, last)
		return !behind
	}
	waited := wait.PollUntilContextTimeout(ctx, often, h.patience, true, func(context.Context) (bool, error) { return decide(false), nil })
	if waited != nil {
		decide(true)
	}
	return subset, result, err
}

// decide is one try of subset. behind says that the cache cannot be what the workload's controller saw; then no place is kept, unless
// this is the last try.
func (h *podHandler) decide(ctx context.Context, n *newcomer, id string, dry, last bool) (subset string, result outcome, behind bool, err error) {
	workload, err := h.workloads.get(ctx, n.pod.Namespace, n.target)
	if err != nil {
		return "", outcomeFailed, false, err
	}
	if workload == nil && needsWorkload(n.ws, n.target) {
		return "", outcomeUnknownTarget, true, fmt.Errorf("%s %s, which WorkloadSpread %s names, is not in the cache yet", n.target.Kind, n.target.Name, n.ws.Name)
	}
	size := scaleIn(workload)
	rule, err := spread.Resolve(n.ws, size.replicas)
	if err != nil {
		return "", outcomeInvalid, false, fmt.Errorf("use WorkloadSpread %s: %w", n.ws.Name, err)
	}
	if !rule.Selects(n.pod) {
		return "", outcomeForeign, false, nil
	}
	full := func(pods int32) bool {
		behind = workload != nil && pods >= size.replicas && !last
		return behind
	}
	subset, ok := h.pick(rule, n, id, size.start, dry, full)
	if !ok {
		return "", outcomeNoRoom, behind, nil
	}
	return subset, outcomeSpread, false, nil
}

// patchOf returns the answer that makes the change.
func patchOf(raw []byte, change func(*corev1.Pod) error) (*admission.Response, error) {
	patched, err := graft(raw, change)
	if err != nil {
		return nil, err
	}
	response := admission.PatchResponseFromRaw(raw, patched)
	if !response.Allowed {
		return nil, fmt.Errorf("make a patch: %s", response.Result.Message)
	}
	return &response, nil
}

// pick returns the subset of the pod, and keeps a place for it where places are counted; a dry run takes none. full tells whether the
// workload has all its pods with so many: then its controller would not make this one, and no subset is returned. Ordinals do not
// depend on the number of pods.
func (h *podHandler) pick(rule spread.Rule, n *newcomer, id string, start int32, dry bool, full func(pods int32) bool) (string, bool) {
	if n.target.Ordinal() {
		ordinal, ok := ordinalOf(n.pod)
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
	p := pageOf(n.pod, n.owner, n.ws.Name)
	if dry {
		return h.book.ask(p, h.clock.Now(), room)
	}
	return h.book.reserve(p, id, h.clock.Now(), room)
}

// needsWorkload tells whether the pod's subset depends on what the workload says: on its replicas, or on its first ordinal.
func needsWorkload(ws *v1beta1.WorkloadSpread, t spread.Target) bool {
	return t.Ordinal() || hasPercentages(ws)
}

// hasPercentages tells whether caps depend on the number of replicas.
func hasPercentages(ws *v1beta1.WorkloadSpread) bool {
	return slices.ContainsFunc(ws.Spec.Subsets, func(s v1beta1.WorkloadSpreadSubset) bool {
		return s.MaxReplicas != nil && s.MaxReplicas.Type == intstr.String
	})
}

// countsElsewhere tells whether the number of replicas is not the one that the kind has.
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

// stamp gives the pod the subset; "" is none. A pod without a name is marked by the uid, so that it is known again when the
// cache shows it.
func stamp(pod *corev1.Pod, n *newcomer, subset, uid string) error {
	if err := spread.Stamp(pod, n.ws, subset, n.selector); err != nil {
		return err
	}
	if subset == "" || uid == "" {
		return nil
	}
	mark, err := json.Marshal(v1beta1.MatchedWorkloadSpread{Name: n.ws.Name, Subset: subset, UID: uid})
	if err != nil {
		return fmt.Errorf("write the annotation: %w", err)
	}
	pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread] = string(mark)
	return nil
}
