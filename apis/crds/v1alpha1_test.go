package crds_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/apps/conversion"
	"github.com/flotilla-dev/flotilla/apis/crds"
)

// converter serves conversion, and counts how often it was asked.
type converter struct {
	*httptest.Server
	asked atomic.Int64
}

// newConverter serves at an address until the test ends.
func newConverter(t *testing.T, address string) *converter {
	t.Helper()
	registry := webhook.NewRegistry()
	for _, kind := range conversion.Kinds() {
		if err := registry.RegisterConverter(kind, conversion.Converter{}); err != nil {
			t.Fatal(err)
		}
	}
	handler := webhook.NewWebhookHandler(conversion.Scheme(), registry)
	c := &converter{}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.asked.Add(1)
		handler.ServeHTTP(w, r)
	}))
	if err := c.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.Listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", address); err != nil {
		t.Fatal(err)
	}
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

// announce has the API server trust the converter, and returns when it does.
func (c *converter) announce(t *testing.T, s *server) {
	t.Helper()
	config := admissionregistrationv1.WebhookClientConfig{
		URL:      new(c.URL + crds.ConversionPath),
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}),
	}
	all, err := crds.AllWithConversion(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range all {
		webhook, found, _ := unstructured.NestedMap(crd.Object, "spec", "conversion")
		if !found {
			continue
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"conversion": webhook}})
		if err != nil {
			t.Fatal(err)
		}
		var last error
		err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 4*time.Minute, true,
			func(ctx context.Context) (bool, error) {
				last = s.Patch(ctx, crd, client.RawPatch(types.MergePatchType, patch))
				// A busy API server needs longer than a request may take to check the rules of the largest definition.
				slow := apierrors.IsTimeout(last) || apierrors.IsServerTimeout(last) || apierrors.IsConflict(last)
				return !slow, nil
			})
		if err != nil || last != nil {
			t.Fatalf("name the converter in %s: %v (%v)", crd.GetName(), last, err)
		}
	}
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 3*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			for _, manifest := range []string{
				oldCloneSet, ofV1alpha1(statefulSet), ofV1alpha1(daemonSet), ofV1alpha1(advancedCronJob),
				ofV1alpha1(unitedDeployment), oldWorkloadSpread, ofV1alpha1(podUnavailableBudget),
				ofV1alpha1(containerRecreateRequest),
			} {
				if err := s.Create(ctx, parse(t, manifest), client.DryRunAll); err != nil {
					t.Log(err)
					return false, nil
				}
			}
			return true, nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// ofV1alpha1 returns a manifest of v1beta1 with the other version written over it.
func ofV1alpha1(manifest string) string {
	return strings.Replace(manifest, "v1beta1", "v1alpha1", 1)
}

const oldWorkloadSpread = `
apiVersion: apps.kruise.io/v1alpha1
kind: WorkloadSpread
metadata: {name: old, namespace: default}
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, subsets: [{name: a}]}
`

const oldCloneSet = `
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata:
  name: old
  namespace: default
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: i}]}
`

// testV1alpha1 sends objects in the first version, which are stored in the second.
func testV1alpha1(t *testing.T, s *server) {
	// Every object that v1beta1 refuses is refused in the shape of v1alpha1 too, since nobody looks at it in v1beta1
	// again; and what v1beta1 takes is taken.
	t.Run("RulesOfV1beta1", func(t *testing.T) {
		t.Run("CloneSet", func(t *testing.T) { testCloneSetRules(t, s) })
		t.Run("StatefulSet", func(t *testing.T) { testStatefulSetRules(t, s) })
		t.Run("DaemonSet", func(t *testing.T) { testDaemonSetRules(t, s) })
		t.Run("BroadcastJob", func(t *testing.T) { testBroadcastJobRules(t, s) })
		t.Run("AdvancedCronJob", func(t *testing.T) { testAdvancedCronJobRules(t, s) })
		t.Run("ContainerRecreateRequest", func(t *testing.T) { testContainerRecreateRequestRules(t, s) })
		t.Run("ImagePullJob", func(t *testing.T) { testImagePullJobRules(t, s) })
		t.Run("ImageListPullJob", func(t *testing.T) { testImageListPullJobRules(t, s) })
		t.Run("NodeImage", func(t *testing.T) { testNodeImageRules(t, s) })
		t.Run("PersistentPodState", func(t *testing.T) { testPersistentPodStateRules(t, s) })
		t.Run("ResourceDistribution", func(t *testing.T) { testResourceDistributionRules(t, s) })
		t.Run("PodUnavailableBudget", func(t *testing.T) { testPodUnavailableBudgetRules(t, s) })
		t.Run("UnitedDeployment", func(t *testing.T) { testUnitedDeploymentRules(t, s) })
		t.Run("WorkloadSpread", func(t *testing.T) { testWorkloadSpreadRules(t, s) })
		t.Run("Types", func(t *testing.T) { testTypes(t, s) })
	})
	now := *s
	now.version = ""
	t.Run("Rules", func(t *testing.T) { testV1alpha1Rules(t, &now) })
	t.Run("Stored", func(t *testing.T) { testV1alpha1Stored(t, &now) })
	t.Run("Published", func(t *testing.T) { now.applyFiles(t, "testdata/v1alpha1/*.yaml") })
	t.Run("Kubectl", func(t *testing.T) { testV1alpha1Kubectl(t, &now) })
}

