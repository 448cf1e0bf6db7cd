package adopt

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestLent: what a hub lent is not taken for what the user wrote, and what a person wrote since is.
func TestLent(t *testing.T) {
	const (
		lent  = `{rollingUpdate: {paused: true, partition: 0, maxUnavailable: 1, maxSurge: 0}}`
		users = `{"rollingUpdate":{"maxUnavailable":"20%"}}`
	)
	note := func(users string) string {
		shares, err := yaml.YAMLToJSON([]byte(lent))
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(topology.LetGo{Users: json.RawMessage(users), Lent: shares})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for why, tc := range map[string]struct{ stands, note, want, says string }{
		"as it was let go": {lent, note(users), `{"rollingUpdate":{"maxUnavailable":"20%"}}`,
			`gets what was written there: {"rollingUpdate":{"maxUnavailable":"20%"}}`},
		"the user had written nothing": {lent, note(`{}`), `{}`, "gets what was written there: {}"},
		"changed since": {`{rollingUpdate: {maxUnavailable: 3}}`, note(users),
			`{"rollingUpdate":{"maxUnavailable":3}}`, ""},
		"never a hub's": {`{rollingUpdate: {maxUnavailable: 3}}`, "", `{"rollingUpdate":{"maxUnavailable":3}}`,
			""},
		"not readable": {lent, "no JSON",
			`{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1,"partition":0,"paused":true}}`, ""},
	} {
		live := &unstructured.Unstructured{}
		text, err := yaml.YAMLToJSON([]byte(`{apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, metadata: {name: web, namespace: shop}, spec: {replicas: 3, updateStrategy: ` + tc.stands + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := live.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		if tc.note != "" {
			live.SetAnnotations(map[string]string{topology.AnnotationLetGo: tc.note})
		}
		members := []member{{name: "east", live: live}}
		object, err := merged(members)
		if err != nil {
			t.Fatal(err)
		}
		got, _, _ := unstructured.NestedMap(object.Object, "spec", "updateStrategy")
		data, err := json.Marshal(got)
		if err != nil || string(data) != tc.want || len(object.GetAnnotations()) > 0 {
			t.Errorf("%s: %s with %v, want %s, %v", why, data, object.GetAnnotations(), tc.want, err)
		}
		said, err := lentNote(wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"},
			&members[0], object)
		if err != nil || (said == "") != (tc.says == "") || !strings.Contains(said, tc.says) {
			t.Errorf("%s: says %q, want %q, %v", why, said, tc.says, err)
		}
	}
}

// TestPartitionsOfOtherSubsets: a member that has some of the subsets is adopted without the partitions of the others,
// which nobody adopts.
func TestPartitionsOfOtherSubsets(t *testing.T) {
	const strategy = `{"manualUpdate":{"partitions":{"a":%s}},"type":"Manual"}`
	note, err := json.Marshal(topology.LetGo{
		Users: json.RawMessage(`{"type":"Manual","manualUpdate":{"partitions":{"a":1,"b":2}}}`),
		Lent:  json.RawMessage(fmt.Sprintf(strategy, "3")),
	})
	if err != nil {
		t.Fatal(err)
	}
	live := &unstructured.Unstructured{}
	if err := live.UnmarshalJSON([]byte(`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"UnitedDeployment","metadata":{"name":"web","namespace":"shop"},
		"spec":{"replicas":3,"topology":{"subsets":[{"name":"a"}]},"updateStrategy":` + fmt.Sprintf(strategy, "3") + `}}`)); err != nil {
		t.Fatal(err)
	}
	live.SetAnnotations(map[string]string{topology.AnnotationLetGo: string(note)})
	object, err := merged([]member{{name: "east", live: live}})
	if err != nil {
		t.Fatal(err)
	}
	got, _, _ := unstructured.NestedMap(object.Object, "spec", "updateStrategy")
	if data, err := json.Marshal(got); err != nil || string(data) != fmt.Sprintf(strategy, "1") {
		t.Errorf("the object on the hub has %s, %v", data, err)
	}
}

// TestAnAdoptedOrphanLosesTheLabelOfTheHub: the object on the hub has no label of a hub, and the share of the rollout
// limits that the member had is printed.
func TestAnAdoptedOrphanLosesTheLabelOfTheHub(t *testing.T) {
	live := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
		"metadata": map[string]any{"name": "web", "namespace": "shop", "labels": map[string]any{
			topology.LabelHub: "hub", "team": "shop",
		}},
		"spec": map[string]any{"replicas": int64(3), "updateStrategy": map[string]any{"paused": true}},
	}}
	members := []member{{name: "east", live: live}}
	object, err := merged(members)
	labels := object.GetLabels()
	if err != nil || len(labels) != 1 || labels["team"] != "shop" || live.GetLabels()[topology.LabelHub] != "hub" {
		t.Errorf("labels %v, %v", object.GetLabels(), err)
	}
	note, err := lentNote(wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}, &members[0],
		object)
	if err != nil || !strings.Contains(note, "check it") || !strings.Contains(note, `{"paused":true}`) {
		t.Errorf("%q, %v", note, err)
	}
}

// TestWithoutReplicas: an object that each member has whole gets no replicas on the hub, and none are counted.
func TestWithoutReplicas(t *testing.T) {
	for kind, tc := range map[string]struct{ version, spec, next, says string }{
		"PodProbeMarker": {"v1alpha1", `{"selector":{"matchLabels":{"app":"db"}}}`, `{"selector":{}}`,
			"PodProbeMarker shop/web in east: no pods would restart\n  would change: spec.selector.matchLabels\n"},
		"DaemonSet": {"v1beta1", `{"template":{"spec":{"containers":[{"name":"main","image":"web:1"}]}}}`,
			`{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}`,
			"DaemonSet shop/web in east: its pods would restart\n  would change: spec.template.spec.containers[0].image\n"},
		"AdvancedCronJob": {"v1beta1", `{"schedule":"* * * * *"}`, `{"schedule":"* * * * *"}`,
			"AdvancedCronJob shop/web in east: no pods would restart\n"},
	} {
		read := func(spec string) *unstructured.Unstructured {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON([]byte(`{"apiVersion":"apps.kruise.io/` + tc.version + `","kind":"` + kind +
				`","metadata":{"name":"web","namespace":"shop"},"spec":` + spec + `}`)); err != nil {
				t.Fatal(err)
			}
			return object
		}
		live := read(tc.spec)
		members := []member{{name: "east", live: live}, {name: "west", live: read(tc.spec)}}
		object, err := merged(members)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(live.Object["spec"], object.Object["spec"]); diff != "" {
			t.Errorf("%s on the hub has another spec: %s", kind, diff)
		}
		c, err := compare(live, read(tc.next))
		if err != nil {
			t.Fatal(err)
		}
		says := c.text("east", wire.Key{Group: "apps.kruise.io", Kind: kind, Namespace: "shop", Name: "web"})
		if says != tc.says {
			t.Errorf("%q, want %q", says, tc.says)
		}
		manifest, err := manifestFor(&members[0], object)
		if err != nil {
			t.Fatal(err)
		}
		if paused, _, _ := unstructured.NestedBool(manifest.Object, "spec", "paused"); paused {
			t.Errorf("%s would be paused in its member", kind)
		}
	}
}
