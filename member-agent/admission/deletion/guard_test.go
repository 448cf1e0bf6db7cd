package deletion

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-dev/flotilla/apis/protection"
)

func TestGuard(t *testing.T) {
	pod := func(name string, change func(*metav1.PartialObjectMetadata)) runtime.Object {
		object := &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		}
		change(object)
		return object
	}
	terminating := func(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0))) }
	plain := func(*metav1.PartialObjectMetadata) {}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no right"))
	for name, test := range map[string]struct {
		label   string
		change  func(*metav1.PartialObjectMetadata)
		objects []runtime.Object
		err     error
		want    string // empty: allowed
	}{
		"unknown value": {label: "Sometimes", objects: []runtime.Object{pod("a", plain)}},
		"always":        {label: "Always", want: protection.Refused + "Always"},
		"empty":         {label: "Cascading"},
		"pods": {label: "Cascading", objects: []runtime.Object{pod("a", plain), pod("b", plain)},
			want: "active pods 2>0"},
		"terminating pod": {label: "Cascading", objects: []runtime.Object{pod("a", terminating)}},
		"terminating":     {label: "Always", change: terminating},
		"cannot count":    {label: "Cascading", err: forbidden, want: "cannot count active pods"},
		"not served":      {label: "Cascading", err: apierrors.NewNotFound(schema.GroupResource{}, "")},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := fake.NewTestScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			client := fake.NewSimpleMetadataClient(scheme, test.objects...)
			if test.err != nil {
				client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, test.err
				})
			}
			namespace := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Name: "shop", Labels: map[string]string{protection.Label: test.label},
			}}
			if test.change != nil {
				test.change(namespace)
			}
			raw, err := json.Marshal(namespace)
			if err != nil {
				t.Fatal(err)
			}
			response := New(client, Pods()).Handle(t.Context(), admission.Request{
				AdmissionRequest: admissionv1.AdmissionRequest{
					Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Namespace"},
					OldObject: runtime.RawExtension{Raw: raw},
				},
			})
			message := ""
			if !response.Allowed {
				message = response.Result.Message
			}
			if response.Allowed != (test.want == "") || !strings.Contains(message, test.want) {
				t.Errorf("allowed %v, %q, want %q", response.Allowed, message, test.want)
			}
		})
	}
}
