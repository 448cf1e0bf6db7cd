package policy

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

func selecting(apiVersion, kind string) *topology.FederationPolicySpec {
	return &topology.FederationPolicySpec{Workloads: []topology.WorkloadSelector{{APIVersion: apiVersion, Kind: kind}}}
}

func TestPolicyNamesKindThatIsNeverPlaced(t *testing.T) {
	table := kinds.All(kinds.HubRunsBuiltIns)
	for _, tt := range []struct{ kind, want string }{
		{"NodeImage", "NodeImage, which names a node of one cluster: apply the NodeImage in the member that has it"},
		{"NodePodProbe", "NodePodProbe, which names a node of one cluster: apply the NodePodProbe in the member that has it"},
		{"ContainerRecreateRequest", "ContainerRecreateRequest, which names pods of one cluster: " +
			"apply the ContainerRecreateRequest in the member that runs them"},
		{"EphemeralJob", "EphemeralJob, which names pods of one cluster: " +
			"apply the EphemeralJob in the member that runs them"},
		{"ImageListPullJob", "ImageListPullJob, whose ImagePullJobs a hub does not make: apply an ImagePullJob for each " +
			"image, or the ImageListPullJob in each member"},
		{"PersistentPodState", "PersistentPodState, which records nodes of one cluster: annotate the StatefulSet with " +
			"kruise.io/auto-generate-persistent-pod-state=true, which makes one in each member, or apply the " +
			"PersistentPodState in the member"},
	} {
		for _, version := range []string{"", "apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"} {
			spec := &topology.FederationPolicySpec{Workloads: []topology.WorkloadSelector{
				{Kind: "CloneSet"}, {APIVersion: version, Kind: tt.kind},
			}}
			f := facts{key: Key{Kind: KindPolicy, Namespace: "shop", Name: "all"}, federated: true,
				never: neverPlaced(spec, "shop", table), unknown: unknownKinds(spec, table)}
			ready := f.status(&topology.FederationPolicyStatus{}, 1, metav1.Time{}).Conditions[0]
			want := "FederationPolicy all names " + tt.want
			if ready.Status != metav1.ConditionFalse || ready.Reason != topology.PolicyUnknownKind || ready.Message != want {
				t.Errorf("%s of %q: %s %s: %q, want %q", tt.kind, version, ready.Status, ready.Reason, ready.Message, want)
			}
			if strings.Contains(kinds.Names(table), tt.kind) {
				t.Errorf("%s is among the kinds that work", tt.kind)
			}
		}
	}
	other := selecting("example.com/v1", "NodeImage")
	never, unknown := neverPlaced(other, "shop", table), unknownKinds(other, table)
	if len(never) > 0 || len(unknown) != 1 {
		t.Errorf("of another group: %v, %v", never, unknown)
	}
}

func TestNamespacedPolicyNamesClusterScopedKind(t *testing.T) {
	kind := schema.GroupKind{Group: "apps.example.com", Kind: "Beacon"}
	table := kinds.Table{kind: {Mode: kinds.PerMember, ClusterScoped: true}}
	spec := selecting("apps.example.com/v1", "Beacon")
	const want = "Beacon, whose objects have no namespace: name it in a ClusterFederationPolicy"
	if got := neverPlaced(spec, "shop", table); len(got) != 1 || got[0] != want {
		t.Errorf("a policy of a namespace: %q", got)
	}
	if got := neverPlaced(spec, "", table); len(got) > 0 {
		t.Errorf("a policy of the cluster: %q", got)
	}
}
