package warnings_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/manifests"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/apis/warnings"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// heard keeps the warnings that an API server sends.
type heard struct {
	sync.Mutex
	texts []string
}

func (h *heard) HandleWarningHeader(_ int, _, text string) {
	h.Lock()
	defer h.Unlock()
	h.texts = append(h.texts, text)
}

func (h *heard) take() []string {
	h.Lock()
	defer h.Unlock()
	texts := slices.Clone(h.texts)
	h.texts = nil
	return texts
}

type world struct {
	*testing.T
	client.Client
	*heard
}

func newWorld(t *testing.T, config *rest.Config) *world {
	t.Helper()
	w := &world{T: t, heard: &heard{}}
	config = rest.CopyConfig(config)
	config.WarningHandler = w.heard
	var err error
	if w.Client, err = client.New(config, client.Options{Scheme: apiserver.Scheme(t)}); err != nil {
		t.Fatal(err)
	}
	for name, labels := range map[string]map[string]string{"shop": {topology.LabelFederated: "true"}, "local": nil} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if err := w.Create(t.Context(), namespace); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	return w
}

// install gives the API server policies, and waits until they work.
func (w *world) install(probe string, objects []*unstructured.Unstructured, err error) {
	w.Helper()
	for _, object := range objects {
		if err == nil {
			err = w.Create(w.Context(), object)
		}
	}
	if err != nil {
		w.Fatal(err)
	}
	apiserver.Eventually(w.T, time.Minute, "the policy works", func() string {
		if len(w.write(probe)) == 0 {
			return "no warning"
		}
		return ""
	})
}

// write creates an object and deletes it, and returns the warnings about it.
func (w *world) write(text string) []string {
	w.Helper()
	objects, err := manifests.Decode(text)
	if err != nil || len(objects) != 1 {
		w.Fatalf("%d objects, %v", len(objects), err)
	}
	w.take()
	if err := w.Create(w.Context(), objects[0]); err != nil {
		w.Fatalf("%s: %v", text, err)
	}
	texts := w.take()
	if err := w.Delete(w.Context(), objects[0]); err != nil {
		w.Fatal(err)
	}
	return texts
}

func manifest(kind, apiVersion, namespace, spec string) string {
	in := "namespace: " + namespace
	if namespace == "" {
		in = "labels: {}"
	}
	return "apiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata: {name: web, " + in + "}\nspec: " + spec
}

const (
	template = `{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}`
	scaled   = `{replicas: 2, selector: {matchLabels: {a: b}}, template: ` + template + `}`
	once     = `{template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}`
	sidecars = `{selector: {matchLabels: {a: b}}, containers: [{name: c, image: i}]}`
	selected = `{minAvailable: 1, selector: {matchLabels: {a: b}}}`
	budget   = `{maxUnavailable: 1, selector: {matchLabels: {a: b}}}`
	ingress  = `{defaultBackend: {service: {name: s, port: {number: 80}}}}`
)

func probeMarker(namespace string) string {
	return manifest("PodProbeMarker", "apps.kruise.io/v1alpha1", namespace, `{selector: {matchLabels: {a: b}},
  probes: [{name: p, containerName: c, podConditionType: x.example/p, probe: {tcpSocket: {port: 1}}}]}`)
}

func policy(namespace string) string {
	return manifest("FederationPolicy", topology.GroupVersion.String(), namespace,
		"{workloads: [{kind: CloneSet}], clusters: {}}")
}

// naming is a policy of either scope with these workloads.
func naming(workloads string) string {
	return manifest("FederationPolicy", topology.GroupVersion.String(), "shop",
		"{workloads: ["+workloads+"], clusters: {}}")
}

