package rollout_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/rollout"
)

// TestImagesAhead: the plan names the images that pods will get by an update in place.
func TestImagesAhead(t *testing.T) {
	const spec = `
selector: {matchLabels: {app: web}}
containers:
- {name: log, image: "log:%s", command: [%s]}
- {name: mesh, image: "mesh:%s", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "empty:1"}}
updateStrategy: {%s}
`
	for _, tt := range []struct {
		name string
		text string
		want string
	}{
		{"nothing changes", fmt.Sprintf(spec, "1", "a", "1", ""), "map[]"},
		{"one image", fmt.Sprintf(spec, "2", "a", "1", ""), "map[shop:map[log:log:2]]"},
		{"one of a pair", fmt.Sprintf(spec, "1", "a", "2", ""), "map[shop:map[mesh:mesh:2]]"},
		{"paused", fmt.Sprintf(spec, "2", "a", "1", "paused: true"), "map[shop:map[log:log:2]]"},
		{"not updated", fmt.Sprintf(spec, "2", "a", "1", "type: NotUpdate"), "map[]"},
		{"the selector leaves the pods out", fmt.Sprintf(spec, "2", "a", "1",
			"selector: {matchLabels: {app: db}}"), "map[]"},
		{"more than images differs", fmt.Sprintf(spec, "2", "b", "1", ""), "map[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{T: t, now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
			before := setOf(t, 1, fmt.Sprintf(spec, "1", "a", "1", ""))
			pods := []*corev1.Pod{w.pod(before, "web-0", map[string]string{"app": "web"})}
			plan, err := rollout.PlanOf(setOf(t, 2, tt.text), pods, inject.Allowed{}, w.now)
			if got := fmt.Sprint(plan.Ahead); err != nil || got != tt.want {
				t.Errorf("%s, %v; want %s", got, err, tt.want)
			}
		})
	}
}
