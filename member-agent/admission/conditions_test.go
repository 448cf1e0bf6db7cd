package admission

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
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
		{"web-abc", "abc", "web"}, {"web-eu-abc", "abc", "web-eu"}, {"web-abc", "xyz", ""}, {"web-abc", "", ""}, {"abc", "abc", ""}, {"web-", "", ""},
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
		out = append(out, target{kind, types.NamespacedName{Namespace: fmt.Sprintf("team-%05d", i%namespaces), Name: fmt.Sprintf("workload-of-usual-length-%05d", i)}})
	}
	return out
}

func TestDesired(t *testing.T) {
	url := admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1/mutate-pods")}
	t.Run("one target twice and another", func(t *testing.T) {
		targets := []target{{kindJob, types.NamespacedName{Namespace: "b", Name: "j"}}, {kindDeployment, types.NamespacedName{Namespace: "a", Name: "d"}}, {kindJob, types.NamespacedName{Namespace: "b", Name: "j"}}}
		webhook, named, left := desired(targets, url, DefaultTimeout)
		if !named || left != 0 || strings.Count(webhook.MatchConditions[0].Expression, "'b/j'") != 1 {
			t.Errorf("named %v, left out %d: %s", named, left, webhook.MatchConditions[0].Expression)
		}
		if got := webhook.NamespaceSelector.MatchExpressions[0].Values; strings.Join(got, " ") != "a b" {
			t.Errorf("namespaces %v", got)
		}
		again, _, _ := desired([]target{targets[1], targets[0]}, url, DefaultTimeout)
		if !says(&admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{webhook}}, &again) {
			t.Error("the order of the targets makes a difference")
		}
	})
	t.Run("a Service gets the port that the API server would write", func(t *testing.T) {
		service := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "flotilla-system", Name: "flotilla-agent"}}
		webhook, _, _ := desired(manyTargets(1, 1, kindJob), service, DefaultTimeout)
		if webhook.ClientConfig.Service.Port == nil || *webhook.ClientConfig.Service.Port != 443 || service.Service.Port != nil {
			t.Errorf("%+v of %+v", webhook.ClientConfig.Service, service.Service)
		}
	})
	t.Run("more targets than an expression names", func(t *testing.T) {
		webhook, named, left := desired(manyTargets(5000, 10, kindDeployment), url, DefaultTimeout)
		if named || left != 0 || len(webhook.MatchConditions[0].Expression) > 1000 || len(webhook.NamespaceSelector.MatchExpressions[0].Values) != 10 {
			t.Errorf("named %v, left out %d: %s", named, left, webhook.MatchConditions[0].Expression)
		}
	})
	t.Run("more namespaces than an object holds", func(t *testing.T) {
		webhook, _, left := desired(manyTargets(12_000, 12_000, kindJob), url, DefaultTimeout)
		if n := len(webhook.NamespaceSelector.MatchExpressions[0].Values); left != 2000 || n != 10_000 {
			t.Errorf("%d namespaces, left out %d", n, left)
		}
	})
}
