package wait

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"rollout": "its rollout is done", "ready": "condition Ready is True", "delete": "it is deleted",
		"condition=Stalled=false": "condition Stalled is False", "condition=Federated": "condition Federated is True",
		"condition=": "", "condition=Ready=Perhaps": "", "nothing": "", "": "", "jsonpath={.status}": "",
	} {
		got, err := parse(text)
		switch {
		case want == "" && !errors.Is(err, console.ErrUsage):
			t.Errorf("%q: %v, %v", text, got, err)
		case want != "" && (err != nil || got.text() != want):
			t.Errorf("%q: %q (%v), want %q", text, got.text(), err, want)
		}
	}
}

// TestWait looks once, since the time is over at once, and says what is missing.
func TestWait(t *testing.T) {
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	set := func(observed int64, condition apps.CloneSetConditionType, status corev1.ConditionStatus) *apps.CloneSet {
		cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 2}}
		cs.Status.ObservedGeneration = observed
		cs.Status.Conditions = []apps.CloneSetCondition{{Type: condition, Status: status, Reason: "Why", Message: "because"}}
		return cs
	}
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	copied := set(2, "Ready", corev1.ConditionTrue)
	copied.Labels = map[string]string{topology.LabelHub: "id-hub"}
	for _, tt := range []struct {
		name, condition string
		object          *apps.CloneSet
		says            string // "" for a state that is there
	}{
		{"ready", "ready", set(2, "Ready", corev1.ConditionTrue), ""},
		{"ready before the last change", "ready", set(1, "Ready", corev1.ConditionTrue),
			"timed out waiting for CloneSet shop/web until condition Ready is True: the hub has not looked at the last " +
				"change yet"},
		{"not ready", "ready", set(2, "Ready", corev1.ConditionFalse), "Ready is False (Why: because)"},
		{"a condition that is not there", "condition=Stalled", set(2, "Ready", corev1.ConditionTrue),
			"it has no condition Stalled"},
		{"a condition that is False", "condition=Ready=False", set(2, "Ready", corev1.ConditionFalse), ""},
		{"rolled out", "rollout", set(2, "Ready", corev1.ConditionTrue), ""},
		{"a rollout that failed", "rollout", set(2, "Stalled", corev1.ConditionTrue),
			"the rollout of CloneSet shop/web failed"},
		{"a rollout in progress", "rollout", set(2, "Ready", corev1.ConditionFalse), "0 of 1 pods are updated"},
		{"deleted", "delete", nil, ""},
		{"not deleted", "delete", set(2, "Ready", corev1.ConditionTrue), "until it is deleted: it exists"},
		{"the copy of a hub", "ready", copied, "is here because a hub placed it; name the hub with --context"},
		{"no such workload", "ready", nil, "there is no CloneSet shop/web"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme)
			if tt.object != nil {
				builder = builder.WithObjects(tt.object)
			}
			target, err := parse(tt.condition)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = waiter{builder.Build(), target, 0}.all(t.Context(), &out, []wire.Key{key})
			switch {
			case tt.says == "" && (err != nil || out.String() != "cloneset.apps.kruise.io/web condition met\n"):
				t.Errorf("%v, %s", err, out.String())
			case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("%v, want %q", err, tt.says)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Error("the exit code is that of other verbs, and not kubectl's")
			}
		})
	}
}

// TestWaitUntilItComes sees a state that comes while it waits.
func TestWaitUntilItComes(t *testing.T) {
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cs).Build()
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	done := make(chan error, 1)
	var out bytes.Buffer
	go func() {
		done <- waiter{c, target{deleted: true}, time.Minute}.all(t.Context(), &out, []wire.Key{key})
	}()
	if err := c.Delete(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || out.Len() == 0 {
		t.Errorf("%v, %s", err, out.String())
	}
}
