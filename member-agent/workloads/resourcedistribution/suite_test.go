package resourcedistribution_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/resourcedistribution"
)

// limit is how long anything may take on a busy machine.
const limit = 90 * time.Second

// reads are the Secrets whose content the controller asked for, as namespace/name.
type reads struct {
	mu  sync.Mutex
	all []string
}

// RoundTrip notes reads of the content of Secrets: those that do not ask for metadata alone.
func (r *reads) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
		if i := slices.Index(path, "secrets"); i >= 0 && request.Method == http.MethodGet &&
			!strings.Contains(request.Header.Get("Accept"), "PartialObjectMetadata") {
			r.mu.Lock()
			r.all = append(r.all, strings.Join(path[2:], "/"))
			r.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// world is one cluster with the controller running in it.
type world struct {
	*testing.T
	client.Client
	reads *reads
}

// TestOnAServer runs every scenario on one cluster, in parallel. Each has namespaces of its own.
func TestOnAServer(t *testing.T) {
	c := apiserver.Cluster(t, fleet.ClusterSpec{Name: "solo"}, false, "resourcedistributions.apps.kruise.io")
	config := c.RESTConfig()
	config.QPS = -1
	w := &world{reads: &reads{}}
	own := rest.CopyConfig(config)
	own.UserAgent = "resourcedistribution-under-test"
	own.Wrap(w.reads.wrap)
	apiserver.Run(t, own, func(ctx context.Context, mgr ctrl.Manager) error {
		return resourcedistribution.Add(ctx, &workload.Env{Manager: mgr, Distributes: true})
	})
	var err error
	if w.Client, err = client.New(config, client.Options{Scheme: apiserver.Scheme(t)}); err != nil {
		t.Fatal(err)
	}
	t.Run("scenarios", func(t *testing.T) {
		for name, scenario := range map[string]func(*world){
			"distributes to namespaces that come and go":     comeAndGo,
			"brings every copy back, and spreads changes":    keeps,
			"leaves objects of others alone, and says so":    conflicts,
			"takes over the copies of OpenKruise":            takesOver,
			"says what keeps it from distributing":           saysWhy,
			"deletes all copies with the distribution":       leaves,
			"distributes to two hundred namespaces":          many,
			"does not carry out what it does not understand": stalls,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				scenario(&world{T: t, Client: w.Client, reads: w.reads})
			})
		}
	})
}

// eventually polls until check returns "", and fails with what it said last.
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

func (w *world) namespace(name string, labels map[string]string) {
	w.Helper()
	w.must(w.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
}

// create creates a ResourceDistribution of a Secret of the same name, to namespaces with the label of=<name>.
func (w *world) create(name, value string, change ...func(*v1beta1.ResourceDistribution)) {
	w.Helper()
	d := &v1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.ResourceDistributionSpec{
		Resource: secret(name, value),
		Targets:  v1beta1.ResourceDistributionTargets{NamespaceSelector: metav1.LabelSelector{MatchLabels: of(name)}},
	}}
	for _, f := range change {
		f(d)
	}
	w.must(w.Create(w.Context(), d))
}

func of(name string) map[string]string { return map[string]string{"of": name} }

