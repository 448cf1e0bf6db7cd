package statefulset

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podname"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

// world is a StatefulSet with pods and claims in memory: plans are carried out on it as the frame does.
type world struct {
	testing.TB
	set       *v1beta1.StatefulSet
	pods      []*corev1.Pod
	claims    []*corev1.PersistentVolumeClaim
	revisions []*appsv1.ControllerRevision
	budget    workload.Budget
	spread    *v1beta1.WorkloadSpread // nil if there is none
	now       time.Time
	made      int
	random    *rand.Rand
}

func newWorld(t testing.TB, replicas int32, change ...func(*v1beta1.StatefulSet)) *world {
	app := map[string]string{"app": "db"}
	w := &world{TB: t, now: time.Unix(1_000_000, 0), random: rand.New(rand.NewPCG(1, 1)), set: &v1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "set"},
		Spec: v1beta1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: app}, ServiceName: "db",
			Template: v1beta1.NewPodTemplate(corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app:1"}}}}),
			UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{
				RollingUpdate: &v1beta1.RollingUpdateStatefulSetStrategy{}},
		},
	}}
	for _, f := range change {
		f(w.set)
	}
	return w
}

func parallel(set *v1beta1.StatefulSet) { set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func inPlace(set *v1beta1.StatefulSet) {
	set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.InPlaceIfPossiblePodUpdatePolicy
}

func partition(n int32) func(*v1beta1.StatefulSet) {
	return func(set *v1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = &n }
}

func maxUnavailable(n int32) func(*v1beta1.StatefulSet) {
	return func(set *v1beta1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(n))
	}
}

func minReady(seconds int32) func(*v1beta1.StatefulSet) {
	return func(set *v1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.MinReadySeconds = &seconds }
}

func onDelete(set *v1beta1.StatefulSet) {
	set.Spec.UpdateStrategy = v1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
}

func withClaims(set *v1beta1.StatefulSet) {
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) image(image string) { w.set.Spec.Template.Spec.Containers[0].Image = image }

// revise returns the revision of the template.
func (w *world) revise() workload.Revision {
	w.Helper()
	stored, err := history.Find(w.revisions, w.set.Spec.Template.PodTemplateSpec)
	w.must(err)
	if stored == nil {
		data, err := history.Encode(w.set.Spec.Template.PodTemplateSpec)
		w.must(err)
		owner := history.Owner{Object: w.set, Kind: v1beta1.StatefulSetKind, Labels: w.set.Spec.Template.Labels}
		stored = owner.New(data, int64(len(w.revisions)+1), new(int32(0)))
		w.revisions = append(w.revisions, stored)
	}
	revision, err := workload.RevisionOf(stored)
	w.must(err)
	return revision
}

// facts gathers as gather.go does.
func (w *world) facts() Facts {
	w.Helper()
	limits, err := budget.Resolve(strategy(w.set), *w.set.Spec.Replicas)
	w.must(err)
	update := w.revise()
	f := Facts{Set: w.set, Limits: w.budget.Limits(limits), Budget: w.budget, Now: w.now, Claim: w.claim,
		Revisions: workload.Revisions{Update: update, Current: update, Stored: w.revisions}}
	if current := history.Named(w.revisions, w.set.Status.CurrentRevision); current != nil {
		f.Current, err = workload.RevisionOf(current)
		w.must(err)
	}
	start := int32(0)
	if w.set.Spec.Ordinals != nil {
		start = w.set.Spec.Ordinals.Start
	}
	f.Ordinals, err = ordinals.NewSet(start, *w.set.Spec.Replicas, w.set.Spec.ReserveOrdinals)
	w.must(err)
	if w.spread != nil {
		selector, err := metav1.LabelSelectorAsSelector(w.set.Spec.Selector)
		w.must(err)
		rule, err := spread.Resolve(w.spread, *w.set.Spec.Replicas)
		w.must(err)
		f.Spread = &Spread{Object: w.spread, Rule: rule, Selector: selector}
	}
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
	return f
}

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	i := slices.IndexFunc(w.claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return w.claims[i]
}

func (w *world) plan() Plan {
	w.Helper()
	plan, err := Compute(w.facts())
	w.must(err)
	return plan
}

func (w *world) patch(pod *corev1.Pod, patches ...[]byte) {
	w.Helper()
	for _, patch := range patches {
		if patch == nil {
			continue
		}
		before, err := json.Marshal(pod)
		w.must(err)
		after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
		w.must(err)
		*pod = corev1.Pod{}
		w.must(json.Unmarshal(after, pod))
	}
}

// pass plans once and carries the plan out. It returns the plan.
func (w *world) pass() Plan {
	w.Helper()
	f := w.facts()
	plan, err := Compute(f)
	w.must(err)
	for _, own := range plan.Claims.Own {
		own.Claim.OwnerReferences = own.Owners
	}
	w.claims = append(w.claims, plan.Claims.Make...)
	for _, removal := range plan.Delete {
		removal.Pod.DeletionTimestamp = &metav1.Time{Time: w.now.Add(30 * time.Second)}
	}
	for _, u := range plan.Update {
		metadata, status, err := lifecycle.Patch(u.Pod, u.Step, w.now)
		w.must(err)
		w.patch(u.Pod, status, metadata)
		writes, err := inplace.Begin(u.Pod, u.Change, u.To, inplace.Options{NameOnly: true}, w.now)
		w.must(err)
		w.patch(u.Pod, writes.Status, writes.Pod)
	}
	for _, step := range plan.Prepare {
		metadata, status, err := lifecycle.Patch(step.Pod, step.Step, w.now)
		w.must(err)
		w.patch(step.Pod, status, metadata)
	}
	opened, err := workload.Opened(w.now)
	w.must(err)
	for _, pod := range plan.Open {
		w.patch(pod, opened)
	}
	for _, creation := range plan.Create {
		id := strconv.Itoa(int(creation.Ordinal))
		provision := claimSet(w.set).For(creation.Revision.Template, "", nil)
		w.claims = append(w.claims, provision.Missing(id, w.claim)...)
		pod := newPod(w.set, creation, w.now)
		provision.Attach(pod, id)
		w.made++
		pod.UID, pod.CreationTimestamp = types.UID(fmt.Sprintf("pod-%d", w.made)), metav1.NewTime(w.now)
		pod.Status.Phase = corev1.PodPending
		w.patch(pod, opened)
		w.pods = append(w.pods, pod)
	}
	w.set.Status = (&Reconciler{}).status(&scope{pass: &pass{Object: w.set}, set: w.set, facts: f, plan: plan})
	return plan
}

