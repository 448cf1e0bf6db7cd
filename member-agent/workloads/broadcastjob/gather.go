package broadcastjob

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/completions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/pernode"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// roomEvery is how often nodes that are too small for the pod are looked at again: no event tells that one has grown.
const roomEvery = time.Minute

// gather reads what the plan needs: pods, nodes, and what the checks of the batch find. What is wrong with the spec
// becomes s.Stalled.
func (r *Reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	s.facts = Facts{Job: s.job, Progress: progressOf(&s.job.Status), Budget: s.Budget, Now: r.Clock.Now()}
	selector, err := metav1.LabelSelectorAsSelector(selectorOf(s.job))
	if err != nil {
		return false, fmt.Errorf("read the selector of its pods: %w", err)
	}
	// Pods whose labels were changed stay the job's: another pod beside them would touch their nodes again.
	set, err := r.Pods.Observe(s.job.UID, nil)
	if err != nil {
		return false, err
	}
	s.facts.divide(set)
	if s.Leaving != nil {
		return true, nil
	}
	if adopted, err := r.Adopt(ctx, s.pass, selector); workload.Refused(err) {
		s.Fail(failedUpdate, err)
	} else if err != nil || adopted {
		return false, err
	}
	s.facts.Invalid = s.Memory.invalidChecks(s.job)
	if s.Stalled = s.facts.know(r.Nodes); s.facts.Fitness[pernode.TooSmall] > 0 {
		s.Sooner(roomEvery)
	}
	s.Memory.looks.of(s.job, s.facts.Progress)
	s.facts.Over = s.Memory.looks.over
	if err := r.countRestarts(s); err != nil {
		return false, err
	}
	r.look(ctx, s)
	return true, nil
}

// divide divides the pods into those of the job and those of checks.
func (f *Facts) divide(set podset.Set) {
	for _, list := range [][]*corev1.Pod{set.Active, set.Ended, set.Terminating} {
		for _, pod := range list {
			switch _, isCheck := pod.Labels[v1beta1.LabelBatchCheck]; {
			case podset.NodeOf(pod) == "": // adopted, and not scheduled yet
			case isCheck:
				f.CheckPods = append(f.CheckPods, pod)
			default:
				f.Pods = append(f.Pods, pod)
			}
		}
	}
	byNode := func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(podset.NodeOf(a), podset.NodeOf(b)), strings.Compare(a.Name, b.Name))
	}
	slices.SortFunc(f.Pods, byNode)
	slices.SortFunc(f.CheckPods, byNode)
}

// know finds out what follows from the spec, the pods and the nodes. The cause says what is wrong with the spec.
func (f *Facts) know(nodes func() []*corev1.Node) (cause *conditions.Cause) {
	if f.Progress.Ended.IsZero() {
		if cause = templateMistake(f.Job); cause == nil && f.Invalid != "" {
			cause = &conditions.Cause{Reason: reasonInvalidCheck, Message: f.Invalid}
		}
		if cause == nil {
			cause = f.fit(nodes())
		}
	}
	if limits := f.complete(); cause == nil {
		cause = limits
	}
	f.Stalled = cause != nil
	f.Policy.Endless = f.Policy.Endless || f.Stalled // nodes that are not known may be left
	return cause
}

// fit finds out which nodes fit the template. The cause says what is wrong with the template's affinity.
func (f *Facts) fit(nodes []*corev1.Node) *conditions.Cause {
	fit, orderBy := pernode.FitOfJob(&f.Job.Spec.Template.Spec), ""
	if batches := batchesOf(f.Job); batches != nil {
		orderBy = batches.OrderBy
	}
	known := make([]completions.Node, 0, len(nodes))
	for _, node := range nodes {
		fitness, err := fit.Of(node)
		if err != nil {
			return &conditions.Cause{Reason: workload.ReasonInvalidTemplate, Message: fmt.Sprintf(
				"template.spec.affinity.nodeAffinity cannot be used, so that nothing says which nodes fit; correct it: %v", err)}
		}
		known = append(known, completions.Node{Name: node.Name, Fits: fitness == pernode.Fits, Order: node.Labels[orderBy],
			Created: node.CreationTimestamp.Time})
		f.Fitness[fitness]++
	}
	f.Nodes = known
	return nil
}

// complete adds what follows from pods and nodes. Without nodes, as after the end of the job, those of its pods are
// known, and no other one. The cause says what is wrong with the limits.
func (f *Facts) complete() (cause *conditions.Cause) {
	if f.Nodes == nil {
		for _, pod := range f.Pods {
			if node := podset.NodeOf(pod); len(f.Nodes) == 0 || f.Nodes[len(f.Nodes)-1].Name != node {
				f.Nodes = append(f.Nodes, completions.Node{Name: node, Fits: true})
			}
		}
	}
	for _, pod := range f.Pods {
		f.on = append(f.on, observe(pod))
	}
	f.Policy, cause = policy(f.Job, completions.Desired(f.Nodes, f.on))
	f.obey()
	return cause
}

// observe translates a pod for package completions.
func observe(pod *corev1.Pod) completions.Pod {
	on := completions.Pod{Name: pod.Name, Node: podset.NodeOf(pod), Created: pod.CreationTimestamp.Time}
	on.Batch = batchOf(pod)
	if pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure {
		on.Restarts = restartsOf(pod)
	}
	switch {
	case pod.DeletionTimestamp != nil:
		on.State = completions.Terminating
	case pod.Status.Phase == corev1.PodSucceeded:
		on.State = completions.Succeeded
	case pod.Status.Phase == corev1.PodFailed:
		on.State = completions.Failed
	case pod.Status.Phase == corev1.PodRunning, hasBegun(pod):
		on.State = completions.Running
	}
	return on
}

// hasBegun reports whether a container of a pending pod has begun: an init container, or one of several.
func hasBegun(pod *corev1.Pod) bool {
	if pod.Status.StartTime == nil {
		return false // the kubelet has not reported yet
	}
	begun := func(s corev1.ContainerStatus) bool {
		return s.RestartCount > 0 || s.State.Running != nil || s.State.Terminated != nil
	}
	// The cache has only those of init containers that restarted, or wait: see podset.Slim.
	init := pod.Status.InitContainerStatuses
	return len(init) < len(pod.Spec.InitContainers) || slices.ContainsFunc(init, begun) ||
		slices.ContainsFunc(pod.Status.ContainerStatuses, begun)
}

// batchOf returns the number of the batch that the pod is of, 0 for none.
func batchOf(pod *corev1.Pod) int {
	number, _ := strconv.Atoi(pod.Labels[v1beta1.LabelBatch]) // without a number it is of none
	return number
}
