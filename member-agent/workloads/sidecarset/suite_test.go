package sidecarset_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/cloneset"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/podunavailablebudget"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/podunavailablebudget/budgets"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/guard"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/mutator"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// limit is how long anything may take on a busy machine.
const limit = 90 * time.Second

// world is one cluster with the controller and the admission of pods.
type world struct {
	*testing.T
	client.Client
	// name is that of the scenario: its namespace, its SidecarSet, and the value of the label app of its pods.
	name string
}

// webhook is the server that the API server calls.
type webhook struct {
	*httptest.Server
	mux *http.ServeMux
}

func (w *webhook) Register(path string, handler http.Handler) { w.mux.Handle(path, handler) }
func (w *webhook) OnChange(func())                            {}

func (w *webhook) ClientConfig(path string) (admissionregistrationv1.WebhookClientConfig, error) {
	return admissionregistrationv1.WebhookClientConfig{URL: new(w.URL + path),
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw})}, nil
}

// TestOnAServer runs every scenario on one cluster, in parallel. Each has a namespace of its own.
func TestOnAServer(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	nodes := fleet.Nodes("solo", "eu", []string{"a"}, 2)
	c := apiserver.Cluster(t, fleet.ClusterSpec{Name: "solo", Nodes: nodes}, false, "sidecarsets.apps.kruise.io",
		"clonesets.apps.kruise.io", "daemonsets.apps.kruise.io", "statefulsets.apps.kruise.io",
		"uniteddeployments.apps.kruise.io", "podunavailablebudgets.policy.kruise.io")
	config := c.RESTConfig()
	config.QPS = -1
	hook := &webhook{mux: http.NewServeMux()}
	hook.Server = httptest.NewTLSServer(hook.mux)
	t.Cleanup(hook.Close)
	w := &world{T: t}
	var err error
	if w.Client, err = client.New(config, client.Options{Scheme: apiserver.Scheme(t)}); err != nil {
		t.Fatal(err)
	}
	apiserver.Run(t, config, func(ctx context.Context, mgr ctrl.Manager) error {
		keeper, err := budgets.New(mgr, budgets.Options{})
		if err != nil {
			return err
		}
		env := &workload.Env{Manager: mgr, Disruptions: keeper}
		for _, add := range []func(context.Context, *workload.Env) error{
			cloneset.Add, podunavailablebudget.Add, sidecarset.Add,
		} {
			if err := add(ctx, env); err != nil {
				return err
			}
		}
		sidecars, err := mutator.New(ctx, mgr, mutator.Options{Namespaces: sidecarset.Namespaces("")})
		if err != nil {
			return err
		}
		return admission.Setup(mgr, admission.Options{Server: hook, Mutators: []admission.Mutator{sidecars},
			Guards: []admission.Guard{keeper.Guard()}, Timeout: 8 * time.Second})
	})
	w.guard(hook)
	t.Run("scenarios", func(t *testing.T) {
		for name, scenario := range map[string]func(*world){
			"injects-new-pods":                injectsNewPods,
			"changes-images-in-place":         changesImages,
			"takes-over-pods-of-openkruise":   takesOver,
			"injects-nothing-while-paused":    paused,
			"keeps-a-partition":               partition,
			"refuses-names-of-other-sets":     collides,
			"refuses-names-at-apply":          refusesNames,
			"waits-for-a-budget":              waitsForBudget,
			"recreates-pods-if-asked-to":      recreates,
			"finds-and-heals-missing-ones":    heals,
			"keeps-pods-labelled-later":       labelled,
			"injects-the-revision-it-names":   pinned,
			"stalls-on-what-cannot-be-used":   stalls,
			"refuses-pods-of-policy-fail":     refuses,
			"lets-a-canary-replace-its-base":  canary,
			"upgrades-hot":                    hot,
			"overwrites-allowed-annotations":  annotations,
			"keeps-as-many-revisions-as-said": trims,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				in := &world{T: t, Client: w.Client, name: name}
				in.namespace()
				scenario(in)
			})
		}
	})
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// eventually polls until check returns "", and fails with what it said last.
func (w *world) eventually(what string, check func() string) {
	w.Helper()
	apiserver.Eventually(w, limit, what, check)
}

