package podunavailablebudget_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/cloneset"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/podunavailablebudget"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/podunavailablebudget/budgets"
)

// limit is how long anything may take on a busy machine.
const limit = 120 * time.Second

// service is a Service with two replicas of the agent behind it: it asks them in turn.
type service struct {
	https    *httptest.Server
	replicas [2]*http.ServeMux
	asked    atomic.Int64
	down     atomic.Bool
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{replicas: [2]*http.ServeMux{http.NewServeMux(), http.NewServeMux()}}
	s.https = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down.Load() {
			panic(http.ErrAbortHandler)
		}
		s.replicas[s.asked.Add(1)%2].ServeHTTP(w, r)
	}))
	t.Cleanup(s.https.Close)
	return s
}

// replica is the webhook server of one replica.
type replica struct {
	*service
	mux *http.ServeMux
}

func (r replica) Register(path string, handler http.Handler) { r.mux.Handle(path, handler) }

func (r replica) ClientConfig(path string) (admissionregistrationv1.WebhookClientConfig, error) {
	return admissionregistrationv1.WebhookClientConfig{
		URL:      new(r.https.URL + path),
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.https.Certificate().Raw}),
	}, nil
}

func (replica) OnChange(func()) {}

type world struct {
	*testing.T
	client.Client
	namespace string
	*service
}

// TestOnAServer runs every scenario on one cluster, with two replicas of the agent, each with caches of its own.
func TestOnAServer(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	c := apiserver.Cluster(t, fleet.ClusterSpec{Name: "solo", Nodes: fleet.Nodes("solo", "eu", []string{"a"}, 2)}, false,
		"clonesets.apps.kruise.io", "daemonsets.apps.kruise.io", "statefulsets.apps.kruise.io",
		"uniteddeployments.apps.kruise.io", "podunavailablebudgets.policy.kruise.io")
	config := c.RESTConfig()
	config.QPS = -1
	s := newService(t)
	apiserver.Run(t, rest.CopyConfig(config), func(ctx context.Context, mgr ctrl.Manager) error { // the leader
		keeper, err := budgets.New(mgr, budgets.Options{})
		if err != nil {
			return err
		}
		related, err := keeper.Mutator(mgr)
		if err != nil {
			return err
		}
		env := &workload.Env{Manager: mgr, Disruptions: keeper}
		return errors.Join(cloneset.Add(ctx, env), podunavailablebudget.Add(ctx, env),
			admission.Setup(mgr, admission.Options{Server: replica{s, s.replicas[0]},
				Mutators: []admission.Mutator{related}, Guards: []admission.Guard{keeper.Guard()}}))
	})
	apiserver.Run(t, rest.CopyConfig(config), func(_ context.Context, mgr ctrl.Manager) error {
		keeper, err := budgets.New(mgr, budgets.Options{})
		if err != nil {
			return err
		}
		related, err := keeper.Mutator(mgr)
		if err != nil {
			return err
		}
		s.replicas[1].Handle(admission.GuardPath,
			admission.NewGuardHandler(mgr.GetLogger(), admission.GuardTimeout/2, keeper.Guard()))
		s.replicas[1].Handle(admission.Path,
			admission.NewHandler(mgr.GetLogger(), admission.DefaultTimeout/2, related))
		return nil
	})
	cl, err := client.New(config, client.Options{Scheme: apiserver.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, scenario := range []struct {
		name string
		run  func(*world)
	}{
		{"allows no more than its number under 200 evictions at a time", parallelEvictions},
		{"refuses deletions and says why", deletions},
		{"lets a CloneSet recreate pods within its number", rollout(apps.ReCreatePodUpdatePolicy)},
		{"lets a CloneSet update pods in place within its number", rollout(apps.InPlaceIfPossiblePodUpdatePolicy)},
		{"names both of two budgets that overlap", overlap},
		{"refuses operations while no agent answers if it says so", failing},
		{"names the budget on pods when they are created", relation},
		{"enforces the others beside a budget that is too long", tooLong},
		{"removes the webhook with the last budget", configuration},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pub-"}}
			if err := cl.Create(t.Context(), ns); err != nil {
				t.Fatal(err)
			}
			scenario.run(&world{t, cl, ns.Name, s})
		})
	}
}

func (w *world) eventually(what string, check func() string) {
	w.Helper()
	apiserver.Eventually(w, limit, what, check)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// pods creates ready pods without a workload.
func (w *world) pods(n int) {
	w.Helper()
	w.eventually("the namespace takes pods", func() string {
		err := w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "default"}, &corev1.ServiceAccount{})
		return says(err)
	})
	for i := range n {
		w.must(w.Create(w.Context(), w.pod("web", fmt.Sprint("web-", i))))
	}
	w.eventually("the pods are ready", func() string { return differs(w.ready(), n) })
}

