package registration

import (
	"context"
	"errors"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/store"
)

// ErrNoRequest says that the agent has not asked for a certificate yet.
var ErrNoRequest = errors.New("the agent has not asked yet")

// Acceptance is what accepting a member came to.
type Acceptance struct {
	Member    string `json:"member"`
	ClusterID string `json:"clusterID"`
	// Fingerprint of the key that is pinned.
	Fingerprint string `json:"fingerprint"`
	// Before: it was accepted so already.
	Before bool `json:"before"`
}

// Accept pins the key and the cluster of the pending request of a name, and lets the member take part. With a
// fingerprint only a request for that key is accepted; a member that has another key already needs it. It errs with
// ErrNoRequest while there is no request, and writes nothing where that is done.
func Accept(ctx context.Context, c client.Client, name, fingerprint string) (*Acceptance, error) {
	member := &topology.MemberCluster{}
	if err := c.Get(ctx, types.NamespacedName{Name: name}, member); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf(
			"there is no MemberCluster %s: reserve the name with flotilla token create %s, or flotilla join %s",
			name,
			name,
			name,
		)
	} else if err != nil {
		return nil, fmt.Errorf("read MemberCluster %s: %w", name, err)
	}
	if member.DeletionTimestamp != nil {
		return nil, fmt.Errorf("MemberCluster %s is being deleted; wait until it is gone, and join again", name)
	}
	before := &Acceptance{
		Member:      name,
		ClusterID:   member.Spec.ClusterID,
		Fingerprint: member.Spec.KeyFingerprint,
		Before:      true,
	}
	stands := acceptedBefore(member, fingerprint)
	csr := &certificatesv1.CertificateSigningRequest{}
	err := c.Get(ctx, types.NamespacedName{Name: topology.JoinObject(name)}, csr)
	switch {
	case apierrors.IsNotFound(err) && stands:
		return before, nil
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf(
			"%w: there is no CertificateSigningRequest %s; start flotilla-agent in the member, and look at its log",
			ErrNoRequest,
			topology.JoinObject(name),
		)
	case err != nil:
		return nil, fmt.Errorf("read CertificateSigningRequest %s: %w", topology.JoinObject(name), err)
	}
	asked, err := inspect(csr, member)
	if err != nil {
		return nil, fmt.Errorf("the request of %s is not in order: %w", name, err)
	}
	if stands && asked.Fingerprint == before.Fingerprint {
		return before, nil
	}
	if err := mayAccept(member, asked, fingerprint); err != nil {
		return nil, err
	}
	if err := idIsFree(ctx, c, name, asked.ClusterID); err != nil {
		return nil, err
	}
	base := member.DeepCopy()
	member.Spec.Accepted, member.Spec.ClusterID, member.Spec.KeyFingerprint = true, asked.ClusterID, asked.Fingerprint
	if err := c.Patch(ctx, member, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, fmt.Errorf("accept MemberCluster %s: %w", name, err)
	}
	return asked, nil
}

// acceptedBefore tells whether the member was accepted, with the key of the fingerprint if there is one.
func acceptedBefore(member *topology.MemberCluster, fingerprint string) bool {
	key := member.Spec.KeyFingerprint
	return member.Spec.Accepted && member.Spec.ClusterID != "" && key != "" && (fingerprint == "" || fingerprint == key)
}

// inspect returns what a request for a first certificate asks for, or what is wrong with it.
func inspect(csr *certificatesv1.CertificateSigningRequest, member *topology.MemberCluster) (*Acceptance, error) {
	if csr.Spec.SignerName != topology.MemberSigner {
		return nil, fmt.Errorf("it is for the signer %s, not %s", csr.Spec.SignerName, topology.MemberSigner)
	}
	for _, c := range csr.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return nil, fmt.Errorf(
				"it was refused (%s: %s); its agent makes another one before long",
				c.Reason,
				quoted(c.Message),
			)
		}
	}
	if err := madeBy(csr, member, true); err != nil {
		return nil, err
	}
	key, err := keyOf(csr, member.Name, member.UID)
	if err != nil {
		return nil, err
	}
	id := csr.Annotations[topology.AnnotationClusterID]
	if id == "" || len(id) > maxClusterID || strings.TrimSpace(id) != id {
		return nil, fmt.Errorf("its annotation %s %s is no id of a cluster", topology.AnnotationClusterID, quoted(id))
	}
	return &Acceptance{Member: member.Name, ClusterID: id, Fingerprint: key}, nil
}

// mayAccept returns why a request is not accepted as it stands.
func mayAccept(member *topology.MemberCluster, asked *Acceptance, fingerprint string) error {
	switch {
	case fingerprint != "" && fingerprint != asked.Fingerprint:
		return fmt.Errorf(
			"the request of %s is for the key %s, not %s: somebody else may have its token; run flotilla token revoke %s, and "+
				"join again",
			member.Name,
			asked.Fingerprint,
			fingerprint,
			member.Name,
		)
	case member.Spec.ClusterID != "" && member.Spec.ClusterID != asked.ClusterID:
		return fmt.Errorf(
			"the name %s is pinned to the cluster %s, and the request comes from the cluster %s: let that one join under a "+
				"name of its own, or give this name up with flotilla leave %s",
			member.Name,
			member.Spec.ClusterID,
			asked.ClusterID,
			member.Name,
		)
	case member.Spec.KeyFingerprint != "" && member.Spec.KeyFingerprint != asked.Fingerprint && fingerprint == "":
		return fmt.Errorf(
			"MemberCluster %s was accepted with the key %s, and the request is for another one: if you gave its agent a new "+
				"key, run flotilla accept %s --fingerprint %s; else run flotilla token revoke %s",
			member.Name,
			member.Spec.KeyFingerprint,
			member.Name,
			asked.Fingerprint,
			member.Name,
		)
	}
	return nil
}

// idIsFree returns why a cluster cannot be a member under the name: it is the hub, or another member.
func idIsFree(ctx context.Context, c client.Reader, name, id string) error {
	hub, err := store.HubID(ctx, c)
	if err != nil {
		return err
	}
	if id == hub {
		return fmt.Errorf("the cluster %s is the hub's own, which cannot be its own member", id)
	}
	members := &topology.MemberClusterList{}
	if err := c.List(ctx, members); err != nil {
		return fmt.Errorf("list MemberClusters: %w", err)
	}
	for i := range members.Items {
		m := &members.Items[i]
		if m.Name != name && (m.Spec.ClusterID == id || m.Spec.ClusterID == "" && m.Status.ClusterID == id) {
			return fmt.Errorf(
				"the cluster %s is the member %s already: use that name, or take it out with flotilla leave %s",
				id,
				m.Name,
				m.Name,
			)
		}
	}
	return nil
}
