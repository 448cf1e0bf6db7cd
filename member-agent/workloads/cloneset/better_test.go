package cloneset_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// TestBetter holds what users of OpenKruise miss or run into; the numbers are those of its issues.
func TestBetter(t *testing.T) {
	t.Parallel() // most of its time is waiting
	w := newWorld(t)
	for _, story := range []struct {
		name string
		run  func(*world, string)
	}{
		{"in-place-needs-no-surge-2369", inPlaceNeedsNoSurge},
		{"the-end-is-not-slower-1442", endIsNotSlower},
		{"failed-pods-are-replaced-2473-947", failedPodsAreReplaced},
		{"claims-of-a-terminating-pod-1099", claimsOfATerminatingPod},
		{"failed-scale-clears", failedScaleClears},
		{"failed-update-clears", failedUpdateClears},
		{"current-revision-waits-1545", currentRevisionWaits},
		{"zero-unavailable-with-surge", zeroUnavailableWithSurge},
		{"scale-and-update-in-one-pass", scaleAndUpdateInOnePass},
		{"without-the-ordered-key-last", withoutTheOrderedKeyLast},
		{"stuck-pods-go-first-1515", stuckPodsGoFirst},
		{"stuck-surge-waits-1515", stuckSurgeWaits},
		{"claim-templates-change-1670", claimTemplatesChange},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			one := *w
			one.TB = t
			story.run(&one, story.name)
		})
	}
}

func limits(unavailable, surge int32) func(*v1beta1.CloneSet) {
	return rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
		r.MaxUnavailable, r.MaxSurge = new(intstr.FromInt32(unavailable)), new(intstr.FromInt32(surge))
	})
}

// neverReady makes pods of the template wait until the test takes the label off them.
func neverReady(cs *v1beta1.CloneSet) { cs.Spec.Template.Labels[fleet.LabelNeverReady] = "true" }

func added(scenes []scene) []string {
	var out []string
	for _, s := range scenes {
		if s.kind == watch.Added {
			out = append(out, s.pod.Name)
		}
	}
	return out
}

func inPlaceNeedsNoSurge(w *world, name string) {
	before := w.create(newCloneSet(name, 5, limits(1, 3)))
	f := w.film(name)
	w.change(name, image("nginx:2"))
	w.expectUpdated(name, 5)
	w.expectSame(before, w.settle(name))
	scenes := f.end()
	f.expectBounds(scenes, 4, 5)
	if made := added(scenes); len(made) > 0 {
		w.Errorf("pods %v were made for an update in place", made)
	}
}

// The steps are set by the test: new pods get ready only when it lets them. In each step as many pods are replaced as
// surge allows, to the last.
func endIsNotSlower(w *world, name string) {
	w.create(newCloneSet(name, 10, policy(v1beta1.ReCreatePodUpdatePolicy), limits(0, 3)))
	f := w.film(name)
	w.change(name, func(cs *v1beta1.CloneSet) { image("nginx:2")(cs); neverReady(cs) })
	for _, want := range []map[string]int{
		{"nginx:1": 10, "nginx:2": 3}, {"nginx:1": 7, "nginx:2": 6}, {"nginx:1": 4, "nginx:2": 9},
		{"nginx:1": 1, "nginx:2": 10}, {"nginx:2": 10},
	} {
		var pods map[string]corev1.Pod
		w.eventually(fmt.Sprint("images ", want), func() string {
			pods = w.pods(name)
			if got := imagesOf(pods); !maps.Equal(got, want) {
				return fmt.Sprint(got)
			}
			return ""
		})
		for pod, object := range pods {
			if runs("nginx:2")(&object) && object.Labels[fleet.LabelNeverReady] != "" {
				w.relabel(pod, map[string]string{fleet.LabelNeverReady: ""})
			}
		}
	}
	w.settle(name)
	f.expectBounds(f.end(), 10, 13)
}

