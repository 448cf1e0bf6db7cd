package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "policy.kruise.io", Version: "v1beta1"}

// PodUnavailableBudgetKind is the kind with its group and version.
var PodUnavailableBudgetKind = GroupVersion.WithKind("PodUnavailableBudget")

// AddToScheme registers the types of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &PodUnavailableBudget{}, &PodUnavailableBudgetList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
