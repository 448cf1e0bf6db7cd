package guard_test

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/guard"
)

// setOf returns a SidecarSet for the pods with the label app.
func setOf(name, app string, containers ...string) *v1beta1.SidecarSet {
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.SidecarSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
	for _, container := range containers {
		set.Spec.Containers = append(set.Spec.Containers,
			v1beta1.SidecarContainer{Container: corev1.Container{Name: container, Image: "i"}})
	}
	return set
}

func TestHandle(t *testing.T) {
	canary := func(set *v1beta1.SidecarSet) *v1beta1.SidecarSet {
		set.Annotations = map[string]string{v1beta1.AnnotationSidecarSetCanary: "true",
			v1beta1.AnnotationSidecarSetBase: "logs"}
		return set
	}
	deleted := func(set *v1beta1.SidecarSet) *v1beta1.SidecarSet {
		set.DeletionTimestamp = new(metav1.Now())
		return set
	}
	federated := func(set *v1beta1.SidecarSet) *v1beta1.SidecarSet {
		set.Labels = map[string]string{topology.LabelFederated: "true"}
		return set
	}
	for _, tt := range []struct {
		name        string
		before, set *v1beta1.SidecarSet
		want        string
	}{
		{"the same container", nil, setOf("new", "web", "log"), "container log is also in SidecarSet logs"},
		{"another container", nil, setOf("new", "web", "b"), ""},
		{"other pods", nil, setOf("new", "db", "log"), ""},
		{"a canary", nil, canary(setOf("new", "web", "log")), ""},
		{"itself", setOf("logs", "web", "log"), setOf("logs", "web", "log", "b"), ""},
		{"it begins to collide", setOf("new", "db", "log"), setOf("new", "web", "log"), "container log is also in"},
		{"it collides already", setOf("new", "web", "log"), setOf("new", "web", "log", "b"), ""},
		{"it collides with more", setOf("new", "web", "log"), setOf("new", "web", "a", "log"), "container a is also in"},
		{"it stops colliding", setOf("new", "web", "log"), setOf("new", "web", "b"), ""},
		{"it collides with more behind the first", setOf("new", "web", "a"), setOf("new", "web", "a", "log"),
			"container log is also in"},
		{"it collides with less", setOf("new", "web", "a", "log"), setOf("new", "web", "log"), ""},
		{"it is for members", nil, federated(setOf("new", "web", "log")), ""},
		{"others are for members", nil, setOf("new", "web", "members"), ""},
		{"it is being deleted", setOf("new", "db", "log"), deleted(setOf("new", "web", "log")), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1beta1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			there := fake.NewClientBuilder().WithScheme(scheme).WithObjects(setOf("logs", "web", "a", "log"),
				federated(setOf("members", "web", "members"))).Build()
			request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create}}
			var err error
			if request.Object.Raw, err = json.Marshal(tt.set); err != nil {
				t.Fatal(err)
			}
			if tt.before != nil {
				request.Operation = admissionv1.Update
				if request.OldObject.Raw, err = json.Marshal(tt.before); err != nil {
					t.Fatal(err)
				}
			}
			got := guard.New(there).Handle(t.Context(), request)
			if got.Allowed != (tt.want == "") || !strings.HasPrefix(got.Result.Message, tt.want) {
				t.Errorf("allowed %t, %q", got.Allowed, got.Result.Message)
			}
		})
	}
}
