package ownership_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/member-agent/ownership"
)

var cases = flag.Int("cases", 5_000, "random objects of the properties")

type tree = map[string]any

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

// replaced returns live after the patch for desired.
func replaced(t *testing.T, live, desired *unstructured.Unstructured,
	previous ownership.Previous) *unstructured.Unstructured {
	t.Helper()
	after, err := patched(t, live, live, desired, previous)
	if err != nil {
		t.Fatal(err)
	}
	return after
}

// patched returns live after the patch for desired that was made from what was seen of it.
func patched(t *testing.T, seen, live, desired *unstructured.Unstructured,
	previous ownership.Previous) (*unstructured.Unstructured, error) {
	t.Helper()
	data, err := ownership.Replace(seen, desired, previous)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(live.Object)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(raw)
	if err != nil {
		return nil, fmt.Errorf("patch %s of %s: %w", data, raw, err)
	}
	return parse(t, string(after)), nil
}

// world makes random objects.
type world struct{ *rand.Rand }

func (w world) value(depth int) any {
	switch n := w.IntN(7); {
	case n == 0:
		return ""
	case n == 1:
		return w.IntN(2) == 0
	case n == 2:
		return int64(w.IntN(3))
	case n <= 4 || depth == 0:
		return fmt.Sprint("v", w.IntN(3))
	case n == 5:
		list := []any{}
		for range w.IntN(4) {
			list = append(list, w.value(depth-1))
		}
		return list
	}
	return w.fields(depth - 1)
}

func (w world) fields(depth int) tree {
	out := tree{}
	for range w.IntN(4) {
		out[[]string{"a", "b/c", "d~e", "name", "env"}[w.IntN(5)]] = w.value(depth)
	}
	return out
}

func (w world) strings() map[string]string {
	out := map[string]string{}
	for range w.IntN(4) {
		out[[]string{"app", "example.com/x", "y~z"}[w.IntN(3)]] = fmt.Sprint("v", w.IntN(2))
	}
	if len(out) == 0 {
		return nil // an API server stores no empty ones
	}
	return out
}

func (w world) object(kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: tree{"apiVersion": "v1", "kind": kind}}
	u.SetName("x")
	u.SetUID("u")
	if w.IntN(4) > 0 {
		u.SetLabels(w.strings())
		u.SetAnnotations(w.strings())
	}
	if kind == "ConfigMap" {
		for _, field := range []string{"data", "binaryData"} {
			if w.IntN(2) == 0 {
				u.Object[field] = w.fields(0)
			}
		}
		return u
	}
	u.Object["spec"] = w.fields(3)
	if w.IntN(2) == 0 {
		u.Object["status"] = w.fields(1)
	}
	return u
}

// TestCase1And2ReplaceMakesContentEqual: whatever stands, what belongs to the order equals it after one write, labels
// and annotations of the order before are gone, and those of others and the status stay.
func TestCase1And2ReplaceMakesContentEqual(t *testing.T) {
	w := world{rand.New(rand.NewPCG(1, 2))}
	for i := range *cases {
		kind := []string{"ConfigMap", "Thing"}[i%2]
		live, desired, before := w.object(kind), w.object(kind), w.object(kind)
		after := replaced(t, live, desired, ownership.PreviousOf(before))
		want, got := ownership.Content(desired, desired), ownership.Content(after, desired)
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("case %d: content %v, want %v", i, got, want)
		}
		if !reflect.DeepEqual(live.Object["status"], after.Object["status"]) {
			t.Fatalf("case %d: the status changed", i)
		}
		entries(t, i, live.GetLabels(), desired.GetLabels(), before.GetLabels(), after.GetLabels())
		entries(t, i, live.GetAnnotations(), desired.GetAnnotations(), before.GetAnnotations(), after.GetAnnotations())
		a, errA := ownership.Digest(after, desired)
		b, errB := ownership.Digest(replaced(t, after, desired, ownership.Previous{}), desired)
		if a != b || errA != nil || errB != nil {
			t.Fatalf("case %d: a second write changed something (%v, %v)", i, errA, errB)
		}
	}
}

