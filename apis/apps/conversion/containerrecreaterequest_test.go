package conversion_test

import "testing"

func TestContainerRecreateRequest(t *testing.T) {
	const kind = "ContainerRecreateRequest"
	const condition = `conditions: [{type: PreRecreateGrace, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z",
		reason: UnreadyAcquired, message: "The pod is not ready, so that its traffic ends before its containers restart."}]`
	for _, row := range []struct{ name, alpha, beta string }{
		{"plain", `{spec: {podName: a}, status: {phase: Pending}}`, `{spec: {podName: a}, status: {phase: Pending}}`},
		{"containers of the pod",
			`{metadata: {annotations: {crr.apps.kruise.io/sync-container-statuses:
				'[{"name":"a","ready":true,"restartCount":3,"containerID":"x://1"},{"name":"b","ready":false,"restartCount":0}]'}},
				spec: {}, status: {phase: Recreating}}`,
			`{spec: {}, status: {phase: Recreating, containerStatusSnapshot: [
				{name: a, ready: true, restartCount: 3, containerID: "x://1"}, {name: b, ready: false, restartCount: 0}]}}`},
		{"a pod that is not ready",
			`{metadata: {annotations: {a: b, crr.apps.kruise.io/unready-acquired: "2026-01-02T03:04:05Z"}}, spec: {},
				status: {}}`,
			`{metadata: {annotations: {a: b}}, spec: {}, status: {` + condition + `}}`},
		{"annotations that say nothing valid",
			`{metadata: {annotations: {crr.apps.kruise.io/sync-container-statuses: "[5]",
				crr.apps.kruise.io/unready-acquired: "yesterday"}}, spec: {}}`,
			`{metadata: {annotations: {crr.apps.kruise.io/sync-container-statuses: "[5]",
				crr.apps.kruise.io/unready-acquired: "yesterday"}}, spec: {}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			old, now := object(t, alpha, kind, row.alpha), object(t, beta, kind, row.beta)
			same(t, "v1beta1", converted(t, old, beta), now)
			same(t, "v1alpha1", converted(t, now, alpha), old)
		})
	}
	// Conditions that v1alpha1 cannot show survive a write of v1alpha1.
	stored := object(t, beta, kind, `{spec: {}, status: {conditions: [{type: Ready, status: "False"}]}}`)
	shown := converted(t, stored, alpha)
	same(t, "v1alpha1 without conditions", visible(shown), object(t, alpha, kind, `{spec: {}, status: {}}`))
	same(t, "v1beta1 again", converted(t, shown, beta), stored)
	// A time elsewhere is shown in UTC, as published, and comes back as it was.
	stored = object(t, beta, kind, `{spec: {}, status: {conditions: [{type: PreRecreateGrace, status: "True",
		lastTransitionTime: "2026-01-02T05:04:05+02:00"}]}}`)
	shown = converted(t, stored, alpha)
	same(t, "v1alpha1 in UTC", visible(shown), object(t, alpha, kind, `{metadata: {annotations:
		{crr.apps.kruise.io/unready-acquired: "2026-01-02T03:04:05Z"}}, spec: {}, status: {}}`))
	same(t, "v1beta1 as it was", converted(t, shown, beta), stored)
}
