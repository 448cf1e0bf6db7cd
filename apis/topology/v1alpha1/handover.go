package v1alpha1

const (
	// AnnotationHandOver is on a Work: JSON, a HandOver without its status. The member reports what its pods have of these
	// labels and annotations. Without it the member reports none.
	AnnotationHandOver = "topology.flotilla.dev/hand-over"
	// AnnotationHandedOver is on a StatefulSet that a hub ordered: JSON, a list of OrdinalValues. A pod of one of these
	// ordinals is created with its values.
	AnnotationHandedOver = "topology.flotilla.dev/handed-over"
	// HandedOverPrefix before the name of a value is the annotation in which a pod has that value of the pod that it
	// replaces.
	HandedOverPrefix = "handover.flotilla.dev/"
	// HandedOverVariable before the name of a value, in capitals and with _ for each - and dot, is the environment
	// variable in which the containers of the pod have it.
	HandedOverVariable = "FLOTILLA_HANDOVER_"
)

// HandOver names values of a pod. When its ordinal moves to another member, the pod that replaces it gets the last
// values that were reported, as annotations handover.flotilla.dev/<name> and environment variables
// FLOTILLA_HANDOVER_<NAME>.
// +kubebuilder:validation:XValidation:rule="[size(@handOverNames{self})].all(n, n >= 1 && n <= 16)",message="handOver names no value, or more than 16: name 1 to 16 in labels, annotations and status together",messageExpression="'handOver names %d values: name 1 to 16 in labels, annotations and status together'.format([size(@handOverNames{self})])"
// +kubebuilder:validation:XValidation:rule="[@handOverVariables{self}].all(names, names.all(a, names.exists_one(b, a == b)))",message="two values of handOver have the same environment variable: leave one of them out, or rename it",messageExpression="'two values of handOver have the environment variable FLOTILLA_HANDOVER_%s: leave one of them out, or rename it'.format([@handOverVariables{self}].map(names, names.filter(a, !names.exists_one(b, a == b))[0]))"
type HandOver struct {
	// labels are keys of labels of the pod. The name of the value is the part of the key behind the slash.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.all(key, @qualifiedName{key})",message="an entry is no key of a label: write [prefix/]name, such as db.example.com/role",messageExpression="'%s is no key of a label: write [prefix/]name, such as db.example.com/role'.format([self.filter(key, !@qualifiedName{key})])"
	Labels []string `json:"labels,omitempty"`
	// annotations are keys of annotations of the pod, named as those of labels.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.all(key, @qualifiedName{key})",message="an entry is no key of an annotation: write [prefix/]name, such as db.example.com/checkpoint",messageExpression="'%s is no key of an annotation: write [prefix/]name, such as db.example.com/checkpoint'.format([self.filter(key, !@qualifiedName{key})])"
	Annotations []string `json:"annotations,omitempty"`
	// status are values from the status of the workload in the lost member. Each of its pods gets the same.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Status []HandOverStatus `json:"status,omitempty"`
}

// HandOverStatus names a value from the status of a workload.
type HandOverStatus struct {
	// name of the value.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="name is no name of a value: use letters, digits, -, _ and dots, with a letter or digit at both ends",messageExpression="'name %s is no name of a value: use letters, digits, -, _ and dots, with a letter or digit at both ends'.format([self])"
	Name string `json:"name"`
	// jsonPath to the value: {.status, then fields, indexes and filters that compare with a text, then }. An example is
	// {.status.conditions[?(@.type=="Backup")].message}. Objects and lists are handed over as JSON. A path that leads to
	// nothing hands nothing over.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="@statusPath{self}",message="jsonPath cannot be read: write fields, indexes and filters below .status, such as {.status.updateRevision}",messageExpression="'jsonPath %s cannot be read: write fields, indexes and filters below .status, such as {.status.updateRevision}'.format([self])"
	JSONPath string `json:"jsonPath"`
}

// HandOverValues are values of pods of one workload.
type HandOverValues struct {
	// pods that have any, by ordinal. All together have at most 32 KiB as JSON.
	// +optional
	// +listType=map
	// +listMapKey=ordinal
	// +kubebuilder:validation:MaxItems=2048
	Pods []OrdinalValues `json:"pods,omitempty"`
	// cut names the ordinals whose values were more than that, or more than 512 bytes, such as "3, 1000-1004". They are
	// cut.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Cut string `json:"cut,omitempty"`
}

// OrdinalValues are the values of the pod with an ordinal.
type OrdinalValues struct {
	// ordinal in the name of the pod.
	// +kubebuilder:validation:Minimum=0
	Ordinal int32 `json:"ordinal"`
	// values by name: at most 512 bytes together with their names.
	// +kubebuilder:validation:MaxProperties=16
	Values map[string]string `json:"values"`
}
