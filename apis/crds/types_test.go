package crds_test

import (
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

const (
	podSpecPath = "spec.template.spec"
	oneClaim    = "[{metadata: {name: data}, spec: {resources: {requests: {storage: %}}}}]"
)

// container is a container list with one that has these fields too.
func container(fields string) string {
	return "[{name: web, image: i, " + fields + "}]"
}

func claim(storage string) string {
	return strings.ReplaceAll(oneClaim, "%", storage)
}

// testTypes mistypes fields of Kubernetes' own types that definitions declare. One such object stored would keep Go
// clients from reading its list.
func testTypes(t *testing.T, s *server) {
	const claims = "spec.volumeClaimTemplates"
	s.check(t, cloneSet, []rule{
		{name: "containers as text", edit: set(podSpecPath+".containers", "x"),
			says: []string{podSpecPath + ".containers", "must be of type array"}},
		{name: "a container as text", edit: set(podSpecPath+".containers", "[x]"),
			says: []string{podSpecPath + ".containers[0]", "must be of type object"}},
		{name: "a readiness gate 5", edit: set(podSpecPath+".readinessGates", "[{conditionType: 5}]"),
			says: []string{podSpecPath + ".readinessGates[0].conditionType", "must be of type string"}},
		{name: "storage lots", edit: set(claims, claim("lots")),
			says: []string{claims + "[0].spec.resources.requests.storage", "lots", "should match"}},
		{name: "storage as a map", edit: set(claims, claim("{}")), says: []string{"requests.storage"}},
		{name: "storage as a list", edit: set(claims, claim("[]")), says: []string{"requests.storage"}},
		{name: "storage as a flag", edit: set(claims, claim("true")), says: []string{"requests.storage"}},
		{name: "storage empty", edit: set(claims, claim(`""`)), says: []string{"requests.storage"}},
		{name: "storage of half an exponent", edit: set(claims, claim("1e1.5")), says: []string{"requests.storage"}},
		{name: "a claim of yesterday", edit: set(claims, "[{metadata: {name: data, creationTimestamp: yesterday}}]"),
			says: []string{claims + "[0].metadata.creationTimestamp", "date-time"}},
		{name: "annotation 5", edit: set("spec.template.metadata.annotations", "{a: 5}"),
			says: []string{"spec.template.metadata.annotations.a", "must be of type string"}},
		{name: "asked to delete every pod", edit: func(u *unstructured.Unstructured) {
			labels := map[string]any{"app": "web", "apps.kruise.io/specified-delete": "true"}
			if err := unstructured.SetNestedMap(u.Object, labels, "spec", "template", "metadata", "labels"); err != nil {
				panic(err)
			}
		}, says: []string{"spec.template.metadata.labels", "asks to delete every pod of the template: remove it"}},
	})
	s.check(t, statefulSet, []rule{
		{name: "storage lots", edit: set(claims, claim("lots")),
			says: []string{claims + "[0].spec.resources.requests.storage", "lots", "should match"}},
		{name: "storage as a map", edit: set(claims, claim("{}")), says: []string{"requests.storage"}},
		{name: "storage empty", edit: set(claims, claim(`""`)), says: []string{"requests.storage"}},
		{name: "negative storage", edit: set(claims, claim("-1")),
			says: []string{"requests.storage", "greater than or equal to 0"}},
		{name: "storage in bytes", edit: set(claims, claim("10737418240"))},
	})
	const children = "spec.template.cloneSetTemplate"
	s.check(t, unitedDeployment, []rule{
		{name: "label 5", edit: set(children+".metadata.labels.a", "5"),
			says: []string{children + ".metadata.labels.a", "must be of type string"}},
	})
}

// testTypesApplied applies mistyped manifests as users do.
func testTypesApplied(t *testing.T, s *server) {
	for path, e := range map[string]edit{
		"spec.template.spec.containers":                                set(podSpecPath+".containers", "x"),
		"spec.volumeClaimTemplates[0].spec.resources.requests.storage": set("spec.volumeClaimTemplates", claim("lots")),
	} {
		u := parse(t, cloneSet)
		all(named("mistyped"), e)(u)
		manifest, err := yaml.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range []string{"--server-side=false", "--server-side"} {
			cmd := exec.CommandContext(t.Context(), s.kubectl, "--kubeconfig", s.kubeconfig, "apply", way, "-f", "-")
			cmd.Stdin = strings.NewReader(string(manifest))
			out, err := cmd.CombinedOutput()
			// Server-side apply leaves out the keys of lists in its paths.
			last := path[strings.LastIndex(path, ".")+1:]
			if err == nil || !strings.Contains(string(out), last) {
				t.Errorf("kubectl apply %s: error %v, want one that names %s:\n%s", way, err, path, out)
			}
			if way == "--server-side=false" && !strings.Contains(string(out), path) {
				t.Errorf("kubectl apply does not name %s:\n%s", path, out)
			}
		}
	}
}

// testMistypedTemplates stores templates with values of wrong types, as an API server does that reaches no webhook: a
// Go client reads them, and their neighbours.
func testMistypedTemplates(t *testing.T, s *server) {
	s.make(t, cloneSet, named("typed"))
	mistyped := []edit{
		set(podSpecPath+".nodeName", "5"),
		set(podSpecPath+".containers", container("env: [{name: A, value: 5}]")),
		set(podSpecPath+".containers", container("resources: {limits: {memory: lots}}")),
		set(podSpecPath+".containers", container("livenessProbe: {tcpSocket: {port: 99999999999}}")),
		set("spec.template.metadata.creationTimestamp", "yesterday"),
	}
	for i, e := range mistyped {
		s.make(t, cloneSet, named("mistyped-"+itoa(int64(i))), e)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(appsv1beta1.CloneSetKind)
	if err := s.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	data, err := list.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	typed := &appsv1beta1.CloneSetList{}
	if err := yaml.Unmarshal(data, typed); err != nil {
		t.Fatalf("a Go client cannot read the list: %v", err)
	}
	found := 0
	for i := range typed.Items {
		set := &typed.Items[i]
		err := set.Spec.Template.Err(field.NewPath("spec", "template"))
		if wrong := strings.HasPrefix(set.Name, "mistyped-"); wrong != (err != nil) {
			t.Errorf("the template of %s: %v", set.Name, err)
		} else if wrong {
			found++
		}
	}
	if found != len(mistyped) {
		t.Errorf("found %d mistyped templates of %d", found, len(mistyped))
	}
}

// testTypesKept writes what Go clients can read in unusual spellings: it is stored as it was written.
func testTypesKept(t *testing.T, s *server) {
	u := parse(t, cloneSet)
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(`
template:
  metadata:
    creationTimestamp: null
    annotations: null
    labels: {app: web}
    futureField: {a: [1, "b"]}
  spec:
    nodeName: null
    futureField: 5
    terminationGracePeriodSeconds: 30
    securityContext: {}
    volumes:
    - {name: a, emptyDir: {}}
    - {name: b, emptyDir: {sizeLimit: 1Gi}}
    - {name: c, future: {kind: x}}
    containers:
    - name: web
      image: registry.example/web:1
      resources: {}
      ports: [{containerPort: 80}]
      livenessProbe: {httpGet: {port: 80}, periodSeconds: 5}
      readinessProbe: {httpGet: {port: http}, futureField: true}
    - name: side
      image: registry.example/side:1
      resources: null
      args: null
    - name: numbers
      image: registry.example/side:1
      env: [{name: A, value: "5"}, {name: B, valueFrom: null}]
      resources: {limits: {cpu: 0.5, memory: 1073741824}, requests: {cpu: 250m, memory: "1e3", example.com/gpu: 1, other.com/a: ".5Ki"}}
volumeClaimTemplates:
- metadata: {name: data, creationTimestamp: null}
  spec: {accessModes: [ReadWriteOnce], storageClassName: null, futureField: a, resources: {requests: {storage: 10}}}
  status: {}
`), &spec); err != nil {
		t.Fatal(err)
	}
	spec["selector"] = u.Object["spec"].(map[string]any)["selector"]
	spec["replicas"] = 1
	u.Object["spec"] = spec
	data, err := yaml.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	made := s.make(t, string(data), named("kept"))
	got, want := s.get(t, made), parse(t, string(data))
	for _, field := range []string{"template", "volumeClaimTemplates"} {
		gotField, _, _ := unstructured.NestedFieldNoCopy(got.Object, "spec", field)
		wantField, _, _ := unstructured.NestedFieldNoCopy(want.Object, "spec", field)
		if !reflect.DeepEqual(gotField, wantField) {
			t.Errorf("%s is stored as\n%v, want\n%v", field, gotField, wantField)
		}
	}
	typed := &appsv1beta1.CloneSet{}
	raw, err := got.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, typed); err != nil {
		t.Fatalf("a Go client cannot read it: %v", err)
	}
	if cpu := typed.Spec.Template.Spec.Containers[2].Resources.Limits.Cpu().String(); cpu != "500m" {
		t.Errorf("cpu 0.5 is read as %s", cpu)
	}
}