func secret(name, value string) runtime.RawExtension {
	return runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q},"stringData":{"key":%q}}`, name, value)}
}

func (w *world) get(name string) *v1beta1.ResourceDistribution {
	w.Helper()
	out := &v1beta1.ResourceDistribution{}
	w.must(w.Get(w.Context(), client.ObjectKey{Name: name}, out))
	return out
}

// change changes the ResourceDistribution, again where another writer was faster.
func (w *world) change(name string, edit func(*v1beta1.ResourceDistribution)) {
	w.Helper()
	w.eventually("the change is stored", func() string {
		d := w.get(name)
		edit(d)
		err := w.Update(w.Context(), d)
		if apierrors.IsConflict(err) {
			return err.Error()
		}
		w.must(err)
		return ""
	})
}

// status waits for counters and the status of Ready.
func (w *world) status(name string, desired, succeeded int32,
	ready metav1.ConditionStatus) *v1beta1.ResourceDistribution {
	w.Helper()
	var d *v1beta1.ResourceDistribution
	w.eventually(fmt.Sprintf("%s has %d of %d copies, Ready=%s", name, succeeded, desired, ready), func() string {
		d = w.get(name)
		s := &d.Status
		if s.ObservedGeneration != d.Generation || s.Desired != desired || s.Succeeded != succeeded ||
			s.Failed != desired-succeeded || condition(d, v1beta1.ConditionReady).Status != ready {
			return fmt.Sprintf("%+v", *s)
		}
		return ""
	})
	for i, name := range []v1beta1.ResourceDistributionConditionType{"GetResourceFailed", "CreateResourceFailed",
		"UpdateResourceFailed", "DeleteResourceFailed", "ConflictOccurred", "NamespaceNotExists"} {
		if d.Status.Conditions[i].Type != name {
			w.Errorf("condition %d is %s, want %s: its place is part of the contract", i, d.Status.Conditions[i].Type, name)
		}
	}
	return d
}

func condition(d *v1beta1.ResourceDistribution, name string) v1beta1.ResourceDistributionCondition {
	for _, c := range d.Status.Conditions {
		if string(c.Type) == name {
			return c
		}
	}
	return v1beta1.ResourceDistributionCondition{}
}

// copyIn waits until the copy in a namespace has this value, "" for no copy.
func (w *world) copyIn(namespace, name, value string) *corev1.Secret {
	w.Helper()
	out := &corev1.Secret{}
	w.eventually(fmt.Sprintf("the copy in %s has the value %q", namespace, value), func() string {
		out = &corev1.Secret{}
		err := w.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, out)
		if value == "" && apierrors.IsNotFound(err) {
			return ""
		}
		if err != nil {
			return err.Error()
		}
		if string(out.Data["key"]) != value || len(out.Data) != 1 {
			return fmt.Sprintf("%q", out.Data)
		}
		return ""
	})
	return out
}

func comeAndGo(w *world) {
	w.namespace("come-a", of("come"))
	w.create("come", "1")
	w.status("come", 1, 1, metav1.ConditionTrue)
	w.copyIn("come-a", "come", "1")
	w.namespace("come-b", of("come"))
	w.status("come", 2, 2, metav1.ConditionTrue)
	w.copyIn("come-b", "come", "1")
	w.must(w.Delete(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "come-b"}}))
	w.status("come", 1, 1, metav1.ConditionTrue)
	a := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "come-a"}}
	w.must(w.Patch(w.Context(), a, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"of":null}}}`))))
	w.copyIn("come-a", "come", "")
	d := w.status("come", 0, 0, metav1.ConditionTrue)
	if c := condition(d, v1beta1.ConditionReady); c.Reason != "NoNamespace" {
		w.Errorf("Ready is %+v, want that no namespace is selected", c)
	}
}

