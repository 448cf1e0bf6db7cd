package copies

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// member is a member with stores that come and go.
type member struct {
	t      *testing.T
	client client.Client
}

func newMember(t *testing.T) member {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return member{t, fake.NewClientBuilder().WithScheme(scheme).Build()}
}

// store returns what a restarted agent has.
func (m member) store(name string) *Store {
	m.t.Helper()
	s := New(Options{Writer: m.client, Reader: m.client, Namespace: "flotilla-system", ClusterName: name,
		Log: testr.New(m.t)})
	if err := s.Load(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	return s
}

func (m member) secrets() []corev1.Secret {
	m.t.Helper()
	list := &corev1.SecretList{}
	if err := m.client.List(m.t.Context(), list); err != nil {
		m.t.Fatal(err)
	}
	return list.Items
}

func ordered(name, sequence, manifest string) *work.Work {
	return &work.Work{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "karmada-es-east", Name: name, UID: types.UID("uid-" + name), Generation: 1, ResourceVersion: "7",
			Annotations: map[string]string{topology.AnnotationHubID: "hub", topology.AnnotationSequence: sequence},
			Finalizers:  []string{work.ExecutionFinalizer},
			Labels:      map[string]string{topology.LabelPlacement: "of the hub"},
		},
		Spec:   work.WorkSpec{Workload: work.WorkloadTemplate{Manifests: []work.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(manifest)}}}}},
		Status: work.WorkStatus{Report: &work.Report{Sequence: 3}},
	}
}

const manifest = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"web"},"data":{"key":"value"}}`

func TestCopiesOutliveTheAgent(t *testing.T) {
	m := newMember(t)
	s := m.store("east")
	w := ordered("shop.web.configmap", "3", manifest)
	if s.Holds(w) || s.Work(client.ObjectKeyFromObject(w)) != nil {
		t.Fatal("there is a copy before one was made")
	}
	if err := s.Keep(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	again := m.store("east")
	got := again.Order(client.ObjectKeyFromObject(w))
	want := w.DeepCopy()
	want.Labels, want.Status = nil, work.WorkStatus{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
	if !again.Holds(w) {
		t.Error("a restarted agent does not know the order as its own")
	}
	if n := len(m.store("west").Names()); n != 0 {
		t.Errorf("under another name %d copies are seen", n)
	}
	for _, next := range []func(*work.Work){
		func(w *work.Work) { w.Generation++ },
		func(w *work.Work) { w.Annotations[topology.AnnotationSequence] = "4" },
		func(w *work.Work) { w.Annotations[topology.AnnotationHubID] = "another" },
		func(w *work.Work) { w.UID = "made anew" },
		func(w *work.Work) { w.DeletionTimestamp = new(metav1.Now()) },
	} {
		changed := w.DeepCopy()
		next(changed)
		if again.Holds(changed) {
			t.Errorf("%+v counts as the order that was copied", changed.ObjectMeta)
		}
	}
	if err := again.Drop(t.Context(), client.ObjectKeyFromObject(w)); err != nil {
		t.Fatal(err)
	}
	if left := m.secrets(); len(left) != 0 || len(m.store("east").Names()) != 0 {
		t.Errorf("%d Secrets are left of a Work that is finished", len(left))
	}
}

func TestKeepWritesOnlyWhatChanged(t *testing.T) {
	m := newMember(t)
	s := m.store("east")
	w := ordered("web", "1", manifest)
	version := func() string { return m.secrets()[0].ResourceVersion }
	keep := func() {
		t.Helper()
		if err := s.Keep(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	keep()
	first := version()
	w.Status.Report.Sequence, w.ResourceVersion = 9, "99"
	keep()
	if version() != first {
		t.Error("a report made a write in the member")
	}
	w.Generation++
	keep()
	if version() == first {
		t.Error("a new order was not copied")
	}
	if err := m.client.Delete(t.Context(), &m.secrets()[0]); err != nil {
		t.Fatal(err)
	}
	w.Generation++
	keep() // somebody deleted the Secret: it is made again
	if got := m.store("east").Work(client.ObjectKeyFromObject(w)); got == nil || got.Generation != w.Generation {
		t.Errorf("the copy is %v", got)
	}
}

// TestLargeWorks holds that what a hub of ours may order always fits, also a Secret that cannot be compressed, and that
// of a larger one the order and the name are kept.
func TestLargeWorks(t *testing.T) {
	m := newMember(t)
	for _, tc := range []struct {
		name    string
		bytes   int
		partial bool
	}{{"fits", 512 << 10, false}, {"foreign", 2 << 20, true}} {
		noise := make([]byte, tc.bytes*3/4) // base64 makes it that much larger
		if _, err := rand.Read(noise); err != nil {
			t.Fatal(err)
		}
		w := ordered(tc.name, "1", strings.Replace(manifest, "value", base64.StdEncoding.EncodeToString(noise), 1))
		if err := m.store("east").Keep(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		s, name := m.store("east"), client.ObjectKeyFromObject(w)
		if got := s.Order(name); (got == nil) != tc.partial {
			t.Errorf("%s: the copy can be carried out: %t", tc.name, got != nil)
		}
		got := s.Work(name)
		if got == nil || !s.Holds(w) || !strings.Contains(string(got.Spec.Workload.Manifests[0].Raw), `"name":"web"`) {
			t.Fatalf("%s: what is known of it is %v", tc.name, got)
		}
		w.DeletionTimestamp = new(metav1.Now())
		if err := s.Keep(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if m.store("east").Order(name) == nil {
			t.Errorf("%s: the order to delete it is not known", tc.name)
		}
	}
	for _, secret := range m.secrets() {
		if size := len(secret.Data[keyWork]); size > corev1.MaxSecretSize {
			t.Errorf("Secret %s has %d bytes, more than an API server takes", secret.Name, size)
		}
	}
}

func TestStandingOutlivesTheAgent(t *testing.T) {
	m := newMember(t)
	s := m.store("east")
	if s.Standing() != (Standing{}) {
		t.Errorf("standing %+v before the hub said anything", s.Standing())
	}
	for _, want := range []Standing{{ClusterID: "me", Pinned: true}, {ClusterID: "me"}, {ClusterID: "me", Pinned: true}} {
		if err := s.KeepStanding(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if got := m.store("east").Standing(); got != want {
			t.Errorf("standing %+v, want %+v", got, want)
		}
	}
	if m.store("west").Standing() != (Standing{}) {
		t.Error("the standing under another name counts")
	}
}

// TestForeignSecretsAreNoOrders holds that what somebody made of our Secrets is not carried out.
func TestForeignSecretsAreNoOrders(t *testing.T) {
	m := newMember(t)
	if err := m.store("east").Keep(t.Context(), ordered("web", "1", manifest)); err != nil {
		t.Fatal(err)
	}
	clone := m.secrets()[0].DeepCopy()
	clone.Name, clone.ResourceVersion = "restored", ""
	broken := m.secrets()[0].DeepCopy()
	broken.Name, broken.ResourceVersion, broken.Data = "broken", "", map[string][]byte{keyWork: []byte("x")}
	for _, secret := range []*corev1.Secret{clone, broken} {
		if err := m.client.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	if names := m.store("east").Names(); len(names) != 1 {
		t.Errorf("%v are known, want the one copy", names)
	}
}
