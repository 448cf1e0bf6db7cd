package credential

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/rights"
)

// Equip writes into a member what its agent needs to join a hub: namespace, ServiceAccount, rights, the Secret of the
// join, and a key unless there is one. It returns the fingerprint of the key. It can be called again.
func Equip(ctx context.Context, member client.Client, join *Join) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: topology.SystemNamespace}}
	if err := member.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("create namespace %s in the member: %w", namespace.Name, err)
	}
	for _, object := range rights.Objects(topology.SystemNamespace) {
		if err := put(ctx, member, object); err != nil {
			return "", err
		}
	}
	if err := put(ctx, member, join.Secret(topology.SystemNamespace)); err != nil {
		return "", err
	}
	secret, err := EnsureKey(ctx, member, topology.SystemNamespace)
	if err != nil {
		return "", err
	}
	return Fingerprint(secret.Data[topology.CredentialKey])
}

// managedBy is the label by which Helm knows what is its own, with the value helm.
const managedBy, helm = "app.kubernetes.io/managed-by", "Helm"

// put makes an object, or makes it as it has to be. Rights that the chart of the agent made stay as they are: its next
// upgrade changes them. The Secret of the join is never the chart's.
func put(ctx context.Context, c client.Client, object client.Object) error {
	err := c.Create(ctx, object.DeepCopyObject().(client.Object))
	if apierrors.IsAlreadyExists(err) {
		switch object.(type) {
		case *corev1.ServiceAccount:
			return nil
		case *rbacv1.ClusterRole, *rbacv1.Role, *rbacv1.ClusterRoleBinding, *rbacv1.RoleBinding, *corev1.Secret:
			have := object.DeepCopyObject().(client.Object)
			if err = c.Get(ctx, client.ObjectKeyFromObject(object), have); err == nil {
				if _, secret := object.(*corev1.Secret); !secret && have.GetLabels()[managedBy] == helm {
					return nil
				}
				object.SetResourceVersion(have.GetResourceVersion())
				err = c.Update(ctx, object)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("write %T %s in the member: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return nil
}
