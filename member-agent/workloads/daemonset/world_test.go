package daemonset

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// newSet returns a DaemonSet for the nodes of pool "on".
func newSet(change ...func(*v1beta1.DaemonSet)) *v1beta1.DaemonSet {
	app := map[string]string{"app": "log"}
	set := &v1beta1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "log"},
		Spec: v1beta1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: v1beta1.NewPodTemplate(corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(app)},
				Spec: corev1.PodSpec{NodeSelector: map[string]string{"pool": "on"},
					Containers: []corev1.Container{{Name: "main", Image: "app:1"}}}}),
			UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateDaemonSet{}},
		},
	}
	for _, f := range change {
		f(set)
	}
	return set
}

// world is a DaemonSet with nodes and pods in memory.
type world struct {
	testing.TB
	set       *v1beta1.DaemonSet
	nodes     []*corev1.Node
	pods      []*corev1.Pod
	revisions []*appsv1.ControllerRevision
	memory    memory
	budget    workload.Budget
	now       time.Time
}

// newWorld returns a world with a node for each word of text, "<name>:<what it has>": a pod of the previous revision
// ("o") or of the newest one ("u"), in capitals one that is not ready; "f" is a pod that failed and "t" one that is
// terminating; "N" makes the node NotReady for a long time, "x" takes it out of the pool, "s" and "e" are taints
// NoSchedule and NoExecute, "c" the label of canaries.
func newWorld(t testing.TB, text string, change ...func(*v1beta1.DaemonSet)) *world {
	w := &world{TB: t, now: time.Unix(1_000_000, 0), set: newSet(change...)}
	w.set.UID = "set"
	previous := w.revise()
	if strings.ContainsAny(text, "oOuU") {
		w.set.Status.CurrentRevision = previous.Hash
		w.set.Spec.Template.Spec.Containers[0].Image = "app:2"
	}
	update := w.revise()
	for _, word := range strings.Fields(text) {
		name, has, _ := strings.Cut(word, ":")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "on"}}}
		w.nodes = append(w.nodes, node)
		for _, letter := range has {
			w.equip(node, letter, previous, update)
		}
	}
	return w
}

func (w *world) equip(node *corev1.Node, letter rune, previous, update workload.Revision) {
	taint := func(effect corev1.TaintEffect) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "dedicated", Effect: effect})
	}
	switch letter {
	case 'N':
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
			LastTransitionTime: metav1.NewTime(w.now.Add(-time.Hour))}}
	case 'x':
		node.Labels["pool"] = "off"
	case 'c':
		node.Labels["canary"] = "yes"
	case 's':
		taint(corev1.TaintEffectNoSchedule)
	case 'e':
		taint(corev1.TaintEffectNoExecute)
	default:
		revision := update
		if letter == 'o' || letter == 'O' {
			revision = previous
		}
		w.add(node.Name, revision, letter)
	}
}

// add gives a node a pod that was made an hour ago.
func (w *world) add(node string, revision workload.Revision, letter rune) {
	long := metav1.NewTime(w.now.Add(-time.Hour))
	pod := newPod(w.set, "", Creation{Node: node, Revision: revision}, long.Time)
	pod.Name, pod.CreationTimestamp, pod.Spec.NodeName = fmt.Sprintf("%s-%d", node, len(w.pods)), long, node
	pod.Status.Phase = corev1.PodRunning
	ready := corev1.ConditionTrue
	switch letter {
	case 'O', 'U':
		ready = corev1.ConditionFalse
	case 'f':
		pod.Status.Phase, ready = corev1.PodFailed, corev1.ConditionFalse
	case 't':
		pod.DeletionTimestamp = &metav1.Time{Time: w.now}
	}
	for _, condition := range []corev1.PodConditionType{v1beta1.InPlaceUpdateReady, lifecycle.KruisePodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: "True"})
	}
	pod.Status.Conditions = append(pod.Status.Conditions,
		corev1.PodCondition{Type: corev1.PodReady, Status: ready, LastTransitionTime: long})
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: image(pod), ImageID: "id", Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	w.pods = append(w.pods, pod)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// revise returns the revision of the template.
func (w *world) revise() workload.Revision {
	w.Helper()
	stored, err := history.Find(w.revisions, w.set.Spec.Template.PodTemplateSpec)
	w.must(err)
	if stored == nil {
		data, err := history.Encode(w.set.Spec.Template.PodTemplateSpec)
		w.must(err)
		stored = owner(w.set).New(data, int64(len(w.revisions)+1), nil)
		w.revisions = append(w.revisions, stored)
	}
	revision, err := workload.RevisionOf(stored)
	w.must(err)
	return revision
}

// facts gathers as gather.go does. The cause is what is wrong with the spec.
func (w *world) facts() (Facts, *conditions.Cause) {
	w.Helper()
	update := w.revise()
	f := Facts{Set: w.set, Budget: w.budget, Now: w.now,
		Revisions: workload.Revisions{Update: update, Current: update, Stored: w.revisions},
		RetryIn:   func(node string) time.Duration { return w.memory.backoff.left(node, w.now) }}
	if current := history.Named(w.revisions, w.set.Status.CurrentRevision); current != nil {
		var err error
		f.Current, err = workload.RevisionOf(current)
		w.must(err)
	}
	_, cause := f.read()
	for _, pod := range w.pods {
		switch {
		case pod.DeletionTimestamp != nil:
			f.Pods.Terminating = append(f.Pods.Terminating, pod)
		case podstate.Ended(pod):
			f.Pods.Ended = append(f.Pods.Ended, pod)
		default:
			f.Pods.Active = append(f.Pods.Active, pod)
		}
	}
	w.must(f.inferCurrent(revisionStatus(w.set, w.revisions)))
	if _, unfit := f.fit(w.nodes); cause == nil {
		cause = unfit
	}
	return f, cause
}

// plan plans once. It returns the plan and the status.
func (w *world) plan() (Plan, v1beta1.DaemonSetStatus) {
	w.Helper()
	f, cause := w.facts()
	s := &scope{pass: &pass{Object: w.set, Stalled: cause}, set: w.set, facts: f}
	if cause != nil {
		s.plan = observe(f)
		return s.plan, s.status()
	}
	var err error
	s.plan, err = Compute(f)
	w.must(err)
	return s.plan, s.status()
}

// describe returns what a plan does to which nodes.
func describe(plan Plan) string {
	var out []string
	for _, creation := range plan.Create {
		out = append(out, fmt.Sprintf("+%s:%s", creation.Node,
			strings.TrimPrefix(creation.Revision.Template.Spec.Containers[0].Image, "app:")))
	}
	for _, removal := range plan.Delete {
		out = append(out, fmt.Sprintf("-%s:%s", podset.NodeOf(removal.Pod), removal.Reason))
	}
	for _, u := range plan.Update {
		out = append(out, "~"+podset.NodeOf(u.Pod))
	}
	for _, step := range plan.Prepare {
		out = append(out, fmt.Sprintf("%s=%s", podset.NodeOf(step.Pod), step.Step.State))
	}
	return strings.Join(out, " ")
}

func condition(status v1beta1.DaemonSetStatus, name string) v1beta1.DaemonSetCondition {
	for _, c := range status.Conditions {
		if string(c.Type) == name {
			return c
		}
	}
	return v1beta1.DaemonSetCondition{}
}
