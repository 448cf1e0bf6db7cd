package crds_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// testPublishedManifests applies manifests in OpenKruise's published shape by both ways of kubectl, with strict
// validation, and finds everything that was written in what is stored.
func testPublishedManifests(t *testing.T, s *server) {
	s.applyFiles(t, "testdata/*.yaml")
}

func (s *server) applyFiles(t *testing.T, pattern string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	for _, file := range files {
		for _, way := range [][]string{{}, {"--server-side"}} {
			t.Run(filepath.Base(file)+strings.Join(way, ""), func(t *testing.T) {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				want := parse(t, string(data))
				want.SetNamespace("default")
				apply := append([]string{"apply", "--validate=strict", "-f", file}, way...)
				s.run(t, "", apply...)
				t.Cleanup(func() {
					if err := s.Delete(context.WithoutCancel(t.Context()), want); err != nil {
						t.Error(err)
					}
				})
				got := s.get(t, want)
				if missing := lacks(want.Object, got.Object, ""); missing != "" {
					t.Fatalf("stored without %s", missing)
				}
				s.run(t, "", apply...)
				if again := s.get(t, want); again.GetResourceVersion() != got.GetResourceVersion() {
					t.Errorf("applied again it changed from %v to %v", got, again)
				}
			})
		}
	}
}

// lacks returns the first path of want that got does not have as it is, or "".
func lacks(want, got any, path string) string {
	switch want := want.(type) {
	case nil:
		return ""
	case map[string]any:
		have, ok := got.(map[string]any)
		if !ok {
			return path
		}
		for key, value := range want {
			if missing := lacks(value, have[key], path+"."+key); missing != "" {
				return missing
			}
		}
	case []any:
		have, ok := got.([]any)
		if !ok || len(have) != len(want) {
			return path
		}
		for i := range want {
			if missing := lacks(want[i], have[i], path+"[]"); missing != "" {
				return missing
			}
		}
	default:
		if !reflect.DeepEqual(want, got) {
			return path
		}
	}
	return ""
}

func (s *server) get(t *testing.T, like *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(like.GroupVersionKind())
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(like), u); err != nil {
		t.Fatal(err)
	}
	return u
}

// make creates the manifest under a name of its own, until the test ends.
func (s *server) make(t *testing.T, manifest string, edits ...edit) *unstructured.Unstructured {
	t.Helper()
	u := parse(t, manifest)
	all(edits...)(u)
	if err := s.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Delete(context.WithoutCancel(t.Context()), u); err != nil {
			t.Error(err)
		}
	})
	return u
}

// testScale scales through the subresource, where no number may be refused by what the subsets ask for.
func testScale(t *testing.T, s *server) {
	ud := s.make(t, unitedDeployment, named("scaled"))
	cs := s.make(t, cloneSet, named("scaled"))
	sts := s.make(t, statefulSet, named("scaled"))
	for _, replicas := range []string{"30", "7", "1", "0", "12"} {
		s.run(t, "", "scale", "--replicas="+replicas, "uniteddeployment/scaled", "cloneset/scaled", "asts/scaled")
		for _, u := range []*unstructured.Unstructured{ud, cs, sts} {
			out := s.run(t, "", "get", "--raw", "/apis/apps.kruise.io/v1beta1/namespaces/default/"+strings.ToLower(u.GetKind())+"s/scaled/scale")
			if !strings.Contains(out, `"replicas":`+replicas) && replicas != "0" {
				t.Errorf("scale of %s says %s, want %s", u.GetKind(), out, replicas)
			}
			if got := nested(t, s.get(t, u), "spec.replicas"); strings.TrimSpace(replicas) != itoa(got) {
				t.Errorf("%s has %d replicas, want %s", u.GetKind(), got, replicas)
			}
		}
	}
}

// testServerSideApply lets two managers own parts of one object: subsets merge by their name.
func testServerSideApply(t *testing.T, s *server) {
	ud := s.make(t, unitedDeployment, named("shared"))
	s.run(t, `
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: shared, namespace: default}
spec: {topology: {subsets: [{name: zone-b, replicas: 1}]}}
`, "apply", "--server-side", "--field-manager=other", "-f", "-")
	subsets, _, err := unstructured.NestedSlice(s.get(t, ud).Object, "spec", "topology", "subsets")
	if err != nil || len(subsets) != 2 {
		t.Fatalf("subsets %v, %v: want both", subsets, err)
	}
	second, _ := subsets[1].(map[string]any)
	if second["name"] != "zone-b" || second["replicas"] != int64(1) || second["nodeSelectorTerm"] == nil {
		t.Errorf("subset zone-b is %v, want replicas 1 and its term", second)
	}
}

