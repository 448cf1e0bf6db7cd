package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/hub/wire/karmada"
)

// karmadaMember plays Karmada for one member: the cluster controller, which makes the namespace, and the agent, which
// executes Works as far as their marks let it.
type karmadaMember struct {
	f    *fleet
	name string
	// noInterpreter: Karmada has no customization for the kind, so that its agent reflects the object's status as it is.
	noInterpreter bool
	state         map[string]*replica
	generations   map[string]int64 // of member objects
	specs         map[string]string
	stopped       chan struct{}
}

func installKarmada(t *testing.T) {
	t.Helper()
	installFile(t, "testdata/karmada/definitions.yaml")
}

// installFile installs the definitions of a file.
func installFile(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data)); ; {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := decoder.Decode(definition); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		definitions = append(definitions, definition)
	}
	must(t, apiserver.InstallOthers(apiServers.of(t), definitions))
}

// cluster reads the Cluster of testdata under another name.
func cluster(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile("testdata/karmada/cluster.json")
	must(t, err)
	u := &unstructured.Unstructured{}
	must(t, json.Unmarshal(data, u))
	u.SetName(name)
	u.SetFinalizers(nil) // no controller of Karmada takes it off here
	must(t, unstructured.SetNestedField(u.Object, "id-of-"+name, "spec", "id"))
	return u
}

// onKarmada joins a cluster to Karmada, which has interpreters of our kinds or not.
func (f *fleet) onKarmada(name string, interpreters bool) *karmadaMember {
	f.t.Helper()
	u := cluster(f.t, name)
	status := u.Object["status"]
	must(f.t, f.client.Create(f.ctx, u))
	u.Object["status"] = status
	must(f.t, f.client.Status().Update(f.ctx, u))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: wire.MemberNamespace(name)}}
	if err := f.client.Create(f.ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		f.t.Fatal(err)
	}
	m := &karmadaMember{f: f, name: name, noInterpreter: !interpreters, state: map[string]*replica{},
		generations: map[string]int64{}, specs: map[string]string{}, stopped: make(chan struct{})}
	ctx, cancel := context.WithCancel(f.ctx)
	go m.run(ctx)
	f.t.Cleanup(func() {
		cancel()
		<-m.stopped
		f.stopHub() // it would make the member anew
		_ = f.client.Delete(context.Background(), u)
		_ = f.client.Delete(context.Background(), &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
		works := &work.WorkList{}
		_ = f.client.List(context.Background(), works, client.InNamespace(wire.MemberNamespace(name)))
		for i := range works.Items {
			works.Items[i].Finalizers = nil
			_ = f.client.Update(context.Background(), &works.Items[i])
			_ = f.client.Delete(context.Background(), &works.Items[i])
		}
	})
	f.eventually("the hub sees "+name+" Ready", func() error {
		return errors.Join(memberIs(f.ctx, f.hub, name, topology.MemberReady, metav1.ConditionTrue,
			topology.ReasonReadyInKarmada),
			memberIs(f.ctx, f.hub, name, topology.MemberAccepted, metav1.ConditionTrue, topology.ReasonAccepted))
	})
	return m
}

func (m *karmadaMember) run(ctx context.Context) {
	defer close(m.stopped)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		works := &work.WorkList{}
		if m.f.client.List(ctx, works, client.InNamespace(wire.MemberNamespace(m.name))) != nil {
			continue
		}
		for i := range works.Items {
			m.execute(ctx, &works.Items[i])
		}
	}
}

