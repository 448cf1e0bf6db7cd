package snapshot

import (
	"context"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// lists returns an empty list of each kind that decisions depend on.
func lists() []client.ObjectList {
	all := []client.ObjectList{
		&corev1.NamespaceList{}, &topology.MemberClusterList{}, &topology.FederationPolicyList{},
		&topology.ClusterFederationPolicyList{},
		&topology.WorkloadPlacementList{}, &work.WorkList{}, &apps.WorkloadSpreadList{},
	}
	for _, rule := range kinds.All(kinds.HubRunsBuiltIns) {
		all = append(all, rule.NewList())
	}
	return all
}

// carriesSecrets tells whether a policy that was recorded lets Secrets go to members: only then decisions ask about
// them.
func (s *Snapshot) carriesSecrets() bool {
	return slices.ContainsFunc(s.Objects(), func(o client.Object) bool {
		switch p := o.(type) {
		case *topology.FederationPolicy:
			return p.Spec.Dependencies.Secrets == topology.SecretsCarry
		case *topology.ClusterFederationPolicy:
			return p.Spec.Dependencies.Secrets == topology.SecretsCarry
		}
		return false
	})
}

// Record returns a snapshot of what decisions depend on. With a namespace it holds of the kinds with a namespace that
// one only, and the Works of its placements. Of what pods need (ConfigMaps, Secrets …) it holds the metadata, nothing
// else; Secrets are not asked about before a policy lets them go to members.
func Record(ctx context.Context, from client.Reader, scheme *runtime.Scheme, namespace string) (*Snapshot, error) {
	s := New(scheme)
	for _, list := range lists() {
		gvk, err := apiutil.GVKForObject(list, scheme)
		if err != nil {
			return nil, fmt.Errorf("record %T: %w", list, err)
		}
		if gvk.Kind == "SecretList" && !s.carriesSecrets() {
			continue
		}
		var options []client.ListOption
		switch list.(type) {
		case *work.WorkList:
			options = append(options, client.HasLabels{topology.LabelPlacement})
		case *corev1.NamespaceList, *topology.MemberClusterList, *topology.ClusterFederationPolicyList:
		default:
			options = append(options, client.InNamespace(namespace))
		}
		err = from.List(ctx, list, options...)
		if _, copies := list.(*metav1.PartialObjectMetadataList); copies &&
			(apierrors.IsForbidden(err) || meta.IsNoMatchError(err)) {
			// who may not see Secrets records what they may see; a hub without the definition of ServiceExports has none
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s of the hub: %w", gvk.Kind, err)
		}
		gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
		if err := s.putList(list, gvk, namespace); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Snapshot) putList(list client.ObjectList, gvk schema.GroupVersionKind, namespace string) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		object := item.DeepCopyObject().(client.Object)
		if w, ok := object.(*work.Work); ok && namespace != "" && !ofNamespace(w, namespace) {
			return nil
		}
		if m, ok := object.(*metav1.PartialObjectMetadata); ok {
			// What kubectl notes of an object is the whole object, with what a Secret holds.
			delete(m.Annotations, corev1.LastAppliedConfigAnnotation)
		}
		if w, ok := object.(*work.Work); ok {
			w.Spec.Workload.Manifests = nil // decisions go by what was reported; a manifest may be a Secret
		}
		object.GetObjectKind().SetGroupVersionKind(gvk)
		object.SetManagedFields(nil)
		return s.Put(object)
	})
}

// ofNamespace tells whether a Work carries an object of the namespace, or the Job of a check of one.
func ofNamespace(w *work.Work, namespace string) bool {
	key, ok := wire.OwnerOf(w)
	return ok && key.Namespace == namespace
}

// Write writes the objects of the snapshot as YAML documents, in the order of Objects.
func Write(out io.Writer, s *Snapshot) error {
	for i, object := range s.Objects() {
		data, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("write %T %s: %w", object, object.GetName(), err)
		}
		if i > 0 {
			data = append([]byte("---\n"), data...)
		}
		if _, err := out.Write(data); err != nil {
			return fmt.Errorf("write the snapshot: %w", err)
		}
	}
	return nil
}
