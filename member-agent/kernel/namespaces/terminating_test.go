package namespaces_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
)

// refusal is what an API server answers to a create in a namespace that is being deleted.
func refusal() error {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-1",
		errors.New("namespace shop is being terminated"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"})
	return err
}

func TestCase14TheCauseIsFoundInEveryError(t *testing.T) {
	other := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-1", errors.New("exceeded quota"))
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"none":    {nil, false},
		"plain":   {refusal(), true},
		"wrapped": {fmt.Errorf("create pod: %w", fmt.Errorf("again: %w", refusal())), true},
		"joined":  {errors.Join(errors.New("x"), fmt.Errorf("create pod: %w", refusal())), true},
		"joined behind": {fmt.Errorf("pass: %w", errors.Join(other, errors.Join(other, fmt.Errorf("create: %w", refusal())))),
			true},
		"quota":  {fmt.Errorf("create pod: %w", other), false},
		"status": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict}}, false},
	} {
		if got := namespaces.Is(tc.err); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestCase14ARefusalIsRememberedUntilTheOwnerIsGone(t *testing.T) {
	cache := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}).Build()
	terminating := namespaces.New(cache)
	is := func(want bool) {
		t.Helper()
		cause, err := terminating.Cause(t.Context(), "shop", "web")
		if err != nil || (cause != nil) != want || cause != nil && cause.Reason != conditions.ReasonNamespaceTerminating {
			t.Errorf("%+v, %v", cause, err)
		}
	}
	is(false)
	if terminating.Refused("shop", "web", errors.New("something else")) != nil {
		t.Error("another error is taken for a refusal")
	}
	is(false)
	if terminating.Refused("shop", "web", refusal()) == nil {
		t.Error("the refusal is not known")
	}
	is(true)
	if cause, err := terminating.Cause(t.Context(), "shop", "another"); cause != nil || err != nil {
		t.Errorf("an owner of another namespace of that name: %+v, %v", cause, err)
	}
	terminating.Forget("web")
	is(false)
}