// namespace creates the namespace of the scenario, and waits until it can have pods.
func (w *world) namespace() {
	w.Helper()
	w.must(w.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}))
	w.eventually("pods can be created", func() string {
		return text(w.Get(w.Context(), client.ObjectKey{Namespace: w.name, Name: "default"}, &corev1.ServiceAccount{}))
	})
}

func text(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// sidecar is a container of a SidecarSet.
func sidecar(name, image string) v1beta1.SidecarContainer {
	return v1beta1.SidecarContainer{Container: corev1.Container{Name: name, Image: image}}
}

// set returns a SidecarSet for the pods of the scenario, with one container.
func (w *world) set(change ...func(*v1beta1.SidecarSet)) *v1beta1.SidecarSet {
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: v1beta1.SidecarSetSpec{
		Selector:   &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name}},
		Containers: []v1beta1.SidecarContainer{sidecar("log", "log:1")},
	}}
	for _, f := range change {
		f(set)
	}
	return set
}

// create creates the SidecarSet, and waits until the controller has seen it and new pods get its sidecars.
func (w *world) create(set *v1beta1.SidecarSet) {
	w.Helper()
	w.must(w.Create(w.Context(), set))
	w.observed(set.Name)
	if set.Spec.InjectionStrategy.Paused || set.Name != w.name {
		return
	}
	w.eventually("new pods are injected", func() string {
		pod := w.podOf("probe")
		err := w.Create(w.Context(), pod, client.DryRunAll)
		if err == nil && !marks.Injected(pod, set.Name) {
			return "the pod has no sidecars"
		}
		return text(err)
	})
}

func (w *world) read(name string) *v1beta1.SidecarSet {
	w.Helper()
	set := &v1beta1.SidecarSet{}
	w.must(w.Get(w.Context(), client.ObjectKey{Name: name}, set))
	return set
}

// observed waits until the controller has acted on the SidecarSet as it is.
func (w *world) observed(name string) {
	w.Helper()
	w.eventually("the controller has seen SidecarSet "+name, func() string {
		if set := w.read(name); set.Status.ObservedGeneration != set.Generation {
			return fmt.Sprintf("generation %d of %d", set.Status.ObservedGeneration, set.Generation)
		}
		return ""
	})
}

// change changes the SidecarSet of the scenario.
func (w *world) change(f func(*v1beta1.SidecarSet)) {
	w.Helper()
	w.eventually("change the SidecarSet", func() string {
		set := w.read(w.name)
		f(set)
		return text(w.Update(w.Context(), set))
	})
}

func (w *world) podOf(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name, Labels: map[string]string{"app": w.name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
}

// pods creates n pods and waits until they are ready.
func (w *world) pods(n int) []types.UID {
	w.Helper()
	var uids []types.UID
	for i := range n {
		pod := w.podOf(fmt.Sprint("web-", i))
		w.must(w.Create(w.Context(), pod))
		uids = append(uids, pod.UID)
	}
	w.ready(n)
	return uids
}

func (w *world) ready(n int) {
	w.Helper()
	w.eventually(fmt.Sprint(n, " pods are ready"), func() string {
		ready := 0
		for _, pod := range w.list() {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if ready != n {
			return fmt.Sprint(ready, " are")
		}
		return ""
	})
}

func (w *world) list() []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.must(w.List(w.Context(), &list, client.InNamespace(w.name)))
	return list.Items
}

// images are those of a container in the pods.
func (w *world) images(container string) string {
	w.Helper()
	var out []string
	for _, pod := range w.list() {
		for _, c := range pod.Spec.Containers {
			if c.Name == container {
				out = append(out, c.Image)
			}
		}
	}
	return strings.Join(out, " ")
}

func (w *world) become(container, images string) {
	w.Helper()
	w.eventually("the images are "+images, func() string {
		if got := w.images(container); got != images {
			return got
		}
		return ""
	})
}

// counts waits for the numbers of the status: matched, updated, ready and updated ready pods.
func (w *world) counts(matched, updated, ready, both int32) {
	w.Helper()
	want := [4]int32{matched, updated, ready, both}
	w.eventually(fmt.Sprint("the status says ", want), func() string {
		s := w.read(w.name).Status
		if got := [4]int32{s.MatchedPods, s.UpdatedPods, s.ReadyPods, s.UpdatedReadyPods}; got != want {
			return fmt.Sprint(got, s.Conditions)
		}
		return ""
	})
}

// same checks that no pod was created anew.
func (w *world) same(uids []types.UID) {
	w.Helper()
	for i, pod := range w.list() {
		if pod.UID != uids[i] {
			w.Errorf("pod %s was created anew", pod.Name)
		}
	}
}

// stalled waits until the SidecarSet says why it is not carried out.
func (w *world) stalled(name, reason, says string) {
	w.Helper()
	w.eventually("SidecarSet "+name+" says why it stalls", func() string {
		c := meta.FindStatusCondition(w.read(name).Status.Conditions, v1beta1.ConditionStalled)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, says) {
			return fmt.Sprint(c)
		}
		return ""
	})
}

