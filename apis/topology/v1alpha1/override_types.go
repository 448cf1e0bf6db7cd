package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Override changes what some members get of a workload. What it leaves out stays as the workload says.
// +kubebuilder:validation:XValidation:rule="has(self.imageRegistry) || has(self.env) || has(self.labels) || has(self.annotations) || has(self.patch)",message="an override changes nothing: give imageRegistry, env, labels, annotations or patch, or remove the entry"
type Override struct {
	// clusters are the members that it holds for. Default: all members that the policy selects.
	// +optional
	Clusters OverrideClusters `json:"clusters,omitempty"`
	// zones narrow it to members that lie wholly in these zones: a manifest is one for all zones of its member.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Zones []string `json:"zones,omitempty"`
	// imageRegistry takes the place of the registry in the image of each container and init container, such as
	// registry.example.com:5000/mirror. An image without a registry gets it in front.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]{1,5})?(/[a-z0-9]([-a-z0-9._]*[a-z0-9])?)*$')",message="imageRegistry is no registry: give a host, with a port and a path if needed, and no scheme, such as registry.example.com:5000/mirror",messageExpression="'imageRegistry %s is no registry: give a host, with a port and a path if needed, and no scheme, such as registry.example.com:5000/mirror'.format([self])"
	ImageRegistry string `json:"imageRegistry,omitempty"`
	// env sets variables in containers and init containers. Of several entries with the same name the last one is
	// replaced, because that is the one that a container gets.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Env []EnvOverride `json:"env,omitempty"`
	// labels are set on the member's object, not on its pods. Those of topology.flotilla.dev cannot be set.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.startsWith('topology.flotilla.dev/'))",message="a label of topology.flotilla.dev is the hub's own: remove it"
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are set on the member's object, not on its pods. Those of topology.flotilla.dev cannot be set.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.startsWith('topology.flotilla.dev/'))",message="an annotation of topology.flotilla.dev is the hub's own: remove it"
	Annotations map[string]string `json:"annotations,omitempty"`
	// patch is a JSON patch (RFC 6902) of the member's manifest, after the rest of the entry. It cannot touch what the hub
	// divides, the selector, or the object's name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Patch []PatchOperation `json:"patch,omitempty"`
}

// OverrideClusters selects members: by names, by labels, or all; both given must both hold.
type OverrideClusters struct {
	// names of members. Default: all members.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=52
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Names []string `json:"names,omitempty"`
	// selector of members, by the labels of the MemberCluster objects. Default: all members. One that cannot be read makes
	// InvalidOverride.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// EnvOverride sets one variable.
type EnvOverride struct {
	// container that gets it, where the workload has one of this name. Default: every container and init container.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`
	// name of the variable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// value of the variable.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value,omitempty"`
}

// PatchOp is an operation of a JSON patch.
// +kubebuilder:validation:Enum=add;remove;replace;test
type PatchOp string

// PatchOperation is one step of a JSON patch.
// +kubebuilder:validation:XValidation:rule="!self.path.matches('^/(apiVersion|kind|status|metadata/name|metadata/namespace|metadata/(labels|annotations)/topology[.]flotilla[.]dev~1.*|spec/(replicas|selector|topology))(/|$)') || self.op == 'test'",message="a patch cannot change what the hub divides, the selector, the object's name or the hub's marks: remove the operation",messageExpression="'a patch cannot change %s: that is what the hub divides, the selector, the name of the object or a mark of the hub; remove the operation'.format([self.path])"
type PatchOperation struct {
	// op is add, remove, replace or test.
	Op PatchOp `json:"op"`
	// path is a JSON pointer into the manifest, such as /spec/template/spec/priorityClassName; write ~1 for a / in a key.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="path is no JSON pointer: begin it with a /",messageExpression="'path %s is no JSON pointer: begin it with a /'.format([self])"
	Path string `json:"path"`
	// value that is added, put in place or compared with; remove has none.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Value runtime.RawExtension `json:"value,omitempty"`
}
