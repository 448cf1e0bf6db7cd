package serving

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// bell wakes a loop: rings while it works are one ring.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

// ring never waits.
func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// wait returns true when it rang or the time has come, false when the context ended. The time is one of the clock and
// no duration: what was gone by when the wait began counts.
func (b bell) wait(ctx context.Context, clk clock.WithTicker, until time.Time) bool {
	timer := clk.NewTimer(until.Sub(clk.Now()))
	defer timer.Stop()
	if !clk.Now().Before(until) { // also where the clock was set before the timer began
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-b:
	case <-timer.C():
	}
	return true
}

// watch rings for every change of what the informer sees, until the context ends.
func (b bell) watch(ctx context.Context, informer cache.SharedIndexInformer) {
	_ = informer.SetTransform(slim) // fails only once the informer runs
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { b.ring() },
		UpdateFunc: func(any, any) { b.ring() },
		DeleteFunc: func(any) { b.ring() },
	})
	informer.RunWithContext(ctx)
}

// slim keeps of an object what an informer needs; the loops read whole ones when they need them.
func slim(object any) (any, error) {
	bare := func(o metav1.ObjectMeta) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}
	}
	switch o := object.(type) {
	case *corev1.Secret:
		return &corev1.Secret{ObjectMeta: bare(o.ObjectMeta)}, nil
	case *apiextensionsv1.CustomResourceDefinition:
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: bare(o.ObjectMeta)}, nil
	}
	return object, nil
}