// TestCase1And2ReplaceFromStaleView: what belongs to the order equals it also where the object was seen before others
// changed it, and before the agent's own last write.
func TestCase1And2ReplaceFromStaleView(t *testing.T) {
	w := world{rand.New(rand.NewPCG(3, 4))}
	refused := 0
	for i := range *cases {
		kind := []string{"ConfigMap", "Thing"}[i%2]
		seen, live, desired, before := w.object(kind), w.object(kind), w.object(kind), w.object(kind)
		after, err := patched(t, seen, live, desired, ownership.PreviousOf(before))
		if err != nil {
			// Only an object with its first labels or annotations, or its last ones gone, is read anew.
			if len(seen.GetLabels()) > 0 == (len(live.GetLabels()) > 0) &&
				len(seen.GetAnnotations()) > 0 == (len(live.GetAnnotations()) > 0) {
				t.Fatalf("case %d: %v", i, err)
			}
			refused++
			continue
		}
		want, got := ownership.Content(desired, desired), ownership.Content(after, desired)
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("case %d: content %v, want %v", i, got, want)
		}
		if len(seen.GetLabels()) > 0 {
			entries(t, i, live.GetLabels(), desired.GetLabels(), before.GetLabels(), after.GetLabels())
		}
		if len(seen.GetAnnotations()) > 0 {
			entries(t, i, live.GetAnnotations(), desired.GetAnnotations(), before.GetAnnotations(), after.GetAnnotations())
		}
	}
	if refused > *cases*2/3 {
		t.Errorf("%d of %d patches were refused", refused, *cases)
	}
}