// pod returns a pod of an application.
func (w *world) pod(app, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
			TerminationGracePeriodSeconds: new(int64(0))},
	}
}

func labels() map[string]string { return map[string]string{"app": "web"} }

func says(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func differs(have, want int) string {
	if have != want {
		return fmt.Sprintf("%d, want %d", have, want)
	}
	return ""
}

func (w *world) list() []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.must(w.List(w.Context(), &list, client.InNamespace(w.namespace)))
	return list.Items
}

func (w *world) ready() (n int) {
	w.Helper()
	pods := w.list()
	for i := range pods {
		if podstate.Active(&pods[i]) && podstate.Ready(&pods[i]) {
			n++
		}
	}
	return n
}

// budget creates a budget, and waits until it allows as many as it says and every replica is asked.
func (w *world) budget(name string, maxUnavailable int, total *int32) {
	w.Helper()
	pub := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	pub.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels()}
	pub.Spec.MaxUnavailable = new(intstr.FromInt(maxUnavailable))
	pub.Spec.ProtectTotalReplicas = total
	w.must(w.Create(w.Context(), pub))
	w.eventually("the budget counts", func() string {
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(pub), pub))
		if pub.Status.ObservedGeneration != pub.Generation {
			return "not yet"
		}
		return differs(int(pub.Status.UnavailableAllowed), maxUnavailable)
	})
	w.guarded()
}

// named returns the budget of a name, without its content.
func (w *world) named(name string) *v1beta1.PodUnavailableBudget {
	return &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
}

// guarded waits until the API server asks about deletions in the namespace.
func (w *world) guarded() {
	w.Helper()
	pods := w.list()
	if len(pods) == 0 {
		return
	}
	w.eventually("the guard is asked", func() string {
		before := w.asked.Load()
		if err := w.Delete(w.Context(), &pods[0], client.DryRunAll); !apierrors.IsForbidden(err) {
			w.must(err)
		}
		if w.asked.Load() == before {
			return "it is not"
		}
		return ""
	})
}

func (w *world) evict(name string) error {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	pod := &corev1.Pod{ObjectMeta: eviction.ObjectMeta}
	return w.SubResource("eviction").Create(w.Context(), pod, eviction)
}

func parallelEvictions(w *world) {
	const pods, most, requests = 40, 5, 200
	w.pods(pods)
	w.budget("web", most, new(int32(pods)))
	// A call that takes too long on a busy machine must not count as allowed.
	w.must(w.Patch(w.Context(), w.named("web"), client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"flotilla":{"failurePolicy":"Fail"}}}`))))
	w.enforced(w.named("web"), metav1.ConditionTrue)
	var group sync.WaitGroup
	var gone, refused atomic.Int64
	for i := range requests {
		group.Go(func() {
			switch err := w.evict(fmt.Sprint("web-", i%pods)); {
			case err == nil:
				gone.Add(1)
			case apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err):
				refused.Add(1)
			case !apierrors.IsNotFound(err):
				w.Error(err)
			}
		})
	}
	group.Wait()
	w.eventually("as many pods are gone as were allowed", func() string {
		left := w.list()
		if len(left) > pods-most { // one more, if calls had failed
			_ = w.evict(left[0].Name)
		}
		return differs(len(left), pods-most)
	})
	w.Logf("%d evictions were allowed, %d refused", gone.Load(), refused.Load())
	for _, pod := range w.list() {
		w.eventually("one more is refused", func() string {
			if err := w.evict(pod.Name); !apierrors.IsTooManyRequests(err) ||
				!apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) ||
				!strings.Contains(err.Error(), "PodUnavailableBudget web refuses EVICT of pod "+pod.Name) {
				return fmt.Sprint(err)
			}
			return ""
		})
	}
	if n := len(w.list()); n != pods-most {
		w.Errorf("%d pods are left", n)
	}
}

func deletions(w *world) {
	w.pods(3)
	w.budget("web", 1, new(int32(3)))
	one := w.list()[0]
	w.must(w.Delete(w.Context(), &one, client.DryRunAll))
	w.must(w.Delete(w.Context(), &one, client.DryRunAll))
	w.must(w.Delete(w.Context(), &one))
	for _, pod := range w.list() {
		if pod.UID == one.UID {
			continue
		}
		err := w.Delete(w.Context(), &pod)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "2 must stay available") {
			w.Errorf("deletion: %v", err)
		}
		changed := pod.DeepCopy()
		changed.Spec.Containers[0].Image = "web:2"
		if err := w.Update(w.Context(), changed); !apierrors.IsForbidden(err) {
			w.Errorf("another image: %v", err)
		}
		changed = pod.DeepCopy()
		changed.Labels["more"] = "labels"
		w.must(w.Patch(w.Context(), changed, client.MergeFrom(&pod)))
		// A pod that is marked as unavailable may go; to mark it is refused.
		changed.Labels[apps.UnavailableLabelPrefix+"x"] = ""
		if err := w.Patch(w.Context(), changed, client.MergeFrom(&pod)); !apierrors.IsForbidden(err) {
			w.Errorf("a mark: %v", err)
		}
	}
	w.eventually("an event says so", func() string {
		var list corev1.EventList
		w.must(w.List(w.Context(), &list, client.InNamespace(w.namespace)))
		for i := range list.Items {
			if list.Items[i].Reason == "PubPreventPodDeletion" {
				return ""
			}
		}
		return fmt.Sprintf("none of %d", len(list.Items))
	})
	pod := w.list()[1]
	w.must(w.Patch(w.Context(), &pod, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"pub.kruise.io/no-protect":"true"}}}`))))
	w.must(w.Delete(w.Context(), &pod))
}

