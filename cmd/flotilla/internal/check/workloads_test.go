package check

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// TestWorkloads holds what is found of policies and workloads, and what to do.
func TestWorkloads(t *testing.T) {
	api := func(f *facts) *workload { return &f.workloads[0] }
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "because"}
	}
	ready := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{condition("Ready", status, reason)}
	}
	const why = "flotilla why cloneset/api -n shop --context hub"
	for _, tc := range []struct {
		reason string
		change func(*facts)
		want   []string // outcome name: found, hint
	}{
		{"no policy", func(f *facts) { f.policies = nil }, []string{
			"warning policies: there is none, and nothing in 1 federated namespace is placed",
			"create a FederationPolicy: docs/kinds/federationpolicy.md"}},
		{"a policy that is not in force", func(f *facts) {
			f.policies["FederationPolicy shop/b"] = ready(metav1.ConditionFalse, topology.PolicyUnknownKind)
		}, []string{"error FederationPolicy shop/b: because", "docs/errors.md#unknownkind says what to do"}},
		{"a policy in conflict with another", func(f *facts) {
			f.policies["FederationPolicy shop/b"] = ready(metav1.ConditionFalse, topology.PolicyConflicted)
		}, []string{"warning FederationPolicy shop/b: because", "docs/errors.md#conflicted says what to do"}},
		{"a policy that names what there is not", func(f *facts) {
			f.policies["ClusterFederationPolicy b"] = ready(metav1.ConditionTrue, topology.PolicyInForce)
		}, []string{"warning ClusterFederationPolicy b: because", "docs/errors.md#inforce says what to do"}},
		{"a namespace without the label", func(f *facts) {
			for i := range 7 {
				w := *api(f)
				w.key.Namespace, w.key.Name, w.federated, w.answered = "local", fmt.Sprintf("w%d", i), false, false
				f.workloads = append(f.workloads, w)
			}
		}, []string{"error namespace local: no member gets its 7 workloads (CloneSet w0, CloneSet w1, CloneSet w2, " +
			"CloneSet w3, CloneSet w4 and 2 more): it has no label topology.flotilla.dev/federated=true",
			"kubectl label namespace local topology.flotilla.dev/federated=true --context hub"}},
		{"what an agent of the hub's own cluster runs", func(f *facts) { api(f).federated = false }, nil},
		{"what was just created without the label", func(f *facts) {
			api(f).federated, api(f).answered, api(f).created = false, false, now.Add(-time.Second)
		}, nil},
		{"a stalled workload", func(f *facts) {
			api(f).conditions = append(api(f).conditions, condition("Stalled", metav1.ConditionTrue, "InvalidTemplate"))
		}, []string{"error CloneSet shop/api: it is stalled: InvalidTemplate: because", why}},
		{"a workload that is not placed", func(f *facts) {
			api(f).conditions = []metav1.Condition{condition("Federated", metav1.ConditionFalse, decision.NoPolicy)}
		}, []string{"error CloneSet shop/api: it is not placed: NoPolicy: because", why}},
		{"replicas without a place", func(f *facts) {
			api(f).conditions = []metav1.Condition{condition("Federated", metav1.ConditionFalse, "x")}
			api(f).unplaced = []topology.Unplaced{{Replicas: 3, Reason: topology.Reason{Code: decision.UnplacedOrdinals}},
				{Replicas: 1, Reason: topology.Reason{Code: decision.UnplacedMoving}}}
		}, []string{"error CloneSet shop/api: 3 of 9 replicas have no place: no ordinals are left for them: " +
			"remove spec.reserveOrdinals, or create the workload again", why}},
		{"replicas that move", func(f *facts) {
			api(f).unplaced = []topology.Unplaced{{Replicas: 1, Reason: topology.Reason{Code: decision.UnplacedMoving}}}
		}, nil},
		{"a workload that the hub has not decided about", func(f *facts) { api(f).conditions = nil }, []string{
			"error CloneSet shop/api: the hub has not decided where it runs",
			"read the hub's log: kubectl logs -n flotilla-system deployment/flotilla-hub --context hub"}},
		{"pods that cannot pull their image", func(f *facts) {
			api(f).conditions = append(api(f).conditions, condition("PodsNotReady", metav1.ConditionTrue, "ImagePullBackOff"))
		}, []string{"warning CloneSet shop/api: pods are not Ready or not gone: because", why}},
		{"pods that start", func(f *facts) {
			api(f).conditions = append(api(f).conditions, condition("PodsNotReady", metav1.ConditionTrue, "ContainerCreating"))
		}, nil},
		{"another writer in a member", func(f *facts) {
			api(f).conditions = append(api(f).conditions, condition("Ready", metav1.ConditionFalse, "Overwritten"))
		}, []string{"warning CloneSet shop/api: Overwritten: because", why}},
		{"a withdrawn workload", func(f *facts) {
			api(f).conditions = []metav1.Condition{condition("Federated", metav1.ConditionFalse, decision.Withdrawn)}
		}, nil},
		{"a namespace that lost its label", func(f *facts) {
			api(f).federated = false
			api(f).conditions = []metav1.Condition{condition("Stalled", metav1.ConditionTrue, decision.NamespaceNotFederated)}
		}, []string{"error CloneSet shop/api: because",
			"kubectl label namespace shop topology.flotilla.dev/federated=true --context hub"}},
		{"a cluster-scoped object without the label", func(f *facts) {
			api(f).key, api(f).federated = wire.Key{Kind: "SidecarSet", Name: "logs"}, false
			api(f).conditions = []metav1.Condition{condition("Stalled", metav1.ConditionTrue, decision.NotLabelled)}
		}, []string{"error SidecarSet logs: because",
			"kubectl label sidecarset logs topology.flotilla.dev/federated=true --context hub"}},
		{"objects that do nothing", func(f *facts) {
			f.idle = []idle{{"Ingress", "shop", "b", "it leads nowhere", "move it"},
				{"Ingress", "shop", "a", "it leads nowhere", "move it"}}
		}, []string{"warning Ingress shop/a, b: it leads nowhere", "move it"}},
		{"workloads cannot be read", func(f *facts) { f.unread["workloads"] = errors.New("forbidden") },
			[]string{"skipped workloads: forbidden", "name a context with the right to read it with --context"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			f := healthy()
			tc.change(f)
			var got []string
			for _, r := range workloads(f) {
				if r.Outcome != passed {
					got = append(got, r.Outcome+" "+r.Name+": "+r.Found, r.Hint)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUnplacedHasAReason holds that a code of the divider gives a sentence too.
func TestUnplacedHasAReason(t *testing.T) {
	w := workload{unplaced: []topology.Unplaced{{Replicas: 2, Reason: topology.Reason{Code: division.UnplacedNoCell}}}}
	if n, reason := w.missing(); n != 2 || reason == "" {
		t.Errorf("%d replicas: %q", n, reason)
	}
}

func TestJudgeIdle(t *testing.T) {
	object := func(apiVersion, kind string, fields ...any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetAPIVersion(apiVersion)
		o.SetKind(kind)
		for i := 0; i < len(fields); i += 2 {
			o.Object[fields[i].(string)] = fields[i+1]
		}
		return o
	}
	autoscaler := func(target string, metrics ...string) *unstructured.Unstructured {
		spec := map[string]any{"scaleTargetRef": map[string]any{"apiVersion": target}}
		var all []any
		for _, m := range metrics {
			all = append(all, map[string]any{"type": m})
		}
		if all != nil {
			spec["metrics"] = all
		}
		return object("autoscaling/v2", "HorizontalPodAutoscaler", "spec", spec)
	}
	own := apps.GroupVersion.String()
	for name, tc := range map[string]struct {
		object *unstructured.Unstructured
		idle   bool
	}{
		"a Deployment":          {object("apps/v1", "Deployment"), true},
		"a CronJob":             {object("batch/v1", "CronJob"), true},
		"an Ingress":            {object("networking.k8s.io/v1", "Ingress"), true},
		"a PodDisruptionBudget": {object("policy/v1", "PodDisruptionBudget"), true},
		"an EphemeralJob":       {object("apps.kruise.io/v1alpha1", "EphemeralJob"), true},
		"one that an agent runs": {object("apps.kruise.io/v1alpha1", "EphemeralJob", "status", map[string]any{"a": "b"}),
			false},
		"an autoscaler by CPU":     {autoscaler(own, "Resource"), true},
		"an autoscaler by default": {autoscaler(own), true},
		"an autoscaler by a queue": {autoscaler(own, "External"), false},
		"one of a Deployment":      {autoscaler("apps/v1"), false},
	} {
		why, instead := judgeIdle(tc.object)
		// A hub may copy Kubernetes' own workloads to members, which is not known here.
		inPolicy := strings.Contains(instead, "with --hub-runs-workloads=false name it in a policy")
		if inPolicy != (name == "a Deployment" || name == "a CronJob") {
			t.Errorf("%s: %q", name, instead)
		}
		if (why != "") != tc.idle || (instead != "") != tc.idle {
			t.Errorf("%s: %q, %q", name, why, instead)
		}
	}
}