// TestKeptValuesAreNotTakenBack: a value that the order leaves to the member is not replaced by an older one.
func TestKeptValuesAreNotTakenBack(t *testing.T) {
	deployment := func(replicas int) *unstructured.Unstructured {
		return parse(t, fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x","uid":"u"},"spec":{"replicas":%d,"paused":true}}`, replicas))
	}
	desired := deployment(0)
	unstructured.RemoveNestedField(desired.Object, "spec", "replicas")
	if after, err := patched(t, deployment(3), deployment(7), desired, ownership.Previous{}); err == nil {
		t.Errorf("the patch was taken: %v", after.Object)
	}
	if _, err := patched(t, deployment(7), deployment(7), desired, ownership.Previous{}); err != nil {
		t.Error(err)
	}
}

func entries(t *testing.T, i int, live, desired, before, after map[string]string) {
	t.Helper()
	want := map[string]string{}
	for key, value := range live {
		if _, was := before[key]; !was {
			want[key] = value
		}
	}
	for key, value := range desired {
		want[key] = value
	}
	if len(want)+len(after) > 0 && !reflect.DeepEqual(want, after) {
		t.Fatalf("case %d: labels or annotations %v, want %v", i, after, want)
	}
}

func TestAssignedFieldsStay(t *testing.T) {
	for _, tc := range []struct {
		name, live, desired string
		// want is a part of the patch, leftOut one that it must not have; same: both have one digest.
		want, leftOut string
		same          bool
	}{
		{
			"replicas that the order leaves to the member",
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":7,"paused":true}}`,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"paused":true}}`,
			`"replicas":7`, "", true,
		},
		{
			"replicas of the order",
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":7}}`,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":3}}`,
			`"replicas":3`, `"replicas":7`, false,
		},
		{
			"addresses and node ports of a Service",
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"},"spec":{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"],"ports":[{"port":80,"nodePort":30001}]}}`,
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"},"spec":{"ports":[{"port":80}]}}`,
			`"port":80`, `10.0.0.1`, true,
		},
		{
			"the selector and labels of a Job",
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"selector":{"matchLabels":{"batch.kubernetes.io/controller-uid":"u"}},"template":{"metadata":{"labels":{"app":"x","batch.kubernetes.io/controller-uid":"u"}}}}}`,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"template":{"metadata":{"labels":{"app":"x"}}}}}`,
			`"batch.kubernetes.io/controller-uid":"u"`, "", true,
		},
		{
			"the class of a load balancer",
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"},"spec":{"type":"LoadBalancer","loadBalancerClass":"cloud/nlb"}}`,
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"},"spec":{"type":"LoadBalancer"}}`,
			`"loadBalancerClass":"cloud/nlb"`, "", true,
		},
		{
			"the class of a load balancer that the order has",
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"},"spec":{"type":"LoadBalancer","loadBalancerClass":"theirs"}}`,
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"},"spec":{"type":"LoadBalancer","loadBalancerClass":"ours"}}`,
			`"loadBalancerClass":"ours"`, "theirs", false,
		},
		{
			"a Job that a queue suspended",
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"suspend":true,"parallelism":1}}`,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"parallelism":1}}`,
			`"suspend":true`, "", true,
		},
		{
			"a Job that the order suspends",
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"suspend":false}}`,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"suspend":true}}`,
			`"suspend":true`, `"suspend":false`, false,
		},
		{
			"a selector of a Job that is the user's",
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"manualSelector":true,"selector":{"matchLabels":{"app":"theirs"}}}}`,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"manualSelector":true,"selector":{"matchLabels":{"app":"x"}}}}`,
			`"app":"x"`, "theirs", false,
		},
		{
			"what controllers of the member add to a ServiceAccount",
			`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"x","uid":"u"},"secrets":[{"name":"token"}],"imagePullSecrets":[{"name":"theirs"}],"automountServiceAccountToken":false}`,
			`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"x","labels":{"a":"b"}}}`,
			`"a":"b"`, `ecret`, true,
		},
		{
			"image pull secrets of the order",
			`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"x"},"imagePullSecrets":[{"name":"ours"},{"name":"theirs"}]}`,
			`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"x"},"imagePullSecrets":[{"name":"ours"}]}`,
			`"value":[{"name":"ours"}]`, `theirs`, false,
		},
		{
			"keys of a ConfigMap that the order has not",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1"},"binaryData":{"b":"MQ=="}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1"}}`,
			`{"op":"remove","path":"/binaryData"}`, "", false,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			live, desired := parse(t, tc.live), parse(t, tc.desired)
			patch, err := ownership.Replace(live, desired, ownership.Previous{})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(patch), tc.want) || tc.leftOut != "" && strings.Contains(string(patch), tc.leftOut) {
				t.Errorf("patch %s: want %s, not %s", patch, tc.want, tc.leftOut)
			}
			a, _ := ownership.Digest(live, desired)
			b, _ := ownership.Digest(desired, desired)
			if (a == b) != tc.same {
				t.Errorf("the digests are equal: %t, want %t", a == b, tc.same)
			}
		})
	}
}

func TestFieldsOfPreviousOrderAreRemoved(t *testing.T) {
	for _, tc := range []struct{ name, before, now, live, field string }{
		{"ServiceAccount", `"imagePullSecrets":[{"name":"ours"}]`, `"automountServiceAccountToken":false`,
			`"imagePullSecrets":[{"name":"ours"},{"name":"theirs"}]`, "imagePullSecrets"},
		{"ServiceAccount", `"automountServiceAccountToken":false`, `"imagePullSecrets":[]`,
			`"automountServiceAccountToken":false`, "automountServiceAccountToken"},
		{"ConfigMap", `"data":{"a":"1"}`, `"immutable":false`, `"data":{"a":"1"}`, "data"},
		{"ConfigMap", `"binaryData":{"a":"MQ=="}`, `"immutable":false`, `"binaryData":{"a":"MQ=="}`, "binaryData"},
		{"Secret", `"data":{"a":"MQ=="}`, `"immutable":false`, `"data":{"a":"MQ=="}`, "data"},
	} {
		t.Run(tc.name+" "+tc.field, func(t *testing.T) {
			object := func(content string) *unstructured.Unstructured {
				return parse(t, fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":"x","uid":"u"},%s}`, tc.name, content))
			}
			before := ownership.PreviousOf(object(tc.before))
			for what, previous := range map[string]ownership.Previous{"": before,
				"with one that was not carried out": before.With(ownership.PreviousOf(object(tc.now)))} {
				if got, stays := replaced(t, object(tc.live), object(tc.now), previous).Object[tc.field]; stays {
					t.Errorf("%s is still %v %s", tc.field, got, what)
				}
			}
			// Data of a ConfigMap or Secret belongs to the order whether it has any or not.
			_, stays := replaced(t, object(tc.live), object(tc.now), ownership.Previous{}).Object[tc.field]
			if stays != (tc.name == "ServiceAccount") {
				t.Errorf("%s stays: %t, and no order had it", tc.field, stays)
			}
		})
	}
}