func injectsNewPods(w *world) {
	w.create(w.set())
	w.pods(2)
	w.counts(2, 2, 2, 2)
	pod := w.list()[0]
	if pod.Spec.Containers[0].Name != "log" || !marks.IsInjected(&pod.Spec.Containers[0]) {
		w.Errorf("containers %v", pod.Spec.Containers)
	}
	set := w.read(w.name)
	hashes, name := marks.Of(&pod, w.name)
	if set.Annotations[v1beta1.AnnotationSidecarSetHash] != hashes.All || name != set.Status.LatestRevision {
		w.Errorf("the pod has %v of revision %s, the SidecarSet %v of %s", hashes, name, set.Annotations,
			set.Status.LatestRevision)
	}
	var revisions appsv1.ControllerRevisionList
	w.must(w.List(w.Context(), &revisions, client.InNamespace(workload.DefaultNamespace),
		client.MatchingLabels{v1beta1.LabelSidecarSetName: w.name}))
	if len(revisions.Items) != 1 || revisions.Items[0].Name != name {
		w.Errorf("revisions %v, want %s", revisions.Items, name)
	}
	other := w.podOf("other")
	other.Labels["app"] = "other"
	w.must(w.Create(w.Context(), other))
	if len(other.Spec.Containers) != 1 {
		w.Errorf("a pod that is not selected has %d containers", len(other.Spec.Containers))
	}
}

func changesImages(w *world) {
	w.create(w.set())
	uids := w.pods(3)
	w.change(func(s *v1beta1.SidecarSet) { s.Spec.Containers[0].Image = "log:2" })
	w.become("log", "log:2 log:2 log:2")
	w.counts(3, 3, 3, 3)
	w.same(uids)
	// More than the image reaches new pods alone.
	w.change(func(s *v1beta1.SidecarSet) { s.Spec.Containers[0].Command = []string{"a"} })
	w.counts(3, 0, 3, 0)
	w.eventually("the pods say that changes cannot reach them", func() string {
		for _, pod := range w.list() {
			for _, c := range pod.Status.Conditions {
				if c.Type == v1beta1.SidecarSetUpgradable && c.Status == corev1.ConditionFalse {
					return ""
				}
			}
		}
		return "none does"
	})
	w.same(uids)
}

