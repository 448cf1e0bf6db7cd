package freshness_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
)

var key = types.NamespacedName{Namespace: "shop", Name: "web-abcde"}

func TestFresh(t *testing.T) {
	const owner = types.UID("u")
	created := func(s *freshness.Store) { s.Created(owner, key, "10") }
	changed := func(s *freshness.Store) { s.Changed(owner, key, "10") }
	deleted := func(s *freshness.Store) { s.Deleted(owner, key) }
	tests := []struct {
		name  string
		write func(*freshness.Store)
		seen  freshness.Seen
		fresh bool
	}{
		{"nothing was written", func(*freshness.Store) {}, freshness.Seen{}, true},
		{"a new object is not there yet", created, freshness.Seen{}, false},
		{"a new object came", created, freshness.Seen{Present: true, ResourceVersion: "10"}, true},
		{"versions are numbers, not texts", created, freshness.Seen{Present: true, ResourceVersion: "9"}, false},
		{"a newer version is as good", created, freshness.Seen{Present: true, ResourceVersion: "100"}, true},
		{"an old version", changed, freshness.Seen{Present: true, ResourceVersion: "8"}, false},
		{"what was changed may have gone since", changed, freshness.Seen{}, true},
		{"deleted, but the cache has it", deleted, freshness.Seen{Present: true, ResourceVersion: "10"}, false},
		{"deleted and leaving", deleted, freshness.Seen{Present: true, Deleting: true}, true},
		{"deleted and gone", deleted, freshness.Seen{}, true},
		{"created, then changed, is still new", func(s *freshness.Store) { created(s); s.Changed(owner, key, "12") },
			freshness.Seen{}, false},
		{"created with an answer that was lost", func(s *freshness.Store) { s.MaybeCreated(owner, key) },
			freshness.Seen{Present: true, ResourceVersion: "3"}, true},
		{"changed with an answer that was lost, the cache has what was before",
			func(s *freshness.Store) { s.MaybeChanged(owner, key, "10") }, freshness.Seen{Present: true, ResourceVersion: "10"},
			false},
		{"changed with an answer that was lost, the cache has something newer",
			func(s *freshness.Store) { s.MaybeChanged(owner, key, "10") }, freshness.Seen{Present: true, ResourceVersion: "11"},
			true},
		{"a lost answer after our own change", func(s *freshness.Store) {
			s.Changed(owner, key, "12")
			s.MaybeChanged(owner,
				key, "10")
		}, freshness.Seen{Present: true, ResourceVersion: "12"}, false},
		{"deleted with an answer that was lost", func(s *freshness.Store) { s.MaybeDeleted(owner, key) },
			freshness.Seen{Present: true, ResourceVersion: "10"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := freshness.NewStore(clocktesting.NewFakePassiveClock(time.Now()))
			tt.write(store)
			for range 2 { // asking changes nothing
				if fresh, _ := store.Fresh(owner, func(types.NamespacedName) freshness.Seen { return tt.seen }); fresh != tt.fresh {
					t.Errorf("fresh = %v, want %v", fresh, tt.fresh)
				}
			}
			if fresh, _ := store.Fresh("other", func(types.NamespacedName) freshness.Seen { return freshness.Seen{} }); !fresh {
				t.Error("another owner waits too")
			}
			store.Forget(owner)
			if fresh, _ := store.Fresh(owner, func(types.NamespacedName) freshness.Seen { return freshness.Seen{} }); !fresh {
				t.Error("a forgotten owner still waits")
			}
		})
	}
}

func TestAWriteThatNeverHappenedIsGivenUp(t *testing.T) {
	const owner = types.UID("u")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	newPod := func() client.Object { return &corev1.Pod{} }
	blind := func(types.NamespacedName) freshness.Seen { return freshness.Seen{} }
	for _, tt := range []struct {
		name   string
		exists bool
		given  bool
	}{{"the API server does not have it", false, true}, {"the API server has it: the cache is slow", true, false}} {
		t.Run(tt.name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Now())
			store := freshness.NewStore(clock)
			store.Created(owner, key, "")
			if _, overdue := store.Fresh(owner, blind); len(overdue) > 0 {
				t.Fatal("overdue at once")
			}
			clock.SetTime(clock.Now().Add(freshness.RereadAfter))
			fresh, overdue := store.Fresh(owner, blind)
			if fresh || len(overdue) != 1 {
				t.Fatalf("fresh %v, overdue %v", fresh, overdue)
			}
			builder := fake.NewClientBuilder()
			if tt.exists {
				builder = builder.WithObjects(pod)
			}
			if err := store.Reread(t.Context(), builder.Build(), owner, overdue, newPod); err != nil {
				t.Fatal(err)
			}
			if fresh, _ := store.Fresh(owner, blind); fresh != tt.given {
				t.Errorf("fresh = %v after asking", fresh)
			}
		})
	}
}

