package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/snapshot"
)

func TestChangedFields(t *testing.T) {
	for _, tt := range []struct {
		name, before, after string
		want                []string
	}{
		{"nothing", `{"spec":{"replicas":1}}`, `{"spec":{"replicas":1.0}}`, nil},
		{"a value", `{"spec":{"replicas":1}}`, `{"spec":{"replicas":3}}`, []string{"spec.replicas: 1 → 3"}},
		{"an added and a removed field", `{"spec":{"a":"x"}}`, `{"spec":{"b":{"c":true}}}`,
			[]string{"spec.a: x → none", `spec.b: none → {"c":true}`}},
		{"containers go by their names", `{"c":[{"name":"a","image":"a:1"},{"name":"b","image":"b:1"}]}`,
			`{"c":[{"name":"b","image":"b:2"},{"name":"a","image":"a:1"},{"name":"n","image":"n:1"}]}`,
			[]string{"c[b].image: b:1 → b:2", `c[n]: none → {"image":"n:1","name":"n"}`}},
		{"other lists are one value", `{"c":["a"]}`, `{"c":["a","b"]}`, []string{`c: ["a"] → ["a","b"]`}},
		{"what the hub writes is left out", `{"metadata":{"annotations":{"topology.flotilla.dev/budget":"1","team":"a"}}}`,
			`{"metadata":{"annotations":{"topology.flotilla.dev/budget":"2","team":"b"}}}`,
			[]string{"metadata.annotations.team: a → b"}},
		{"what the hub writes where there was no annotation", `{"metadata":{}}`, `{"metadata":{"annotations":` +
			`{"topology.flotilla.dev/budget":"2","kubectl.kubernetes.io/last-applied-configuration":"NEW"}}}`, nil},
		{"the first annotations", `{"metadata":{}}`,
			`{"metadata":{"annotations":{"topology.flotilla.dev/budget":"2","team":"b"}}}`,
			[]string{"metadata.annotations.team: none → b"}},
		{"a long value is cut", `{}`, `{"a":"` + strings.Repeat("x", 90) + `"}`,
			[]string{`a: none → "` + strings.Repeat("x", 58) + "…"}},
		{"a key with a dot", `{"l":{"a.b/c":"1"}}`, `{"l":{"a.b/c":"2"}}`, []string{"l[a.b/c]: 1 → 2"}},
		{"values of a Secret", `{"spec":{"apiVersion":"v1","kind":"Secret","data":{"a":"OLD","b":"x"},"type":"p"}}`,
			`{"spec":{"apiVersion":"v1","kind":"Secret","data":{"a":"NEW","b":"x"},"stringData":{"c":"NEW"},"type":"q"}}`,
			[]string{"spec.data.a: changes; values of a Secret are not shown",
				"spec.stringData: changes; values of a Secret are not shown", "spec.type: p → q"}},
		{"a Secret as one value", `{}`, `{"r":[{"apiVersion":"v1","kind":"Secret","data":{"a":"NEW"}}]}`,
			[]string{`r: none → [{"apiVersion":"v1","data":"(not shown)","kind":"Secret"}]`}},
		{"what kubectl apply keeps",
			`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"OLD"}}}`,
			`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"NEW"}}}`, nil},
	} {
		fields, err := changedFields([]byte(tt.before), []byte(tt.after))
		var got []string
		for i := range fields {
			got = append(got, fields[i].text())
		}
		data, _ := json.Marshal(fields)
		if strings.Contains(string(data), "OLD") || strings.Contains(string(data), "NEW") {
			t.Errorf("%s: the values are in %s", tt.name, data)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
}

// placement is the placement of CloneSet shop/api on both members, two pods in each.
const placement = `---
apiVersion: topology.flotilla.dev/v1alpha1
kind: WorkloadPlacement
metadata: {name: cloneset-api, namespace: shop, uid: p}
spec:
  workload: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: api, uid: "", generation: 1}
  policy: {kind: ClusterFederationPolicy, name: everywhere}
  revision: %s
  replicas: 4
  placed: 4
  sequence: 1
  revisionSequence: 1
  cells:
  - {cluster: east, replicas: 2, sequence: 1, reason: {code: Even},
     granted: {updated: 2, unavailable: 1, surge: 0}, reserved: {updated: 2, unavailable: 1, surge: 0}}
  - {cluster: west, replicas: 2, sequence: 1, reason: {code: Even},
     granted: {updated: 2, unavailable: 1, surge: 0}, reserved: {updated: 2, unavailable: 1, surge: 0}}
`

// lines returns the lines of a text with single spaces.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return out
}

// TestPlanOfChanges says what changes in members, how pods get another template, and in which waves.
func TestPlanOfChanges(t *testing.T) {
	const limits = "  updateStrategy: {rollingUpdate: {maxUnavailable: 2}}\n"
	const inPlace = "  updateStrategy: {rollingUpdate: {maxUnavailable: 2, podUpdatePolicy: InPlaceIfPossible}}\n"
	waves := `---
apiVersion: topology.flotilla.dev/v1alpha1
kind: ClusterFederationPolicy
metadata: {name: everywhere}
spec:
  workloads: [{kind: CloneSet}]
  rollout:
    strategy: Waves
    waves:
    - {name: canary, clusters: {names: [west]}, size: 1, approval: Required}
    - {name: west, clusters: {names: [west]}, soak: 10m}
`
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := snapshot.NewReader(scheme, "shop")
	if err != nil {
		t.Fatal(err)
	}
	image := func(text string) string { return strings.Replace(text, "web:1", "web:2", 1) }
	const field = "spec.template.spec.containers[main].image: web:1 → web:2"
	for _, tt := range []struct {
		name, old, files string
		want, not        []string
	}{
		{"an image, in place", cloneSet("api", 4, inPlace), image(cloneSet("api", 4, inPlace)),
			[]string{"in east, west:", field, "2 pods are updated in place; container main restarts"}, nil},
		{"an image, with new pods", cloneSet("api", 4, limits), image(cloneSet("api", 4, limits)),
			[]string{"in east, west:", field, "2 pods are replaced"}, []string{"WAVE PODS WHERE THEN"}},
		{"a field that cannot change in place", cloneSet("api", 4, inPlace),
			strings.Replace(cloneSet("api", 4, inPlace), "image: web:1", "image: web:1, command: [run]", 1),
			[]string{"2 pods are replaced; spec.containers[0].command cannot change in running pods"}, nil},
		{"replicas alone", cloneSet("api", 4, limits), cloneSet("api", 5, limits), []string{"1 pod is created"},
			[]string{"2 pods are replaced", "2 pods are updated in place"}},
		{"nothing", cloneSet("api", 4, limits), cloneSet("api", 4, limits), nil, []string{"in east, west:", "in east:"}},
		{"an override of the policy", cloneSet("api", 4, limits), strings.Replace(waves, "  rollout:", `  overrides:
  - {clusters: {names: [west]}, imageRegistry: mirror.example.com}
  rollout:`, 1), []string{"in west:",
			"spec.template.spec.containers[main].image: web:1 → mirror.example.com/web:1", "2 pods are replaced"},
			[]string{"in east:"}},
		{"waves", cloneSet("api", 4, limits), image(cloneSet("api", 4, limits)) + waves,
			[]string{"WAVE PODS WHERE THEN", "canary (now) 1 west 1 approval", "west 1 west 1 soak 10m", "(rest) 2 east 2 -",
				"0 of 2 now; the others as waves, the partition and the limits allow"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := file(t, fleet+"---\n"+tt.old+fmt.Sprintf(placement, revisionOf(t, reader, tt.old)))
			out, talk, err := run(t, NewCommand(), "--members", base, "-f", file(t, tt.files))
			if err != nil {
				t.Fatalf("%v\n%s", err, talk)
			}
			got := "\n" + strings.Join(lines(out), "\n") + "\n"
			for _, want := range tt.want {
				if !strings.Contains(got, "\n"+want+"\n") {
					t.Errorf("no line %q in\n%s", want, out)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(got, "\n"+not+"\n") {
					t.Errorf("a line %q in\n%s", not, out)
				}
			}
		})
	}
}

// TestOtherWorkloads leaves out what the files do not change, also what the hub would do about it without them.
func TestOtherWorkloads(t *testing.T) {
	rejected := strings.ReplaceAll(cloneSet("bad", 5, ""), "matchLabels: {app: bad}", "matchLabels: {app: other}")
	base := file(t, fleet+"---\n"+cloneSet("api", 4, "")+"---\n"+rejected)
	out, talk, err := run(t, NewCommand(), "--members", base, "-f", file(t, cloneSet("web", 2, "")))
	if err != nil || !strings.Contains(out, "CloneSet shop/web") || strings.Contains(out, "shop/api") ||
		strings.Contains(out, "shop/bad") {
		t.Errorf("%v, %s\n%s", err, talk, out)
	}
	// A policy that selects the same.
	policy := fleet[strings.LastIndex(fleet, "apiVersion"):]
	out, talk, err = run(t, NewCommand(), "--members", base, "-f", file(t, policy))
	if err != nil || out != "" || !strings.Contains(talk, "no workload of the fleet changes") {
		t.Errorf("%v, %s\n%s", err, talk, out)
	}
	// One that selects a member less.
	narrow := strings.Replace(policy, "spec: {", "spec: {clusters: {names: [west]}, ", 1)
	out, talk, err = run(t, NewCommand(), "--members", base, "-f", file(t, narrow))
	if err != nil || !strings.Contains(out, "CloneSet shop/api") || strings.Contains(out, "shop/bad") {
		t.Errorf("%v, %s\n%s", err, talk, out)
	}
}

// TestNotes say what happens to pods that the changes of members do not tell.
func TestNotes(t *testing.T) {
	manifest := []byte(`{"spec":{"template":{"advancedStatefulSetTemplate":{}}}}`)
	inPlace := []Member{{Action: Change, Updates: []Update{{How: InPlace}}}}
	changed := []Member{{Action: Change, Fields: []Field{{Path: "spec.containers"}}}}
	for _, tt := range []struct {
		kind    schema.GroupVersionKind
		members []Member
		want    string // part of the note, "" for none
	}{
		{apps.StatefulSetKind, inPlace, "readiness gate InPlaceUpdateReady"},
		{apps.DaemonSetKind, inPlace, "readiness gate InPlaceUpdateReady"},
		{apps.UnitedDeploymentKind, inPlace, "readiness gate InPlaceUpdateReady"},
		{apps.StatefulSetKind, changed, ""},
		{apps.CloneSetKind, inPlace, ""},
		{apps.SidecarSetKind, changed, "which pods change is not known here"},
		{apps.SidecarSetKind, []Member{{Action: Create}}, ""},
	} {
		c := compared{kind: kinds.Workloads()[tt.kind.GroupKind()], after: map[string][]byte{"east": manifest}}
		got := strings.Join(c.notes(tt.members), "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s %+v: %q, want %q", tt.kind.Kind, tt.members, got, tt.want)
		}
	}
}

// TestPlanOfANewWorkload has the members of a workload that is placed for the first time in JSON.
func TestPlanOfANewWorkload(t *testing.T) {
	out, _, err := run(t, NewCommand(), "--members", file(t, fleet), "-f", file(t, cloneSet("api", 4, "")), "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Workloads []struct {
			Members []Member `json:"members"`
		} `json:"workloads"`
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || len(result.Workloads) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	want := []Member{{Name: "east", Action: Create, Created: 2}, {Name: "west", Action: Create, Created: 2}}
	if diff := cmp.Diff(want, result.Workloads[0].Members); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// revisionOf returns the revision that the hub gives the workload of a manifest.
func revisionOf(t *testing.T, reader *snapshot.Reader, manifest string) string {
	t.Helper()
	objects, _, err := reader.Read("file", []byte(manifest))
	if err != nil || len(objects) != 1 {
		t.Fatal(err)
	}
	kind := kinds.Workloads()[objects[0].GetObjectKind().GroupVersionKind().GroupKind()]
	return kind.Template.Revision(objects[0])
}