// TestKnownKinds holds that the policy knows each kind that a hub places or never places, by its name alone.
func TestKnownKinds(t *testing.T) {
	objects, err := warnings.Hub(true)
	if err != nil {
		t.Fatal(err)
	}
	expressions := map[string]string{}
	variables, _, _ := unstructured.NestedSlice(objects[0].Object, "spec", "variables")
	for _, v := range variables {
		one := v.(map[string]any)
		expressions[one["name"].(string)] = one["expression"].(string)
	}
	quoted := func(of map[string]bool) (all []string) {
		for name := range of {
			all = append(all, "'"+name+"'")
		}
		slices.Sort(all)
		return all
	}
	placed, never := map[string]bool{}, map[string]bool{}
	for kind := range kinds.All(kinds.MembersRunBuiltIns) {
		placed[kind.Kind] = true
	}
	for _, kind := range kinds.NeverPlacedKinds() {
		never[kind.Kind] = true
	}
	if got, want := expressions["known"], "["+strings.Join(quoted(placed), ", ")+"]"; got != want {
		t.Errorf("it knows %s, want %s", got, want)
	}
	if want := "k in [" + strings.Join(quoted(never), ", ") + "]"; !strings.Contains(expressions["neverPlaced"], want) {
		t.Errorf("kinds that are never placed: %s, want %s", expressions["neverPlaced"], want)
	}
}

func TestHub(t *testing.T) {
	config := apiserver.ForTest(t, "clonesets.apps.kruise.io", "sidecarsets.apps.kruise.io",
		"ephemeraljobs.apps.kruise.io", "imagepulljobs.apps.kruise.io", "podprobemarkers.apps.kruise.io",
		"podunavailablebudgets.policy.kruise.io", "federationpolicies.topology.flotilla.dev",
		"clusterfederationpolicies.topology.flotilla.dev")
	w := newWorld(t, config)
	clone := func(namespace string) string {
		return manifest("CloneSet", "apps.kruise.io/v1beta1", namespace, scaled)
	}
	objects, err := warnings.Hub(true)
	w.install(clone("local"), objects, err)
	const cpu = ", metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 9}}}]"
	const queue = ", metrics: " +
		"[{type: External, external: {metric: {name: q}, target: {type: AverageValue, averageValue: 5}}}]"
	scale := func(kind, metrics string) string {
		group := map[string]string{"CloneSet": "apps.kruise.io/v1beta1", "Deployment": "apps/v1"}[kind]
		return manifest("HorizontalPodAutoscaler", "autoscaling/v2", "shop",
			`{maxReplicas: 3, scaleTargetRef: {apiVersion: `+group+`, kind: `+kind+`, name: web}`+metrics+`}`)
	}
	for name, c := range map[string]struct{ text, want string }{
		"a workload for members": {clone("shop"), ""},
		"a workload that stays": {clone("local"), "no member gets this CloneSet: namespace local has no label " +
			"topology.flotilla.dev/federated=true; set it with: kubectl label namespace local " +
			"topology.flotilla.dev/federated=true"},
		"a SidecarSet without the label": {manifest("SidecarSet", "apps.kruise.io/v1beta1", "", sidecars),
			"no member gets this SidecarSet: it has no label"},
		"an EphemeralJob": {manifest("EphemeralJob", "apps.kruise.io/v1alpha1", "shop", `{selector: {matchLabels: {a: b}},
  template: {ephemeralContainers: [{name: d, image: i, terminationMessagePolicy: File}]}}`),
			"a hub sends no EphemeralJob to members"},
		"a PodProbeMarker for members": {probeMarker("shop"), ""},
		"a PodProbeMarker that stays":  {probeMarker("local"), "no member gets this PodProbeMarker"},
		"an ImagePullJob that stays": {manifest("ImagePullJob", "apps.kruise.io/v1beta1", "local", "{image: i}"),
			"no member gets this ImagePullJob"},
		"a policy":                 {policy("shop"), ""},
		"a policy that is useless": {policy("local"), "this FederationPolicy places nothing: namespace local"},
		"a policy of the cluster": {manifest("ClusterFederationPolicy", topology.GroupVersion.String(), "",
			"{workloads: [{kind: CloneSet}], clusters: {}}"), ""},
		"a policy with a mistyped kind": {naming("{kind: Clonset}, {kind: CloneSet}"),
			"this FederationPolicy names Clonset, which a hub does not know: correct spec.workloads"},
		"a policy with a kind of another group": {naming("{kind: Beacon, apiVersion: example.com/v1}"), ""},
		"a policy with a kind that no hub sends": {naming("{kind: NodeImage}"),
			"this FederationPolicy names NodeImage, which a hub sends to no member: apply it in the member"},
		"a policy with a Deployment": {naming("{kind: Deployment}"),
			"this FederationPolicy names Deployment of Kubernetes, which the hub's own cluster runs"},
		"a policy with a StatefulSet of Kubernetes": {naming("{kind: StatefulSet, apiVersion: apps/v1}"),
			"names StatefulSet of Kubernetes"},
		"a policy with a StatefulSet": {naming("{kind: StatefulSet, apiVersion: apps.kruise.io/v1beta1}"), ""},
		"a Deployment for members": {manifest("Deployment", "apps/v1", "shop", scaled),
			"this Deployment stays in the hub's own cluster, and no member gets it; for pods in members write a CloneSet"},
		"a local Deployment":          {manifest("Deployment", "apps/v1", "local", scaled), ""},
		"a Job for members":           {manifest("Job", "batch/v1", "shop", once), "write a BroadcastJob"},
		"a PodDisruptionBudget":       {manifest("PodDisruptionBudget", "policy/v1", "shop", selected), "write a PodUnav"},
		"a local PodDisruptionBudget": {manifest("PodDisruptionBudget", "policy/v1", "local", selected), ""},
		"a budget for members":        {manifest("PodUnavailableBudget", "policy.kruise.io/v1beta1", "shop", budget), ""},
		"an Ingress":                  {manifest("Ingress", "networking.k8s.io/v1", "shop", ingress), "create it in each"},
		"an autoscaler by CPU":        {scale("CloneSet", cpu), "its metrics of type Resource have no value"},
		"an autoscaler by default":    {scale("CloneSet", ""), "for CloneSet web"},
		"an autoscaler by a queue":    {scale("CloneSet", queue), ""},
		"a local autoscaler":          {scale("Deployment", cpu), ""},
	} {
		t.Run(name, func(t *testing.T) { expect(t, w.write(c.text), c.want) })
	}
	t.Run("again only with a change", func(t *testing.T) { w.updates(t, clone("local")) })
	t.Run("a hub that runs no workloads", func(t *testing.T) {
		objects, err := warnings.Hub(false)
		for _, object := range objects {
			object.SetName(object.GetName() + "-bare")
			if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
				_ = unstructured.SetNestedField(object.Object, object.GetName(), "spec", "policyName")
			}
		}
		w.install(manifest("Deployment", "apps/v1", "local", scaled), objects, err)
		expect(t, w.write(manifest("Job", "batch/v1", "local", once)), "nothing runs this Job: this hub runs no workloads")
	})
}