// fail ends a pod as the kubelet of a node without room does.
func (w *world) fail(name, reason string) {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	patch := fmt.Sprintf(`{"status":{"phase":"Failed","reason":%q}}`, reason)
	w.must(w.Status().Patch(w.Context(), pod, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// expectReplaced waits until exactly n pods are in the API, none of them one that failed.
func (w *world) expectReplaced(name string, n int, failed ...string) {
	w.Helper()
	w.eventually(fmt.Sprintf("pods %v are gone and replaced", failed), func() string {
		var list corev1.PodList
		w.must(w.List(w.Context(), &list, client.InNamespace("default"), client.MatchingLabels{"app": name}))
		for _, pod := range list.Items {
			if slices.Contains(failed, pod.Name) {
				return pod.Name + " is there"
			}
		}
		if len(list.Items) != n {
			return fmt.Sprintf("%d pods", len(list.Items))
		}
		return ""
	})
}

func failedPodsAreReplaced(w *world, name string) {
	pods := sorted(w.create(newCloneSet(name, 4, rolling(oneByOne))))
	w.fail(pods[0], "Evicted")
	w.fail(pods[1], "OutOfmemory")
	w.expectReplaced(name, 4, pods[:2]...)
	// Also in a rollout that does not move.
	pods = sorted(w.settle(name))
	w.change(name, image("nginx:does-not-exist"))
	w.expectSoon(name, "one pod has the bad image", func(cs *v1beta1.CloneSet) string {
		if cs.Status.UpdatedReplicas != 1 || cs.Status.AvailableReplicas != 3 {
			return fmt.Sprintf("%+v", cs.Status)
		}
		return ""
	})
	w.fail(pods[0], "Evicted")
	w.fail(pods[3], "Evicted")
	w.expectReplaced(name, 4, pods[0], pods[3])
	// And while it is paused.
	w.change(name, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.Paused = true }))
	pods = sorted(w.pods(name))
	w.fail(pods[0], "Evicted")
	w.expectReplaced(name, 4, pods[0])
}

func claimsOfATerminatingPod(w *world, name string) {
	w.disks(name, 5)
	pods := w.create(newCloneSet(name, 2, disk("1Gi", true)))
	lost := pods[sorted(pods)[0]]
	id := lost.Labels[v1beta1.LabelInstanceID]
	claim := w.claims(name)[id]
	hold := func(finalizers ...string) {
		pod := &corev1.Pod{}
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(&lost), pod))
		before := pod.DeepCopy()
		pod.Finalizers = finalizers
		w.must(w.Patch(w.Context(), pod, client.MergeFrom(before)))
	}
	hold("flotilla.dev/the-node-is-lost")
	w.must(w.Delete(w.Context(), &lost))
	// The pod stays, as on a node that is lost. Another one takes its place, with an id and a claim of its own.
	after := w.settle(name)
	if len(after) != 2 {
		w.Fatalf("pods %v", sorted(after))
	}
	for pod, object := range after {
		if object.Labels[v1beta1.LabelInstanceID] == id {
			w.Errorf("pod %s has the id of the pod that still terminates", pod)
		}
	}
	claims := w.claims(name)
	if claims[id].UID != claim.UID || len(claims) != 3 {
		w.Errorf("claims %v, want the one of %s and two more", sorted(claims), id)
	}
	// When the pod is gone its claim waits for the next pod.
	hold()
	w.eventually("the pod is gone", func() string {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(&lost), &corev1.Pod{}); client.IgnoreNotFound(err) != nil ||
			err == nil {
			return fmt.Sprint("not yet: ", err)
		}
		return ""
	})
	w.change(name, replicas(3))
	if _, ok := w.settle(name)[name+"-"+id]; !ok {
		w.Errorf("the third pod did not take the id %s", id)
	}
	if claims := w.claims(name); claims[id].UID != claim.UID || len(claims) != 3 {
		w.Errorf("claims %v, want the one of %s with the uid %s", sorted(claims), id, claim.UID)
	}
}

// expectFailed waits until the condition is True and says why.
func (w *world) expectFailed(name string, kind v1beta1.CloneSetConditionType, word string) {
	w.Helper()
	w.expectSoon(name, string(kind)+" is True", func(cs *v1beta1.CloneSet) string {
		if c := conditionOf(cs, kind); c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, word) {
			return fmt.Sprintf("%+v", cs.Status.Conditions)
		}
		return ""
	})
}

// expectNotFailed holds that neither condition is left.
func (w *world) expectNotFailed(name string) {
	w.Helper()
	cs := w.get(name)
	for _, kind := range []v1beta1.CloneSetConditionType{v1beta1.CloneSetConditionFailedScale,
		v1beta1.CloneSetConditionFailedUpdate} {
		if c := conditionOf(cs, kind); c.Status == corev1.ConditionTrue {
			w.Errorf("%s stays: %+v", kind, c)
		}
	}
}

func failedScaleClears(w *world, name string) {
	w.must(w.Create(w.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 7}))
	hard := func(pods string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
	}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ResourceQuotaSpec{Hard: hard("2"), ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{name}},
		}}},
	}
	w.must(w.Create(w.Context(), quota))
	w.eventually("the quota is in force", func() string {
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(quota), quota))
		if len(quota.Status.Hard) == 0 {
			return "it has no status"
		}
		return ""
	})
	w.must(w.Create(w.Context(), newCloneSet(name, 4,
		func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.PriorityClassName = name })))
	w.expectFailed(name, v1beta1.CloneSetConditionFailedScale, "exceeded quota")
	before := quota.DeepCopy()
	quota.Spec.Hard = hard("4")
	w.must(w.Patch(w.Context(), quota, client.MergeFrom(before)))
	w.settle(name)
	w.expectNotFailed(name)
}

