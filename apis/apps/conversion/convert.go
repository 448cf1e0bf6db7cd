package conversion

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policyalpha "github.com/flotilla-dev/flotilla/apis/policy/v1alpha1"
	policybeta "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
)

// Annotations of ours that carry what an object said in the other version beyond what its own version can say. A tool
// that replaces whole objects, annotations included, gives it up.
const (
	// RemainderOfV1beta1 is on v1alpha1 objects.
	RemainderOfV1beta1 = "apps.flotilla.dev/v1beta1-fields"
	// RemainderOfV1alpha1 is on v1beta1 objects.
	RemainderOfV1alpha1 = "apps.flotilla.dev/v1alpha1-fields"
)

// version is one of the two: how its objects become the other's, and the annotation on the other's objects that carries
// the remainder of this one.
type version struct {
	name      string
	convert   func(object tree)
	empty     func() runtime.Object
	remainder string
}

// kind holds both versions of a kind.
type kind struct {
	v1alpha1, v1beta1 version
}

// kinds returns what is converted.
func kinds() map[string]kind {
	of := func(up, down func(tree), alpha, beta func() runtime.Object) kind {
		return kind{
			v1alpha1: version{v1alpha1.GroupVersion.Version, up, alpha, RemainderOfV1alpha1},
			v1beta1:  version{v1beta1.GroupVersion.Version, down, beta, RemainderOfV1beta1},
		}
	}
	return map[string]kind{
		v1beta1.AdvancedCronJobKind.Kind: of(same, downAdvancedCronJob,
			func() runtime.Object { return &v1alpha1.AdvancedCronJob{} },
			func() runtime.Object { return &v1beta1.AdvancedCronJob{} }),
		v1beta1.BroadcastJobKind.Kind: of(same, same,
			func() runtime.Object { return &v1alpha1.BroadcastJob{} }, func() runtime.Object { return &v1beta1.BroadcastJob{} }),
		v1beta1.CloneSetKind.Kind: of(upCloneSet, downCloneSet,
			func() runtime.Object { return &v1alpha1.CloneSet{} }, func() runtime.Object { return &v1beta1.CloneSet{} }),
		v1beta1.ContainerRecreateRequestKind.Kind: of(upContainerRecreateRequest, downContainerRecreateRequest,
			func() runtime.Object { return &v1alpha1.ContainerRecreateRequest{} },
			func() runtime.Object { return &v1beta1.ContainerRecreateRequest{} }),
		v1beta1.DaemonSetKind.Kind: of(upDaemonSet, downDaemonSet,
			func() runtime.Object { return &v1alpha1.DaemonSet{} }, func() runtime.Object { return &v1beta1.DaemonSet{} }),
		v1beta1.ImageListPullJobKind.Kind: of(same, same,
			func() runtime.Object { return &v1alpha1.ImageListPullJob{} },
			func() runtime.Object { return &v1beta1.ImageListPullJob{} }),
		v1beta1.ImagePullJobKind.Kind: of(same, same,
			func() runtime.Object { return &v1alpha1.ImagePullJob{} },
			func() runtime.Object { return &v1beta1.ImagePullJob{} }),
		v1beta1.NodeImageKind.Kind: of(same, same,
			func() runtime.Object { return &v1alpha1.NodeImage{} }, func() runtime.Object { return &v1beta1.NodeImage{} }),
		v1beta1.PersistentPodStateKind.Kind: of(upPersistentPodState, downPersistentPodState,
			func() runtime.Object { return &v1alpha1.PersistentPodState{} },
			func() runtime.Object { return &v1beta1.PersistentPodState{} }),
		policybeta.PodUnavailableBudgetKind.Kind: of(upPodUnavailableBudget, downPodUnavailableBudget,
			func() runtime.Object { return &policyalpha.PodUnavailableBudget{} },
			func() runtime.Object { return &policybeta.PodUnavailableBudget{} }),
		v1beta1.ResourceDistributionKind.Kind: of(upResourceDistribution, downResourceDistribution,
			func() runtime.Object { return &v1alpha1.ResourceDistribution{} },
			func() runtime.Object { return &v1beta1.ResourceDistribution{} }),
		v1beta1.SidecarSetKind.Kind: of(upSidecarSet, downSidecarSet,
			func() runtime.Object { return &v1alpha1.SidecarSet{} }, func() runtime.Object { return &v1beta1.SidecarSet{} }),
		v1beta1.StatefulSetKind.Kind: of(upStatefulSet, downStatefulSet,
			func() runtime.Object { return &v1alpha1.StatefulSet{} }, func() runtime.Object { return &v1beta1.StatefulSet{} }),
		v1beta1.UnitedDeploymentKind.Kind: of(
			upUnitedDeployment,
			downUnitedDeployment,
			func() runtime.Object { return &v1alpha1.UnitedDeployment{} },
			func() runtime.Object { return &v1beta1.UnitedDeployment{} },
		),
		v1beta1.WorkloadSpreadKind.Kind: of(
			upWorkloadSpread,
			downWorkloadSpread,
			func() runtime.Object { return &v1alpha1.WorkloadSpread{} },
			func() runtime.Object { return &v1beta1.WorkloadSpread{} },
		),
	}
}