// takesOver has pods as an OpenKruise manager leaves them, written by hand: none is created anew.
func takesOver(w *world) {
	old := &v1beta1.SidecarSetSpec{Containers: []v1beta1.SidecarContainer{sidecar("log", "log:1")}}
	hashes, err := revision.HashesOf(old)
	w.must(err)
	var uids []types.UID
	for i := range 3 {
		pod := w.podOf(fmt.Sprint("web-", i))
		container := corev1.Container{Name: "log", Image: "log:1",
			Env: []corev1.EnvVar{{Name: marks.EnvInjected, Value: "true"}}}
		pod.Spec.Containers = append([]corev1.Container{container}, pod.Spec.Containers...)
		record := func(hash, more string) string {
			return fmt.Sprintf(`{"%s":{"updateTimestamp":"2026-01-01T00:00:00Z","hash":"%s","sidecarSetName":"%s",`+
				`"sidecarList":["log"]%s}}`, w.name, hash, w.name, more)
		}
		pod.Annotations = map[string]string{
			v1beta1.AnnotationSidecarSetInjected:         w.name,
			v1beta1.AnnotationSidecarSetHash:             record(hashes.All, `,"controllerRevision":"`+w.name+`-abc"`),
			v1beta1.AnnotationSidecarSetHashWithoutImage: record(hashes.WithoutImage, ""),
		}
		w.must(w.Create(w.Context(), pod))
		uids = append(uids, pod.UID)
	}
	w.ready(3)
	w.create(w.set())
	w.counts(3, 3, 3, 3)
	w.change(func(s *v1beta1.SidecarSet) { s.Spec.Containers[0].Image = "log:2" })
	w.become("log", "log:2 log:2 log:2")
	w.counts(3, 3, 3, 3)
	w.same(uids)
}

func paused(w *world) {
	w.create(w.set(func(s *v1beta1.SidecarSet) { s.Spec.UpdateStrategy.Paused = true }))
	w.pods(2)
	w.change(func(s *v1beta1.SidecarSet) { s.Spec.Containers[0].Image = "log:2" })
	w.counts(2, 0, 2, 0)
	w.become("log", "log:1 log:1")
	w.change(func(s *v1beta1.SidecarSet) { s.Spec.InjectionStrategy.Paused = true })
	w.eventually("new pods get no sidecars", func() string {
		pod := w.podOf("probe")
		err := w.Create(w.Context(), pod, client.DryRunAll)
		if err == nil && len(pod.Spec.Containers) > 1 {
			return "they do"
		}
		return text(err)
	})
	w.change(func(s *v1beta1.SidecarSet) { s.Spec.UpdateStrategy.Paused = false })
	w.become("log", "log:2 log:2")
}

func partition(w *world) {
	w.create(w.set(func(s *v1beta1.SidecarSet) { s.Spec.UpdateStrategy.Partition = new(intstr.FromInt32(2)) }))
	w.pods(3)
	w.change(func(s *v1beta1.SidecarSet) { s.Spec.Containers[0].Image = "log:2" })
	w.counts(3, 1, 3, 1)
	w.change(func(s *v1beta1.SidecarSet) { s.Spec.UpdateStrategy.Partition = new(intstr.FromString("10%")) })
	w.counts(3, 2, 3, 2)
	w.change(func(s *v1beta1.SidecarSet) { s.Spec.UpdateStrategy.Partition = nil })
	w.counts(3, 3, 3, 3)
}

func collides(w *world) {
	w.create(w.set())
	other := w.set(func(s *v1beta1.SidecarSet) { s.Name = w.name + "-b" })
	w.create(other)
	w.stalled(other.Name, "NameConflict", "container log is also in SidecarSet "+w.name)
	w.pods(1)
	if got := marks.Sets(new(w.list()[0])); len(got) != 1 || got[0] != w.name {
		w.Errorf("the pod has the sidecars of %q", got)
	}
	w.must(w.Delete(w.Context(), w.set()))
	w.eventually("the other one is carried out", func() string {
		c := meta.FindStatusCondition(w.read(other.Name).Status.Conditions, v1beta1.ConditionStalled)
		if c == nil || c.Status != metav1.ConditionFalse {
			return fmt.Sprint(c)
		}
		return ""
	})
}

// guard has the API server ask about SidecarSets with a label. Others are as those that a busy guard let pass.
func (w *world) guard(hook *webhook) {
	w.Helper()
	hook.Register(guard.Path, &ctrlwebhook.Admission{Handler: ctrladmission.HandlerFunc(guard.New(w.Client).Handle)})
	entry := guard.Webhook()
	var err error
	entry.ClientConfig, err = hook.ClientConfig(guard.Path)
	w.must(err)
	entry.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"guarded": "yes"}}
	w.must(w.Create(w.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: guard.Configuration},
		Webhooks:   []admissionregistrationv1.ValidatingWebhook{entry},
	}))
}

