package checks

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

func TestOfWorkload(t *testing.T) {
	o := &apps.CloneSet{Status: apps.CloneSetStatus{Replicas: 3,
		Conditions: []apps.CloneSetCondition{{Type: "Ready", Status: "True"}}}}
	o.ObjectMeta = metav1.ObjectMeta{Name: "web", Labels: map[string]string{"a": "b"}}
	pods := func(state string) int64 {
		return map[string]int64{"role=leader": 1, "role=follower": 2, "a=many": 40}[state]
	}
	for expression, want := range map[string]string{
		"object.status.replicas == 3": "",
		"object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')": "",
		"pods('role=leader') == 1":        "",
		"pods('role=follower') == 1":      "pods('role=follower') == 1 is false; pods in role=follower: 2",
		"pods('a=b') + pods('a=b') == 1":  "is false; pods in a=b: 0",
		"pods('a=many') == 1":             "is false; pods in a=many: 3 or more",
		"pods(1) == 1":                    "found no matching overload",
		"object.metadata.labels.a == 'b'": "",
		"object.status.replicas > 3":      "object.status.replicas > 3 is false",
		"object.status.nothing > 3":       "no such key: nothing",
		"object.status.replicas":          "is no true or false",
		"object.status.replicas >": "its expression is not valid: " +
			"Syntax error: mismatched input '<EOF>'",
		"object.status.replicas === 3": "(at column 26 of " +
			"object.status.replicas === 3); correct the policy",
		"subject.x": "undeclared reference",
		"[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, " +
			"[1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, true)))))": "cost limit",
	} {
		if got := OfWorkload(expression, o, pods); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", expression, got, want)
		} else if strings.Contains(got, "\n") {
			t.Errorf("%s: %q is more than one line", expression, got)
		}
	}
}

func TestInvalidInBatches(t *testing.T) {
	for _, tc := range []struct{ expression, http, want string }{
		{"node.status.conditions.exists(c, c.type == 'Ready')", "", ""},
		{"pods.size() < 3", "", ""},
		{"node.status.", "", "check x: its expression is not valid: Syntax error"},
		{"1 + 1", "", "check x: 1 + 1 is no true or false; correct the check"},
		{"nodes.size() > 1", "", "undeclared reference to 'nodes'"},
		{"", "json.ready == true && status < 300 && text != ''", ""},
		{"", "json.a.b(", "check x: its expression is not valid: Syntax error"},
	} {
		check := apps.BatchCheck{Name: "x", Expression: tc.expression}
		if tc.http != "" {
			check.HTTP = &apps.BatchHTTP{Expression: tc.http}
		}
		got := InvalidInBatches(&apps.BroadcastJobBatches{Checks: []apps.BatchCheck{check}})
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%q, %q: %q, want %q", tc.expression, tc.http, got, tc.want)
		}
	}
	if got := InvalidInBatches(nil); got != "" {
		t.Error(got)
	}
}
