package containerrecreaterequest

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podready"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// TestUnmarksWithStaleCache: a request that ends before the cache shows its mark on the pod takes the mark back.
func TestUnmarksWithStaleCache(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	request := requestIn(v1beta1.CRRCompleted, held, ended)
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(request, podWith("a-1", mine)).
		WithStatusSubresource(request, &corev1.Pod{}).Build()
	stale := interceptor.NewClient(live, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch,
		key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if pod, ok := object.(*corev1.Pod); ok {
			*pod = *podWith("a-1", gated)
			return nil
		}
		return c.Get(ctx, key, object, options...)
	}})
	r := &reconciler{client: stale, live: live, clock: clocktesting.NewFakePassiveClock(created.Add(time.Minute))}
	key := client.ObjectKeyFromObject(request)
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(podWith("a-1")), pod); err != nil {
		t.Fatal(err)
	}
	if c := podstate.Condition(pod, podready.Condition); c == nil || c.Status != corev1.ConditionTrue {
		t.Errorf("the pod stays not ready: %+v", c)
	}
	if err := live.Get(t.Context(), key, request); err != nil {
		t.Fatal(err)
	}
	if len(request.Finalizers) > 0 {
		t.Errorf("the finalizer stays: %v", request.Finalizers)
	}
}
