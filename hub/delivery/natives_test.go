package delivery

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestCopiesOfNatives holds what of Kubernetes' own workloads stays on the hub.
func TestCopiesOfNatives(t *testing.T) {
	const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: once, namespace: shop, uid: u, labels: {app: a, controller-uid: u, job-name: once}}, spec: {ttlSecondsAfterFinished: 5,
		selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}}, template: {metadata: {labels: {app: a, controller-uid: u, job-name: once, batch.kubernetes.io/job-name: once, batch.kubernetes.io/controller-uid: u}}}}}`
	for _, tc := range []struct{ name, object, want string }{
		{"a Deployment", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, generation: 3, annotations: {deployment.kubernetes.io/revision: "3", team: shop}}, spec: {replicas: 3}, status: {}}`,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"team":"shop"},"name":"web","namespace":"shop"},"spec":{"replicas":3}}`},
		{"a DaemonSet", `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: web, namespace: shop, annotations: {deprecated.daemonset.template.generation: "1"}}, spec: {}}`,
			`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"web","namespace":"shop"},"spec":{}}`},
		{"a Job", job,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"labels":{"app":"a"},"name":"once","namespace":"shop"},"spec":{"template":{"metadata":{"labels":{"app":"a"}}}}}`},
		{"a Job with a selector of its own", `{apiVersion: batch/v1, kind: Job, metadata: {name: once, namespace: shop}, spec: {manualSelector: true, selector: {matchLabels: {job-name: a}}, template: {metadata: {labels: {job-name: a}}}}}`,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"once","namespace":"shop"},"spec":{"manualSelector":true,"selector":{"matchLabels":{"job-name":"a"}},"template":{"metadata":{"labels":{"job-name":"a"}}}}}`},
		{"a ConfigMap keeps labels of that name", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop, labels: {job-name: a}, annotations: {deployment.kubernetes.io/revision: "3"}}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"deployment.kubernetes.io/revision":"3"},"labels":{"job-name":"a"},"name":"a","namespace":"shop"}}`},
	} {
		object := parse(t, tc.object)
		before := object.DeepCopy()
		got, err := renderCopy(new(kinds.All(kinds.MembersRunBuiltIns)[object.GroupVersionKind().GroupKind()]), object)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s:\n%s (%v), want\n%s", tc.name, got, err, tc.want)
		}
		if !reflect.DeepEqual(before, object) {
			t.Errorf("%s was changed", tc.name)
		}
	}
}

// TestStatusTellsOfAController holds that the status an API server gives a new object is none, and any other one is
// somebody's.
func TestStatusTellsOfAController(t *testing.T) {
	for _, tc := range []struct {
		kind, status string
		runs         bool
	}{
		{"apps/v1, kind: Deployment", "{}", false},
		{"apps/v1, kind: Deployment", "{observedGeneration: 1}", true},
		{"apps/v1, kind: StatefulSet", "{availableReplicas: 0, replicas: 0}", false},
		{"apps/v1, kind: StatefulSet", "{availableReplicas: 0, replicas: 0, collisionCount: 0, currentRevision: web-1}",
			true},
		{"apps/v1, kind: DaemonSet", "{currentNumberScheduled: 0, desiredNumberScheduled: 0, numberMisscheduled: 0, " +
			"numberReady: 0}", false},
		{"apps/v1, kind: DaemonSet", "{currentNumberScheduled: 0, desiredNumberScheduled: 0, numberMisscheduled: 0, " +
			"numberReady: 0, observedGeneration: 2}", true},
		{"batch/v1, kind: Job", "{}", false},
		{"batch/v1, kind: Job", "{uncountedTerminatedPods: {}, startTime: \"2026-01-01T00:00:00Z\"}", true},
		{"batch/v1, kind: CronJob", "{active: [{name: a}]}", true},
		{"v1, kind: Service", "{loadBalancer: {ingress: [{ip: 10.0.0.1}]}}", false},
		{"apps.kruise.io/v1beta1, kind: StatefulSet", "{replicas: 3}", false},
	} {
		refusal := kinds.RunsOnHub(parse(t, "{apiVersion: "+tc.kind+", metadata: {name: web, namespace: shop}, status: "+tc.status+"}"))
		if (refusal != nil) != tc.runs || refusal != nil &&
			(refusal.Reason != topology.PolicyRunsOnHub || !strings.Contains(refusal.Message, "shop/web has a status")) {
			t.Errorf("%s with the status %s: %+v", tc.kind, tc.status, refusal)
		}
	}
}