// Kinds returns the kinds that Convert takes.
func Kinds() []schema.GroupKind {
	return []schema.GroupKind{
		v1beta1.AdvancedCronJobKind.GroupKind(), v1beta1.BroadcastJobKind.GroupKind(), v1beta1.CloneSetKind.GroupKind(),
		v1beta1.ContainerRecreateRequestKind.GroupKind(), v1beta1.DaemonSetKind.GroupKind(),
		v1beta1.ImageListPullJobKind.GroupKind(), v1beta1.ImagePullJobKind.GroupKind(), v1beta1.NodeImageKind.GroupKind(),
		v1beta1.PersistentPodStateKind.GroupKind(),
		v1beta1.ResourceDistributionKind.GroupKind(), v1beta1.SidecarSetKind.GroupKind(), v1beta1.StatefulSetKind.GroupKind(),
		v1beta1.UnitedDeploymentKind.GroupKind(), v1beta1.WorkloadSpreadKind.GroupKind(),
		policybeta.PodUnavailableBudgetKind.GroupKind(),
	}
}

// Convert returns object in another API version of its group, v1alpha1 or v1beta1; in its own it is returned as it is. The result shares with object what they have alike, so neither may be changed in place afterwards.
// It fails for other kinds and versions alone.
func Convert(object *unstructured.Unstructured, apiVersion string) (*unstructured.Unstructured, error) {
	from := object.GroupVersionKind()
	to := schema.FromAPIVersionAndKind(apiVersion, from.Kind)
	k, known := kinds()[from.Kind]
	if !known || !slices.Contains(Kinds(), from.GroupKind()) || to.Group != from.Group {
		return nil, fmt.Errorf("convert %s %s to %s: no such conversion", from.GroupVersion(), from.Kind, apiVersion)
	}
	var converted tree
	switch [2]string{from.Version, to.Version} {
	case [2]string{k.v1alpha1.name, k.v1beta1.name}:
		converted = convert(object.Object, k.v1alpha1, k.v1beta1)
	case [2]string{k.v1beta1.name, k.v1alpha1.name}:
		converted = convert(object.Object, k.v1beta1, k.v1alpha1)
	case [2]string{k.v1alpha1.name, k.v1alpha1.name}, [2]string{k.v1beta1.name, k.v1beta1.name}:
		return object, nil
	default:
		return nil, fmt.Errorf("convert %s %s to %s: no such version", from.GroupVersion(), from.Kind, apiVersion)
	}
	converted["apiVersion"] = apiVersion
	return &unstructured.Unstructured{Object: converted}, nil
}

// convert makes an object of version from one of version to.
func convert(source tree, from, to version) tree {
	carried := annotation(source, to.remainder)
	said := without(source, from.remainder, to.remainder)
	plain := as(said, from.convert)
	full := restore(plain, said, carried, to)
	if beyond := difference(as(full, to.convert), said); len(beyond) > 0 {
		full = maps.Clone(full)
		made(made(full, "metadata"), "annotations")[from.remainder] = encode(beyond)
	}
	return full
}

// as returns the object after a conversion, and leaves it as it is itself.
func as(object tree, conversion func(tree)) tree {
	object = maps.Clone(object)
	conversion(object)
	return object
}

// Converter converts in the shape that controller-runtime's conversion webhook asks for. It takes Go types too, but
// those have lost already what the types do not know: have the webhook use the scheme that Scheme returns.
type Converter struct{}

// ConvertObject fills dst, whose kind is set, with src in the version of dst.
func (Converter) ConvertObject(_ context.Context, src, dst runtime.Object) error {
	source, ok := src.(*unstructured.Unstructured)
	if !ok {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(src)
		if err != nil {
			return fmt.Errorf("read %T to convert it: %w", src, err)
		}
		source = &unstructured.Unstructured{Object: object}
	}
	converted, err := Convert(source, dst.GetObjectKind().GroupVersionKind().GroupVersion().String())
	if err != nil {
		return err
	}
	if target, ok := dst.(*unstructured.Unstructured); ok {
		target.Object = converted.Object
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(converted.Object, dst); err != nil {
		return fmt.Errorf("write %T after conversion: %w", dst, err)
	}
	return nil
}

// Scheme returns a scheme that reads both versions of the kinds as they are on the wire.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, gk := range Kinds() {
		for _, version := range []string{v1alpha1.GroupVersion.Version, v1beta1.GroupVersion.Version} {
			s.AddKnownTypeWithName(gk.WithVersion(version), &unstructured.Unstructured{})
		}
	}
	return s
}
