//go:build e2e

package suites_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// older names the kinds that have v1alpha1, as kubectl takes them, and the object of the samples.
var older = []struct{ file, resource, name string }{
	{"v1alpha1/2-cloneset.yaml", "clonesets", "older-api"},
	{"v1alpha1/3-uniteddeployment.yaml", "uniteddeployments", "older-web"},
	{"v1alpha1/1-workloadspread.yaml", "workloadspreads", "older-api"},
}

// newer are the same workloads as v1beta1 writes them, with names of their own.
const newer = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: newer-api, namespace: %[1]s}
spec:
  replicas: 5
  minReadySeconds: 1
  revisionHistoryLimit: 4
  selector: {matchLabels: {app: newer-api}}
  template:
    metadata: {labels: {app: newer-api}}
    spec:
      containers:
      - name: main
        image: api:1
        env: [{name: MODE, value: calm}]
        resources: {requests: {cpu: 100m}}
  scaleStrategy: {maxUnavailable: 5}
  updateStrategy:
    type: RollingUpdate
    rollingUpdate:
      podUpdatePolicy: InPlaceIfPossible
      partition: 1
      maxUnavailable: 2
      inPlaceUpdateStrategy: {gracePeriodSeconds: 1}
      priorityStrategy: {weightPriority: [{weight: 50, matchSelector: {matchLabels: {test-key: foo}}}]}
      scatterStrategy: [{key: foo, value: bar}]
---
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: newer-web, namespace: %[1]s}
spec:
  replicas: 6
  revisionHistoryLimit: 5
  selector: {matchLabels: {app: newer-web}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: newer-web}}
      spec:
        updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}
        template:
          metadata: {labels: {app: newer-web}}
          spec: {containers: [{name: main, image: "web:1"}]}
  topology:
    subsets:
    - name: one
      replicas: 2
      nodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [n1]}]}
    - name: two
      nodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [n2]}]}
  updateStrategy: {manualUpdate: {partitions: {one: 1}}}
---
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: newer-api, namespace: %[1]s}
spec:
  targetRef: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: newer-api}
  scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 30}}
  subsets:
  - name: one
    requiredNodeSelector: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [n1]}]}
    preferredNodeSelector: [{weight: 1, preference: {matchExpressions: [{key: disk, operator: In, values: [fast]}]}}]
    tolerations: [{key: pool, operator: Equal, value: one, effect: NoSchedule}]
    maxReplicas: 3
    patch: {metadata: {labels: {subset: one}}}
  - name: two
    requiredNodeSelector: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [n2]}]}
    patch: {metadata: {labels: {subset: two}}}
