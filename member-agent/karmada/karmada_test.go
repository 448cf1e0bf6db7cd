package karmada

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
)

// deadline bounds every wait of these tests; the machine may be busy.
const deadline = 2 * time.Minute

const (
	hubNamespace = work.NamespacePrefix + "harbour"
	shop         = "shop"
)

// world is one API server that is Karmada's hub and the member too, with our agent.
type world struct {
	*testing.T
	ctx    context.Context
	client client.Client
	config *rest.Config
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	log.SetLogger(logr.Discard())
	cfg := apiserver.ForTest(t, "works.work.karmada.io")
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, work.AddToScheme(scheme))
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	must(t, err)
	w := &world{T: t, ctx: t.Context(), client: c, config: cfg}
	for _, name := range []string{hubNamespace, shop} {
		must(t, c.Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	w.start()
	return w
}

// start runs our agent's part of it until the returned function is called, or the test ends.
func (w *world) start() (stop func()) {
	w.Helper()
	scheme := runtime.NewScheme()
	must(w.T, clientgoscheme.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(w.config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}})
	must(w.T, err)
	must(w.T, Setup(mgr, Options{Hub: w.config, ClusterName: "harbour", Workers: 2, Clock: clock.RealClock{}}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("the agent ended: %v", err)
		}
	})
	w.Cleanup(stop)
	return stop
}

func (w *world) eventually(what string, check func() error) {
	w.Helper()
	end := time.After(deadline)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			w.Fatalf("%s: not within %s: %v", what, deadline, err)
		}
	}
}

// work reads the recorded Work under a name, with its manifest changed.
func (w *world) work(name string, change func(*work.Work, *unstructured.Unstructured)) *work.Work {
	w.Helper()
	data, err := os.ReadFile("testdata/work.json")
	must(w.T, err)
	recorded := &work.Work{}
	must(w.T, json.Unmarshal(data, recorded))
	manifest := &unstructured.Unstructured{}
	must(w.T, json.Unmarshal(recorded.Spec.Workload.Manifests[0].Raw, &manifest.Object))
	recorded.Name = name
	manifest.SetName(name)
	annotations := manifest.GetAnnotations()
	annotations[annotationWorkName] = name
	manifest.SetAnnotations(annotations)
	if change != nil {
		change(recorded, manifest)
	}
	recorded.Spec.Workload.Manifests[0].Raw, err = json.Marshal(manifest.Object)
	must(w.T, err)
	must(w.T, w.client.Create(w.ctx, recorded))
	return recorded
}

// applied waits for the condition Applied of a Work, and returns the Work.
func (w *world) applied(name string, status metav1.ConditionStatus, text string) *work.Work {
	w.Helper()
	have := &work.Work{}
	w.eventually(fmt.Sprintf("Applied of %s is %s", name, status), func() error {
		if err := w.client.Get(w.ctx, client.ObjectKey{Namespace: hubNamespace, Name: name}, have); err != nil {
			return err
		}
		c := meta.FindStatusCondition(have.Status.Conditions, work.ConditionApplied)
		if c == nil || c.Status != status || !strings.Contains(c.Message, text) {
			return fmt.Errorf("conditions %+v", have.Status.Conditions)
		}
		return nil
	})
	return have
}

func (w *world) deployment(name string) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	return d, w.client.Get(w.ctx, client.ObjectKey{Namespace: shop, Name: name}, d)
}

func (w *world) gone(what string, object client.Object) {
	w.Helper()
	w.eventually(what+" is gone", func() error {
		err := w.client.Get(w.ctx, client.ObjectKeyFromObject(object), object)
		if err == nil {
			return errors.New("it stands")
		}
		return client.IgnoreNotFound(err)
	})
}

// TestWorksOfKarmada carries out recorded Works of a Karmada hub.
func TestWorksOfKarmada(t *testing.T) {
	w := newWorld(t)
	t.Run("applied, reflected, corrected and deleted", w.whole)
	t.Run("an object of somebody else", w.conflict)
	t.Run("preserved", w.preserved)
	t.Run("what cannot be carried out", w.refused)
	t.Run("deleted and made anew", w.replaced)
}