// A request whose answer is lost is asked about soon: the owner stands still until then.
func TestALostAnswerIsAskedAboutSoon(t *testing.T) {
	const owner = types.UID("u")
	newPod := func() client.Object { return &corev1.Pod{} }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: "10"}}
	stale := func(types.NamespacedName) freshness.Seen { return freshness.Seen{Present: true, ResourceVersion: "10"} }
	for _, tt := range []struct {
		name, live string
		fresh      bool
	}{{"it was not carried out", "10", true}, {"it was, and the cache has yet to show it", "11", false}} {
		t.Run(tt.name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Now())
			store := freshness.NewStore(clock)
			store.MaybeChanged(owner, key, "10")
			clock.SetTime(clock.Now().Add(freshness.RetryAfter))
			_, overdue := store.Fresh(owner, stale)
			live := pod.DeepCopy()
			live.ResourceVersion = tt.live
			if err := store.Reread(t.Context(), fake.NewClientBuilder().WithObjects(live).Build(), owner, overdue,
				newPod); err != nil {
				t.Fatal(err)
			}
			if fresh, _ := store.Fresh(owner, stale); fresh != tt.fresh {
				t.Errorf("fresh = %v after asking", fresh)
			}
			if fresh, _ := store.Fresh(owner, func(types.NamespacedName) freshness.Seen {
				return freshness.Seen{Present: true, ResourceVersion: "11"}
			}); !fresh {
				t.Error("it waits though the cache shows the write")
			}
		})
	}
}

// The answer of a second write is lost, and it was not carried out: the first one is still waited for.
func TestALostAnswerForgetsNoEarlierWrite(t *testing.T) {
	const owner = types.UID("u")
	clock := clocktesting.NewFakePassiveClock(time.Now())
	store := freshness.NewStore(clock)
	store.Changed(owner, key, "11")
	store.MaybeChanged(owner, key, "10")
	clock.SetTime(clock.Now().Add(freshness.RetryAfter))
	seen := func(version string) freshness.Cache {
		return func(types.NamespacedName) freshness.Seen {
			return freshness.Seen{Present: true, ResourceVersion: version}
		}
	}
	_, overdue := store.Fresh(owner, seen("10"))
	live := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: "11"}}
	newPod := func() client.Object { return &corev1.Pod{} }
	if err := store.Reread(t.Context(), fake.NewClientBuilder().WithObjects(live).Build(), owner, overdue,
		newPod); err != nil {
		t.Fatal(err)
	}
	if fresh, _ := store.Fresh(owner, seen("10")); fresh {
		t.Error("the cache lacks the first write, and nobody waits for it")
	}
	if fresh, _ := store.Fresh(owner, seen("11")); !fresh {
		t.Error("it waits though the cache shows the first write")
	}
}

// What was changed is gone by now, and the cache does not know either: it must not be counted as it was before.
func TestWhatIsGoneIsWaitedFor(t *testing.T) {
	const owner = types.UID("u")
	clock := clocktesting.NewFakePassiveClock(time.Now())
	store := freshness.NewStore(clock)
	store.Changed(owner, key, "11")
	clock.SetTime(clock.Now().Add(freshness.RereadAfter))
	stale := func(types.NamespacedName) freshness.Seen { return freshness.Seen{Present: true, ResourceVersion: "10"} }
	_, overdue := store.Fresh(owner, stale)
	newPod := func() client.Object { return &corev1.Pod{} }
	if err := store.Reread(t.Context(), fake.NewClientBuilder().Build(), owner, overdue, newPod); err != nil {
		t.Fatal(err)
	}
	if fresh, _ := store.Fresh(owner, stale); fresh {
		t.Error("the cache shows what is gone, and nobody waits")
	}
	if fresh, _ := store.Fresh(owner, func(types.NamespacedName) freshness.Seen { return freshness.Seen{} }); !fresh {
		t.Error("it waits though the cache shows that it is gone")
	}
}
