package freshness_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
)

// restored is an API server whose objects have version 19.
type restored struct{ client.Reader }

func (restored) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.SetResourceVersion("19")
	return nil
}

// A pass waits for the event of our own status, but not for ever: versions go back when a cluster is restored.
func TestAStatusThatIsNotSeenIsWaitedFor(t *testing.T) {
	for _, tt := range []struct {
		why, version string
		uid          types.UID
		after        time.Duration
		want         bool
	}{
		{"older", "19", "u-1", time.Second, true},
		{"ours", "20", "u-1", time.Second, false},
		{"newer", "101", "u-1", time.Second, false},
		{"another object of that name", "19", "u-2", time.Second, false},
		{"older for too long", "19", "u-1", time.Minute, false},
	} {
		clock := testclock.NewFakePassiveClock(time.Unix(1000, 0))
		tracker := freshness.NewTracker(clock, restored{}, func() client.Object { return &corev1.ConfigMap{} })
		tracker.Self.Changed("u-1", types.NamespacedName{Namespace: "shop", Name: "web"}, "20")
		clock.SetTime(clock.Now().Add(tt.after))
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: tt.uid, ResourceVersion: tt.version}}
		fresh := false
		for range 2 { // the first pass after too long asks the API server
			var err error
			if fresh, err = tracker.Fresh(t.Context(), owner); err != nil {
				t.Fatal(err)
			}
		}
		if fresh == tt.want {
			t.Errorf("%s: fresh %v", tt.why, fresh)
		}
	}
}

func TestUnseen(t *testing.T) {
	tracker := freshness.NewTracker(testclock.NewFakeClock(time.Unix(0, 0)), nil, nil)
	pods := tracker.Track(nil, func(types.NamespacedName) freshness.Seen { return freshness.Seen{} })
	pods.Deleted("u", types.NamespacedName{Name: "web-0"})
	if tracker.Unseen("u") {
		t.Error("an object is unseen, and none was created")
	}
	pods.Created("u", types.NamespacedName{Name: "web-1"}, "7")
	if !tracker.Unseen("u") || tracker.Unseen("other") {
		t.Error("the object is not unseen, or that of another owner is")
	}
}