func (w *world) whole(t *testing.T) {
	w = &world{T: t, ctx: t.Context(), client: w.client, config: w.config}
	recorded := w.work("web", nil)
	w.applied("web", metav1.ConditionTrue, "")
	d, err := w.deployment("web")
	must(t, err)
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 2, ReadyReplicas: 2,
		AvailableReplicas: 2, UpdatedReplicas: 2,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}}
	must(t, w.client.Status().Update(w.ctx, d))
	w.eventually("the status is reflected", func() error {
		have := w.applied("web", metav1.ConditionTrue, "")
		if len(have.Status.ManifestStatuses) != 1 || have.Status.ManifestStatuses[0].Status == nil {
			return fmt.Errorf("status %+v", have.Status)
		}
		m, told := have.Status.ManifestStatuses[0], map[string]any{}
		if err := json.Unmarshal(m.Status.Raw, &told); err != nil {
			return err
		}
		if m.Health != work.ResourceHealthy || told["readyReplicas"] != 2.0 || told["resourceTemplateGeneration"] != 3.0 ||
			told["generation"] != 1.0 ||
			m.Identifier != (work.ResourceIdentifier{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: shop,
				Name: "web"}) {
			return fmt.Errorf("%+v: %s", m, m.Status.Raw)
		}
		return nil
	})

	must(t, w.client.Patch(w.ctx, d, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":9}}`))))
	w.eventually("drift is corrected", func() error {
		if d, err = w.deployment("web"); err != nil {
			return err
		}
		if *d.Spec.Replicas != 2 {
			return fmt.Errorf("%d replicas", *d.Spec.Replicas)
		}
		return nil
	})
	w.eventually("a new manifest is taken up", func() error {
		if err := w.client.Get(w.ctx, client.ObjectKeyFromObject(recorded), recorded); err != nil {
			return err
		}
		raw := recorded.Spec.Workload.Manifests[0].Raw
		recorded.Spec.Workload.Manifests[0].Raw = []byte(strings.NewReplacer(`"web:1"`, `"web:2"`, `generation":"3"`,
			`generation":"4"`).Replace(string(raw)))
		return w.client.Update(w.ctx, recorded)
	})
	w.eventually("the image", func() error {
		if d, err = w.deployment("web"); err != nil {
			return err
		}
		if image := d.Spec.Template.Spec.Containers[0].Image; image != "web:2" {
			return fmt.Errorf("it is %s", image)
		}
		return nil
	})
	must(t, w.client.Delete(w.ctx, recorded))
	w.gone("the Work", recorded)
	if d, err = w.deployment("web"); !apierrors.IsNotFound(err) {
		t.Errorf("the Deployment stands: %v", err)
	}
}

func (w *world) conflict(t *testing.T) {
	w = &world{T: t, ctx: t.Context(), client: w.client, config: w.config}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "settings"},
		Data: map[string]string{"a": "theirs"}}
	must(t, w.client.Create(w.ctx, settings))
	configMap := func(_ *work.Work, m *unstructured.Unstructured) {
		delete(m.Object, "spec")
		m.SetAPIVersion("v1")
		m.SetKind("ConfigMap")
		m.Object["data"] = map[string]any{"a": "ours"}
	}
	recorded := w.work("settings", configMap)
	w.applied("settings", metav1.ConditionFalse, "ConfigMap shop/settings stands in the member and was not made by "+
		"Karmada")
	must(t, w.client.Get(w.ctx, client.ObjectKeyFromObject(settings), settings))
	if settings.Data["a"] != "theirs" || len(settings.Labels) > 0 {
		t.Errorf("it was changed: %+v", settings)
	}
	must(t, w.client.Patch(w.ctx, recorded, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"work.karmada.io/conflict-resolution":"overwrite"}}}`))))
	w.applied("settings", metav1.ConditionTrue, "")
	must(t, w.client.Get(w.ctx, client.ObjectKeyFromObject(settings), settings))
	if settings.Data["a"] != "ours" || settings.Labels[LabelManaged] != "true" {
		t.Errorf("it was not taken over: %+v", settings)
	}
	must(t, w.client.Delete(w.ctx, recorded))
	w.gone("the Work", recorded)
	w.gone("the ConfigMap", settings)
}

func (w *world) preserved(t *testing.T) {
	w = &world{T: t, ctx: t.Context(), client: w.client, config: w.config}
	recorded := w.work("kept", func(o *work.Work, _ *unstructured.Unstructured) {
		o.Spec.PreserveResourcesOnDeletion = new(true)
	})
	w.applied("kept", metav1.ConditionTrue, "")
	must(t, w.client.Delete(w.ctx, recorded))
	w.gone("the Work", recorded)
	d, err := w.deployment("kept")
	must(t, err)
	if d.Labels[LabelManaged] != "" || d.Labels["app"] != "web" || d.Annotations[annotationWorkName] != "" {
		t.Errorf("labels %v, annotations %v", d.Labels, d.Annotations)
	}
}

func (w *world) refused(t *testing.T) {
	w = &world{T: t, ctx: t.Context(), client: w.client, config: w.config}
	unknown := w.work("unknown", func(_ *work.Work, m *unstructured.Unstructured) { m.SetKind("Caravel") })
	w.applied("unknown", metav1.ConditionFalse, "the member does not serve Caravel of apps/v1; install its definition "+
		"there")
	wrong := w.work("wrong", func(_ *work.Work, m *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(m.Object, int64(-1), "spec", "replicas")
	})
	w.applied("wrong", metav1.ConditionFalse, "Deployment shop/wrong was not taken")
	two := w.work("two", nil)
	w.applied("two", metav1.ConditionTrue, "")
	w.eventually("a second manifest", func() error {
		if err := w.client.Get(w.ctx, client.ObjectKeyFromObject(two), two); err != nil {
			return err
		}
		two.Spec.Workload.Manifests = append(two.Spec.Workload.Manifests, two.Spec.Workload.Manifests[0])
		return w.client.Update(w.ctx, two)
	})
	w.applied("two", metav1.ConditionFalse, "the Work has 2 manifests")
	suspended := w.work("suspended", func(o *work.Work, _ *unstructured.Unstructured) {
		o.Spec.SuspendDispatching = new(true)
	})
	for _, one := range []*work.Work{unknown, wrong, suspended} {
		must(t, w.client.Delete(w.ctx, one))
		w.gone("Work "+one.Name, one)
	}
	if _, err := w.deployment("suspended"); !apierrors.IsNotFound(err) {
		t.Errorf("a suspended Work was carried out: %v", err)
	}
}

// replaced: what became of a Work that is gone is not told of the next one of its name.
func (w *world) replaced(t *testing.T) {
	w = &world{T: t, ctx: t.Context(), client: w.client, config: w.config}
	// the agent leaves it alone
	suspend := func(o *work.Work, _ *unstructured.Unstructured) { o.Spec.SuspendDispatching = new(true) }
	first := w.work("again", suspend)
	must(t, w.client.Delete(w.ctx, first))
	w.gone("the first Work", first.DeepCopy())
	second := w.work("again", suspend)
	r := &Reconciler{hub: w.client, clock: clock.RealClock{}}
	if err := r.report(w.ctx, first, nil, nil, outcome{applied: true}); !apierrors.IsInvalid(err) {
		t.Errorf("telling of the first Work gave %v, want it to be refused", err)
	}
	have := &work.Work{}
	must(t, w.client.Get(w.ctx, client.ObjectKeyFromObject(second), have))
	if len(have.Status.Conditions) > 0 {
		t.Errorf("what became of the first Work is told of the second: %+v", have.Status)
	}
	must(t, r.report(w.ctx, second, nil, nil, outcome{applied: true}))
	w.applied("again", metav1.ConditionTrue, "")
	must(t, w.client.Delete(w.ctx, second))
	w.gone("the second Work", second)
}
