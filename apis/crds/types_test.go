package crds_test

import (
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// testTypes mistypes fields of Kubernetes' own types. One such object stored would keep Go clients from reading its list.
func testTypes(t *testing.T, s *server) {
	const containers = podSpecPath + ".containers"
	s.check(t, cloneSet, []rule{
		{name: "env value 5", edit: set(containers, container("env: [{name: A, value: 5}]")), says: []string{containers + "[0].env[0].value", "must be of type string"}},
		{name: "nodeName 5", edit: set(podSpecPath+".nodeName", "5"), says: []string{podSpecPath + ".nodeName", "must be of type string"}},
		{name: "storage lots", edit: set("spec.volumeClaimTemplates", claim("lots")), says: []string{"spec.volumeClaimTemplates[0].spec.resources.requests.storage", "lots", "should match"}},
		{name: "storage as a map", edit: set("spec.volumeClaimTemplates", claim("{}")), says: []string{"requests.storage"}},
		{name: "storage as a list", edit: set("spec.volumeClaimTemplates", claim("[]")), says: []string{"requests.storage"}},
		{name: "storage as a flag", edit: set("spec.volumeClaimTemplates", claim("true")), says: []string{"requests.storage"}},
		{name: "storage empty", edit: set("spec.volumeClaimTemplates", claim(`""`)), says: []string{"requests.storage"}},
		{name: "storage of half an exponent", edit: set("spec.volumeClaimTemplates", claim("1e1.5")), says: []string{"requests.storage"}},
		{name: "memory lots", edit: set(containers, container("resources: {limits: {memory: lots}}")), says: []string{containers + "[0].resources.limits.memory", "lots"}},
		{name: "env as a map", edit: set(containers, container("env: {A: b}")), says: []string{containers + "[0].env", "must be of type array"}},
		{name: "args as text", edit: set(containers, container("args: a b")), says: []string{containers + "[0].args", "must be of type array"}},
		{name: "optional as text", edit: set(podSpecPath+".volumes", `[{name: a, configMap: {name: b, optional: "yes"}}]`), says: []string{podSpecPath + ".volumes[0].configMap.optional", "must be of type boolean"}},
		{name: "port as text", edit: set(containers, container(`ports: [{containerPort: "80"}]`)), says: []string{containers + "[0].ports[0].containerPort", "must be of type integer"}},
		{name: "port above 32 bits", edit: set(containers, container("ports: [{containerPort: 99999999999}]")), says: []string{containers + "[0].ports[0].containerPort"}},
		{name: "probed port above 32 bits", edit: set(containers, container("livenessProbe: {tcpSocket: {port: 99999999999}}")), says: []string{containers + "[0].livenessProbe.tcpSocket.port"}},
		{name: "probed port as a flag", edit: set(containers, container("livenessProbe: {tcpSocket: {port: true}}")), says: []string{containers + "[0].livenessProbe.tcpSocket.port"}},
		{name: "annotation 5", edit: set("spec.template.metadata.annotations", "{a: 5}"), says: []string{"spec.template.metadata.annotations.a", "must be of type string"}},
		{name: "creationTimestamp yesterday", edit: set("spec.template.metadata.creationTimestamp", "yesterday"), says: []string{"spec.template.metadata.creationTimestamp", "date-time"}},
		{name: "asked to delete every pod", edit: func(u *unstructured.Unstructured) {
			labels := map[string]any{"app": "web", "apps.kruise.io/specified-delete": "true"}
			if err := unstructured.SetNestedMap(u.Object, labels, "spec", "template", "metadata", "labels"); err != nil {
				panic(err)
			}
		}, says: []string{"spec.template.metadata.labels", "asks to delete every pod of the template: remove it"}},
	})
	const (
		stateful = "{metadata: {labels: {app: shop}}, spec: {template: {metadata: {labels: {app: shop}}, spec: {containers: [{name: a, image: i}]}}, "
		clones   = "spec.template.cloneSetTemplate"
	)
	s.check(t, unitedDeployment, []rule{
		{name: "label 5", edit: set(clones+".metadata.labels.a", "5"), says: []string{clones + ".metadata.labels.a", "must be of type string"}},
		{name: "nodeName 5 of clones", edit: set(clones+".spec.template.spec.nodeName", "5"), says: []string{clones + ".spec.template.spec.nodeName"}},
		{name: "serviceName 5", edit: set("spec.template", "{statefulSetTemplate: "+stateful+"serviceName: 5}}}"), says: []string{"statefulSetTemplate.spec.serviceName"}},
		{name: "storage lots of a StatefulSet", edit: set("spec.template", "{statefulSetTemplate: "+stateful+"volumeClaimTemplates: "+claim("lots")+"}}}"),
			says: []string{"statefulSetTemplate.spec.volumeClaimTemplates[0].spec.resources.requests.storage"}},
		{name: "paused as text", edit: set("spec.template", `{deploymentTemplate: `+stateful+`paused: "no"}}}`), says: []string{"deploymentTemplate.spec.paused"}},
	})
}

// testTypesApplied applies mistyped manifests as users do.
func testTypesApplied(t *testing.T, s *server) {
	for path, e := range map[string]edit{
		"spec.template.spec.nodeName":                                  set(podSpecPath+".nodeName", "5"),
		"spec.template.spec.containers[0].env[0].value":                set(podSpecPath+".containers", container("env: [{name: A, value: 5}]")),
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
