package conversion_test

import "testing"

func TestPodUnavailableBudget(t *testing.T) {
	const alpha, beta, kind = "policy.kruise.io/v1alpha1", "policy.kruise.io/v1beta1", "PodUnavailableBudget"
	for _, row := range []struct{ name, alpha, beta string }{
		{"plain", `spec: {maxUnavailable: 1}`, `spec: {maxUnavailable: 1}`},
		{"operations", `{metadata: {annotations: {kruise.io/pub-protect-operations: "DELETE,EVICT"}}, spec: {}}`,
			`spec: {protectOperations: [DELETE, EVICT]}`},
		{"replicas", `{metadata: {annotations: {pub.kruise.io/protect-total-replicas: "3", a: b}}, spec: {}}`,
			`{metadata: {annotations: {a: b}}, spec: {protectTotalReplicas: 3}}`},
		{"annotations that say nothing valid",
			`{metadata: {annotations: {kruise.io/pub-protect-operations: "delete", pub.kruise.io/protect-total-replicas: "0"}}, spec: {}}`,
			`{metadata: {annotations: {kruise.io/pub-protect-operations: "delete", pub.kruise.io/protect-total-replicas: "0"}}, spec: {}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			old, now := object(t, alpha, kind, row.alpha), object(t, beta, kind, row.beta)
			same(t, "v1beta1", converted(t, old, beta), now)
			same(t, "v1alpha1", converted(t, now, alpha), old)
		})
	}
	stored := object(t, beta, kind, `spec: {ignoredPodSelector: {matchLabels: {a: b}}, maxUnavailable: 1}`)
	shown := converted(t, stored, alpha)
	same(t, "v1alpha1 without a field", visible(shown), object(t, alpha, kind, `spec: {maxUnavailable: 1}`))
	same(t, "v1beta1 again", converted(t, shown, beta), stored)
}