func rollout(policy apps.PodUpdatePolicyType) func(*world) {
	return func(w *world) { rollOut(w, policy) }
}

func rollOut(w *world, policy apps.PodUpdatePolicyType) {
	const replicas = 4
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web"}}
	cs.Spec.Replicas = new(int32(replicas))
	cs.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels()}
	cs.Spec.Template.Labels = labels()
	cs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
	cs.Spec.UpdateStrategy = apps.CloneSetUpdateStrategy{RollingUpdate: &apps.RollingUpdateCloneSetStrategy{
		MaxUnavailable: new(intstr.FromString("100%")), PodUpdatePolicy: policy,
	}}
	w.must(w.Create(w.Context(), cs))
	w.eventually("the pods are ready", func() string { return differs(w.ready(), replicas) })
	w.budget("web", 0, nil)
	w.eventually("the pods name the budget", func() string {
		for _, pod := range w.list() {
			if pod.Annotations[v1beta1.AnnotationRelatedPub] != "web" {
				return pod.Name + " does not"
			}
		}
		return ""
	})
	least := replicas
	patch := client.RawPatch("application/json-patch+json",
		[]byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"web:2"}]`))
	w.must(w.Patch(w.Context(), cs, patch))
	before := w.asked.Load()
	w.eventually("a condition names the budget", func() string {
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(cs), cs))
		for _, c := range cs.Status.Conditions {
			if strings.Contains(c.Message, "PodUnavailableBudget web refuses ") {
				return ""
			}
		}
		return fmt.Sprint("none of ", cs.Status.Conditions)
	})
	pub := w.named("web")
	w.must(w.Patch(w.Context(), pub, client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"maxUnavailable":1}}`))))
	w.eventually("all pods are updated", func() string {
		least = min(least, w.ready())
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(cs), cs))
		return differs(int(cs.Status.UpdatedAvailableReplicas), replicas)
	})
	w.Logf("the guard was asked %d times", w.asked.Load()-before)
	if least < replicas-1 {
		w.Errorf("%d pods were ready, at least %d must be", least, replicas-1)
	}
}

func overlap(w *world) {
	w.pods(2)
	w.budget("a", 1, new(int32(2)))
	w.budget("b", 1, new(int32(2)))
	w.eventually("both say so", func() string {
		for _, name := range []string{"a", "b"} {
			pub := &v1beta1.PodUnavailableBudget{}
			w.must(w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, pub))
			text := ""
			for _, c := range pub.Status.Conditions {
				if c.Type == apps.ConditionStalled && c.Status == metav1.ConditionTrue {
					text = c.Message
				}
			}
			if !strings.Contains(text, "PodUnavailableBudgets a and b") &&
				!strings.Contains(text, "PodUnavailableBudgets b and a") {
				return name + " says " + text
			}
		}
		return ""
	})
	pods := w.list()
	w.must(w.Delete(w.Context(), &pods[0]))
	if err := w.Delete(w.Context(), &pods[1]); !apierrors.IsForbidden(err) {
		w.Errorf("the second: %v", err)
	}
}