// execute applies one Work and reflects the status. What it asks of the marks is what Karmada's agent was seen to ask.
func (m *karmadaMember) execute(ctx context.Context, w *work.Work) {
	base := w.DeepCopy()
	if w.DeletionTimestamp != nil {
		if controllerutil.RemoveFinalizer(w, work.ExecutionFinalizer) {
			_ = m.f.client.Patch(ctx, w, client.MergeFrom(base))
		}
		delete(m.state, w.Name)
		return
	}
	object, o := &unstructured.Unstructured{}, order{}
	raw := w.Spec.Workload.Manifests[0].Raw
	if json.Unmarshal(raw, &object.Object) != nil || json.Unmarshal(raw, &o) != nil {
		m.f.t.Errorf("manifest of Work %s: %s", w.Name, raw)
		return
	}
	template, err := strconv.ParseInt(object.GetAnnotations()[karmada.AnnotationGeneration], 10, 64)
	if err != nil || object.GetLabels()[karmada.LabelManaged] != "true" ||
		object.GetAnnotations()[karmada.AnnotationWorkNamespace] != w.Namespace ||
		object.GetAnnotations()[karmada.AnnotationWorkName] != w.Name ||
		object.GetAnnotations()[karmada.AnnotationUID] == "" ||
		!controllerutil.ContainsFinalizer(w, work.ExecutionFinalizer) {
		m.f.t.Errorf("an agent of Karmada cannot execute Work %s, finalizers %v: %s", w.Name, w.Finalizers, raw)
		return
	}
	spec, _ := json.Marshal(object.Object["spec"])
	if m.specs[w.Name] == string(raw) && m.state[w.Name] != nil {
		return
	}
	r := m.state[w.Name]
	if r == nil {
		r = &replica{total: map[string]int32{}, updated: map[string]int32{}, canGoBack: map[string]bool{}}
		m.state[w.Name] = r
	}
	if r.template != "" || m.generations[w.Name] == 0 || m.specs[w.Name] != string(spec) {
		m.generations[w.Name]++
	}
	r.follow(&o)
	status := work.WorkStatus{}
	data, err := os.ReadFile("testdata/karmada/work-status.json")
	if err != nil || json.Unmarshal(data, &status) != nil {
		m.f.t.Errorf("read the recorded status: %v", err)
		return
	}
	manifest, reflected := &status.ManifestStatuses[0], map[string]any{}
	manifest.Identifier.Kind, manifest.Identifier.Namespace, manifest.Identifier.Name = object.GetKind(),
		object.GetNamespace(), object.GetName()
	manifest.Identifier.Group, manifest.Identifier.Version = object.GroupVersionKind().Group,
		object.GroupVersionKind().Version
	_ = json.Unmarshal(manifest.Status.Raw, &reflected)
	for key := range reflected {
		switch {
		case strings.HasPrefix(key, "updated"):
			reflected[key] = r.updated[""]
		case strings.HasSuffix(key, "eplicas"):
			reflected[key] = r.total[""]
		}
	}
	reflected["resourceTemplateGeneration"], reflected["generation"], reflected["observedGeneration"] = template,
		m.generations[w.Name], m.generations[w.Name]
	if r.canGoBack[""] {
		reflected["currentRevision"] = "web-before"
	}
	if m.noInterpreter {
		delete(reflected, "resourceTemplateGeneration")
		delete(reflected, "generation")
	}
	manifest.Status.Raw, _ = json.Marshal(reflected)
	w.Status = status
	if err := m.f.client.Status().Patch(ctx, w, client.MergeFrom(base)); err == nil {
		m.specs[w.Name] = string(raw)
	}
}

// setReady sets what Karmada says of a cluster.
func (m *karmadaMember) setReady(status string) {
	m.f.t.Helper()
	m.f.eventually("Ready of Cluster "+m.name+" is "+status, func() error {
		u := karmada.Object(karmada.ClusterKind())
		if err := m.f.client.Get(m.f.ctx, client.ObjectKey{Name: m.name}, u); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		conditions[0].(map[string]any)["status"], conditions[0].(map[string]any)["reason"] = status, "ClusterStatusUnknown"
		if err := unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions"); err != nil {
			return err
		}
		return m.f.client.Status().Update(m.f.ctx, u)
	})
}

func onKarmadasHub(o *hub.Options) { o.Inventory = hub.InventoryKarmada }

