package sysdump

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientfake "k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// hidden is a text that must not be in any archive.
const hidden = "s3cret"

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestRedact(t *testing.T) {
	for name, text := range map[string]string{
		"env of a pod":         `{kind: Pod, spec: {containers: [{name: a, command: [run], env: [{name: KEY, value: s3cret}, {name: FROM, valueFrom: {secretKeyRef: {name: token}}}]}], initContainers: [{env: [{name: A, value: s3cret}]}]}}`,
		"env of a template":    `{kind: CloneSet, spec: {template: {spec: {containers: [{env: [{name: KEY, value: s3cret}]}]}}}}`,
		"env of an override":   `{kind: FederationPolicy, spec: {overrides: [{clusters: [east], env: [{name: KEY, value: s3cret}]}]}}`,
		"a patch of env":       `{kind: FederationPolicy, spec: {overrides: [{patch: [{op: add, path: /spec/template/spec/containers/0/env/0/value, value: s3cret}]}]}}`,
		"a patch that has env": `{kind: FederationPolicy, spec: {overrides: [{patch: [{op: add, path: /spec/template/spec/containers/-, value: {env: [{name: A, value: s3cret}]}}]}]}}`,
		"a Secret in an order": `{kind: Work, spec: {workload: {manifests: [{kind: Secret, metadata: {name: a}, data: {key: s3cret}, stringData: {key: s3cret}}]}}}`,
		"a ConfigMap in one":   `{kind: Work, spec: {workload: {manifests: [{kind: ConfigMap, data: {key: s3cret}, binaryData: {key: s3cret}}]}}}`,
		"what kubectl notes":   `{kind: CloneSet, metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: s3cret}}}`,
		"a request":            `{kind: CertificateSigningRequest, spec: {request: s3cret, signerName: x}, status: {certificate: s3cret}}`,
		"a whole object": `{kind: Lease, metadata: {annotations: {copy: "s3cret` + strings.Repeat("x", 2*longest) +
			`"}}}`,
		"managed fields":         `{kind: Pod, metadata: {name: a, managedFields: [{manager: s3cret}]}}`,
		"a data of another kind": `{kind: Pod, metadata: {name: a}}`,
	} {
		o := object(t, text)
		redact(o)
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), hidden) {
			t.Errorf("%s:\n%s", name, data)
		}
	}
	// What is no secret stays.
	for _, text := range []string{
		`{kind: Pod, spec: {containers: [{name: a, image: web:1, command: [run], args: [--fast], env: [{name: FROM, valueFrom: {secretKeyRef: {name: token, key: k}}}]}]}, status: {phase: Running}}`,
		`{kind: FederationPolicy, metadata: {annotations: {a: b}}, spec: {overrides: [{patch: [{op: replace, path: /spec/replicas, value: 3}], image: {registry: example.org}}]}}`,
		`{kind: CloneSet, spec: {scaleStrategy: {}, volumeClaimTemplates: [{metadata: {name: data}}]}}`,
	} {
		o, want := object(t, text), object(t, text)
		redact(o)
		if diff := cmp.Diff(want.Object, o.Object); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// contents reads an archive.
func contents(t *testing.T, data []byte) map[string]string {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	all, files := tar.NewReader(zipped), map[string]string{}
	for {
		header, err := all.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(all)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apps.AddToScheme, topology.AddToScheme,
		work.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func podOf(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main",
			Env: []corev1.EnvVar{{Name: "KEY", Value: hidden}}}}}}
}

