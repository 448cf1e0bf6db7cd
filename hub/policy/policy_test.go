package policy

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

func policyOf(kind, name string, age int, selectors ...topology.WorkloadSelector) Policy {
	return Policy{
		Ref: topology.PolicyReference{Kind: kind, Name: name}, Created: time.Unix(int64(1000-age), 0),
		Spec: topology.FederationPolicySpec{Workloads: selectors},
	}
}

func TestSelectPolicy(t *testing.T) {
	w := &kinds.Workload{
		Key:    wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "ns", Name: "web"},
		Labels: map[string]string{"tier": "front"},
		Ref:    topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1"},
	}
	byName := topology.WorkloadSelector{Kind: "CloneSet", Name: "web"}
	byLabel := topology.WorkloadSelector{Kind: "CloneSet",
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}}
	byKind := topology.WorkloadSelector{Kind: "CloneSet"}
	tests := []struct {
		reason   string
		policies []Policy
		recorded string
		want     string
	}{
		{"none selects it", []Policy{policyOf(KindPolicy, "p", 1, topology.WorkloadSelector{Kind: "UnitedDeployment"})}, "",
			""},
		{"another group", []Policy{policyOf(KindPolicy, "p", 1,
			topology.WorkloadSelector{APIVersion: "apps/v1", Kind: "CloneSet"})}, "", ""},
		{"another version of the group is the same", []Policy{policyOf(KindPolicy, "p", 1,
			topology.WorkloadSelector{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet"})}, "", "p"},
		{"another name", []Policy{policyOf(KindPolicy, "p", 1, topology.WorkloadSelector{Kind: "CloneSet", Name: "other"})},
			"", ""},
		{"the namespace goes before the cluster", []Policy{policyOf(KindClusterPolicy, "c", 9, byName),
			policyOf(KindPolicy, "p", 1, byKind)}, "", "p"},
		{"a name goes before labels", []Policy{policyOf(KindPolicy, "l", 9, byLabel), policyOf(KindPolicy, "n", 1, byName)},
			"", "n"},
		{"labels go before the kind", []Policy{policyOf(KindPolicy, "k", 9, byKind), policyOf(KindPolicy, "l", 1, byLabel)},
			"", "l"},
		{"the older", []Policy{policyOf(KindPolicy, "a", 1, byKind), policyOf(KindPolicy, "b", 2, byKind)}, "", "b"},
		{"the first by name", []Policy{policyOf(KindPolicy, "b", 1, byKind), policyOf(KindPolicy, "a", 1, byKind)}, "", "a"},
		{"the recorded one stays", []Policy{policyOf(KindPolicy, "n", 9, byName), policyOf(KindPolicy, "k", 1, byKind)}, "k",
			"k"},
		{"a recorded one that selects it no longer", []Policy{policyOf(KindPolicy, "n", 9, byName),
			policyOf(KindPolicy, "k", 1)}, "k", "n"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			var recorded *topology.PolicyReference
			if tt.recorded != "" {
				recorded = &topology.PolicyReference{Kind: KindPolicy, Name: tt.recorded}
			}
			got := ""
			if p := Select(w, tt.policies, recorded); p != nil {
				got = p.Ref.Name
			}
			if got != tt.want {
				t.Errorf("selected %q, want %q", got, tt.want)
			}
		})
	}
}

// TestKindsOfTheHubHaveARemedyOfTheirOwn holds that nobody is told to make a CloneSet of what runs once, or on each
// node.
func TestKindsOfTheHubHaveARemedyOfTheirOwn(t *testing.T) {
	for _, tc := range []struct{ kinds, has, hasNot string }{
		{"apps/v1 Deployment", "deploymentTemplate", "apply the"},
		{"apps/v1 ReplicaSet", "deploymentTemplate", "apply the"},
		{"apps/v1 StatefulSet", "statefulSetTemplate", "CloneSet,"},
		{"apps/v1 DaemonSet", "apply the DaemonSet in the members", "CloneSet"},
		{"batch/v1 Job", "apply the Job in the members", "CloneSet"},
		{"batch/v1 CronJob", "apply the CronJob in the members", "CloneSet"},
		{"batch/v1 Job apps/v1 Deployment apps/v1 ReplicaSet",
			"apply the Job in the members that are to run it, in a namespace that is not federated; put the pod template",
			"; put the pod template into a UnitedDeployment (spec.template.deploymentTemplate), or use a CloneSet, and name " +
				"that kind;"},
		{"apps.kruise.io/v1beta1 CloneSet", "", "a"},
	} {
		spec := &topology.FederationPolicySpec{}
		words := strings.Fields(tc.kinds)
		for i := 0; i < len(words); i += 2 {
			spec.Workloads = append(spec.Workloads, topology.WorkloadSelector{APIVersion: words[i], Kind: words[i+1]})
		}
		if got := insteadOf(spec, kinds.All(kinds.HubRunsBuiltIns)); !strings.Contains(got, tc.has) ||
			strings.Contains(got, tc.hasNot) {
			t.Errorf("%s: %q", tc.kinds, got)
		}
	}
}

// TestKindOfSeveralGroups: an entry without apiVersion selects nothing where several groups have the kind, and says so.
func TestKindOfSeveralGroups(t *testing.T) {
	s := &topology.WorkloadSelector{Kind: "StatefulSet"}
	named := []schema.GroupVersionKind{
		{Group: "apps.kruise.io", Version: "v1beta1", Kind: "StatefulSet"},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	}
	const want = "StatefulSet without apiVersion, which several groups have; write apiVersion: apps.kruise.io/v1beta1 " +
		"or apiVersion: apps/v1"
	if got := unknownKind(s, named); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, kind := range named {
		if bareKind(s.Kind, named) == kind.GroupKind() {
			t.Errorf("it selects those of %s", kind.Group)
		}
	}
	if got := bareKind(s.Kind, named[1:]); got != named[1].GroupKind() {
		t.Errorf("of one group it is %s", got)
	}
}

// TestUnknownKinds: an entry whose group has no such kind says what to write.
func TestUnknownKinds(t *testing.T) {
	for _, tt := range []struct {
		given topology.WorkloadSelector
		want  string
	}{
		{topology.WorkloadSelector{Kind: "CloneSet"}, ""},
		{topology.WorkloadSelector{APIVersion: "v1", Kind: "Service"}, ""},
		{topology.WorkloadSelector{APIVersion: "apps/v1", Kind: "Deployment"}, ""}, // it runs on the hub, which is told otherwise
		{topology.WorkloadSelector{Kind: "Deployment"}, ""},
		{topology.WorkloadSelector{APIVersion: "apps.kruise.io/v1beta1", Kind: "Deployment"},
			"Deployment (apps.kruise.io; for the Deployment of apps/v1 write apiVersion: apps/v1)"},
		{topology.WorkloadSelector{APIVersion: "apps.kruise.io/v1beta1", Kind: "CronJob"},
			"CronJob (apps.kruise.io; for the CronJob of batch/v1 write apiVersion: batch/v1)"},
		{topology.WorkloadSelector{Kind: "Service"}, ""},
		{topology.WorkloadSelector{Kind: "Deploymnet"}, "Deploymnet (apps.kruise.io)"},
		{topology.WorkloadSelector{APIVersion: "example.com/v1", Kind: "Service"}, "Service (example.com)"},
	} {
		spec := &topology.FederationPolicySpec{Workloads: []topology.WorkloadSelector{tt.given}}
		if got := strings.Join(unknownKinds(spec, kinds.All(kinds.HubRunsBuiltIns)), ", "); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.given, got, tt.want)
		}
	}
}
