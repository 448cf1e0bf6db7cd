package serving

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// warnings are what an API server says beside its answers.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

// take returns the warnings since it was called last.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.said
	w.said = nil
	return said
}

// manifest returns a CloneSet whose pods have this spec.
func manifest(namespace, name, version string, pods map[string]any) *unstructured.Unstructured {
	labels := map[string]any{"app": name}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/" + version, "kind": "CloneSet",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pods},
		},
	}}
}

// sidecarSet returns a SidecarSet whose container has this working directory.
func sidecarSet(version string, directory any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/" + version, "kind": "SidecarSet", "metadata": map[string]any{"name": "s"},
		"spec": map[string]any{
			"selector":   map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"containers": []any{map[string]any{"name": "side", "image": "i", "workingDir": directory}},
		},
	}}
}

// pods returns the spec of pods with one more field.
func pods(field string, value any) map[string]any {
	return map[string]any{"containers": []any{map[string]any{"name": "a", "image": "i"}}, field: value}
}

// TestTemplatesOnAPIServer has an API server ask a running server.
func TestTemplatesOnAPIServer(t *testing.T) {
	const unchecked = "unchecked"
	cluster := fleet.ForTest(t, fleet.Config{}).Hub()
	if err := cluster.ApplyCRDs(t.Context(), crds.FS); err != nil {
		t.Fatal(err)
	}
	config, heard := cluster.RESTConfig(), &warnings{}
	config.WarningHandler = heard
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{namespace, unchecked} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
		if err := c.Create(t.Context(), ns); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	server, err := New(cluster.RESTConfig(), Options{
		Flags:   Flags{BindAddress: cluster.WebhookAddress(), URL: "https://" + cluster.WebhookAddress()},
		Program: "flotilla-agent", Namespace: namespace, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(cluster.RESTConfig(), ctrl.Options{
		WebhookServer: server, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Setup(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = mgr.Start(ctx) })
	defer func() { cancel(); running.Wait() }()

	refused := func(err error, path string) string {
		want := path + ": Invalid value: 5: must be of type string; correct the values"
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			return "it is not refused with path and value: " + textOf(err)
		}
		return ""
	}
	eventually := func(what string, problem func(context.Context) string) {
		t.Helper()
		fleet.Eventually(t, time.Minute, what, problem, nil)
	}
	dry := func(ctx context.Context, in, version string) error {
		return c.Create(ctx, manifest(in, "mistyped", version, pods("nodeName", int64(5))), client.DryRunAll)
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		eventually("a mistyped template of "+version+" is refused", func(ctx context.Context) string {
			return refused(dry(ctx, namespace, version), "spec.template.spec.nodeName")
		})
		eventually("a mistyped template of a StatefulSet of "+version+" is refused", func(ctx context.Context) string {
			set := manifest(namespace, "mistyped", version, pods("nodeName", int64(5)))
			set.SetKind(v1beta1.StatefulSetKind.Kind)
			return refused(c.Create(ctx, set, client.DryRunAll), "spec.template.spec.nodeName")
		})
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		eventually("a mistyped sidecar of "+version+" is refused", func(ctx context.Context) string {
			return refused(c.Create(ctx, sidecarSet(version, int64(5)), client.DryRunAll), "spec.containers[0].workingDir")
		})
	}
	if err := c.Create(t.Context(), sidecarSet("v1beta1", "/")); err != nil {
		t.Error(err)
	}
	heard.take()
	if err := c.Create(t.Context(), manifest(namespace, "unknown", "v1beta1", pods("nodename", "n"))); err != nil {
		t.Fatal(err)
	}
	said := heard.take()
	if !slices.ContainsFunc(said, func(text string) bool {
		return strings.Contains(text, `unknown field "spec.template.spec.nodename"`)
	}) {
		t.Errorf("warnings %q", said)
	}

	// Somebody exempts a namespace, and the API server stores a mistyped template there.
	exempt := func(in *metav1.LabelSelector) {
		t.Helper()
		eventually("the configuration is changed", func(ctx context.Context) string {
			live := &admissionregistrationv1.ValidatingWebhookConfiguration{}
			err := c.Get(ctx, client.ObjectKey{Name: TemplatesConfiguration}, live)
			if err == nil {
				live.Webhooks[0].NamespaceSelector = in
				err = c.Update(ctx, live)
			}
			return textOf(err)
		})
	}
	exempt(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{unchecked}},
	}})
	stored := manifest(unchecked, "stored", "v1beta1", pods("nodeName", int64(5)))
	eventually("a namespace is exempt", func(ctx context.Context) string {
		return textOf(client.IgnoreAlreadyExists(c.Create(ctx, stored)))
	})
	exempt(&metav1.LabelSelector{})
	eventually("it is checked again", func(ctx context.Context) string {
		return refused(dry(ctx, unchecked, "v1beta1"), "spec.template.spec.nodeName")
	})
	patch := func(text string) error {
		set := &unstructured.Unstructured{}
		set.SetGroupVersionKind(v1beta1.CloneSetKind)
		set.SetNamespace(unchecked)
		set.SetName("stored")
		return c.Patch(t.Context(), set, client.RawPatch("application/merge-patch+json", []byte(text)))
	}
	if err := patch(`{"spec":{"replicas":0},"metadata":{"labels":{"a":"b"}}}`); err != nil {
		t.Errorf("scale what has a mistyped template: %v", err)
	}
	changed := patch(`{"spec":{"template":{"spec":{"hostname":"x"}}}}`)
	if problem := refused(changed, "spec.template.spec.nodeName"); problem != "" {
		t.Errorf("another change of the template: %s", problem)
	}
	if err := patch(`{"spec":{"template":{"spec":{"nodeName":null}}}}`); err != nil {
		t.Errorf("the template is corrected: %v", err)
	}
}

// textOf returns what an error says, "" for none.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
