package write_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
)

func TestADeletionThatFailsIsNotDone(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		// fresh says that the owner need not wait: the pod is surely there.
		fresh bool
	}{
		{"a conflict", apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("try again")), true},
		{"a timeout", apierrors.NewTimeoutError("no answer", 1), false},
		{"a broken connection", errors.New("connection reset by peer"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			failing := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return tt.err },
			})
			w := &write.Writer{Client: failing, Fresh: freshness.NewStore(clock.RealClock{})}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "uid-a"}}
			if err := w.DeletePod(t.Context(), "us", pod); !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			present := func(types.NamespacedName) freshness.Seen { return freshness.Seen{Present: true} }
			if fresh, _ := w.Fresh.Fresh("us", present); fresh != tt.fresh {
				t.Errorf("fresh %v, want %v", fresh, tt.fresh)
			}
		})
	}
}

func TestReleasePod(t *testing.T) {
	ref := func(uid string, controller bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "X", Name: uid, UID: types.UID(uid), Controller: &controller}
	}
	pod := func(name string, refs ...metav1.OwnerReference) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name),
			OwnerReferences: refs}}
	}
	for _, tt := range []struct {
		name string
		have *corev1.Pod
		left []string
	}{
		{"the only owner", pod("a", ref("us", true)), nil},
		{"owners that do not control stay", pod("a", ref("other", false), ref("us", true)), []string{"other"}},
		{"somebody else's by now", pod("a", ref("other", true)), []string{"other"}},
		{"gone", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			builder := fake.NewClientBuilder()
			if tt.have != nil {
				builder = builder.WithObjects(tt.have)
			}
			w := &write.Writer{Client: builder.Build(), Fresh: freshness.NewStore(clock.RealClock{})}
			if err := w.ReleasePod(t.Context(), "us", pod("a", ref("us", true))); err != nil {
				t.Fatal(err)
			}
			got := &corev1.Pod{}
			if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "a"}, got); err != nil {
				if tt.have == nil && client.IgnoreNotFound(err) == nil {
					return
				}
				t.Fatal(err)
			}
			var left []string
			for _, r := range got.OwnerReferences {
				left = append(left, string(r.UID))
			}
			if len(left) != len(tt.left) || (len(left) > 0 && left[0] != tt.left[0]) {
				t.Errorf("owners %v, want %v", left, tt.left)
			}
		})
	}
}
