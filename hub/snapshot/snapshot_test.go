package snapshot_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/snapshot"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// read returns a snapshot of the text.
func read(t *testing.T, text string) *snapshot.Snapshot {
	t.Helper()
	scheme, err := hub.Scheme()
	must(t, err)
	reader, err := snapshot.NewReader(scheme, "shop")
	must(t, err)
	objects, notes, err := reader.Read("file", []byte(text))
	must(t, err)
	if len(notes) > 0 {
		t.Fatal(notes)
	}
	s := snapshot.New(scheme)
	must(t, s.Put(objects...))
	return s
}

func workOf(cluster, name string, labels map[string]string) *work.Work {
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: name}
	return &work.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: wire.MemberNamespace(cluster), Name: key.Work(cluster).Name, Labels: labels,
		Annotations: map[string]string{topology.AnnotationWorkload: key.String()},
	}}
}

// TestReadsAsACache holds that a snapshot answers as the hub's cache does.
func TestReadsAsACache(t *testing.T) {
	scheme, err := hub.Scheme()
	must(t, err)
	s := snapshot.New(scheme)
	must(t, store.Index(t.Context(), s))
	must(t, s.Put(workOf("west", "web", nil), workOf("east", "web", map[string]string{"a": "b"}),
		workOf("east", "api", nil)))
	names := func(opts ...client.ListOption) string {
		list := &work.WorkList{}
		must(t, s.List(t.Context(), list, opts...))
		var all []string
		for _, w := range list.Items {
			all = append(all, w.Namespace+"/"+w.Name)
		}
		return strings.Join(all, " ")
	}
	const eastAPI, eastWeb, westWeb = "karmada-es-east/shop.api.cloneset", "karmada-es-east/shop.web.cloneset",
		"karmada-es-west/shop.web.cloneset"
	for _, tt := range []struct {
		what, got, want string
	}{
		{"all, sorted", names(), strings.Join([]string{eastAPI, eastWeb, westWeb}, " ")},
		{"a namespace", names(client.InNamespace("karmada-es-west")), westWeb},
		{"labels", names(client.MatchingLabels{"a": "b"}), eastWeb},
		{"an index", names(client.MatchingFields{store.IndexWorkWorkload: "CloneSet/shop/web"}), eastWeb + " " + westWeb},
		{"an index and a namespace", names(client.MatchingFields{store.IndexWorkWorkload: "CloneSet/shop/web"},
			client.InNamespace("karmada-es-east"), client.UnsafeDisableDeepCopy), eastWeb},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, tt.got, tt.want)
		}
	}
	must(t, s.Put(workOf("north", "web", nil)))
	if got := names(client.MatchingFields{store.IndexWorkWorkload: "CloneSet/shop/web"}); !strings.Contains(got,
		"karmada-es-north") {
		t.Errorf("the index has not seen a new object: %s", got)
	}
	if err := s.List(t.Context(), &work.WorkList{}, client.MatchingFields{"nothing": "x"}); err == nil {
		t.Error("a field without an index is taken")
	}
	got := &work.Work{}
	must(t, s.Get(t.Context(), client.ObjectKey{Namespace: "karmada-es-east", Name: "shop.web.cloneset"}, got))
	got.Labels["a"] = "changed"
	if names(client.MatchingLabels{"a": "b"}) != eastWeb {
		t.Error("what Get returned is the snapshot's own object")
	}
	if err := s.Get(t.Context(), client.ObjectKey{Name: "x"}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Errorf("an object that is not there: %v", err)
	}
}

// TestWrittenAndReadAgain holds that a snapshot of a file is the same after it was written and read again, with the
// defaults of the schemas.
func TestWrittenAndReadAgain(t *testing.T) {
	first := read(t, `apiVersion: topology.flotilla.dev/v1alpha1
kind: FederationPolicy
metadata: {name: all}
spec: {workloads: [{kind: CloneSet}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {a: b}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {not: kept}
`)
	var text strings.Builder
	must(t, snapshot.Write(&text, first))
	second := read(t, text.String())
	if diff := cmp.Diff(first.Objects(), second.Objects()); diff != "" {
		t.Errorf("-first +second:\n%s", diff)
	}
	settings := kinds.All(kinds.HubRunsBuiltIns)[schema.GroupKind{Kind: "ConfigMap"}].New()
	must(t, second.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "settings"}, settings))
	if strings.Contains(text.String(), "kept") || settings.GetName() != "settings" {
		t.Errorf("of a ConfigMap more than its metadata is kept, or less:\n%s", text.String())
	}
	p := &topology.FederationPolicy{}
	must(t, first.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "all"}, p))
	if p.Spec.Spread.By != topology.SpreadByCluster {
		t.Errorf("defaults: %+v", p.Spec)
	}
}

// TestApply holds that an object goes over the one that is there as kubectl apply lets it.
func TestApply(t *testing.T) {
	s := read(t, `apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web, uid: u, generation: 4, creationTimestamp: "2026-01-01T00:00:00Z", annotations: {of: others}, labels: {app: old}}
spec: {replicas: 2, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: []}}}
status: {readyReplicas: 2}
`)
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"web", "new"} {
		changed := read(t, `apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: `+name+`, labels: {app: new}}
spec: {replicas: 5, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: []}}}
`)
		must(t, s.Apply(changed.Objects()[0], now))
	}
	web, fresh := &apps.CloneSet{}, &apps.CloneSet{}
	must(t, s.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, web))
	must(t, s.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "new"}, fresh))
	if web.UID != "u" || web.Generation != 5 || *web.Spec.Replicas != 5 || web.Labels["app"] != "new" ||
		web.Annotations["of"] != "others" || web.Status.ReadyReplicas != 2 {
		t.Errorf("after an apply: %+v", web)
	}
	if !fresh.CreationTimestamp.Time.Equal(now) {
		t.Errorf("a new object is created %s", fresh.CreationTimestamp)
	}
}

// TestReadsKindsWithOneVersion: a PodProbeMarker has v1alpha1 alone, and stays of it.
func TestReadsKindsWithOneVersion(t *testing.T) {
	s := read(t, `apiVersion: apps.kruise.io/v1alpha1
kind: PodProbeMarker
metadata: {name: roles}
spec:
  selector: {matchLabels: {app: db}}
  probes: [{name: leader, containerName: db, podConditionType: x.example/leader, probe: {tcpSocket: {port: 1}}}]
`)
	got := &v1alpha1.PodProbeMarker{}
	must(t, s.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "roles"}, got))
	if len(got.Spec.Probes) != 1 || got.Spec.Probes[0].Name != "leader" {
		t.Errorf("%+v", got.Spec)
	}
}
