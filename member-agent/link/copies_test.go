package link

import (
	"context"
	"testing"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/copies"
)

// memberOnly is the member as far as the link asks it before the hub was heard.
type memberOnly struct {
	cluster.Cluster
	reader client.Reader
}

func (m memberOnly) GetAPIReader() client.Reader { return m.reader }

// cutOff returns a link to a hub that nobody hears, whose member has copies of Works and the standing.
func cutOff(t *testing.T, standing copies.Standing, names ...string) *Link {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "me"}}
	member := fake.NewClientBuilder().WithScheme(scheme).WithObjects(system).Build()
	options := copies.Options{Writer: member, Reader: member, Namespace: "flotilla-system", ClusterName: "east",
		Log: testr.New(t)}
	before := copies.New(options)
	if err := before.KeepStanding(t.Context(), standing); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := before.Keep(t.Context(), &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-east", Name: name,
			UID: types.UID(name)}}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := New(Config{
		Hub: &rest.Config{Host: "https://127.0.0.1:1"}, ClusterName: "east", Clock: clock.RealClock{}, Log: testr.New(t),
		Copies: copies.New(options),
	}, memberOnly{reader: member})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// drain returns how many Works wait in the queue, and takes them out.
func drain(queue requestQueue) int {
	n := queue.Len()
	for range n {
		request, _ := queue.Get()
		queue.Done(request)
	}
	return n
}

// TestIdentityWakesOwnCopies holds that it does not matter whether the member's own copies are read before or after the
// cluster knows who it is: once both are known, every copy is looked at.
func TestIdentityWakesOwnCopies(t *testing.T) {
	pinnedAsMe := copies.Standing{ClusterID: "me", Pinned: true}
	load := func(ctx context.Context, l *Link) {
		if err := l.config.Copies.Load(ctx); err != nil {
			t.Fatal(err)
		}
		l.judge(ctx)
	}
	identify := func(ctx context.Context, l *Link) { l.runIdentity(ctx) }
	cases := []struct {
		name     string
		standing copies.Standing
		steps    []func(context.Context, *Link)
		want     int
	}{
		{"the copies first", pinnedAsMe, []func(context.Context, *Link){load, identify}, 3},
		{"the identity first", pinnedAsMe, []func(context.Context, *Link){identify, load}, 3},
		{"another cluster was pinned", copies.Standing{ClusterID: "other", Pinned: true},
			[]func(context.Context, *Link){load, identify}, 0},
		{"the hub did not mean us when it was heard last", copies.Standing{ClusterID: "me"},
			[]func(context.Context, *Link){load, identify}, 0},
		{"nobody knows what the hub said last", copies.Standing{}, []func(context.Context, *Link){load, identify}, 0},
		{"we do not know who we are", pinnedAsMe, []func(context.Context, *Link){load}, 0},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			l := cutOff(t, tc.standing, "a", "b", "c")
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			l.queues = append(l.queues, queue)
			for _, step := range tc.steps {
				drain(queue)
				step(t.Context(), l)
			}
			if got := drain(queue); got != tc.want {
				t.Errorf("%d Works were woken, want %d", got, tc.want)
			}
			if may := l.MayExecute(t.Context()); may != (tc.want > 0) {
				t.Errorf("it may execute: %t", may)
			}
			if l.MayExecuteNew(t.Context()) {
				t.Error("nothing new is executed before the hub was heard")
			}
			if w, err := l.Work(t.Context(), types.NamespacedName{Namespace: "karmada-es-east", Name: "b"}); err != nil ||
				w == nil || w.UID != "b" {
				t.Errorf("Work b is %v (%v), want the copy", w, err)
			}
		})
	}
}