func refusesNames(w *world) {
	w.create(w.set())
	other := w.set(func(s *v1beta1.SidecarSet) {
		s.Name, s.Labels = w.name+"-b", map[string]string{"guarded": "yes"}
	})
	w.eventually("the other one is refused", func() string {
		err := w.Create(w.Context(), other.DeepCopy(), client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "container log is also in SidecarSet "+w.name) {
			return fmt.Sprint(err)
		}
		return ""
	})
	other.Spec.Containers[0].Name = "audit"
	w.must(w.Create(w.Context(), other))
	w.observed(other.Name)
	w.eventually("it is refused later", func() string {
		set := w.read(other.Name)
		set.Spec.InitContainers = []v1beta1.SidecarContainer{sidecar("log", "i")}
		err := w.Update(w.Context(), set)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "container log is also in") {
			return fmt.Sprint(err)
		}
		return ""
	})
}

// condition waits until the condition Ready has the reason, and a message with the text.
func (w *world) condition(reason, says string) {
	w.Helper()
	w.eventually("Ready has the reason "+reason, func() string {
		c := meta.FindStatusCondition(w.read(w.name).Status.Conditions, v1beta1.ConditionReady)
		if c == nil || c.Reason != reason || !strings.Contains(c.Message, says) {
			return fmt.Sprint(c)
		}
		return ""
	})
}

func waitsForBudget(w *world) {
	w.create(w.set(func(s *v1beta1.SidecarSet) { s.Spec.UpdateStrategy.MaxUnavailable = new(intstr.FromString("100%")) }))
	uids := w.pods(3)
	budget := &policy.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "web"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name}}
	budget.Spec.MinAvailable = new(intstr.FromString("100%"))
	w.must(w.Create(w.Context(), budget))
	w.eventually("the budget counts its pods", func() string {
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(budget), budget))
		if budget.Status.ObservedGeneration != budget.Generation || budget.Status.CurrentAvailable != 3 {
			return fmt.Sprintf("%+v", budget.Status)
		}
		return ""
	})
	w.change(func(s *v1beta1.SidecarSet) { s.Spec.Containers[0].Image = "log:2" })
	w.condition("WaitingForBudget", "PodUnavailableBudget web refuses UPDATE of pod web-")
	w.become("log", "log:1 log:1 log:1")
	w.eventually("relax the budget", func() string {
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(budget), budget))
		budget.Spec.MinAvailable = new(intstr.FromInt32(2))
		return text(w.Update(w.Context(), budget))
	})
	w.become("log", "log:2 log:2 log:2")
	w.condition("AllUpdated", "3 of 3")
	w.same(uids)
}

// cloneSet creates a CloneSet of n pods that the SidecarSet selects, and waits until they are ready beside others.
func (w *world) cloneSet(n, others int) []types.UID {
	w.Helper()
	labels := map[string]string{"app": w.name, "of": "web"} // it must not adopt the others
	set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "web"}}
	set.Spec.Replicas = new(int32(n))
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:1"}}
	w.must(w.Create(w.Context(), set))
	w.ready(n + others)
	var uids []types.UID
	for _, pod := range w.list() {
		if len(pod.OwnerReferences) > 0 {
			uids = append(uids, pod.UID)
		}
	}
	return uids
}

