package mutator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/allow"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
)

// setOf returns a SidecarSet with one container, for the pods with the label app=web.
func setOf(name string, change func(*v1beta1.SidecarSet)) *v1beta1.SidecarSet {
	set := &v1beta1.SidecarSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1},
		Spec: v1beta1.SidecarSetSpec{
			Selector:   &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Containers: []v1beta1.SidecarContainer{{Container: corev1.Container{Name: "log", Image: name}}},
		},
	}
	change(set)
	return set
}

func mutatorOf(t *testing.T, objects ...client.Object) (*mutator, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &mutator{reader: c, memo: memo{sets: map[string]*prepared{}}, allowed: &allow.Source{}, log: logr.Discard(),
		clock: clock.RealClock{}}, c
}

// test returns the pod with its sidecars, and why it is refused.
func (m *mutator) test(ctx context.Context) (*corev1.Pod, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "i"}}}}
	raw, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	request := &admission.Request{AdmissionRequest: &admissionv1.AdmissionRequest{Namespace: "young", Name: "p",
		Object: runtime.RawExtension{Raw: raw}}}
	if pod, err = request.Pod(); err != nil {
		return nil, err
	}
	matched, err := m.matching(ctx, pod)
	if err == nil {
		err = m.inject(ctx, request, matched)
	}
	if changed, podErr := request.Pod(); podErr == nil {
		pod = changed
	}
	return pod, err
}

// TestANamespaceThatTheCacheLacks: it is waited for. If it does not come in time, the failure policy holds.
func TestANamespaceThatTheCacheLacks(t *testing.T) {
	prod := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "young", Labels: map[string]string{"env": "prod"}}}
	for _, tt := range []struct {
		name      string
		policy    v1beta1.SidecarSetFailurePolicy
		everyone  bool
		comes     bool
		injected  bool
		tryLater  bool
		waitsLong bool
	}{
		{name: "it comes", policy: v1beta1.SidecarSetFail, comes: true, injected: true},
		{name: "it comes, and pods may start without", policy: v1beta1.SidecarSetIgnore, comes: true, injected: true},
		{name: "it does not come", policy: v1beta1.SidecarSetFail, tryLater: true, waitsLong: true},
		{name: "it does not come, and pods may start without", policy: v1beta1.SidecarSetIgnore, waitsLong: true},
		{name: "its labels do not matter", policy: v1beta1.SidecarSetFail, everyone: true, injected: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, c := mutatorOf(t, setOf("logs", func(s *v1beta1.SidecarSet) {
					s.Spec.Flotilla = &v1beta1.SidecarSetFlotilla{FailurePolicy: tt.policy}
					if !tt.everyone {
						s.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: prod.Labels}
					}
				}))
				const patience = 4 * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if tt.comes {
					time.AfterFunc(time.Second, func() {
						if err := c.Create(t.Context(), prod.DeepCopy()); err != nil {
							t.Error(err)
						}
					})
				}
				begun := time.Now()
				pod, err := m.test(ctx)
				if got := marks.Injected(pod, "logs"); got != tt.injected {
					t.Errorf("it is injected: %t", got)
				}
				if tt.tryLater != (err != nil) || err != nil && !strings.Contains(err.Error(), "try again in a moment") {
					t.Errorf("error %v", err)
				}
				if took := time.Since(begun); (took >= patience/2) != tt.waitsLong || ctx.Err() != nil {
					t.Errorf("it took %s; %v", took, ctx.Err())
				}
			})
		})
	}
}

// TestACanaryThatFailsLeavesItsBase: the pod gets the base in its place, unless its user chose Fail.
func TestACanaryThatFailsLeavesItsBase(t *testing.T) {
	for policy, want := range map[v1beta1.SidecarSetFailurePolicy]string{
		v1beta1.SidecarSetIgnore: "logs", v1beta1.SidecarSetFail: "",
	} {
		canary := setOf("canary", func(s *v1beta1.SidecarSet) {
			s.Annotations = map[string]string{v1beta1.AnnotationSidecarSetCanary: "true",
				v1beta1.AnnotationSidecarSetBase: "logs"}
			s.Spec.Flotilla = &v1beta1.SidecarSetFlotilla{FailurePolicy: policy}
			s.Spec.Containers[0].ResourcesPolicy = &v1beta1.ResourcesPolicy{TargetContainersNameRegex: "none",
				ResourcesExpr: v1beta1.ResourcesExpr{Limits: &v1beta1.ResourceExprs{CPU: "cpu"}}}
		})
		m, _ := mutatorOf(t, setOf("logs", func(*v1beta1.SidecarSet) {}), canary)
		pod, err := m.test(t.Context())
		if got := strings.Join(marks.Sets(pod), " "); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: the pod has the sidecars of %q, want %q; %v", policy, got, want, err)
		}
	}
}

// TestMemoOnAStandby: a replica that is never asked for the scope forgets SidecarSets that are gone.
func TestMemoOnAStandby(t *testing.T) {
	m, c := mutatorOf(t)
	for i := range 50 {
		set := setOf(fmt.Sprint("set-", i), func(*v1beta1.SidecarSet) {})
		err := c.Create(t.Context(), set)
		_, asked := m.test(t.Context())
		if err := errors.Join(err, asked, c.Delete(t.Context(), set)); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(m.memo.sets); got > 1 {
		t.Errorf("%d SidecarSets are remembered", got)
	}
}