func failing(w *world) {
	w.pods(3)
	w.budget("web", 3, new(int32(3)))
	pods := w.list()
	defer w.down.Store(false)
	w.down.Store(true)
	w.must(w.Delete(w.Context(), &pods[0]))
	w.down.Store(false)
	pub := w.named("web")
	w.must(w.Patch(w.Context(), pub, client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"flotilla":{"failurePolicy":"Fail"}}}`))))
	w.enforced(pub, metav1.ConditionTrue)
	other := w.pod("db", "db-0")
	w.must(w.Create(w.Context(), other))
	w.down.Store(true)
	w.eventually("the deletion is refused", func() string {
		if err := w.Delete(w.Context(), &pods[1], client.DryRunAll); !apierrors.IsInternalError(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
	w.eventually("the eviction is refused", func() string {
		if err := w.evict(pods[1].Name); !apierrors.IsInternalError(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
	// Other pods of the namespace are not concerned.
	w.must(w.evict(other.Name))
	w.must(client.IgnoreNotFound(w.Delete(w.Context(), other)))
	// What cannot make a pod unavailable is not asked about, and no condition fails.
	w.must(w.Patch(w.Context(), &pods[1], client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"more":"labels"}}}`))))
	w.down.Store(false)
	w.must(w.Delete(w.Context(), &pods[1]))
}

// enforced waits until the condition Enforced of the budget has the status.
func (w *world) enforced(pub *v1beta1.PodUnavailableBudget, status metav1.ConditionStatus) {
	w.Helper()
	w.eventually("Enforced is "+string(status), func() string {
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(pub), pub))
		if !meta.IsStatusConditionPresentAndEqual(pub.Status.Conditions, v1beta1.ConditionEnforced, status) {
			return fmt.Sprint(pub.Status.Conditions)
		}
		return ""
	})
}

func relation(w *world) {
	w.pods(1)
	w.budget("web", 1, nil)
	w.eventually("a new pod names the budget", func() string {
		// No controller sees a pod that is not stored.
		pod := w.pod("web", "web-new")
		w.must(w.Create(w.Context(), pod, client.DryRunAll))
		if pod.Annotations[v1beta1.AnnotationRelatedPub] != "web" || pod.Annotations["kruise.io/related-pub"] != "web" {
			return fmt.Sprint(pod.Annotations)
		}
		return ""
	})
	before := w.asked.Load()
	other := w.pod("db", "db-new")
	w.must(w.Create(w.Context(), other, client.DryRunAll))
	if len(other.Annotations) > 0 || w.asked.Load() != before {
		w.Errorf("another pod is asked about: %v", other.Annotations)
	}
	w.down.Store(true)
	defer w.down.Store(false)
	w.must(w.Create(w.Context(), w.pod("web", "web-new"), client.DryRunAll))
}

func tooLong(w *world) {
	fails := &v1beta1.PodUnavailableBudgetSettings{FailurePolicy: v1beta1.PubFail}
	long := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "long"}}
	var requirements []metav1.LabelSelectorRequirement
	for _, key := range []string{"app", "tier", "zone"} {
		one := metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn}
		for i := range 250 {
			one.Values = append(one.Values, fmt.Sprintf("a-value-that-is-as-long-as-values-of-labels-are-allowed-%05d", i))
		}
		requirements = append(requirements, one)
	}
	long.Spec = v1beta1.PodUnavailableBudgetSpec{Flotilla: fails, MaxUnavailable: new(intstr.FromInt(1)),
		Selector: &metav1.LabelSelector{MatchExpressions: requirements}}
	short := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "short"}}
	short.Spec = v1beta1.PodUnavailableBudgetSpec{Flotilla: fails, MaxUnavailable: new(intstr.FromInt(1)),
		TargetReference: &v1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}
	w.must(w.Create(w.Context(), long))
	w.must(w.Create(w.Context(), short))
	w.enforced(short, metav1.ConditionTrue)
	w.enforced(long, metav1.ConditionFalse)
	w.enforced(short, metav1.ConditionTrue)
}

func configuration(w *world) {
	w.pods(1)
	w.budget("web", 1, nil)
	key := client.ObjectKey{Name: admission.ConfigurationName}
	w.must(w.Get(w.Context(), key, &admissionregistrationv1.ValidatingWebhookConfiguration{}))
	var all v1beta1.PodUnavailableBudgetList
	w.must(w.List(w.Context(), &all))
	for i := range all.Items {
		w.must(w.Delete(w.Context(), &all.Items[i]))
	}
	w.eventually("there is no configuration", func() string {
		err := w.Get(w.Context(), key, &admissionregistrationv1.ValidatingWebhookConfiguration{})
		if !apierrors.IsNotFound(err) {
			return fmt.Sprint("it is there: ", err)
		}
		return ""
	})
}