// there returns how many of the pods with these uids are left.
func (w *world) there(uids []types.UID) (n int) {
	w.Helper()
	for _, pod := range w.list() {
		if slices.Contains(uids, pod.UID) && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// recreates has pods that differ in more than images: those of a CloneSet are evicted one by one, a bare one stays.
func recreates(w *world) {
	w.create(w.set())
	uids := w.cloneSet(3, 0)
	bare := w.podOf("bare")
	w.must(w.Create(w.Context(), bare))
	w.ready(4)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "all"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name}}
	budget.Spec.MinAvailable = new(intstr.FromInt32(4)) // a percentage would be of the pods of the CloneSet alone
	w.must(w.Create(w.Context(), budget))
	w.change(func(s *v1beta1.SidecarSet) { s.Spec.Containers[0].Command = []string{"run"} })
	w.condition("PodsNotUpgradable", w.name+"/bare")
	if got := w.there(uids); got != 3 {
		w.Fatalf("without being asked to, %d of 3 pods are left", got)
	}
	w.change(func(s *v1beta1.SidecarSet) {
		s.Spec.Flotilla = &v1beta1.SidecarSetFlotilla{Recreate: v1beta1.SidecarSetRecreateIfNeeded}
	})
	w.condition("RecreatingPods", "disruption budget")
	if got := w.there(uids); got != 3 {
		w.Fatalf("against a PodDisruptionBudget, %d of 3 pods are left", got)
	}
	w.must(w.Delete(w.Context(), budget))
	w.eventually("the pods of the CloneSet have the command, one after the other", func() string {
		ready := 0
		for _, pod := range w.list() {
			if podstate.Ready(&pod) && pod.DeletionTimestamp == nil && pod.Name != bare.Name {
				ready++
			}
		}
		if ready < 2 {
			w.Fatalf("%d of 3 pods are ready", ready)
		}
		if n := w.there(uids); n > 0 || ready < 3 {
			return fmt.Sprintf("%d are left, %d are ready: %v", n, ready, w.read(w.name).Status.Conditions)
		}
		return ""
	})
	w.counts(4, 3, 4, 3)
	w.condition("PodsNotUpgradable", "more than images differ in "+w.name+"/bare")
	if w.there([]types.UID{bare.UID}) != 1 {
		w.Error("a pod without a workload was evicted")
	}
}

// heals has pods that start without sidecars, because something cannot be computed for them.
func heals(w *world) {
	old := w.podOf("older")
	w.must(w.Create(w.Context(), old))
	w.must(w.Create(w.Context(), w.set(func(s *v1beta1.SidecarSet) {
		s.Spec.Containers[0].ResourcesPolicy = &v1beta1.ResourcesPolicy{TargetContainersNameRegex: "none",
			ResourcesExpr: v1beta1.ResourcesExpr{Requests: &v1beta1.ResourceExprs{CPU: "50m"}}}
	})))
	w.observed(w.name)
	w.started()
	uids := w.cloneSet(2, 1)
	w.missing(2)
	w.condition("PodsWithoutSidecars", "2 pods were created without the sidecars")
	w.change(func(s *v1beta1.SidecarSet) {
		s.Spec.Flotilla = &v1beta1.SidecarSetFlotilla{Recreate: v1beta1.SidecarSetRecreateIfNeeded}
	})
	w.condition("RecreatingPods", "a new pod in its place would not get the current sidecars")
	if got := w.there(uids); got != 2 {
		w.Fatalf("while new ones would be no better, %d of 2 pods are left", got)
	}
	w.change(func(s *v1beta1.SidecarSet) { s.Spec.Containers[0].ResourcesPolicy.TargetContainersNameRegex = "app" })
	w.counts(2, 2, 2, 2)
	w.missing(0)
	w.condition("AllUpdated", "2 of 2")
	if w.there(uids) != 0 || w.there([]types.UID{old.UID}) != 1 {
		w.Errorf("%d pods are left, and %d that is older than the SidecarSet", w.there(uids), w.there([]types.UID{old.UID}))
	}
}

// started waits until new pods are young enough to count as missing.
func (w *world) started() {
	w.Helper()
	begun := w.read(w.name).CreationTimestamp
	w.eventually("the head start is over", func() string {
		probe := w.podOf("probe")
		w.must(w.Create(w.Context(), probe, client.DryRunAll))
		if took := probe.CreationTimestamp.Sub(begun.Time); took <= 11*time.Second {
			return took.String()
		}
		return ""
	})
}

