package newkind

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

var (
	groupVersion = schema.GroupVersion{Group: "apps.example.com", Version: "v1"}
	rackGVK      = groupVersion.WithKind("Rack")
	beaconGVK    = groupVersion.WithKind("Beacon")
)

// Spec is that of both kinds.
type Spec struct {
	// Replicas is how many pods a Rack has; a Beacon has one for each node.
	Replicas *int32 `json:"replicas,omitempty"`
	// Revision is what the pods run; Partition is how many of them keep the one before.
	Revision  string `json:"revision"`
	Partition int32  `json:"partition,omitempty"`
	// MaxUnavailable bounds how many pods are updated at once.
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	Paused         bool                `json:"paused,omitempty"`
}

// Status is that of both kinds.
type Status struct {
	ObservedGeneration int64       `json:"observedGeneration"`
	Revision           string      `json:"revision,omitempty"`
	Desired            int32       `json:"desired"`
	Replicas           int32       `json:"replicas"`
	Available          int32       `json:"available"`
	Updated            int32       `json:"updated"`
	Conditions         []Condition `json:"conditions,omitempty"`
}

// use is what a member object with this status uses of its grants.
func (s *Status) use() work.SubsetUse {
	return work.SubsetUse{
		Desired: s.Desired, Total: s.Replicas, Ready: s.Available, Available: s.Available,
		Updated: s.Updated, UpdatedReady: s.Updated, UpdatedAvailable: s.Updated,
	}
}

// Condition is one condition.
type Condition metav1.Condition

// Common returns the condition in the form that all kinds share.
func (c Condition) Common() (metav1.Condition, metav1.Time) {
	return metav1.Condition(c), metav1.Time{}
}

// From is the way back.
func (Condition) From(common metav1.Condition, _ metav1.Time) Condition { return Condition(common) }

// Rack is the divided kind.
type Rack struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitempty"`
}

// Beacon is the cluster-scoped kind that each member has whole.
type Beacon struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitempty"`
}

// RackList and BeaconList are lists.
type (
	RackList struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata,omitempty"`
		Items           []Rack `json:"items"`
	}
	BeaconList struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata,omitempty"`
		Items           []Beacon `json:"items"`
	}
)

func (s Spec) copied() Spec {
	if s.Replicas != nil {
		s.Replicas = new(*s.Replicas)
	}
	if s.MaxUnavailable != nil {
		s.MaxUnavailable = new(*s.MaxUnavailable)
	}
	return s
}

func (s Status) copied() Status {
	s.Conditions = slices.Clone(s.Conditions)
	return s
}

func (r *Rack) copied() *Rack {
	return &Rack{
		TypeMeta: r.TypeMeta, ObjectMeta: *r.ObjectMeta.DeepCopy(), Spec: r.Spec.copied(), Status: r.Status.copied(),
	}
}

func (b *Beacon) copied() *Beacon {
	return &Beacon{
		TypeMeta: b.TypeMeta, ObjectMeta: *b.ObjectMeta.DeepCopy(), Spec: b.Spec.copied(), Status: b.Status.copied(),
	}
}

// DeepCopyObject is that of an object of an API.
func (r *Rack) DeepCopyObject() runtime.Object { return r.copied() }

// DeepCopyObject is that of an object of an API.
func (b *Beacon) DeepCopyObject() runtime.Object { return b.copied() }

// DeepCopyObject is that of an object of an API.
func (l *RackList) DeepCopyObject() runtime.Object {
	out := &RackList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].copied())
	}
	return out
}

// DeepCopyObject is that of an object of an API.
func (l *BeaconList) DeepCopyObject() runtime.Object {
	out := &BeaconList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].copied())
	}
	return out
}

func addToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(groupVersion, &Rack{}, &RackList{}, &Beacon{}, &BeaconList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	return nil
}

func definitions() []*apiextensionsv1.CustomResourceDefinition {
	return []*apiextensionsv1.CustomResourceDefinition{
		definition("Rack", "racks", apiextensionsv1.NamespaceScoped),
		definition("Beacon", "beacons", apiextensionsv1.ClusterScoped),
	}
}

func definition(kind, plural string, scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
	anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	schema := &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": anything, "status": anything},
	}
	status := &apiextensionsv1.CustomResourceSubresourceStatus{}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + groupVersion.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: groupVersion.Group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: groupVersion.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: status},
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema},
			}},
		},
	}
}
