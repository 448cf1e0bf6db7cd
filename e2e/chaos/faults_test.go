package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestPodsOfARemovedNodeAreDeletedUntilTheyAreGone is what seed 201 found: deletes that took a second each were cut by
// the end of the storm, nobody looked at their errors, and one pod stayed going for ever on the node that came back.
func TestPodsOfARemovedNodeAreDeletedUntilTheyAreGone(t *testing.T) {
	pod := func(name, node string, finalizers ...string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "run", Name: name, Finalizers: finalizers},
			Spec: corev1.PodSpec{NodeName: node}}
	}
	going := pod("going", "west-b-1", "a/finalizer")
	going.DeletionTimestamp = new(metav1.NewTime(began))
	var mu sync.Mutex
	tries := map[string]int{}
	c := fake.NewClientBuilder().
		WithIndex(&corev1.Pod{}, "spec.nodeName",
			func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithObjects(pod("one", "west-b-1"), pod("slow", "west-b-1"), pod("refused", "west-b-1"), going,
			pod("other", "west-c-1")).
		WithInterceptorFuncs(interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object,
			opts ...client.DeleteOption) error {
			mu.Lock()
			tries[o.GetName()]++
			n := tries[o.GetName()]
			mu.Unlock()
			switch {
			case o.GetName() == "slow" && n == 1: // carried out, and the answer is that it took too long
				return errors.Join(c.Delete(ctx, o, opts...), apierrors.NewTimeoutError("request did not complete", 0))
			case o.GetName() == "refused" && n <= 2:
				return apierrors.NewTooManyRequests("too many", 1)
			case o.GetName() == "going" && n == 2: // whoever set the finalizer is done
				p := &corev1.Pod{}
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), p); err != nil {
					return err
				}
				p.Finalizers = nil
				return c.Update(ctx, p)
			}
			return c.Delete(ctx, o, opts...)
		}}).Build()
	var told []string
	emptyNode(t.Context(), c, "west-b-1", func(format string,
		args ...any) {
		told = append(told, fmt.Sprintf(format, args...))
	})
	left := &corev1.PodList{}
	if err := c.List(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 1 || left.Items[0].Name != "other" {
		t.Errorf("%d pods are left, want the one of the other node", len(left.Items))
	}
	for _, want := range []string{"did not complete", "too many"} {
		if !slices.ContainsFunc(told, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("nothing is told of %q: %q", want, told)
		}
	}
}

// TestInsistEndsWithItsContext holds that a fault ends when what it waits for does not come.
func TestInsistEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var told []string
	tell := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	insist(ctx, tell, "do it", func(context.Context) error {
		stop()
		return errors.New("no")
	})
	if want := []string{"do it: no", "do it: gave up"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