func testV1alpha1Rules(t *testing.T, s *server) {
	const (
		strategy = "spec.updateStrategy"
		inUnited = "spec.template.cloneSetTemplate.spec.updateStrategy"
	)
	s.check(t, oldCloneSet, []rule{
		{name: "as it is", edit: named("old")},
		{name: "in place", edit: set(strategy, "{type: InPlaceIfPossible, partition: 80%, maxUnavailable: 0, maxSurge: 1, "+
			"inPlaceUpdateStrategy: {gracePeriodSeconds: 5}}")},
		{name: "unknown type", edit: set(strategy, "{type: RollingUpdate}"),
			says: []string{"spec.updateStrategy.type", `"RollingUpdate"`, "ReCreate", "OnDelete"}},
		{name: "InPlaceOnly and surge", edit: set(strategy, "{type: InPlaceOnly, maxSurge: 1}"),
			says: []string{"spec.updateStrategy.maxSurge", "does not go with type InPlaceOnly", "remove maxSurge"}},
		{name: "partition of 101%", edit: set(strategy, "{partition: 101%}"),
			says: []string{"spec.updateStrategy.partition", "partition is 101%", "from 0% to 100%"}},
		{name: "0 unavailable, no surge", edit: set(strategy, "{maxUnavailable: 0}"),
			says: []string{"spec.updateStrategy", "are both 0"}},
	})
	s.check(t, ofV1alpha1(unitedDeployment), []rule{
		{name: "the older shape", edit: set(inUnited, "{type: InPlaceIfPossible, partition: 3, maxSurge: 1}")},
		{name: "both shapes", edit: set(inUnited, "{partition: 3, rollingUpdate: {maxSurge: 1}}"),
			says: []string{inUnited + ".rollingUpdate", "also beside it", "move all of them into rollingUpdate"}},
		{name: "a policy as type", edit: set(inUnited, "{type: InPlaceOnly, rollingUpdate: {partition: 1}}"),
			says: []string{inUnited + ".type", "type is InPlaceOnly", "rollingUpdate.podUpdatePolicy",
				"make type RollingUpdate"}},
		{name: "InPlaceOnly and surge", edit: set(inUnited, "{type: InPlaceOnly, maxSurge: 1}"),
			says: []string{"does not go with type InPlaceOnly"}},
		{name: "negative partition", edit: set(inUnited, "{partition: -1}"),
			says: []string{inUnited + ".partition", "partition is -1"}},
	})
}