// testDefaults leaves out what has a default. Nothing is added to a template, whose hash is a revision.
func testDefaults(t *testing.T, s *server) {
	cs := s.get(t, s.make(t, cloneSet, named("defaults"), remove("spec.replicas"), set("spec.scaleStrategy", "{}")))
	ud := s.get(t, s.make(t, unitedDeployment, named("defaults"), remove("spec.replicas"), remove("spec.topology")))
	for _, u := range []*unstructured.Unstructured{cs, ud} {
		if replicas, limit := nested(t, u, "spec.replicas"),
			nested(t, u, "spec.revisionHistoryLimit"); replicas != 1 || limit != 10 {
			t.Errorf("%s: replicas %d, revisionHistoryLimit %d, want 1 and 10", u.GetKind(), replicas, limit)
		}
	}
	if reuse, found, _ := unstructured.NestedBool(cs.Object, "spec", "scaleStrategy", "enablePVCReuse"); reuse || !found {
		t.Errorf("enablePVCReuse is %t (found %t), want false as published", reuse, found)
	}
	ds := s.get(t, s.make(t, daemonSet, named("defaults")))
	expectFields(t, "DaemonSet", ds.Object, "spec.updateStrategy",
		`{rollingUpdate: {rollingUpdateType: Standard, maxSurge: 0, maxUnavailable: 1, partition: 0}, type: RollingUpdate}`)
	expectFields(t, "DaemonSet", ds.Object, "spec.burstReplicas", "250")
	bcj := s.get(t, s.make(t, broadcastJob, named("defaults")))
	expectFields(t, "BroadcastJob", bcj.Object, "spec.completionPolicy", "{type: Always}")
	expectFields(t, "BroadcastJob", bcj.Object, "spec.failurePolicy", "{type: FailFast}")
	expectFields(t, "BroadcastJob", bcj.Object, "spec.parallelism", "2147483647")
	acj := s.get(t, s.make(t, advancedCronJob, named("defaults")))
	expectFields(t, "AdvancedCronJob", acj.Object, "spec.successfulJobsHistoryLimit", "3")
	expectFields(t, "AdvancedCronJob", acj.Object, "spec.failedJobsHistoryLimit", "1")
	expectFields(t, "Case12: v1beta1", cs.Object, "spec.updateStrategy",
		`{rollingUpdate: {maxSurge: 0, maxUnavailable: 20%, partition: 0, podUpdatePolicy: ReCreate}, type: RollingUpdate}`)
	expectFields(t, "Case12: v1beta1", ud.Object, "spec.updateStrategy", `{manualUpdate: {}, type: Manual}`)
	given := s.get(t, s.make(t, cloneSet, named("given"),
		set("spec.updateStrategy", "{rollingUpdate: {maxSurge: 1, podUpdatePolicy: InPlaceIfPossible}}")))
	expectFields(t, "Case12: what is given stays", given.Object, "spec.updateStrategy",
		`{rollingUpdate: {maxSurge: 1, maxUnavailable: 20%, partition: 0, podUpdatePolicy: InPlaceIfPossible}, type: RollingUpdate}`)

	sts := s.get(t, s.make(t, statefulSet, named("defaults"), remove("spec.replicas"), remove("spec.podManagementPolicy"),
		remove("spec.serviceName")))
	expectFields(t, "StatefulSet", sts.Object, "spec", `{replicas: 1, podManagementPolicy: OrderedReady, revisionHistoryLimit: 10,
		updateStrategy: {type: RollingUpdate}, selector: {matchLabels: {app: db}},
		template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: "registry.example/db:1"}]}}}`)
	rolled := s.get(t, s.make(t, statefulSet, named("rolled"), set("spec.updateStrategy", "{rollingUpdate: {}}"),
		set("spec.persistentVolumeClaimRetentionPolicy", "{}"), set("spec.volumeClaimUpdateStrategy", "{}")))
	expectFields(t, "StatefulSet", rolled.Object, "spec.updateStrategy",
		`{type: RollingUpdate, rollingUpdate: {partition: 0, maxUnavailable: 1, podUpdatePolicy: ReCreate, minReadySeconds: 0}}`)
	expectFields(t, "StatefulSet", rolled.Object, "spec.persistentVolumeClaimRetentionPolicy",
		`{whenDeleted: Retain, whenScaled: Retain}`)
	expectFields(t, "StatefulSet", rolled.Object, "spec.volumeClaimUpdateStrategy", `{type: OnDelete}`)

	child, _, _ := unstructured.NestedMap(ud.Object, "spec", "template", "cloneSetTemplate", "spec")
	if len(child) != 1 || child["template"] == nil {
		t.Errorf("the child's spec became %v, want its template alone", child)
	}
	united := s.get(t, s.make(t, unitedDeployment, named("asts-defaults"),
		set("spec.template", "{advancedStatefulSetTemplate: {spec: "+podSpec+"}}")))
	expectFields(t, "a child is as it was given", united.Object, "spec.template.advancedStatefulSetTemplate.spec", podSpec)
}

