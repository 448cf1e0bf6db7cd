package deletion

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-dev/flotilla/apis/protection"
)

// pageSize bounds an answer. One object is enough to refuse; the number is shown to the user, with a hint if there are
// more.
const pageSize = 500

// Content is a resource whose objects keep a namespace.
type Content struct {
	Resource schema.GroupVersionResource
	// Name is what refusals call the objects.
	Name string
	// Fields is a field selector for objects that count.
	Fields string
	// Annotation is one that objects that count have; empty for all of them.
	Annotation string
}

// Pods are the active pods, and volume claims that are bound: what keeps a namespace of a member.
func Pods() []Content {
	return []Content{
		{
			Resource: corev1.SchemeGroupVersion.WithResource("pods"), Name: "active pods",
			Fields: "status.phase!=Succeeded,status.phase!=Failed",
		},
		// The binder leaves this annotation on a claim that it bound.
		{
			Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), Name: `"Bound" status pvc`,
			Annotation: "pv.kubernetes.io/bind-completed",
		},
	}
}

// Guard answers whether a namespace or a definition may be deleted.
type Guard struct {
	client   metadata.Interface
	contents []Content
}

// New returns a guard that counts these in namespaces.
func New(client metadata.Interface, contents []Content) *Guard { return &Guard{client, contents} }

// Handle refuses the deletion of a protected object. It allows all other requests.
func (g *Guard) Handle(ctx context.Context, request admission.Request) admission.Response {
	object := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(request.OldObject.Raw, object); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode the object that is deleted: %w", err))
	}
	if object.DeletionTimestamp != nil {
		return admission.Allowed("")
	}
	switch object.Labels[protection.Label] {
	case protection.Always:
		return refuse(protection.Refused + protection.Always + "; remove the label before you delete the object")
	case protection.Cascading:
	default:
		return admission.Allowed("")
	}
	var contents []Content
	namespace := ""
	switch request.Kind.Kind {
	case "Namespace":
		contents, namespace = g.contents, object.Name
	case "CustomResourceDefinition":
		content, err := instancesOf(request.OldObject.Raw)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		contents = []Content{content}
	}
	for _, content := range contents {
		n, more, err := g.count(ctx, namespace, content)
		if err != nil {
			return refuse(fmt.Sprintf("%s%s: cannot count %s: %v; give that right, or remove the label",
				protection.Refused, protection.Cascading, content.Name, err))
		}
		if n > 0 {
			orMore := ""
			if more {
				orMore = " (or more)"
			}
			return refuse(fmt.Sprintf("%s%s and %s %d>0%s; delete them, or remove the label, before you delete the object",
				protection.Refused, protection.Cascading, content.Name, n, orMore))
		}
	}
	return admission.Allowed("")
}

func refuse(message string) admission.Response {
	response := admission.Denied(message)
	response.Result.Message = message
	return response
}

// instancesOf returns the objects of a definition, as one of its served versions.
func instancesOf(raw []byte) (Content, error) {
	var definition struct {
		Spec struct {
			Group string `json:"group"`
			Names struct {
				Plural string `json:"plural"`
			} `json:"names"`
			Versions []struct {
				Name            string `json:"name"`
				Served, Storage bool
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &definition); err != nil {
		return Content{}, fmt.Errorf("decode the CustomResourceDefinition: %w", err)
	}
	spec := definition.Spec
	content := Content{Name: "active CRs", Resource: schema.GroupVersionResource{
		Group: spec.Group, Resource: spec.Names.Plural,
	}}
	for _, version := range spec.Versions {
		// The stored version needs no conversion.
		if version.Served && (version.Storage || content.Resource.Version == "") {
			content.Resource.Version = version.Name
		}
	}
	return content, nil
}

// count returns how many objects count, those of the first page that has any. more reports that there are further
// pages.
func (g *Guard) count(ctx context.Context, namespace string, content Content) (n int, more bool, err error) {
	options := metav1.ListOptions{FieldSelector: content.Fields, Limit: pageSize}
	for {
		list, err := g.client.Resource(content.Resource).Namespace(namespace).List(ctx, options)
		if apierrors.IsNotFound(err) {
			return 0, false, nil // the kind is not served
		}
		if err != nil {
			return 0, false, fmt.Errorf("list %s: %w", content.Resource.GroupResource(), err)
		}
		list.Items = slices.DeleteFunc(list.Items, func(object metav1.PartialObjectMetadata) bool {
			_, has := object.Annotations[content.Annotation]
			return object.DeletionTimestamp != nil || content.Annotation != "" && !has
		})
		if len(list.Items) > 0 || list.Continue == "" {
			return len(list.Items), list.Continue != "", nil
		}
		options.Continue = list.Continue
	}
}
