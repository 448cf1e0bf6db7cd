package contact

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestSince(t *testing.T) {
	start := time.Unix(1000, 0)
	clk := clocktesting.NewFakePassiveClock(start)
	cut := false
	server := interceptor.NewClient(fake.NewFakeClient(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if cut {
				return errors.New("connection refused")
			}
			return c.List(ctx, list, opts...)
		},
	})
	c := New(server, clk)
	for i, step := range []struct {
		after time.Duration
		cut   bool
		want  time.Duration // after the start
	}{
		{5 * time.Second, false, 0},
		{10 * time.Second, true, 0},
		{10 * time.Second, false, 0},               // the last answer is 20 s ago: no gap
		{15 * time.Second, true, 0},                // 15 s without an answer
		{6 * time.Second, true, 46 * time.Second},  // 21 s
		{5 * time.Second, true, 51 * time.Second},  // while it is cut off, it is now
		{5 * time.Second, false, 56 * time.Second}, // contact again
		{5 * time.Second, false, 56 * time.Second},
		{time.Hour, false, time.Hour + 61*time.Second}, // the process stood still
	} {
		clk.SetTime(clk.Now().Add(step.after))
		cut = step.cut
		c.ask(t.Context())
		if got := c.Since().Sub(start); got != step.want {
			t.Errorf("step %d: since %s after the start, want %s", i, got, step.want)
		}
	}
}

func TestAnyAnswerIsContact(t *testing.T) {
	namespaces := schema.GroupResource{Resource: "namespaces"}
	for _, tc := range []struct {
		err   error
		heard bool
	}{
		{nil, true},
		{apierrors.NewTooManyRequests("busy", 1), true},
		{apierrors.NewForbidden(namespaces, "kube-system", errors.New("no")), true},
		{fmt.Errorf("get: %w", apierrors.NewNotFound(namespaces, "kube-system")), true},
		{apierrors.NewInternalError(errors.New("etcd")), false},
		{apierrors.NewServiceUnavailable("stopping"), false},
		{apierrors.NewTimeoutError("late", 1), false},
		{context.DeadlineExceeded, false},
		{errors.New("connection refused"), false},
	} {
		t.Run(fmt.Sprint(tc.err), func(t *testing.T) {
			start := time.Unix(1000, 0)
			clk := clocktesting.NewFakePassiveClock(start)
			c := New(interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					return tc.err
				},
			}), clk)
			clk.SetTime(start.Add(gap))
			c.ask(t.Context())
			clk.SetTime(start.Add(gap + time.Second))
			if heard := c.Since().Equal(start); heard != tc.heard {
				t.Errorf("heard: %t", heard)
			}
		})
	}
}

// TestARestoredHubIsListedAnew holds that the hub ends when what the API server stores goes back, and for nothing else.
func TestARestoredHubIsListedAnew(t *testing.T) {
	answers := []struct {
		version string
		err     error
		want    bool
	}{
		{"9", nil, false},
		{"10", nil, false},
		{"10", nil, false}, // nothing was written meanwhile
		{"", errors.New("connection refused"), false},
		{"12", nil, false},
		{"11", nil, true},
		{"no number", nil, false},
		{"3", nil, false},
	}
	i := 0
	c := New(interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			list.SetResourceVersion(answers[i].version)
			return answers[i].err
		},
	}), clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	for i = range answers {
		if restored := c.ask(t.Context()); restored != answers[i].want {
			t.Errorf("answer %d, version %q: restored %t", i, answers[i].version, restored)
		}
	}
	i = 4
	c.ask(t.Context())
	i = 5
	if err := c.Start(t.Context()); !errors.Is(err, errRestored) {
		t.Errorf("the hub goes on: %v", err)
	}
}