// updates holds that a change of labels is no reason to warn again, and one of the spec is.
func (w *world) updates(t *testing.T, text string) {
	objects, err := manifests.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	set := objects[0]
	if err := w.Create(context.WithoutCancel(t.Context()), set); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		patch string
		want  string
	}{
		{`{"metadata":{"labels":{"a":"b"}}}`, ""},
		{`{"spec":{"replicas":3}}`, "no member gets this CloneSet"},
	} {
		w.take()
		if err := w.Patch(t.Context(), set, client.RawPatch("application/merge-patch+json", []byte(c.patch))); err != nil {
			t.Fatal(err)
		}
		expect(t, w.take(), c.want)
	}
}

func TestMember(t *testing.T) {
	w := newWorld(t, apiserver.ForTest(t, "federationpolicies.topology.flotilla.dev", "clonesets.apps.kruise.io"))
	objects, err := warnings.Member()
	w.install(policy("shop"), objects, err)
	expect(t, w.write(policy("shop")), "no hub runs in this cluster, so that this FederationPolicy does nothing here")
	expect(t, w.write(manifest("CloneSet", "apps.kruise.io/v1beta1", "shop", scaled)), "")
}

// expect holds that there is one warning with the text, or none.
func expect(t *testing.T, got []string, want string) {
	t.Helper()
	if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
		t.Errorf("warnings %q, want %q", got, want)
	}
}