// TestKarmadaInventory follows Clusters of Karmada: what is mirrored of them, and that they go.
func TestKarmadaInventory(t *testing.T) {
	t.Parallel() // most of its time is waiting
	installKarmada(t)
	f := newFleet(t, nil, onKarmadasHub)
	must(t, hub.CheckInventory(apiServers.of(t), hub.InventoryKarmada, ""))
	m := f.onKarmada("harbour-east", true)
	member := &topology.MemberCluster{}
	must(t, f.client.Get(f.ctx, client.ObjectKey{Name: m.name}, member))
	if want := map[string]string{"env": "prod", topology.LabelInventory: topology.InventoryKarmada,
		topology.LabelProvider: "example"}; !cmp.Equal(member.Labels, want) {
		t.Errorf("labels %v, want %v", member.Labels, want)
	}
	if want := []corev1.Taint{{Key: "team", Value: "data",
		Effect: corev1.TaintEffectPreferNoSchedule}}; !cmp.Equal(member.Spec.Taints, want) || !member.Spec.Accepted ||
		member.Spec.ClusterID != "id-of-harbour-east" {
		t.Errorf("spec %+v, want taints %v, accepted, and the id", member.Spec, want)
	}
	s := &member.Status
	if s.Region != "north" || s.KubernetesVersion != "v1.36.3" || s.Nodes != "5/5" || s.ZoneNames != "a,b" ||
		len(s.Zones) != 2 || s.Zones[0].Nodes != 3 || s.Zones[1].Nodes != 2 ||
		s.Zones[0].Allocatable.Cpu().String() != "10" || s.Zones[1].Allocatable.Pods().Value() != 275 ||
		s.Zones[0].Requested.Memory().String() != "4Gi" || len(s.Zones[0].Allocatable) != 3 {
		t.Errorf("status %+v", s)
	}

	// A little less room is no news, a drain is kept beside Karmada's taints, and so is a person's word.
	f.quiet()
	u := karmada.Object(karmada.ClusterKind())
	must(t, f.client.Get(f.ctx, client.ObjectKey{Name: m.name}, u))
	must(t, unstructured.SetNestedField(u.Object, "4", "status", "resourceSummary", "allocated", "cpu"))
	must(t, f.client.Status().Update(f.ctx, u))
	for _, wrote := range f.quiet() {
		if strings.Contains(wrote, m.name) {
			t.Errorf("half a processor of 20 was written: %s", wrote)
		}
	}
	f.patchObject(member, `{"spec":{"taints":[{"key":"topology.flotilla.dev/drain","effect":"NoExecute"}],"weight":3}}`)
	f.eventually("both taints stand", func() error {
		if err := f.client.Get(f.ctx, client.ObjectKey{Name: m.name}, member); err != nil {
			return err
		}
		if len(member.Spec.Taints) != 2 || *member.Spec.Weight != 3 {
			return fmt.Errorf("spec %+v", member.Spec)
		}
		return nil
	})

	stranger := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "harbour-stranger"},
		Spec: topology.MemberClusterSpec{Accepted: true}}
	must(t, f.client.Create(f.ctx, stranger))
	t.Cleanup(func() { _ = f.client.Delete(context.Background(), stranger) })
	f.eventually("a member that Karmada does not know is told so", func() error {
		return memberIs(f.ctx, f.client, stranger.Name, topology.MemberAccepted, metav1.ConditionFalse,
			topology.ReasonNotInKarmada)
	})

	m.setReady("Unknown")
	f.eventually("not Ready", func() error {
		return memberIs(f.ctx, f.client, m.name, topology.MemberReady, metav1.ConditionFalse,
			topology.ReasonNotReadyInKarmada)
	})
	m.setReady("True")
	f.eventually("Ready again", func() error {
		return memberIs(f.ctx, f.client, m.name, topology.MemberReady, metav1.ConditionTrue, topology.ReasonReadyInKarmada)
	})

	must(t, f.client.Delete(f.ctx, u))
	f.eventually("the member goes with its Cluster", func() error {
		err := f.client.Get(f.ctx, client.ObjectKey{Name: m.name}, member)
		if err == nil {
			return errors.New("it stands")
		}
		return client.IgnoreNotFound(err)
	})
}