func TestTemplateOfJobStaysUnlessOrderedAnew(t *testing.T) {
	job := func(image, more string) *unstructured.Unstructured {
		return parse(t, fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x","uid":"u"},"spec":{"template":{"spec":{
			"containers":[{"name":"c","image":%q}]%s}}}}`, image, more))
	}
	const injected = `,"nodeSelector":{"pool":"batch"}`
	for _, tc := range []struct {
		name     string
		previous ownership.Previous
		kept     bool
	}{
		{"ordered before", ownership.PreviousOf(job("x:1", "")), true},
		{"ordered before, and another order was not carried out",
			ownership.PreviousOf(job("x:1", "")).With(ownership.PreviousOf(job("x:2", ""))), true},
		{"ordered anew", ownership.PreviousOf(job("x:0", "")), false},
		{"nothing is known of an order before", ownership.Previous{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			after := replaced(t, job("x:1", injected), job("x:1", ""), tc.previous)
			_, kept, err := unstructured.NestedMap(after.Object, "spec", "template", "spec", "nodeSelector")
			if err != nil || kept != tc.kept {
				t.Errorf("what a webhook changed in the template is kept: %t, want %t (%v)", kept, tc.kept, err)
			}
		})
	}
}

func TestDigestLeavesOutWhatSaysNothing(t *testing.T) {
	const ordered = `{"spec":{"template":{"spec":{"volumes":[{"name":"v","emptyDir":{}}]}}}}`
	for _, tc := range []struct {
		name, found string
		same        bool
	}{
		{"as ordered", ordered, true},
		{"what a Go client adds", `{"spec":{"updateStrategy":{},"scaleStrategy":{},"template":{"metadata":{"creationTimestamp":null},
			"spec":{"volumes":[{"name":"v","emptyDir":{}}]}}}}`, true},
		{"an empty object with a meaning less", `{"spec":{"template":{"spec":{"volumes":[{"name":"v"}]}}}}`, false},
		{"a value more", `{"spec":{"scaleStrategy":{"disablePVCReuse":true},"template":{"spec":{"volumes":[{"name":"v","emptyDir":{}}]}}}}`, false},
	} {
		object := func(content string) *unstructured.Unstructured {
			return parse(t, `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet",`+strings.TrimPrefix(content, "{"))
		}
		a, errA := ownership.Digest(object(ordered), object(ordered))
		b, errB := ownership.Digest(object(tc.found), object(ordered))
		if errA != nil || errB != nil || (a == b) != tc.same {
			t.Errorf("%s: the digests are equal: %t, want %t (%v, %v)", tc.name, a == b, tc.same, errA, errB)
		}
	}
}