func keeps(w *world) {
	w.namespace("keep-a", of("keep"))
	w.create("keep", "1")
	w.status("keep", 1, 1, metav1.ConditionTrue)
	have := w.copyIn("keep-a", "keep", "1")
	have.Data["more"] = []byte("x")
	have.Labels["other"] = "stays"
	w.must(w.Update(w.Context(), have))
	w.copyIn("keep-a", "keep", "1")
	w.must(w.Delete(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "keep-a", Name: "keep"}},
		client.Preconditions{UID: &have.UID}))
	w.eventually("the copy is there again", func() string {
		if again := w.copyIn("keep-a", "keep", "1"); again.UID == have.UID {
			return "it is the one that was deleted"
		}
		return ""
	})
	have = w.copyIn("keep-a", "keep", "1")
	have.Labels["other"] = "stays"
	w.must(w.Update(w.Context(), have))
	w.change("keep", func(d *v1beta1.ResourceDistribution) {
		d.Spec.Resource.Raw = []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"keep","labels":{"app":"web"}},` +
			`"stringData":{"key":"2"}}`)
	})
	have = w.copyIn("keep-a", "keep", "2")
	if have.Labels["other"] != "stays" || have.Labels["app"] != "web" {
		w.Errorf("labels %v, want those of the resource and those of others", have.Labels)
	}
}

func conflicts(w *world) {
	w.namespace("conflict-a", of("conflict"))
	w.namespace("conflict-b", of("conflict"))
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "conflict-a", Name: "conflict"},
		StringData: map[string]string{"key": "foreign"}}
	w.must(w.Create(w.Context(), foreign))
	w.create("conflict", "1")
	d := w.status("conflict", 2, 1, metav1.ConditionFalse)
	c := condition(d, "ConflictOccurred")
	if c.Status != metav1.ConditionTrue || !slices.Equal(c.FailedNamespaces, []string{"conflict-a"}) ||
		!strings.Contains(c.Message, "namespace conflict-a") || !strings.Contains(c.Message, "stays as it is") {
		w.Errorf("condition %+v", c)
	}
	w.copyIn("conflict-b", "conflict", "1")
	w.copyIn("conflict-a", "conflict", "foreign")
	w.reads.mu.Lock()
	read := slices.Clone(w.reads.all)
	w.reads.mu.Unlock()
	for _, path := range read {
		if strings.Contains(path, "namespaces/conflict-a") || strings.HasSuffix(path, "/secrets") || path == "secrets" {
			w.Errorf("the content of %s was read", path)
		}
	}
}

func takesOver(w *world) {
	w.create("taken", "1", func(d *v1beta1.ResourceDistribution) {
		d.Spec.Targets = v1beta1.ResourceDistributionTargets{}
	})
	d := w.status("taken", 0, 0, metav1.ConditionTrue)
	w.namespace("taken-a", nil)
	earlier := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "taken-a", Name: "taken",
		Annotations: map[string]string{v1beta1.AnnotationDistributedFrom: "taken",
			v1beta1.AnnotationDistributedHash: "of-an-earlier-time"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, v1beta1.ResourceDistributionKind)}},
		StringData: map[string]string{"key": "0"}}
	w.must(w.Create(w.Context(), earlier))
	w.change("taken", func(d *v1beta1.ResourceDistribution) {
		d.Spec.Targets.IncludedNamespaces.List = []v1beta1.ResourceDistributionNamespace{{Name: "taken-a"}}
	})
	w.status("taken", 1, 1, metav1.ConditionTrue)
	if now := w.copyIn("taken-a", "taken", "1"); now.UID != earlier.UID {
		w.Errorf("the copy was made anew")
	}
}

func saysWhy(w *world) {
	w.namespace("why-a", nil)
	w.must(w.Create(w.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "why-a", Name: "none"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": {}}}}))
	w.create("why", "1", func(d *v1beta1.ResourceDistribution) {
		d.Spec.Targets = v1beta1.ResourceDistributionTargets{IncludedNamespaces: v1beta1.ResourceDistributionTargetNamespaces{
			List: []v1beta1.ResourceDistributionNamespace{{Name: "why-a"}, {Name: "why-absent"}}}}
	})
	d := w.status("why", 2, 0, metav1.ConditionFalse)
	if c := condition(d, "NamespaceNotExists"); !slices.Equal(c.FailedNamespaces, []string{"why-absent"}) {
		w.Errorf("condition %+v", c)
	}
	w.eventually("the quota is named", func() string {
		c := condition(w.get("why"), "CreateResourceFailed")
		if !slices.Equal(c.FailedNamespaces, []string{"why-a"}) || !strings.Contains(c.Message, "exceeded quota") {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	w.must(w.Delete(w.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "why-a", Name: "none"}}))
	w.namespace("why-absent", nil)
	w.status("why", 2, 2, metav1.ConditionTrue)
}

func leaves(w *world) {
	w.namespace("leave-a", of("leave"))
	w.create("leave", "1")
	w.status("leave", 1, 1, metav1.ConditionTrue)
	w.must(w.Delete(w.Context(), &v1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: "leave"}}))
	w.copyIn("leave-a", "leave", "")
}

func many(w *world) {
	const namespaces = 200
	name := func(i int) string { return fmt.Sprintf("many-%d", i) }
	for i := range namespaces / 2 {
		w.namespace(name(i), of("many"))
	}
	w.create("many", "1")
	for i := namespaces / 2; i < namespaces; i++ {
		w.namespace(name(i), of("many"))
	}
	w.status("many", namespaces, namespaces, metav1.ConditionTrue)
	w.change("many", func(d *v1beta1.ResourceDistribution) { d.Spec.Resource = secret("many", "2") })
	w.status("many", namespaces, namespaces, metav1.ConditionTrue)
	for _, i := range []int{0, namespaces / 2, namespaces - 1} {
		w.copyIn(name(i), "many", "2")
	}
}

func stalls(w *world) {
	w.create("stall", "1", func(d *v1beta1.ResourceDistribution) {
		d.Spec.Resource.Raw = []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"stall"},"stringData":{"key":1}}`)
	})
	w.eventually("it says what to correct", func() string {
		c := condition(w.get("stall"), v1beta1.ConditionStalled)
		if c.Status != metav1.ConditionTrue || c.Reason != "InvalidResource" || !strings.Contains(c.Message, "stringData") {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
}
