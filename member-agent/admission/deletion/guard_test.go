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

// TestGuardSaysThatThereAreMorePages: the number is that of one page, and says so; pages without objects that count
// are passed over.
func TestGuardSaysThatThereAreMorePages(t *testing.T) {
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		pages []int // active pods of each page
		want  string
	}{
		"one page":            {pages: []int{3}, want: "active pods 3>0; delete"},
		"more pages":          {pages: []int{3, 2}, want: "active pods 3>0 (or more); delete"},
		"the last of several": {pages: []int{0, 0, 2}, want: "active pods 2>0; delete"},
		"none":                {pages: []int{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewSimpleMetadataClient(scheme)
			page := 0
			client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				list := &metav1.List{}
				for range test.pages[page] {
					list.Items = append(list.Items, runtime.RawExtension{Object: &metav1.PartialObjectMetadata{
						ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}})
				}
				if page++; page < len(test.pages) {
					list.Continue = "next"
				}
				return true, list, nil
			})
			namespace := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Name: "shop", Labels: map[string]string{protection.Label: protection.Cascading},
			}}
			raw, err := json.Marshal(namespace)
			if err != nil {
				t.Fatal(err)
			}
			response := New(client, Pods()[:1]).Handle(t.Context(), admission.Request{
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
