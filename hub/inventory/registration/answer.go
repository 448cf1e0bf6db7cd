package registration

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// signerPatience is how long a signer has to answer a request that is approved. After that the answer is a token.
const signerPatience = time.Minute

// wantsToken tells whether a request is to be answered with a token, and not by the hub's signer: the member is told to
// show tokens, or shows one already. A member that was given tokens keeps to them until it joins anew.
func wantsToken(csr *certificatesv1.CertificateSigningRequest, m *topology.MemberCluster) bool {
	return m.Spec.Credential == topology.CredentialIsToken || byAccount(csr)
}

// planTokens decides which requests are answered with a token, and what becomes of the member's ServiceAccount. It
// returns when the patience with the signer ends, 0 if nothing waits for it.
func (c *changes) planTokens(f facts) time.Duration {
	var again time.Duration
	for _, csr := range f.requests {
		verdict, _ := judgeText(csr, f.member)
		at, open := approvedAt(csr)
		if verdict != Approved || !open || csr.Annotations[topology.AnnotationSealedToken] != "" {
			continue
		}
		if !wantsToken(csr, f.member) {
			if at.IsZero() {
				continue // it is not approved yet
			}
			if left := at.Add(signerPatience).Sub(f.now); left > 0 {
				again = sooner(again, left)
				continue
			}
		}
		c.seal = append(c.seal, csr)
	}
	stays := f.holder != nil && f.member != nil && wantedOf(f.member, true) != nil &&
		metav1.IsControlledBy(f.holder, f.member)
	if f.holder != nil && !stays {
		c.remove = append(c.remove, f.holder) // with it go its tokens
	}
	if len(c.seal) > 0 && !stays {
		c.holder = holderOf(f.member)
	}
	return again
}

// approvedAt returns when a request was approved, zero if it was not, and whether it still waits for an answer.
func approvedAt(csr *certificatesv1.CertificateSigningRequest) (at time.Time, open bool) {
	for _, condition := range csr.Status.Conditions {
		switch condition.Type {
		case certificatesv1.CertificateApproved:
			at = condition.LastUpdateTime.Time
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return at, false
		}
	}
	return at, len(csr.Status.Certificate) == 0
}

func sooner(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// holderOf returns the ServiceAccount whose tokens a member shows.
func holderOf(m *topology.MemberCluster) *corev1.ServiceAccount {
	meta := owned(m, topology.MembersNamespace, topology.MemberObject(m.Name))
	meta.OwnerReferences[0].Controller = new(true)
	return &corev1.ServiceAccount{ObjectMeta: meta, AutomountServiceAccountToken: new(bool)}
}

// account returns a ServiceAccount, nil if there is none.
func (r *Reconciler) account(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	account := &corev1.ServiceAccount{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, account)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return account, nil
}

// answer makes the ServiceAccount, and writes sealed tokens to the requests that get one.
func (r *Reconciler) answer(ctx context.Context, m *topology.MemberCluster, p changes) error {
	if p.holder != nil {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: topology.MembersNamespace}}
		if err := r.client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", namespace.Name, err)
		}
		if err := r.client.Create(ctx, p.holder); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make ServiceAccount %s/%s: %w", p.holder.Namespace, p.holder.Name, err)
		}
	}
	for _, csr := range p.seal {
		if err := r.seal(ctx, m, csr); err != nil {
			return err
		}
	}
	return nil
}

// seal answers a request with a token, for the key that asked alone.
func (r *Reconciler) seal(
	ctx context.Context,
	m *topology.MemberCluster,
	csr *certificatesv1.CertificateSigningRequest,
) error {
	parsed, err := parse(csr.Spec.Request)
	if err != nil {
		return err
	}
	key, ok := parsed.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return errors.New("the key must be an ECDSA key on the curve P-256")
	}
	holder := holderOf(m)
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(*csr.Spec.ExpirationSeconds))},
	}
	from := metav1.NewTime(r.clock.Now())
	if err := r.client.SubResource("token").Create(ctx, holder, request); err != nil {
		return fmt.Errorf("request a token of ServiceAccount %s/%s: %w", holder.Namespace, holder.Name, err)
	}
	token := &topology.MemberToken{
		User:  topology.MemberUser(m.Name, m.UID),
		Token: request.Status.Token,
		From:  from,
		Until: request.Status.ExpirationTimestamp,
	}
	sealed, err := token.Seal(csr.UID, key)
	if err != nil {
		return err
	}
	answered := csr.DeepCopy()
	metav1.SetMetaDataAnnotation(&answered.ObjectMeta, topology.AnnotationSealedToken, sealed)
	// With the resourceVersion: one token for one request.
	err = r.client.Patch(ctx, answered, client.MergeFromWithOptions(csr, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("answer CertificateSigningRequest %s with a token: %w", csr.Name, err)
	}
	log.FromContext(ctx).
		Info("Answered a request with a token", "request", csr.Name, "until", token.Until.UTC().Format(time.RFC3339))
	return nil
}
