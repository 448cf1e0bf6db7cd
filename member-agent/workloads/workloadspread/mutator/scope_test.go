package mutator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
)

func spreadOf(apiVersion, kind, name string) *v1beta1.WorkloadSpread {
	return &v1beta1.WorkloadSpread{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ws"},
		Spec: v1beta1.WorkloadSpreadSpec{
			TargetReference: &v1beta1.TargetReference{APIVersion: apiVersion, Kind: kind, Name: name},
			Subsets:         []v1beta1.WorkloadSpreadSubset{{Name: "a"}},
		},
	}
}

func TestTargetOf(t *testing.T) {
	for _, tt := range []struct {
		apiVersion, kind, name string
		want                   bool
	}{
		{"apps/v1", "Deployment", "web", true},
		{"apps/v1", "ReplicaSet", "web", true},
		{"apps/v1", "StatefulSet", "web.eu", true},
		{"apps/v1beta2", "StatefulSet", "web", true}, // the version does not matter
		{"batch/v1", "Job", "web", true},
		{"apps/v1", "Job", "web", false},
		{"apps/v1", "DaemonSet", "web", false},
		{"apps.kruise.io/v1beta1", "CloneSet", "web", false},
		{"apps.kruise.io/v1beta1", "StatefulSet", "web", false},
		{"apps/v1", "Deployment", "w'] || true || 'x' in ['", false}, // no name can be like this
		{"a/b/c", "Deployment", "web", false},
	} {
		if _, ok := targetOf(spreadOf(tt.apiVersion, tt.kind, tt.name)); ok != tt.want {
			t.Errorf("%s %s %q: %v", tt.apiVersion, tt.kind, tt.name, ok)
		}
	}
	if _, ok := targetOf(&v1beta1.WorkloadSpread{}); ok {
		t.Error("no target is a target")
	}
}

func TestDeploymentOf(t *testing.T) {
	for _, tt := range []struct{ set, hash, want string }{
		{"web-abc", "abc", "web"}, {"web-eu-abc", "abc", "web-eu"}, {"web-abc", "xyz", ""}, {"web-abc", "", ""},
		{"abc", "abc", ""}, {"web-", "", ""},
	} {
		if got := deploymentOf(tt.set, map[string]string{labelTemplateHash: tt.hash}); got != tt.want {
			t.Errorf("%s with %q: %q", tt.set, tt.hash, got)
		}
	}
}

// manyTargets are n workloads of one kind in as many namespaces as are asked for.
func manyTargets(n, namespaces int, kind string) []target {
	var out []target
	for i := range n {
		out = append(
			out,
			target{
				kind,
				types.NamespacedName{
					Namespace: fmt.Sprintf("team-%05d", i%namespaces),
					Name:      fmt.Sprintf("workload-of-usual-length-%05d", i),
				},
			},
		)
	}
	return out
}

func TestScopeOf(t *testing.T) {
	t.Run("one target twice and another", func(t *testing.T) {
		targets := []target{
			{
				kindJob,
				types.NamespacedName{Namespace: "b", Name: "j"},
			}, {kindDeployment, types.NamespacedName{Namespace: "a", Name: "d"}},
			{kindJob, types.NamespacedName{Namespace: "b", Name: "j"}},
		}
		scope, left := scopeOf(targets)
		if left != 0 || strings.Count(scope.Condition, "'b/j'") != 1 {
			t.Errorf("left out %d: %s", left, scope.Condition)
		}
		if got := scope.Namespaces; strings.Join(got, " ") != "a b" {
			t.Errorf("namespaces %v", got)
		}
		again, _ := scopeOf([]target{targets[1], targets[0]})
		if diff := cmp.Diff(scope, again); diff != "" {
			t.Errorf("the order of the targets makes a difference: %s", diff)
		}
	})
	t.Run("more targets than a condition names", func(t *testing.T) {
		scope, left := scopeOf(manyTargets(5000, 10, kindDeployment))
		if left != 0 || len(scope.Condition) < admission.MaxConditions || len(scope.Wide) > 1000 ||
			len(scope.Namespaces) != 10 {
			t.Errorf("left out %d, %d characters, else %s", left, len(scope.Condition), scope.Wide)
		}
	})
	t.Run("more namespaces than an object holds", func(t *testing.T) {
		scope, left := scopeOf(manyTargets(12_000, 12_000, kindJob))
		if n := len(scope.Namespaces); left != 2000 || n != 10_000 {
			t.Errorf("%d namespaces, left out %d", n, left)
		}
	})
}