func TestChangesAreNamed(t *testing.T) {
	for _, tc := range []struct{ name, ordered, found, want string }{
		{"another value", `{"spec":{"replicas":3}}`, `{"spec":{"replicas":5}}`, "spec.replicas is 5 (ordered: 3)"},
		{"a field more", `{"spec":{"a":1}}`, `{"spec":{"a":1,"hostPID":true}}`, "spec.hostPID is true (not ordered)"},
		{"a field less", `{"spec":{"a":1,"b":"x"}}`, `{"spec":{"a":1}}`, `spec.b is missing (ordered: "x")`},
		{"an item more", `{"spec":{"c":[{"name":"a"}]}}`, `{"spec":{"c":[{"name":"a"},{"name":"b"}]}}`,
			`spec.c[b] is {"name":"b"} (not ordered)`},
		{"an item less", `{"spec":{"c":[{"name":"a"},{"name":"b"}]}}`, `{"spec":{"c":[{"name":"a"}]}}`,
			`spec.c[b] is missing (ordered: {"name":"b"})`},
		{"inside of an item", `{"spec":{"c":[{"name":"a","image":"x:1"}]}}`, `{"spec":{"c":[{"name":"a","image":"x:2"}]}}`,
			`spec.c[a].image is "x:2" (ordered: "x:1")`},
		{"a list without names", `{"spec":{"l":["a"]}}`, `{"spec":{"l":["a","b"]}}`, `spec.l is ["a","b"] (ordered: ["a"])`},
		{"a default", `{"spec":{}}`, `{"spec":{"replicas":1,"strategy":{"type":"RollingUpdate"}}}`, ""},
		{"a default of pods", `{"spec":{"containers":[{"name":"a"}]}}`,
			`{"spec":{"containers":[{"name":"a","terminationMessagePath":"/dev/termination-log"}],"dnsPolicy":"ClusterFirst"}}`,
			""},
		{"nothing and empty", `{"spec":{"a":{}}}`, `{"spec":{"b":[],"c":null}}`, ""},
		{"another spelling of a quantity", `{"spec":{"cpu":"1000m"}}`, `{"spec":{"cpu":"1"}}`, ""},
		{"many", `{"spec":{}}`, `{"spec":{"a":1,"b":2,"c":3,"d":4,"e":5}}`,
			"spec.a is 1 (not ordered), spec.b is 2 (not ordered), spec.c is 3 (not ordered), and 2 more fields"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			object := func(content string) *unstructured.Unstructured {
				return parse(t, `{"apiVersion":"apps/v1","kind":"Deployment",`+strings.TrimPrefix(content, "{"))
			}
			ordered := object(tc.ordered)
			changes, err := ownership.Changes(ordered, object(tc.found), ordered)
			if err != nil {
				t.Fatal(err)
			}
			if got := ownership.Sentence(changes); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestValuesOfSecretsAreNotNamed(t *testing.T) {
	ordered := parse(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"},"data":{"password":"b2xk"}}`)
	found := parse(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"},"data":{"password":"bmV3","other":"eA=="},"type":"Opaque"}`)
	changes, err := ownership.Changes(ordered, found, ordered)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ownership.Sentence(changes), "data.other differs from the order, data.password differs from the "+
		"order"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestManagerIsTheLastWriter(t *testing.T) {
	entry := func(manager, subresource string, at int64, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Subresource: subresource, Time: &metav1.Time{Time: metav1.Unix(at, 0).Time},
			FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	u := &unstructured.Unstructured{Object: tree{}}
	u.SetManagedFields([]metav1.ManagedFieldsEntry{
		entry("flotilla-agent", "", 9, `{"f:spec":{"f:replicas":{},"f:template":{}}}`),
		entry("kubectl", "", 1, `{"f:spec":{"f:replicas":{}}}`),
		entry("hpa", "scale", 5, `{"f:spec":{"f:replicas":{}}}`),
		entry("kcm", "status", 8, `{"f:status":{},"f:spec":{"f:replicas":{}}}`),
		entry("mesh", "", 3, `{"f:spec":{"f:template":{"f:spec":{"f:initContainers":{"k:{\"name\":\"i\"}":{}}}}}}`),
	})
	for _, tc := range []struct{ path, want string }{
		{"spec replicas", "hpa (scale)"},
		{"spec template spec initContainers [i] image", "mesh"},
		{"data key", ""},
	} {
		if got := ownership.Manager(u, strings.Fields(tc.path), "flotilla-agent"); got != tc.want {
			t.Errorf("%s was written by %q, want %q", tc.path, got, tc.want)
		}
	}
}

func TestMetadataChangesAreNamed(t *testing.T) {
	ordered := parse(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","labels":{"a":"1","b":"2"},"annotations":{"example.com/c":"3","d":"4"}}}`)
	found := parse(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","labels":{"a":"1","b":"9","theirs":"x"},"annotations":{"example.com/c":"8"}}}`)
	got := ownership.Sentence(ownership.MetadataChanges(found, ordered))
	want := `metadata.labels.b is "9" (ordered: "2"), metadata.annotations.d is missing (ordered: "4"), metadata.annotations.example.com/c is "8" (ordered: "3")`
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if changes := ownership.MetadataChanges(ordered, ordered); len(changes) > 0 {
		t.Errorf("%v are no changes", changes)
	}
}
