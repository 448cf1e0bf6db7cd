package cloneset

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The status of a pass that wrote pods waits for the pass that sees them, and no longer than statusEvery.
func TestStatusWaitsForItsOwnPods(t *testing.T) {
	key, now := types.NamespacedName{Namespace: "ns", Name: "web"}, time.Unix(1000, 0)
	p := newPace()
	step := func(after time.Duration, worked bool, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		if got := p.hold(key, now, worked); got != want {
			t.Errorf("it waits %s, want %s", got, want)
		}
	}
	step(0, false, 0)
	step(0, true, statusEvery)
	step(30*time.Millisecond, false, 0) // the pass that sees them says it all
	step(0, true, statusEvery)
	step(statusEvery-time.Millisecond, true, time.Millisecond)
	step(time.Millisecond, true, 0) // every pass wrote pods: it waits no longer
	p.wrote(key, now)
	step(0, true, statusEvery)
}