// ready makes a pod Ready since now.
func (w *world) ready(pod *corev1.Pod, is bool) {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	pod.Status.Phase, pod.Spec.NodeName = corev1.PodRunning, "node"
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions,
		func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	pod.Status.Conditions = append(pod.Status.Conditions,
		corev1.PodCondition{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(w.now)})
}

// run makes the kubelet start the pod's containers as its spec has them.
func (w *world) run(pod *corev1.Pod) {
	image := pod.Spec.Containers[0].Image
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: image, ImageID: "id-" + image,
		ContainerID: "c-" + image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

// kubelet starts all pods that are not sick, and ends those that are being deleted.
func (w *world) kubelet(sick func(*corev1.Pod) bool) {
	w.pods = slices.DeleteFunc(w.pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	for _, pod := range w.pods {
		if podstate.Ended(pod) {
			continue
		}
		w.run(pod)
		gate := podstate.Condition(pod, v1beta1.InPlaceUpdateReady)
		ready := (gate == nil || gate.Status == corev1.ConditionTrue) && (sick == nil || !sick(pod))
		if condition := podstate.Condition(pod, corev1.PodReady); condition == nil ||
			(condition.Status == corev1.ConditionTrue) != ready {
			w.ready(pod, ready)
		}
	}
}

// settle makes passes until nothing changes any more.
func (w *world) settle(sick func(*corev1.Pod) bool) {
	w.Helper()
	for range 200 {
		plan := w.pass()
		w.kubelet(sick)
		w.now = w.now.Add(time.Second)
		if text := describe(plan); text == "" && plan.Wake == 0 {
			return
		}
	}
	w.Fatalf("no rest: %s", describe(w.plan()))
}

// pods makes the pods of the ordinals from 0 on as the letters say: "u" has the newest revision, "o" the one before; a
// capital letter is not ready; "t" is terminating, "f" has failed, "-" is missing.
func (w *world) have(letters string) *world {
	w.Helper()
	if w.set.Status.CurrentRevision == "" {
		w.set.Status.CurrentRevision = w.revise().Name
		w.image("app:2")
	}
	update := w.revise()
	current, err := workload.RevisionOf(w.revisions[0])
	w.must(err)
	opened, err := workload.Opened(w.now)
	w.must(err)
	w.pods = nil
	long := w.now.Add(-time.Hour)
	for i, letter := range letters {
		revision := current
		if letter == 'u' || letter == 'U' {
			revision = update
		}
		if letter == '-' {
			continue
		}
		pod := newPod(w.set, Creation{Ordinal: int32(i), Revision: revision}, long)
		claimSet(w.set).For(revision.Template, "", nil).Attach(pod, strconv.Itoa(i))
		w.made++
		pod.UID, pod.CreationTimestamp = types.UID(fmt.Sprintf("pod-%d", w.made)), metav1.NewTime(long)
		w.patch(pod, opened)
		w.run(pod)
		w.ready(pod, letter == 'u' || letter == 'o' || letter == 't')
		podstate.Condition(pod, corev1.PodReady).LastTransitionTime = metav1.NewTime(long)
		switch letter {
		case 't':
			pod.DeletionTimestamp = &metav1.Time{Time: w.now}
		case 'f':
			pod.Status.Phase = corev1.PodFailed
		}
		w.pods = append(w.pods, pod)
	}
	return w
}

func (w *world) pod(ordinal int) *corev1.Pod {
	w.Helper()
	i := slices.IndexFunc(w.pods, func(p *corev1.Pod) bool { return p.Name == podname.New("db", int32(ordinal)) })
	if i < 0 {
		w.Fatalf("no pod has ordinal %d", ordinal)
	}
	return w.pods[i]
}

// describe returns what a plan does to which ordinals.
func describe(plan Plan) string {
	var out []string
	for _, creation := range plan.Create {
		out = append(out, fmt.Sprintf("+%d:%s", creation.Ordinal,
			strings.TrimPrefix(creation.Revision.Template.Spec.Containers[0].Image, "app:")))
	}
	for _, removal := range plan.Delete {
		out = append(out, fmt.Sprintf("-%s:%s", number(removal.Pod), removal.Reason))
	}
	for _, u := range plan.Update {
		out = append(out, "~"+number(u.Pod))
	}
	for _, step := range plan.Prepare {
		out = append(out, fmt.Sprintf("%s=%s", number(step.Pod), step.Step.State))
	}
	for _, pod := range plan.Open {
		out = append(out, "open "+number(pod))
	}
	return strings.Join(out, " ")
}

func number(pod *corev1.Pod) string { return strings.TrimPrefix(pod.Name, "db-") }

func podsetOf(pods ...*corev1.Pod) podset.Set { return podset.Set{Active: pods} }

// workloadBudget is what a hub grants.
func workloadBudget(granted, expired bool) workload.Budget {
	return workload.Budget{Granted: granted, Expired: expired}
}