// TestKarmadaExecutes divides a CloneSet over members whose Works agents of Karmada execute.
func TestKarmadaExecutes(t *testing.T) {
	t.Parallel() // most of its time is waiting
	installKarmada(t)
	f := newFleet(t, nil, onKarmadasHub)
	f.onKarmada("harbour-one", true)
	f.onKarmada("harbour-two", true)
	f.policy("all", func(p *topology.FederationPolicySpec) { p.Clusters.Names = []string{"harbour-one", "harbour-two"} })
	cs := f.cloneSet("web", 6)
	f.placed("CloneSet", "web", map[string]int32{"harbour-one": 3, "harbour-two": 3})
	f.cloneSetIs("web", "all run", func(cs *apps.CloneSet) bool { return ready(cs) && cs.Status.ReadyReplicas == 6 })

	// Orders are answered by what is reflected, so that a limit goes from one member to the other.
	f.patchObject(cs, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}},"updateStrategy":{"rollingUpdate":{"maxUnavailable":1}}}}`)
	f.cloneSetIs("web", "all are updated", func(cs *apps.CloneSet) bool {
		return ready(cs) && cs.Status.UpdatedReplicas == 6 && cs.Status.UpdatedAvailableReplicas == 6
	})
	f.rest()
	if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
		t.Errorf("at rest the hub wrote %v", wrote)
	}

	// Karmada's webhook adds labels of its own to manifests.
	w := &work.Work{}
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: f.namespace, Name: "web"}.Work("harbour-one")
	must(t, f.client.Get(f.ctx, key, w))
	object := &unstructured.Unstructured{}
	must(t, json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &object.Object))
	labels := object.GetLabels()
	labels["work.karmada.io/permanent-id"] = "77f3"
	object.SetLabels(labels)
	var err error
	w.Spec.Workload.Manifests[0].Raw, err = json.Marshal(object.Object)
	must(t, err)
	must(t, f.client.Update(f.ctx, w))
	if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
		t.Errorf("the hub took back what Karmada added: %v", wrote)
	}

	rival := karmada.Object(karmada.PolicyKinds()[0])
	rival.SetNamespace(f.namespace)
	rival.SetName("theirs")
	rival.Object["spec"] = map[string]any{"resourceSelectors": []any{map[string]any{"apiVersion": "apps.kruise.io/v1beta1",
		"kind": "CloneSet", "name": "web"}}}
	must(t, f.client.Create(f.ctx, rival))
	f.cloneSetIs("web", "the conflict is told", func(cs *apps.CloneSet) bool {
		return conditionIs(cs, "Federated", corev1.ConditionFalse, "Conflict",
			"PropagationPolicy "+f.namespace+"/theirs of Karmada selects CloneSet "+f.namespace+"/web") &&
			conditionIs(cs, "Stalled", corev1.ConditionTrue, "Conflict", "resourceSelectors")
	})
	f.patchObject(cs, `{"spec":{"replicas":8}}`)
	f.quiet()
	f.placed("CloneSet", "web", map[string]int32{"harbour-one": 3, "harbour-two": 3}) // frozen
	must(t, f.client.Delete(f.ctx, rival))
	f.placed("CloneSet", "web", map[string]int32{"harbour-one": 4, "harbour-two": 4})
	f.cloneSetIs("web", "the conflict is over", func(cs *apps.CloneSet) bool {
		return ready(cs) && cs.Status.ReadyReplicas == 8
	})

	must(t, f.client.Delete(f.ctx, cs))
	f.eventually("the Works go", func() error {
		works := &work.WorkList{}
		if err := f.client.List(f.ctx, works, client.MatchingLabels{}); err != nil {
			return err
		}
		if i := slices.IndexFunc(works.Items, func(w work.Work) bool {
			return w.Annotations[topology.AnnotationWorkload] == "CloneSet/"+f.namespace+"/web"
		}); i >= 0 {
			return fmt.Errorf("%s/%s stands", works.Items[i].Namespace, works.Items[i].Name)
		}
		return nil
	})
}

// TestKarmadaWithoutInterpreter has agents of Karmada that tell no order back: what was lent once stays where it is.
func TestKarmadaWithoutInterpreter(t *testing.T) {
	t.Parallel() // most of its time is waiting
	installKarmada(t)
	f := newFleet(t, nil, onKarmadasHub)
	for _, name := range []string{"harbour-three", "harbour-four"} {
		f.onKarmada(name, false)
	}
	f.policy("all", func(p *topology.FederationPolicySpec) {
		p.Clusters.Names = []string{"harbour-three", "harbour-four"}
	})
	cs := f.cloneSet("web", 6)
	f.patchObject(cs, `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":2}}}}`)
	f.placed("CloneSet", "web", map[string]int32{"harbour-three": 3, "harbour-four": 3})
	f.patchObject(cs, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}`)
	f.eventually("each member has its part of the limit", func() error {
		p, err := f.placement("CloneSet", "web")
		if err != nil {
			return err
		}
		for i := range p.Spec.Cells {
			if c := &p.Spec.Cells[i]; c.Granted.Unavailable != 1 || c.Reserved.Unavailable < 1 || c.Granted.Updated != 3 {
				return fmt.Errorf("cell %+v", c)
			}
		}
		return nil
	})
	cs = f.cloneSetIs("web", "nothing is counted", func(cs *apps.CloneSet) bool {
		return cs.Status.Replicas == 0 && cs.Status.ObservedGeneration == cs.Generation
	})
	if ready(cs) {
		t.Errorf("it is said to be Ready: %+v", cs.Status)
	}
}
