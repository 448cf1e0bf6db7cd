package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "apps.kruise.io", Version: "v1alpha1"}

// Kinds of this package with their group and version: those whose v1alpha1 is read as such, and those without another
// version.
var (
	CloneSetKind         = GroupVersion.WithKind("CloneSet")
	EphemeralJobKind     = GroupVersion.WithKind("EphemeralJob")
	NodePodProbeKind     = GroupVersion.WithKind("NodePodProbe")
	PodProbeMarkerKind   = GroupVersion.WithKind("PodProbeMarker")
	UnitedDeploymentKind = GroupVersion.WithKind("UnitedDeployment")
	WorkloadSpreadKind   = GroupVersion.WithKind("WorkloadSpread")
)

// AddHubToScheme registers the types that a hub reads in this version, because they have no other one.
func AddHubToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &PodProbeMarker{}, &PodProbeMarkerList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// AddToScheme registers the types of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&AdvancedCronJob{}, &AdvancedCronJobList{},
		&BroadcastJob{}, &BroadcastJobList{},
		&CloneSet{}, &CloneSetList{},
		&ContainerRecreateRequest{}, &ContainerRecreateRequestList{},
		&DaemonSet{}, &DaemonSetList{},
		&EphemeralJob{}, &EphemeralJobList{},
		&ImageListPullJob{}, &ImageListPullJobList{},
		&ImagePullJob{}, &ImagePullJobList{},
		&NodeImage{}, &NodeImageList{},
		&NodePodProbe{}, &NodePodProbeList{},
		&PersistentPodState{}, &PersistentPodStateList{},
		&PodProbeMarker{}, &PodProbeMarkerList{},
		&ResourceDistribution{}, &ResourceDistributionList{},
		&SidecarSet{}, &SidecarSetList{},
		&StatefulSet{}, &StatefulSetList{},
		&UnitedDeployment{}, &UnitedDeploymentList{},
		&WorkloadSpread{}, &WorkloadSpreadList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
