package capi

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
)

// regionLabel is the label of a Cluster that says its region.
const regionLabel = corev1.LabelTopologyRegion

// unreachable tells that the cluster did not answer, or did not do what it was asked.
func unreachable(f *facts, err error) *verdict {
	return told(
		topology.ReasonClusterUnreachable,
		"the cluster does not do what is asked of it with the kubeconfig in the Secret %s/%s: %v",
		f.cluster.Namespace,
		secretOf(f.cluster.Name),
		err,
	)
}

// claim notes on the Cluster that it joins, and under which name, before anything is made for it: then it does not go
// without leaving.
func (r *Reconciler) claim(ctx context.Context, f *facts) error {
	base := f.cluster.DeepCopy()
	controllerutil.AddFinalizer(f.cluster, topology.ClusterFinalizer)
	metav1.SetMetaDataAnnotation(&f.cluster.ObjectMeta, topology.AnnotationJoinedAs, f.name())
	return r.patchCluster(ctx, f, base)
}

// patchCluster writes the metadata of the Cluster, if it changed. Finalizers are written whole, so nobody's must get
// lost.
func (r *Reconciler) patchCluster(ctx context.Context, f *facts, base client.Object) error {
	if slices.Equal(base.GetFinalizers(), f.cluster.Finalizers) &&
		base.GetAnnotations()[topology.AnnotationJoinedAs] == f.cluster.Annotations[topology.AnnotationJoinedAs] {
		return nil
	}
	if err := r.management.Patch(ctx, f.cluster, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}),
		manager); err != nil {
		return fmt.Errorf("note on Cluster %s that it is a member, or none: %w", id(f.cluster), err)
	}
	return nil
}

// reach returns the cluster by its kubeconfig, as it is now, or what is wrong with that.
func (r *Reconciler) reach(ctx context.Context, f *facts) (Cluster, *verdict, error) {
	secret := &corev1.Secret{}
	name := types.NamespacedName{Namespace: f.cluster.Namespace, Name: secretOf(f.cluster.Name)}
	err := r.managementLive.Get(ctx, name, secret)
	if apierrors.IsNotFound(err) {
		return nil, told(topology.ReasonKubeconfigMissing,
			"there is no Secret %s yet, which Cluster API's control plane provider makes: wait until the control plane is "+
				"initialized", name), nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	cfg, err := configOf(secret.Data[kubeconfigKey])
	if err != nil {
		return nil, told(topology.ReasonKubeconfigInvalid, "the Secret %s is of no use: %v", name, err), nil
	}
	there, err := r.dial(cfg)
	if err != nil {
		return nil, told(topology.ReasonKubeconfigInvalid, "the Secret %s is of no use: %v", name, err), nil
	}
	return there, nil, nil
}

// carry makes the MemberCluster, or makes of it what the Cluster says, and returns it. What a person wrote beside that
// stays.
func (r *Reconciler) carry(ctx context.Context, f *facts) (*topology.MemberCluster, error) {
	annotations := map[string]string{topology.AnnotationClusterAPI: id(f.cluster)}
	had, _ := f.named()
	if f.seen() || had != nil && had.Annotations[topology.AnnotationMachinesSeen] != "" {
		annotations[topology.AnnotationMachinesSeen] = "true"
	}
	want := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	want.SetAPIVersion(topology.GroupVersion.String())
	want.SetKind("MemberCluster")
	want.SetName(f.name())
	want.SetLabels(carried(f.cluster))
	want.SetAnnotations(annotations)
	if region := f.cluster.Labels[regionLabel]; region != "" {
		want.Object["spec"] = map[string]any{"region": region}
	}
	if had != nil && had.Annotations[topology.AnnotationLeavingSince] != "" {
		if err := r.stay(ctx, had); err != nil {
			return nil, err
		}
	}
	if had == nil {
		// Created, not applied: a member that somebody made in between is not taken over. The rest is applied, so that it can
		// be taken back.
		made := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: f.name(), Annotations: annotations}}
		if err := r.hub.Create(ctx, made, manager); err != nil {
			return nil, fmt.Errorf("create MemberCluster %s: %w", f.name(), err)
		}
	}
	if err := r.hub.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), manager,
		client.ForceOwnership); err != nil {
		return nil, fmt.Errorf("apply MemberCluster %s: %w", f.name(), err)
	}
	member := &topology.MemberCluster{}
	if err := r.hub.Get(ctx, types.NamespacedName{Name: f.name()}, member); err != nil {
		return nil, fmt.Errorf("read MemberCluster %s: %w", f.name(), err)
	}
	return member, nil
}

// stay takes back that a member leaves.
func (r *Reconciler) stay(ctx context.Context, member *topology.MemberCluster) error {
	base := member.DeepCopy()
	delete(member.Annotations, topology.AnnotationLeavingSince)
	member.Spec.Taints = slices.DeleteFunc(member.Spec.Taints, drains)
	member.Spec.Accepted = member.Spec.ClusterID != ""
	if err := r.hub.Patch(ctx, member, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}),
		manager); err != nil {
		return fmt.Errorf("end the drain of MemberCluster %s: %w", member.Name, err)
	}
	return nil
}

// equip gives the cluster what its agent joins with, where it lacks it, and accepts the member with the key that is
// there. It returns the MemberCluster as it stands then, or what the cluster refused.
func (r *Reconciler) equip(
	ctx context.Context,
	f *facts,
	there Cluster,
	sight *Sight,
	member *topology.MemberCluster,
) (*topology.MemberCluster, *verdict, error) {
	fingerprint := sight.Fingerprint
	if f.needsJoin(sight, member, r.options.HubServer, r.options.HubCA) {
		token, err := registration.CreateToken(ctx, r.hub, member.Name, registration.DefaultTokenLife)
		if err != nil {
			return nil, nil, err
		}
		join := Join{
			Name:    member.Name,
			UID:     token.UID,
			Server:  r.options.HubServer,
			CA:      r.options.HubCA,
			Token:   token.Token,
			Expires: token.Expires,
		}
		if fingerprint, err = there.Equip(ctx, join); err != nil {
			return nil, unreachable(f, err), nil
		}
	}
	if !mayPin(member, fingerprint) {
		return member, nil, nil
	}
	base := member.DeepCopy()
	member.Spec.Accepted, member.Spec.ClusterID, member.Spec.KeyFingerprint = true, sight.ClusterID, fingerprint
	if err := r.hub.Patch(ctx, member, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}),
		manager); err != nil {
		return nil, nil, fmt.Errorf("accept MemberCluster %s: %w", member.Name, err)
	}
	return member, nil, nil
}
