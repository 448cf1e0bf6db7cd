package rollout

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestCase3StatusOfADeletedWorkloadEnds: the rollout of a workload that is being deleted never ends by itself,
// whatever its status says.
func TestCase3StatusOfADeletedWorkloadEnds(t *testing.T) {
	const guard = "example.com/guard"
	const foreground, orphan = metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents
	ready := apps.CloneSetConditionType(apps.ConditionReady)
	told := is(ready, corev1.ConditionFalse, "Deleting")
	told.Message = "6 of its pods run"
	outdated := set(2, 1, is(ready, corev1.ConditionTrue, "AllAvailable"))
	closing := is(ready, corev1.ConditionFalse, "NamespaceTerminating")
	for name, tc := range map[string]struct {
		object     *apps.CloneSet
		finalizers []string
		says       string
	}{
		"no status":                  {set(2, 0), []string{guard}, "waits for the finalizer " + guard},
		"the status is outdated":     {outdated, []string{guard}, "waits for the finalizer " + guard},
		"the controller says so":     {set(2, 2, told), []string{guard}, "6 of its pods run"},
		"in a terminating namespace": {set(2, 2, closing), []string{guard}, "(NamespaceTerminating: as told)"},
		"in the foreground":          {set(2, 1), []string{foreground}, "until its pods are deleted"},
		"orphaned, and others": {
			set(2, 1), []string{orphan, "b.example/b", guard}, "the finalizers b.example/b, " + guard,
		},
	} {
		for _, waits := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				object := tc.object.DeepCopy()
				object.Finalizers, object.DeletionTimestamp = tc.finalizers, new(metav1.NewTime(time.Unix(1, 0)))
				var out bytes.Buffer
				key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
				// A rollout that does not end fails the test instead of blocking it.
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				err := follow(ctx, clientWith(t, object), clock.RealClock{}, &out, "text", key, waits)
				if err == nil || !strings.Contains(err.Error(), "is being deleted") ||
					!strings.Contains(out.String(), "Deleting") || !strings.Contains(out.String(), tc.says) {
					t.Errorf("%v, %q", err, out.String())
				}
			})
		}
	}
}

// TestCase3NoChangeOfADeletedWorkload: what would not be carried out is refused with what the deletion waits for.
func TestCase3NoChangeOfADeletedWorkload(t *testing.T) {
	object := parse(t, "CloneSet", held)
	object.SetFinalizers([]string{"example.com/guard"})
	object.SetDeletionTimestamp(new(metav1.NewTime(time.Unix(1, 0))))
	var out bytes.Buffer
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	resume := func(o client.Object) error { return pause(o, false) }
	err := apply(t.Context(), clientWith(t, object), &out, key, "resumed", resume)
	if err == nil || !strings.Contains(err.Error(), "cannot be resumed") ||
		!strings.Contains(err.Error(), "example.com/guard") || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}