func failedUpdateClears(w *world, name string) {
	w.create(newCloneSet(name, 2))
	rule := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}}},
			Validations: []admissionv1.Validation{{
				Expression: "object.spec.containers[0].image != 'nginx:refused'", Message: "not this image",
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	w.must(w.Create(w.Context(), rule))
	w.must(w.Create(w.Context(), binding))
	w.eventually("the rule is in force", func() string {
		for _, pod := range w.pods(name) {
			tried := pod.DeepCopy()
			tried.Spec.Containers[0].Image = "nginx:refused"
			if err := w.Patch(w.Context(), tried, client.MergeFrom(&pod), client.DryRunAll); err == nil {
				return "an image was let through"
			}
		}
		return ""
	})
	w.change(name, image("nginx:refused"))
	w.expectFailed(name, v1beta1.CloneSetConditionFailedUpdate, "not this image")
	w.must(w.Delete(w.Context(), binding))
	w.expectUpdated(name, 2)
	w.settle(name)
	w.expectNotFailed(name)
}

func currentRevisionWaits(w *world, name string) {
	before := w.create(newCloneSet(name, 2))
	old := w.get(name).Status.CurrentRevision
	w.change(name, func(cs *v1beta1.CloneSet) { image("nginx:2")(cs); neverReady(cs) })
	w.expectSoon(name, "both pods are updated, and the current revision is the old one",
		func(cs *v1beta1.CloneSet) string {
			if s := cs.Status; s.UpdatedReplicas != 2 || s.UpdatedReadyReplicas != 0 || s.CurrentRevision != old {
				return fmt.Sprintf("%+v", s)
			}
			return ""
		})
	// So there is a way back, also for a pod that comes now.
	w.change(name, func(cs *v1beta1.CloneSet) { replicas(3)(cs); partition("3")(cs) })
	after := w.settle(name)
	w.expectImages(after, map[string]int{"nginx:1": 3})
	for pod, object := range before {
		if after[pod].UID != object.UID {
			w.Errorf("pod %s was made anew", pod)
		}
	}
	w.change(name, func(cs *v1beta1.CloneSet) {
		partition("0")(cs)
		delete(cs.Spec.Template.Labels,
			fleet.LabelNeverReady)
	})
	w.settle(name)
	w.expectSoon(name, "the current revision follows", func(cs *v1beta1.CloneSet) string {
		if s := cs.Status; s.CurrentRevision != s.UpdateRevision || s.CurrentRevision == old {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
}

func zeroUnavailableWithSurge(w *world, name string) {
	err := w.Create(w.Context(), newCloneSet(name, 4, limits(0, 0)))
	if err == nil || !strings.Contains(err.Error(), "maxUnavailable and maxSurge are both 0") {
		w.Fatalf("0 and 0: %v", err)
	}
	w.create(newCloneSet(name, 4, limits(0, 2)))
	f := w.film(name)
	w.change(name, image("nginx:2"))
	w.expectUpdated(name, 4)
	w.expectImages(w.settle(name), map[string]int{"nginx:2": 4})
	f.expectBounds(f.end(), 4, 6)
}

// The status that answers the change is written once the first pass's pods are seen; the API server's order tells what
// came before it.
func scaleAndUpdateInOnePass(w *world, name string) {
	w.create(newCloneSet(name, 4, limits(3, 0)))
	f := w.film(name)
	watcher, err := client.NewWithWatch(w.config, client.Options{Scheme: apiserver.Scheme(w)})
	w.must(err)
	began := w.get(name)
	statuses, err := watcher.Watch(w.Context(), &v1beta1.CloneSetList{}, client.InNamespace("default"),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: began.ResourceVersion,
			TimeoutSeconds: new(int64(limit.Seconds()))}})
	w.must(err)
	defer statuses.Stop()
	w.change(name, func(cs *v1beta1.CloneSet) { replicas(6)(cs); image("nginx:2")(cs) })
	first := ""
	for event := range statuses.ResultChan() {
		cs, ok := event.Object.(*v1beta1.CloneSet)
		if ok && cs.Name == name && cs.Generation > began.Generation && cs.Status.ObservedGeneration == cs.Generation {
			first = cs.ResourceVersion
			break
		}
	}
	if first == "" {
		w.Fatal("no status answers the change")
	}
	w.expectUpdated(name, 6)
	scenes := f.end()
	made, updated := 0, map[string]bool{}
	for _, s := range scenes {
		if before(w, s.pod.ResourceVersion, first) {
			if s.kind == watch.Added {
				made++
			} else if _, old := f.begin[s.pod.Name]; old && runs("nginx:2")(s.pod) {
				updated[s.pod.Name] = true
			}
		}
	}
	if made != 2 || len(updated) == 0 {
		w.Errorf("the first pass made %d pods and updated %d, want 2 and at least 1", made, len(updated))
	}
}

// before compares two versions of one API server.
func before(w *world, a, b string) bool {
	w.Helper()
	order, err := resourceversion.CompareResourceVersion(a, b)
	w.must(err)
	return order < 0
}

func withoutTheOrderedKeyLast(w *world, name string) {
	labels := w.labelled(newCloneSet(name, 3, orderedBy("step")), "step", "", "s-0", "")
	w.change(name, func(cs *v1beta1.CloneSet) { image("nginx:2")(cs); partition("2")(cs) })
	for pod, object := range w.settle(name) {
		if updated := runs("nginx:2")(&object); updated != (labels[pod] != "") {
			w.Errorf("pod %s with step %q: updated %v", pod, labels[pod], updated)
		}
	}
}

// nowhere makes pods of the template that no node takes.
func nowhere(cs *v1beta1.CloneSet) {
	cs.Spec.Template.Spec.NodeSelector = map[string]string{"no": "such-node"}
}

// expectStuck waits until n pods of the CloneSet are known to find no node.
func (w *world) expectStuck(name string, n int) {
	w.Helper()
	w.eventually(fmt.Sprintf("%d pods find no node", n), func() string {
		stuck := 0
		for _, pod := range w.pods(name) {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
					stuck++
				}
			}
		}
		if stuck != n {
			return fmt.Sprint(stuck)
		}
		return ""
	})
}

