package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "apps.kruise.io", Version: "v1beta1"}

// The kinds of this package with their group and version.
var (
	AdvancedCronJobKind          = GroupVersion.WithKind("AdvancedCronJob")
	BroadcastJobKind             = GroupVersion.WithKind("BroadcastJob")
	CloneSetKind                 = GroupVersion.WithKind("CloneSet")
	ContainerRecreateRequestKind = GroupVersion.WithKind("ContainerRecreateRequest")
	DaemonSetKind                = GroupVersion.WithKind("DaemonSet")
	ImageListPullJobKind         = GroupVersion.WithKind("ImageListPullJob")
	ImagePullJobKind             = GroupVersion.WithKind("ImagePullJob")
	NodeImageKind                = GroupVersion.WithKind("NodeImage")
	PersistentPodStateKind       = GroupVersion.WithKind("PersistentPodState")
	ResourceDistributionKind     = GroupVersion.WithKind("ResourceDistribution")
	SidecarSetKind               = GroupVersion.WithKind("SidecarSet")
	StatefulSetKind              = GroupVersion.WithKind("StatefulSet")
	UnitedDeploymentKind         = GroupVersion.WithKind("UnitedDeployment")
	WorkloadSpreadKind           = GroupVersion.WithKind("WorkloadSpread")
)

// AddToScheme registers the types of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&AdvancedCronJob{}, &AdvancedCronJobList{},
		&BroadcastJob{}, &BroadcastJobList{},
		&CloneSet{}, &CloneSetList{},
		&ContainerRecreateRequest{}, &ContainerRecreateRequestList{},
		&DaemonSet{}, &DaemonSetList{},
		&ImageListPullJob{}, &ImageListPullJobList{},
		&ImagePullJob{}, &ImagePullJobList{},
		&NodeImage{}, &NodeImageList{},
		&PersistentPodState{}, &PersistentPodStateList{},
		&ResourceDistribution{}, &ResourceDistributionList{},
		&SidecarSet{}, &SidecarSetList{},
		&StatefulSet{}, &StatefulSetList{},
		&UnitedDeployment{}, &UnitedDeploymentList{},
		&WorkloadSpread{}, &WorkloadSpreadList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