// TestGather holds what an archive has of a hub, that nothing secret is in it nor even asked for, and that what cannot
// be read is said, and nothing else missing for it.
func TestGather(t *testing.T) {
	program := podOf(topology.SystemNamespace, "flotilla-hub-1")
	program.Labels = map[string]string{"app.kubernetes.io/part-of": "flotilla"}
	program.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "flotilla-hub", RestartCount: 1}}
	order := &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-east", Name: "shop.keys.secret"}}
	order.Spec.Workload.Manifests = []work.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Secret","data":{"key":"` + hidden + `"}}`)}}}
	var asked []string
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", errors.New("not yours"))
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(
		&topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}, order, program, podOf("shop", "of-a-workload"),
		podOf("bank", "of-others"),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "keys"},
			Data: map[string][]byte{"key": []byte(hidden)}},
		&apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "moved"}, Message: "WaveBegan"},
	).WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, inner client.WithWatch,
		list client.ObjectList, opts ...client.ListOption) error {
		kind := list.GetObjectKind().GroupVersionKind().Kind
		asked = append(asked, kind)
		if kind == "LeaseList" {
			return forbidden
		}
		return inner.List(ctx, list, opts...)
	}}).Build()
	out := &bytes.Buffer{}
	a := newArchive(out, "dump", time.Unix(1000, 0))
	(&cluster{folder: "hub", hub: true, client: c, core: clientfake.NewClientset(program)}).gather(t.Context(), a)
	if err := a.close("a dump\n"); err != nil {
		t.Fatal(err)
	}
	files := contents(t, out.Bytes())
	want := []string{
		"dump/hub/clonesets.apps.kruise.io.yaml", "dump/hub/events.yaml", "dump/hub/logs/flotilla-hub-1/flotilla-hub.log",
		"dump/hub/logs/flotilla-hub-1/flotilla-hub.previous.log",
		"dump/hub/memberclusters.topology.flotilla.dev.yaml", "dump/hub/pods.yaml", "dump/hub/version.json",
		"dump/hub/works.work.karmada.io.yaml", "dump/summary.txt",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for name, text := range files {
		if strings.Contains(text, hidden) || strings.Contains(text, "czNjcmV0") { // base64
			t.Errorf("%s has a secret:\n%s", name, text)
		}
	}
	if pods := files["dump/hub/pods.yaml"]; !strings.Contains(pods, "of-a-workload") ||
		!strings.Contains(pods, "flotilla-hub-1") || strings.Contains(pods, "of-others") ||
		!strings.Contains(pods, "name: KEY") {
		t.Errorf("pods:\n%s", pods)
	}
	if summary := files["dump/summary.txt"]; !strings.Contains(summary, "a dump\n") ||
		!strings.Contains(summary, "Could not be read:\n- hub/leases.coordination.k8s.io.yaml: ") ||
		!strings.Contains(summary, "not yours") {
		t.Errorf("summary:\n%s", summary)
	}
	if len(a.missing) != 1 {
		t.Errorf("missing: %v", a.missing)
	}
	for _, kind := range asked {
		if strings.HasPrefix(kind, "Secret") || strings.HasPrefix(kind, "ConfigMap") {
			t.Errorf("%s is asked for", kind)
		}
	}
}

// TestPages holds that all pages of a list are taken, and that those before one that fails are kept.
func TestPages(t *testing.T) {
	fails := errors.New("gone")
	pages := map[string][]string{"": {"one", "2"}, "2": {"two", "3"}}
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithInterceptorFuncs(interceptor.Funcs{List: func(_ context.Context,
		_ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		o := &client.ListOptions{}
		o.ApplyOptions(opts)
		page, ok := pages[o.Continue]
		if !ok {
			return fails
		}
		item := unstructured.Unstructured{Object: map[string]any{}}
		item.SetName(page[0])
		list.(*unstructured.UnstructuredList).Items = []unstructured.Unstructured{item}
		list.SetContinue(page[1])
		return nil
	}}).Build()
	got, err := (&cluster{hub: true, client: c}).list(t.Context(), kinds(true)[0], nil)
	if !errors.Is(err, fails) || len(got) != 2 || got[1].GetName() != "two" {
		t.Errorf("%d objects, %v", len(got), err)
	}
}

// TestNoSecretKinds holds that no kind that is read holds secrets by itself.
func TestNoSecretKinds(t *testing.T) {
	for _, hub := range []bool{true, false} {
		for _, w := range kinds(hub) {
			if w.Kind == "Secret" || w.Kind == "ConfigMap" || w.Kind == "ServiceAccount" {
				t.Errorf("%s is read", w.Kind)
			}
		}
	}
}

// TestNothingAnswers holds that an archive is written also where nothing can be read, that it says so, and that no file
// is written over.
func TestNothingAnswers(t *testing.T) {
	folder := t.TempDir()
	kubeconfig, file := filepath.Join(folder, "kubeconfig"), filepath.Join(folder, "dump.tar.gz")
	text := `{apiVersion: v1, kind: Config, current-context: hub, clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}], contexts: [{name: hub, context: {cluster: none}}, {name: e, context: {cluster: none}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func() (string, error) {
		command, out := NewCommand(), &strings.Builder{}
		command.SetArgs([]string{"--kubeconfig", kubeconfig, "-O", file, "--member-context", "east=e,west=w"})
		command.SetOut(out)
		command.SetErr(io.Discard)
		command.SilenceUsage, command.SilenceErrors = true, true
		return out.String(), command.ExecuteContext(t.Context())
	}
	if _, err := run(); !errors.Is(err, errMissing) {
		t.Fatalf("says %v", err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	summary := contents(t, data)["dump/summary.txt"]
	for _, want := range []string{"- hub: ", "- hub/check.txt: ", "- members/east: ",
		`- members/west: your kubeconfig has no context "w"`} {
		if !strings.Contains(summary, want) {
			t.Errorf("the summary does not say %q:\n%s", want, summary)
		}
	}
	if _, err := run(); err == nil || !errors.Is(err, os.ErrExist) {
		t.Errorf("a file that is there is written over: %v", err)
	}
}