// testV1alpha1Stored writes v1alpha1 and reads v1beta1, and the other way round.
func testV1alpha1Stored(t *testing.T, s *server) {
	get := func(version, kind, name string) *unstructured.Unstructured {
		like := &unstructured.Unstructured{}
		like.SetAPIVersion("apps.kruise.io/" + version)
		like.SetKind(kind)
		like.SetNamespace("default")
		like.SetName(name)
		return s.get(t, like)
	}
	text := func(u *unstructured.Unstructured, path string) string {
		value, _, _ := unstructured.NestedFieldNoCopy(u.Object, strings.Split(path, ".")...)
		data, err := yaml.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	expect := func(u *unstructured.Unstructured, path, want string) {
		t.Helper()
		if got := text(u, path); got != want {
			t.Errorf("%s: %s is %q, want %q", u.GetAPIVersion(), path, got, want)
		}
	}
	s.make(t, oldCloneSet, named("up"), set("spec.updateStrategy", "{type: InPlaceOnly, partition: 2}"))
	stored := get("v1beta1", "CloneSet", "up")
	expect(stored, "spec.updateStrategy.rollingUpdate.podUpdatePolicy", "InPlaceOnly")
	expect(stored, "spec.scaleStrategy.enablePVCReuse", "true")
	expect(stored, "spec.replicas", "1")

	// Case 12: the published defaults of v1alpha1 stand in the object, in both versions, and the template stays as it was.
	s.make(t, oldCloneSet, named("defaults"))
	expectFields(t, "Case12", get("v1alpha1", "CloneSet", "defaults").Object, "spec.updateStrategy",
		"{type: ReCreate, partition: 0, maxUnavailable: 20%, maxSurge: 0}")
	expectFields(t, "Case12", get("v1beta1", "CloneSet", "defaults").Object, "spec.updateStrategy",
		"{type: RollingUpdate, rollingUpdate: {partition: 0, maxUnavailable: 20%, maxSurge: 0, podUpdatePolicy: ReCreate}}")
	expectFields(t, "Case12", get("v1alpha1", "CloneSet", "defaults").Object, "spec.template.spec",
		"{containers: [{name: web, image: i}]}")
	s.make(t, oldCloneSet, named("deleted"), set("spec.updateStrategy", "{type: OnDelete}"))
	expectFields(t, "Case12", get("v1alpha1", "CloneSet", "deleted").Object, "spec.updateStrategy",
		"{type: OnDelete, partition: 0, maxUnavailable: 20%, maxSurge: 0}")
	s.make(t, ofV1alpha1(unitedDeployment), named("defaults"), remove("spec.replicas"), remove("spec.topology"),
		remove("spec.updateStrategy"))
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		ud := get(version, "UnitedDeployment", "defaults")
		expectFields(t, "Case12", ud.Object, "spec.updateStrategy", "{type: Manual, manualUpdate: {}}")
		expect(ud, "spec.replicas", "1")
		expect(ud, "spec.template.cloneSetTemplate.spec.updateStrategy", "null")
	}

	// v1alpha1 reuses claims unless it is told not to, v1beta1 the reverse.
	s.make(t, cloneSet, named("down"), set("spec.updateStrategy",
		"{type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceOnly}}"))
	shown := get("v1alpha1", "CloneSet", "down")
	expect(shown, "spec.updateStrategy.type", "OnDelete")
	expect(shown, "spec.scaleStrategy.disablePVCReuse", "true")
	if err := unstructured.SetNestedField(shown.Object, int64(7), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), shown); err != nil {
		t.Fatal(err)
	}
	stored = get("v1beta1", "CloneSet", "down")
	expect(stored, "spec.updateStrategy.rollingUpdate.podUpdatePolicy", "InPlaceOnly")
	expect(stored, "spec.replicas", "7")
	if annotations := stored.GetAnnotations(); len(annotations) > 0 {
		t.Errorf("annotations %v, want none", annotations)
	}

	s.make(t, ofV1alpha1(statefulSet), named("up"), set("spec.updateStrategy", "{rollingUpdate: {partition: 2}}"))
	expectFields(t, "StatefulSet", get("v1beta1", "StatefulSet", "up").Object, "spec.updateStrategy",
		`{type: RollingUpdate, rollingUpdate: {partition: 2, maxUnavailable: 1, podUpdatePolicy: ReCreate, minReadySeconds: 0}}`)
	// Fields that v1alpha1 lacks survive a write of v1alpha1.
	s.make(t, statefulSet, named("down"), set("spec.reserveOrdinals", `[1, "3-4"]`))
	older := get("v1alpha1", "StatefulSet", "down")
	expect(older, "spec.reserveOrdinals", "null")
	if err := unstructured.SetNestedField(older.Object, int64(7), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	expectFields(t, "StatefulSet", get("v1beta1", "StatefulSet", "down").Object, "spec.reserveOrdinals", `[1, "3-4"]`)
	expect(get("v1beta1", "StatefulSet", "down"), "spec.replicas", "7")

	s.make(t, ofV1alpha1(daemonSet), named("up"), set("spec.updateStrategy",
		"{rollingUpdate: {rollingUpdateType: Surging, maxSurge: 1}}"),
		annotated("daemonset.kruise.io/progressive-create-pod", "true"))
	expectFields(t, "DaemonSet", get("v1beta1", "DaemonSet", "up").Object, "spec.updateStrategy",
		`{type: RollingUpdate, rollingUpdate: {rollingUpdateType: Standard, maxSurge: 1, partition: 0}}`)
	expect(get("v1beta1", "DaemonSet", "up"), "spec.scaleStrategy.partitionedScaling", "true")
	expect(get("v1alpha1", "DaemonSet", "up"), "spec.updateStrategy.rollingUpdate.rollingUpdateType", "Surging")
	s.make(t, advancedCronJob, named("images"), set("spec.template", imageListTemplate), remove("spec.concurrencyPolicy"))
	expect(get("v1alpha1", "AdvancedCronJob", "images"), "spec.template", "{}")

	s.make(t, ofV1alpha1(unitedDeployment), named("up"),
		set("spec.template.cloneSetTemplate.spec.updateStrategy", "{type: InPlaceIfPossible, partition: 3}"))
	expect(get("v1beta1", "UnitedDeployment", "up"), "spec.template.cloneSetTemplate.spec.updateStrategy.rollingUpdate.podUpdatePolicy", "InPlaceIfPossible")
	expect(get("v1alpha1", "UnitedDeployment", "up"), "spec.template.cloneSetTemplate.spec.updateStrategy.type",
		"InPlaceIfPossible")

	s.make(t, workloadSpread, named("down"))
	expect(get("v1alpha1", "WorkloadSpread", "down"), "spec.scheduleStrategy", "null")
	subsets, _, _ := unstructured.NestedSlice(get("v1alpha1", "WorkloadSpread", "down").Object, "spec", "subsets")
	if first, _ := subsets[0].(map[string]any); first["requiredNodeSelectorTerm"] == nil ||
		first["preferredNodeSelectorTerms"] == nil {
		t.Errorf("v1alpha1: subset %v, want requiredNodeSelectorTerm and preferredNodeSelectorTerms", first)
	}
}