func stuckPodsGoFirst(w *world, name string) {
	running := w.create(newCloneSet(name, 4, limits(2, 0)))
	w.change(name, func(cs *v1beta1.CloneSet) { nowhere(cs); partition("2")(cs) })
	w.expectStuck(name, 2)
	for pod := range running {
		if _, ok := w.pods(name)[pod]; !ok {
			delete(running, pod)
		}
	}
	// By the partition one pod of two would have to be an old one. But both old ones run, and no other does.
	w.change(name, func(cs *v1beta1.CloneSet) {
		replicas(2)(cs)
		partition("50%")(cs)
		rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.Paused = true })(cs)
	})
	w.expectSoon(name, "two pods are left", func(cs *v1beta1.CloneSet) string {
		if cs.Status.Replicas != 2 {
			return fmt.Sprintf("%d", cs.Status.Replicas)
		}
		return ""
	})
	w.expectSame(running, w.pods(name))
}

func stuckSurgeWaits(w *world, name string) {
	w.create(newCloneSet(name, 4, policy(v1beta1.ReCreatePodUpdatePolicy), limits(0, 2)))
	f := w.film(name)
	w.change(name, nowhere)
	w.expectStuck(name, 2)
	w.change(name, replicas(3))
	w.expectSoon(name, "an old pod goes", func(cs *v1beta1.CloneSet) string {
		if s := cs.Status; s.Replicas != 5 || s.UpdatedReplicas != 2 || s.AvailableReplicas != 3 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	if made := added(f.end()); len(made) != 2 {
		w.Errorf("pods %v were made, want 2 that wait", made)
	}
	w.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.NodeSelector = nil; image("nginx:2")(cs) })
	w.expectUpdated(name, 3)
	w.settle(name)
	f.expectBounds(f.end(), 3, 6)
}

func claimTemplatesChange(w *world, name string) {
	w.disks(name, 6)
	pods := w.create(newCloneSet(name, 2, disk("1Gi", false)))
	w.change(name, disk("2Gi", false))
	w.expectSoon(name, "the condition says what becomes of the change", func(cs *v1beta1.CloneSet) string {
		c := conditionOf(cs, "VolumeClaimsOutdated")
		for _, words := range []string{"data: size", "2 pods keep the claims they were made with",
			"delete a pod to give it new claims"} {
			if c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, words) {
				return fmt.Sprintf("%+v", c)
			}
		}
		return ""
	})
	w.expectSame(pods, w.settle(name))
	for _, pod := range pods {
		w.must(w.Delete(w.Context(), &pod))
	}
	w.expectSoon(name, "new pods have new claims, and the condition is gone", func(cs *v1beta1.CloneSet) string {
		if c := conditionOf(cs, "VolumeClaimsOutdated"); c.Type != "" || cs.Status.AvailableReplicas != 2 {
			return fmt.Sprintf("%d are available, %+v", cs.Status.AvailableReplicas, c)
		}
		return ""
	})
	for pod := range w.settle(name) {
		claim := w.claims(name)[strings.TrimPrefix(pod, name+"-")]
		if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "2Gi" {
			w.Errorf("pod %s has a claim of %s", pod, size.String())
		}
	}
}