`

var _ = Describe("Manifests of v1alpha1", func() {
	It("are read back as they were applied, and run as their twins of v1beta1 do", func(ctx SpecContext) {
		cluster, ns := olderCluster(ctx, "older")
		By("applying both versions; the WorkloadSpreads first, so that they spread the first pods")
		twins := strings.Split(fmt.Sprintf(newer, ns), "\n---\n")
		cluster.Apply(ctx, olderManifest(ns, 2), twins[2])
		cluster.MustKubectl(ctx, "-n", ns, "wait", "workloadspreads.v1alpha1.apps.kruise.io", "--all",
			"--for=jsonpath={.status.observedGeneration}=1", "--timeout=240s")
		cluster.Apply(ctx, olderManifest(ns, 0), olderManifest(ns, 1), twins[0], twins[1])
		expectKept(ctx, cluster, ns)
		for _, o := range older {
			ours := read(ctx, cluster, ns, o.resource+".v1beta1.apps.kruise.io", o.name)
			twin := read(ctx, cluster, ns, o.resource+".v1beta1.apps.kruise.io", strings.Replace(o.name, "older", "newer", 1))
			text := strings.NewReplacer("older-", "newer-", "apps.kruise.io/v1alpha1",
				"apps.kruise.io/v1beta1").Replace(encoded(ours["spec"]))
			Expect(text).To(MatchJSON(encoded(twin["spec"])), "%s as v1beta1", o.resource)
		}
		for _, age := range []string{"older", "newer"} {
			alone.ExpectAtRestIn(ctx, north, harness.CloneSet(ns, age+"-api"), 5)
			alone.ExpectAtRestIn(ctx, north, harness.UnitedDeployment(ns, age+"-web"), 6)
			alone.ExpectPods(ctx, harness.CloneSet(ns, age+"-api"), harness.ByZone, map[string]int{"n1": 3, "n2": 2})
			alone.ExpectPods(ctx, harness.UnitedDeployment(ns, age+"-web"), harness.ByZone, map[string]int{"n1": 2, "n2": 4})
		}
		cluster.MustKubectl(ctx, "-n", ns, "get", "pods", "-l", "app=older-api,subset=one", "-o", "name")

		By("updating through v1alpha1, in place, up to the partitions")
		for _, update := range []struct {
			age, version string
		}{{"older", "v1alpha1"}, {"newer", "v1beta1"}} {
			api, web := harness.CloneSet(ns, update.age+"-api"), harness.UnitedDeployment(ns, update.age+"-web")
			before := alone.Pods.Mark(ctx, ns)
			cluster.MustKubectl(ctx, "-n", ns, "patch", "clonesets."+update.version+".apps.kruise.io/"+api.Name, "--type=json",
				"-p", `[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "api:2"}]`)
			cluster.MustKubectl(ctx, "-n", ns, "patch", "uniteddeployments."+update.version+".apps.kruise.io/"+web.Name,
				"--type=json",
				"-p", `[{"op": "replace", "value": "web:2",
				"path": "/spec/template/cloneSetTemplate/spec/template/spec/containers/0/image"}]`)
			alone.ExpectAtRestIn(ctx, north, api, 5)
			alone.ExpectAtRestIn(ctx, north, web, 6)
			Expect(harness.Count(alone.PodsOf(api), byImage)).To(Equal(map[string]int{"api:1": 1, "api:2": 4}), update.age)
			Expect(harness.Count(alone.PodsOf(web), byImage)).To(Equal(map[string]int{"web:1": 1, "web:2": 5}), update.age)
			history := alone.Pods.Since(ctx, before)
			expectInPlace(history, 9)
			expectAtMost(history, ofName(api.Name+"-", judge.Unavailable(5)), 2, "unavailable pods")
		}

		By("changing one as v1beta1, and applying the v1alpha1 manifest again")
		cluster.MustKubectl(ctx, "-n", ns, "scale", "clone/older-api", "--replicas=4")
		alone.ExpectAtRestIn(ctx, north, harness.CloneSet(ns, "older-api"), 4)
		Expect(read(ctx, cluster, ns, "clonesets.v1alpha1.apps.kruise.io", "older-api")).To(HaveKeyWithValue("spec",
			HaveKeyWithValue("replicas", BeEquivalentTo(4))))
		cluster.Apply(ctx, olderManifest(ns, 0), olderManifest(ns, 1))
		expectKept(ctx, cluster, ns)
		alone.ExpectAtRestIn(ctx, north, harness.CloneSet(ns, "older-api"), 5)
		alone.ExpectAtRestIn(ctx, north, harness.UnitedDeployment(ns, "older-web"), 6)
	})

	It("fail while nobody converts them and lose nothing, v1beta1 goes on, and all is well when the "+
		"agent is back", func(ctx SpecContext) {
		cluster, ns := olderCluster(ctx, "older-down")
		api := harness.CloneSet(ns, "older-api")
		cluster.Apply(ctx, olderManifest(ns, 2), olderManifest(ns, 0), olderManifest(ns, 1))
		cluster.Apply(ctx, cloneSet(ns, "plain", 2, "a:1", ""))
		alone.ExpectAtRestIn(ctx, north, api, 5)
		alone.ExpectAtRestIn(ctx, north, harness.CloneSet(ns, "plain"), 2)

		By("killing the agent, which converts")
		before := alone.Pods.Mark(ctx, ns)
		Expect(alone.Fleet.Kill(ctx, fleet.AgentName(north))).To(Succeed())
		stored := map[string]any{}
		for _, o := range older {
			stored[o.resource] = read(ctx, cluster, ns, o.resource+".v1beta1.apps.kruise.io", o.name)["spec"]
			_, err := cluster.Kubectl(ctx, "-n", ns, "get", o.resource+".v1alpha1.apps.kruise.io", o.name)
			Expect(err).To(MatchError(ContainSubstring("conversion webhook")))
		}
		changed := strings.Replace(olderManifest(ns, 0), "api:1", "api:9", 1)
		cluster.ExpectRefused(ctx, changed, "conversion webhook")
		cluster.ExpectRefused(ctx, strings.ReplaceAll(olderManifest(ns, 0), "older-api", "older-new"), "conversion webhook")
		for _, o := range older {
			Expect(read(ctx, cluster, ns, o.resource+".v1beta1.apps.kruise.io", o.name)["spec"]).To(Equal(stored[o.resource]),
				o.resource)
		}

		By("going on with v1beta1")
		cluster.MustKubectl(ctx, "-n", ns, "get", "clone,ud,workloadspreads.v1beta1.apps.kruise.io")
		cluster.MustKubectl(ctx, "-n", ns, "scale", "clone/plain", "clone/older-api", "--replicas=4")
		cluster.Apply(ctx, cloneSet(ns, "second", 1, "a:1", ""))
		history := alone.Pods.Since(ctx, before)
		Expect(history.Created()).To(BeEmpty())
		harness.ExpectUntouched(history)

		By("starting the agent again")
		Expect(h.RunAgentOn(ctx, alone, north)).To(Succeed())
		alone.ExpectAtRestIn(ctx, north, harness.CloneSet(ns, "plain"), 4)
		alone.ExpectAtRestIn(ctx, north, harness.CloneSet(ns, "second"), 1)
		alone.ExpectAtRestIn(ctx, north, api, 4)
		cluster.Apply(ctx, olderManifest(ns, 0))
		expectKept(ctx, cluster, ns)
		alone.ExpectAtRestIn(ctx, north, api, 5)

		By("applying the CRDs again, which drops nothing that the agent told the API server, or is put right")
		Expect(cluster.InstallCRDs(ctx, crds.FS)).To(Succeed())
		expectKept(ctx, cluster, ns)
		By("deleting the Secret with the certificate")
		cluster.MustKubectl(ctx, "-n", "flotilla-system", "delete", "secret", "flotilla-agent-webhook")
		expectKept(ctx, cluster, ns)
	})
})

// federation.md 7.7, number 16.
var _ = Describe("Manifests of v1alpha1 on a hub", func() {
	It("7.7-16: are placed beside their twins of v1beta1, change through both versions, and wait where the hub, which "+
		"converts them, is away", func(ctx SpecContext) {
		ns := federated(ctx, "older-hub")
		onHub := func(i int) string {
			return strings.NewReplacer("\nmetadata:\n", "\nmetadata:\n  namespace: "+ns+"\n").Replace(sample(older[i].file, ns))
		}
		twins := strings.Split(strings.NewReplacer("values: [n1]", "values: [a]", "values: [n2]",
			"values: [b]").Replace(fmt.Sprintf(newer, ns)), "\n---\n")
		h.Hub.Apply(ctx, onHub(0), onHub(1), twins[0], twins[1])
		for _, age := range []string{"older", "newer"} {
			api, web := harness.CloneSet(ns, age+"-api"), harness.UnitedDeployment(ns, age+"-web")
			h.ExpectAtRest(ctx, api, 5)
			h.ExpectAtRest(ctx, web, 6)
			h.ExpectPods(ctx, web, harness.ByZone, map[string]int{"a": 2, "b": 4})
		}
		for _, o := range older[:2] {
			ours := read(ctx, h.Hub, ns, o.resource+".v1beta1.apps.kruise.io", o.name)
			twin := read(ctx, h.Hub, ns, o.resource+".v1beta1.apps.kruise.io", strings.Replace(o.name, "older", "newer", 1))
			text := strings.NewReplacer("older-", "newer-", "apps.kruise.io/v1alpha1",
				"apps.kruise.io/v1beta1").Replace(encoded(ours["spec"]))
			Expect(text).To(MatchJSON(encoded(twin["spec"])), "%s as v1beta1", o.resource)
		}

		By("updating through v1alpha1, in place, up to the partitions over all members")
		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "patch", "clonesets.v1alpha1.apps.kruise.io/older-api", "--type=json",
			"-p", `[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "api:2"}]`)
		api := harness.CloneSet(ns, "older-api")
		Eventually(ctx, func() map[string]int { return harness.Count(h.PodsOf(api), byImage) }).
			WithTimeout(harness.Patience).Should(Equal(map[string]int{"api:1": 1, "api:2": 4}))
		h.ExpectAtRest(ctx, api, 5)
		history := h.Pods.Since(ctx, before)
		Expect(history.Gone()).To(BeEmpty())

		By("the hub is away, and with it what converts: v1alpha1 is refused, v1beta1 is taken, and nothing is lost")
		mend()
		stored := read(ctx, h.Hub, ns, "clonesets.v1beta1.apps.kruise.io", "older-api")["spec"]
		Expect(h.Fleet.Kill(ctx, fleet.HubProgram)).To(Succeed())
		_, err := h.Hub.Kubectl(ctx, "-n", ns, "get", "clonesets.v1alpha1.apps.kruise.io", "older-api")
		Expect(err).To(MatchError(ContainSubstring("conversion webhook")))
		h.Hub.ExpectRefused(ctx, strings.Replace(onHub(0), "replicas: 5", "replicas: 7", 1), "conversion webhook")
		Expect(read(ctx, h.Hub, ns, "clonesets.v1beta1.apps.kruise.io", "older-api")["spec"]).To(Equal(stored))
		h.Kubectl(ctx, "-n", ns, "scale", "clone/newer-api", "--replicas=6")
		Expect(h.Mend(ctx)).To(Succeed())
		h.ExpectAtRest(ctx, harness.CloneSet(ns, "newer-api"), 6)
		Eventually(ctx, func(ctx context.Context) error {
			_, err := h.Hub.Kubectl(ctx, "-n", ns, "scale", "clonesets.v1alpha1.apps.kruise.io/older-api", "--replicas=7")
			return err
		}).WithTimeout(harness.Patience).Should(Succeed())
		h.ExpectAtRest(ctx, api, 7)
	})
})

// olderCluster runs the agent on the cluster that no hub knows, for one spec in a namespace of its own.
func olderCluster(ctx context.Context, name string) (cluster *harness.Cluster, namespace string) {
	cluster = alone.Members[north]
	namespace = cluster.PlainNamespace(ctx, name)
	explain(alone, namespace)
	Expect(h.RunAgentOn(ctx, alone, north)).To(Succeed())
	endAfter(fleet.AgentName(north))
	By("waiting until the API server was told where to convert; it takes seconds to check a definition")
	EventuallyWithOffset(1, ctx, func(ctx context.Context) error {
		_, err := cluster.Kubectl(ctx, "-n", namespace, "apply", "--dry-run=server", "-f", "../samples/v1alpha1")
		return err
	}).WithTimeout(harness.Patience).Should(Succeed())
	return cluster, namespace
}

// olderManifest is a sample in the namespace, on the zones of the cluster.
func olderManifest(namespace string, i int) string {
	return strings.NewReplacer("- a\n", "- n1\n", "- b\n", "- n2\n", "\nmetadata:\n", "\nmetadata:\n  namespace: "+
		namespace+"\n").
		Replace(sample(older[i].file, namespace))
}

// expectKept waits until each sample is read as v1alpha1 with everything that was applied. It waits because a new agent
// needs a moment to tell the API server where it is.
func expectKept(ctx context.Context, cluster *harness.Cluster, namespace string) {
	for i, o := range older {
		applied := map[string]any{}
		manifest := []byte(olderManifest(namespace, i))
		ExpectWithOffset(1, yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest),
			len(manifest)).Decode(&applied)).To(Succeed())
		EventuallyWithOffset(1, ctx, func(ctx context.Context) (string, error) {
			out, err := cluster.Kubectl(ctx, "-n", namespace, "get", o.resource+".v1alpha1.apps.kruise.io", o.name, "-o", "json")
			if err != nil {
				return "", err
			}
			got := map[string]any{}
			err = json.Unmarshal([]byte(out), &got)
			return lost(applied, got, o.resource), err
		}).WithTimeout(harness.Patience).Should(BeEmpty())
	}
}

// lost names the first place where got does not say what was applied; what got says beside it are defaults and status.
func lost(applied, got any, at string) string {
	switch want := applied.(type) {
	case map[string]any:
		have, _ := got.(map[string]any)
		for key, value := range want {
			if diff := lost(value, have[key], at+"."+key); diff != "" {
				return diff
			}
		}
		return ""
	case []any:
		have, _ := got.([]any)
		if len(have) != len(want) {
			return fmt.Sprintf("%s: %v, applied %v", at, got, applied)
		}
		for i := range want {
			if diff := lost(want[i], have[i], fmt.Sprintf("%s[%d]", at, i)); diff != "" {
				return diff
			}
		}
		return ""
	}
	if !reflect.DeepEqual(applied, got) && encoded(applied) != encoded(got) {
		return fmt.Sprintf("%s: %v, applied %v", at, got, applied)
	}
	return ""
}

func read(ctx context.Context, cluster *harness.Cluster, namespace, resource, name string) map[string]any {
	object := map[string]any{}
	out := cluster.MustKubectl(ctx, "-n", namespace, "get", resource, name, "-o", "json")
	ExpectWithOffset(1, json.Unmarshal([]byte(out), &object)).To(Succeed())
	return object
}

func encoded(value any) string {
	text, err := json.Marshal(value)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return string(text)
}