// labelled has a pod that is selected because of a label that it was given later: a new one would lack it.
func labelled(w *world) {
	w.must(w.Create(w.Context(), w.set(func(s *v1beta1.SidecarSet) {
		s.Spec.Selector.MatchLabels["role"] = "master"
		s.Spec.Flotilla = &v1beta1.SidecarSetFlotilla{Recreate: v1beta1.SidecarSetRecreateIfNeeded}
	})))
	w.observed(w.name)
	w.started()
	uids := w.cloneSet(2, 0)
	pod := w.list()[0]
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"role":"master"}}}`))
	w.must(w.Patch(w.Context(), &pod, patch))
	w.missing(1)
	w.condition("RecreatingPods", "the template of its workload is not selected")
	if got := w.there(uids); got != 2 {
		w.Errorf("%d of 2 pods are left, of which a new one would be no better", got)
	}
}

// missing waits until the status has so many pods without their sidecars.
func (w *world) missing(n int32) {
	w.Helper()
	w.eventually(fmt.Sprint(n, " pods are missing"), func() string {
		own := w.read(w.name).Status.Flotilla
		if own == nil || own.MissingPods != n {
			return fmt.Sprintf("%+v", own)
		}
		return ""
	})
}

func pinned(w *world) {
	w.create(w.set(func(s *v1beta1.SidecarSet) {
		s.Spec.CustomVersion = "v1"
		s.Spec.UpdateStrategy.Type = v1beta1.NotUpdateSidecarSetStrategyType
	}))
	w.change(func(s *v1beta1.SidecarSet) {
		s.Spec.CustomVersion, s.Spec.Containers[0].Image = "v2", "log:2"
		s.Spec.InjectionStrategy.Revision = &v1beta1.SidecarSetInjectRevision{CustomVersion: new("v1")}
	})
	w.observed(w.name)
	w.eventually("new pods get the first revision", func() string {
		pod := w.podOf("probe")
		err := w.Create(w.Context(), pod, client.DryRunAll)
		if err == nil && pod.Spec.Containers[0].Image != "log:1" {
			return pod.Spec.Containers[0].Image
		}
		return text(err)
	})
}

func stalls(w *world) {
	policy := &v1beta1.ResourcesPolicy{ResourcesExpr: v1beta1.ResourcesExpr{
		Limits: &v1beta1.ResourceExprs{CPU: "cpu * memory"}}}
	set := w.set(func(s *v1beta1.SidecarSet) { s.Spec.Containers[0].ResourcesPolicy = policy })
	w.must(w.Create(w.Context(), set))
	w.stalled(w.name, "InvalidSpec", "at character 7, memory is not known")
	w.change(func(s *v1beta1.SidecarSet) {
		s.Spec.Containers[0].ResourcesPolicy.ResourcesExpr.Limits.CPU = "max(cpu*50%, 50m)"
	})
	w.eventually("it is carried out", func() string {
		pod := w.podOf("probe")
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("400m")}
		err := w.Create(w.Context(), pod, client.DryRunAll)
		if err == nil && pod.Spec.Containers[0].Resources.Limits.Cpu().String() != "200m" {
			return pod.Spec.Containers[0].Resources.String()
		}
		return text(err)
	})
}

func refuses(w *world) {
	w.create(w.set(func(s *v1beta1.SidecarSet) {
		s.Spec.Flotilla = &v1beta1.SidecarSetFlotilla{FailurePolicy: v1beta1.SidecarSetFail}
	}))
	pin := func(policy v1beta1.SidecarSetFailurePolicy) {
		w.change(func(s *v1beta1.SidecarSet) {
			s.Spec.Flotilla.FailurePolicy = policy
			s.Spec.InjectionStrategy.Revision = &v1beta1.SidecarSetInjectRevision{RevisionName: new("none")}
		})
	}
	pin(v1beta1.SidecarSetFail)
	w.eventually("new pods are refused", func() string {
		err := w.Create(w.Context(), w.podOf("probe"), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "names a revision that is not found") {
			return fmt.Sprint(err)
		}
		return ""
	})
	pin(v1beta1.SidecarSetIgnore)
	w.eventually("new pods start without", func() string {
		pod := w.podOf("probe")
		err := w.Create(w.Context(), pod, client.DryRunAll)
		if err == nil && len(pod.Spec.Containers) > 1 {
			return "with"
		}
		return text(err)
	})
}

func canary(w *world) {
	w.create(w.set())
	w.pods(1)
	other := w.set(func(s *v1beta1.SidecarSet) {
		s.Name = w.name + "-c"
		s.Annotations = map[string]string{
			v1beta1.AnnotationSidecarSetCanary: "true", v1beta1.AnnotationSidecarSetBase: w.name}
		s.Spec.Containers[0].Image = "log:canary"
	})
	w.create(other)
	w.stalled(other.Name, "InvalidSpec", "must be NotUpdate")
	w.eventually("correct it", func() string {
		set := w.read(other.Name)
		set.Spec.UpdateStrategy.Type = v1beta1.NotUpdateSidecarSetStrategyType
		return text(w.Update(w.Context(), set))
	})
	w.eventually("new pods get the canary", func() string {
		pod := w.podOf("probe")
		err := w.Create(w.Context(), pod, client.DryRunAll)
		if err == nil && (len(pod.Spec.Containers) != 2 || pod.Spec.Containers[0].Image != "log:canary") {
			return pod.Spec.Containers[0].Image
		}
		return text(err)
	})
	w.become("log", "log:1")
}

func hot(w *world) {
	w.create(w.set(func(s *v1beta1.SidecarSet) {
		s.Spec.Containers[0].UpgradeStrategy = v1beta1.SidecarContainerUpgradeStrategy{
			UpgradeType: v1beta1.SidecarContainerHotUpgrade, HotUpgradeEmptyImage: "empty:1"}
	}))
	uids := w.pods(2)
	w.become("log-1", "log:1 log:1")
	w.become("log-2", "empty:1 empty:1")
	w.change(func(s *v1beta1.SidecarSet) { s.Spec.Containers[0].Image = "log:2" })
	w.become("log-2", "log:2 log:2")
	w.become("log-1", "empty:1 empty:1")
	w.counts(2, 2, 2, 2)
	w.same(uids)
}

func annotations(w *world) {
	w.create(w.set(func(s *v1beta1.SidecarSet) {
		s.Spec.PatchPodMetadata = []v1beta1.SidecarSetPatchPodMetadata{{
			Annotations: map[string]string{"example.com/level": "2"}, PatchPolicy: v1beta1.SidecarSetOverwritePatchPolicy}}
	}))
	w.stalled(w.name, "AnnotationNotAllowed", "add a rule for it")
	rules, err := json.Marshal(map[string]any{"rules": []map[string]any{
		{"annotationKeyExprs": []string{"^example.com/"}}}})
	w.must(err)
	w.must(w.Create(w.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: workload.DefaultNamespace, Name: inject.AllowedConfigMap},
		Data:       map[string]string{inject.AllowedKey: string(rules)},
	}))
	w.change(func(s *v1beta1.SidecarSet) { s.Spec.RevisionHistoryLimit = new(int32(5)) }) // it is looked at again
	w.eventually("new pods get the annotation", func() string {
		pod := w.podOf("probe")
		pod.Annotations = map[string]string{"example.com/level": "1"}
		err := w.Create(w.Context(), pod, client.DryRunAll)
		if err == nil && pod.Annotations["example.com/level"] != "2" {
			return fmt.Sprint(pod.Annotations)
		}
		return text(err)
	})
}

func trims(w *world) {
	w.create(w.set(func(s *v1beta1.SidecarSet) { s.Spec.RevisionHistoryLimit = new(int32(1)) }))
	for i := range 4 {
		w.change(func(s *v1beta1.SidecarSet) { s.Spec.Containers[0].Image = fmt.Sprint("log:", i+2) })
		w.observed(w.name)
	}
	w.eventually("two revisions are kept", func() string {
		var revisions appsv1.ControllerRevisionList
		w.must(w.List(w.Context(), &revisions, client.InNamespace(workload.DefaultNamespace),
			client.MatchingLabels{v1beta1.LabelSidecarSetName: w.name}))
		if len(revisions.Items) != 2 {
			return fmt.Sprint(len(revisions.Items), " are")
		}
		return ""
	})
}