func testV1alpha1Kubectl(t *testing.T, s *server) {
	s.make(t, oldCloneSet, named("shown"))
	s.make(t, workloadSpread, named("fixed"))
	s.make(t, workloadSpread, named("adaptive"), set("spec.scheduleStrategy", "{type: Adaptive}"))
	for _, row := range []struct {
		args string
		want []string
	}{
		{"get clonesets.v1alpha1.apps.kruise.io shown", []string{"NAME", "DESIRED", "UPDATED_AVAILABLE", "AGE", "shown"}},
		{"get workloadspreads.v1alpha1.apps.kruise.io", []string{"NAME", "WORKLOADNAME", "WORKLOADKIND", "ADAPTIVE", "AGE"}},
		{"get ws adaptive -o wide", []string{"Deployment", "STRATEGY", "Adaptive"}},
		{"explain clonesets.spec.updateStrategy --api-version=apps.kruise.io/v1alpha1",
			[]string{"maxUnavailable", "type is ReCreate"}},
		{"explain workloadspreads.spec.subsets", []string{"requiredNodeSelector", "maxReplicas is the most pods"}},
		{"explain statefulsets.spec.updateStrategy --api-version=apps.kruise.io/v1alpha1",
			[]string{"rollingUpdate", "type: see v1beta1"}},
		{"explain daemonsets.spec.updateStrategy.rollingUpdate --api-version=apps.kruise.io/v1alpha1",
			[]string{"maxSurge", "Surging is an old word"}},
		{"scale clonesets.v1alpha1.apps.kruise.io/shown --replicas=3", []string{"scaled"}},
		{"get clone shown -o jsonpath={.apiVersion}/{.spec.replicas}", []string{"apps.kruise.io/v1beta1/3"}},
	} {
		out := s.run(t, "", strings.Fields(row.args)...)
		for _, want := range row.want {
			if !strings.Contains(out, want) {
				t.Errorf("kubectl %s lacks %q:\n%s", row.args, want, out)
			}
		}
	}
}
