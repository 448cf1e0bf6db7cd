package rollout_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/rollout"
)

// TestGrants: what a hub grants holds in place of partition and maxUnavailable.
func TestGrants(t *testing.T) {
	const limits = "{containers: [{name: log, image: '%s'}], updateStrategy: {partition: 50%%, maxUnavailable: 3}}"
	for _, tt := range []struct {
		name  string
		grant rollout.Grant
		ready bool
		want  string
	}{
		{"nothing", rollout.Grant{Unavailable: 2}, true, "log:1 log:1 log:1 log:1"},
		{"one", rollout.Grant{Updated: 1, Unavailable: 2}, true, "log:1 log:1 log:1 log:2"},
		{"three", rollout.Grant{Updated: 3, Unavailable: 1}, true, "log:1 log:2 log:2 log:2"},
		{"more than there are", rollout.Grant{Updated: 9, Unavailable: 1}, true, "log:2 log:2 log:2 log:2"},
		{"no pod may be unavailable", rollout.Grant{Updated: 9}, true, "log:1 log:1 log:1 log:1"},
		{"less than nothing", rollout.Grant{Updated: -1, Unavailable: -1}, true, "log:1 log:1 log:1 log:1"},
		{"pods that are not ready are updated within it", rollout.Grant{Updated: 1, Unavailable: 1}, false,
			"log:1 log:1 log:1 log:2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			for i := range 4 {
				pod := w.pod(setOf(t, 1, fmt.Sprintf(limits, "log:1")), fmt.Sprint("web-", 9-i), nil)
				if !tt.ready {
					w.ready(pod, corev1.ConditionFalse)
				}
			}
			set := setOf(t, 2, fmt.Sprintf(limits, "log:2"))
			set.Grant = &tt.grant
			for range 9 {
				w.pass(set)
				for _, pod := range w.pods {
					if tt.ready {
						w.kubelet(pod)
					}
				}
			}
			if got := w.images("log"); got != tt.want {
				t.Errorf("images %q, want %q", got, tt.want)
			}
		})
	}
}

// TestNotUpdatable: pods that updates do not reach are counted, those that have the revision are not.
func TestNotUpdatable(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		want       int32
		recreates  bool
	}{
		{"another image", "{containers: [{name: log, image: 'log:2'}]}", 0, false},
		{"more than images", "{containers: [{name: log, image: 'log:2', command: [a]}]}", 3, false},
		{"a selector",
			"{containers: [{name: log, image: 'log:2'}], updateStrategy: {selector: {matchLabels: {i: '1'}}}}", 2, false},
		{"no updates", "{containers: [{name: log, image: 'log:2'}], updateStrategy: {type: NotUpdate}}", 3, false},
		{"more than images, where a workload creates two of them again",
			"{containers: [{name: log, image: 'log:2', command: [a]}]}", 1, true},
		{"the same", "{containers: [{name: log, image: 'log:1'}], updateStrategy: {type: NotUpdate}}", 0, false},
	} {
		w := newWorld(t)
		for i := range 3 {
			pod := w.pod(setOf(t, 1, "{"+one+"}"), fmt.Sprint("web-", i), map[string]string{"i": fmt.Sprint(i)})
			if i > 0 {
				owned(pod, "apps/v1 ReplicaSet web")
			}
		}
		set := setOf(t, 2, tt.spec)
		set.Recreates = tt.recreates
		if got := w.pass(set).Counts.NotUpdatable; got != tt.want {
			t.Errorf("%s: %d pods, want %d", tt.name, got, tt.want)
		}
	}
}