// expectFields compares the value at path with one in YAML.
func expectFields(t *testing.T, what string, object map[string]any, path, want string) {
	t.Helper()
	is, _, _ := unstructured.NestedFieldNoCopy(object, strings.Split(path, ".")...)
	var wanted any
	if err := yaml.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if is = toJSON(is); !reflect.DeepEqual(is, toJSON(wanted)) {
		t.Errorf("%s: %s is %v, want %v", what, path, is, want)
	}
}

// testStatus writes a part of a status, and zeros stay.
func testStatus(t *testing.T, s *server) {
	for _, u := range []*unstructured.Unstructured{
		s.make(t, unitedDeployment, named("status")), s.make(t, cloneSet, named("status")),
		s.make(t, statefulSet, named("status")),
	} {
		kind := strings.ToLower(u.GetKind()) + "s.apps.kruise.io"
		s.run(t, "", "patch", kind, "status", "--subresource=status", "--type=merge", "-p",
			`{"status":{"updatedReplicas":0,"conditions":[{"type":"Federated","status":"False","reason":"NoPolicy","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
		if got := nested(t, s.get(t, u), "status.updatedReplicas"); got != 0 {
			t.Errorf("%s: updatedReplicas %d, want 0", kind, got)
		}
	}
}

func testKubectl(t *testing.T, s *server) {
	s.make(t, cloneSet, named("shown"))
	s.make(t, unitedDeployment, named("shown"))
	s.make(t, statefulSet, named("shown"))
	s.make(t, daemonSet, named("shown"))
	s.make(t, broadcastJob, named("shown"))
	s.make(t, advancedCronJob, named("shown"))
	for _, row := range []struct {
		args []string
		want []string
	}{
		{[]string{"get", "clone", "shown"}, []string{"NAME", "DESIRED", "UPDATED", "UPDATED_READY", "UPDATED_AVAILABLE",
			"READY", "TOTAL", "AGE"}},
		{[]string{"get", "clone", "shown", "-o", "wide"},
			[]string{"AGE", "CONTAINERS", "IMAGES", "SELECTOR", "registry.example/web:1"}},
		{[]string{"get", "asts", "shown"}, []string{"NAME", "DESIRED", "CURRENT", "UPDATED", "READY", "AGE"}},
		{[]string{"get", "asts", "shown", "-o", "wide"}, []string{"CONTAINERS", "IMAGES", "registry.example/db:1"}},
		{[]string{"explain", "statefulsets.spec.reserveOrdinals", "--api-version=apps.kruise.io/v1beta1"},
			[]string{`or ranges "a-b" with`}},
		{[]string{"explain", "statefulsets.spec.updateStrategy.rollingUpdate", "--api-version=apps.kruise.io/v1beta1"},
			[]string{"partition is the number of pods that stay on the old", "readiness gate InPlaceUpdateReady: new"}},
		{[]string{"get", "daemon", "shown"}, []string{"NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE",
			"AGE"}},
		{[]string{"get", "ads", "shown", "-o", "wide"}, []string{"CONTAINERS", "IMAGES", "registry.example/log:1"}},
		{[]string{"get", "bcj", "shown"}, []string{"NAME", "DESIRED", "ACTIVE", "SUCCEEDED", "FAILED", "AGE"}},
		{[]string{"get", "acj", "shown"}, []string{"NAME", "SCHEDULE", "TYPE", "LASTSCHEDULETIME", "AGE", "30 2 * * *"}},
		{[]string{"explain", "broadcastjobs.spec.flotilla.batches"},
			[]string{"orderBy is a label of nodes", "soak is how long"}},
		{[]string{"explain", "advancedcronjobs.spec.template"}, []string{"jobTemplate", "It cannot change."}},
		{[]string{"get", "ud", "shown"}, []string{"NAME", "DESIRED", "CURRENT", "UPDATED", "READY", "AGE"}},
		{[]string{"get", "wp,fp,cfp,mc,wk", "-A"}, []string{"No resources found"}},
		{[]string{"explain", "clonesets.spec.updateStrategy"}, []string{"rollingUpdate", "type is RollingUpdate", "enum:"}},
		{[]string{"explain", "clonesets.spec.updateStrategy.rollingUpdate.partition"},
			[]string{"how many pods stay on the old revision", "rounds up"}},
		{[]string{"explain", "clonesets.spec.template.spec.containers"}, []string{"core/v1 Containers"}},
		{[]string{"explain", "uniteddeployments.spec.topology.subsets"}, []string{"nodeSelectorTerm", "half rounds up"}},
		{[]string{"explain", "memberclusters.spec"}, []string{"accepted", "clusterID"}},
	} {
		out := s.run(t, "", row.args...)
		for _, want := range row.want {
			if !strings.Contains(out, want) {
				t.Errorf("kubectl %s lacks %q:\n%s", strings.Join(row.args, " "), want, out)
			}
		}
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
