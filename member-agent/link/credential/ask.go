package credential

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyv1 "k8s.io/client-go/applyconfigurations/certificates/v1"
	"k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

const (
	// fieldManager names the agent in what it writes on the hub.
	fieldManager = "flotilla-agent"
	// wantedSeconds is the life that is asked for: 30 days. With renewal at two thirds, an outage of a week is survived.
	wantedSeconds = 30 * 24 * 3600
)

// ask makes a request or looks at the one that is there, and returns when to look again.
func (m *Manager) ask(ctx context.Context, join *Join, with by) (time.Duration, error) {
	hub, name, err := m.hub(join, with)
	if err != nil {
		return 0, err
	}
	key, user := m.secret.Data[topology.CredentialKey], topology.MemberUser(join.Name, join.UID)
	csr, err := hub.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return lookSoon, m.request(ctx, hub, join, name)
	case err != nil:
		return 0, fmt.Errorf("read the request %s on the hub%s: %w", name, remedy(err, join, with), err)
	case !sameRequest(csr.Spec.Request, key, user):
		return lookSoon, m.discard(ctx, hub, csr)
	}
	if len(csr.Status.Certificate) > 0 {
		have, err := readCertificate(csr.Status.Certificate, key)
		if err != nil || have.user != user || m.outdated(have, user) {
			return lookSoon, m.discard(ctx, hub, csr)
		}
		return lookSoon, m.keep(ctx, join, topology.CredentialCertificate, csr.Status.Certificate, have)
	}
	if sealed := csr.Annotations[topology.AnnotationSealedToken]; sealed != "" {
		have, data, err := openToken(sealed, csr.UID, join, key)
		if err != nil || m.outdated(have, user) {
			return lookSoon, m.discard(ctx, hub, csr)
		}
		return lookSoon, m.keep(ctx, join, topology.CredentialToken, data, have)
	}
	return m.pending(ctx, hub, csr)
}

// outdated reports whether the answer to a request is no newer than the credential of the user that is in use.
func (m *Manager) outdated(answer *certificate, user string) bool {
	return m.have != nil && m.have.user == user && !answer.from.After(m.have.from)
}

// remedy says what a person has to do where the hub refuses who asks, empty for other errors.
func remedy(err error, join *Join, with by) string {
	again := fmt.Sprintf("run flotilla join %s again", join.Name)
	switch {
	case apierrors.IsUnauthorized(err) && with == token:
		return "; the token for joining was revoked, or is used: it is void once its member was Ready; " + again
	case apierrors.IsForbidden(err) && with == token:
		return fmt.Sprintf("; the token for joining is not for the name %s, or %s is no name on the hub any more; %s",
			join.Name, join.Name, again)
	case apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err):
		return fmt.Sprintf("; if %s left, or its MemberCluster was deleted, end this agent, or %s", join.Name, again)
	}
	return ""
}

// pending tells what the request waits for.
func (m *Manager) pending(
	ctx context.Context, hub v1.CertificateSigningRequestInterface, csr *certificatesv1.CertificateSigningRequest,
) (time.Duration, error) {
	now := m.config.Clock.Now()
	if m.asked.IsZero() {
		m.asked = now // an earlier process made it
	}
	waited := now.Sub(m.asked)
	refusal, approved := outcome(csr)
	switch {
	case refusal != nil:
		m.advise(fmt.Sprintf("the hub refuses the request %s (%s): %s", csr.Name, refusal.Reason, refusal.Message))
		if waited < refusedFor {
			return lookLater, nil
		}
		return lookLater, m.discard(ctx, hub, csr)
	case waited < soonFor:
		return lookSoon, nil
	case approved:
		m.advise(fmt.Sprintf("the request %s is approved, and neither a signer of the hub nor its approver has answered: "+
			"look at its kube-controller-manager and at flotilla-approver", csr.Name))
	}
	return lookLater, nil
}

// outcome returns the condition by which a request is refused, nil if there is none, and whether it is approved. A
// request that was approved can fail afterwards: then it is refused.
func outcome(csr *certificatesv1.CertificateSigningRequest) (
	refusal *certificatesv1.CertificateSigningRequestCondition, approved bool,
) {
	for i := range csr.Status.Conditions {
		switch c := &csr.Status.Conditions[i]; {
		case c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed:
			return c, false
		case c.Type == certificatesv1.CertificateApproved && c.Status == corev1.ConditionTrue:
			approved = true
		}
	}
	return nil, approved
}

// hub returns who is asked, and the name of the request.
func (m *Manager) hub(join *Join, with by) (v1.CertificateSigningRequestInterface, string, error) {
	config, name := m.RESTConfig(join), topology.MemberObject(join.Name)
	if with == token {
		name = topology.JoinObject(join.Name)
		config = &rest.Config{
			Host: join.Server, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(join.CA)}, BearerToken: join.Token,
			UserAgent: m.config.UserAgent, QPS: -1,
		}
	}
	client, err := v1.NewForConfig(config)
	if err != nil {
		return nil, "", fmt.Errorf("make a client of the hub: %w", err)
	}
	return client.CertificateSigningRequests(), name, nil
}

// request makes the request. It is applied, not posted: its name decides who may.
func (m *Manager) request(
	ctx context.Context, hub v1.CertificateSigningRequestInterface, join *Join, name string,
) error {
	key := m.secret.Data[topology.CredentialKey]
	data, err := NewRequest(key, join.Name, join.UID)
	if err != nil {
		return err
	}
	fingerprint, err := Fingerprint(key)
	if err != nil {
		return err
	}
	csr := applyv1.CertificateSigningRequest(name).
		WithLabels(map[string]string{topology.LabelMember: join.Name}).
		WithAnnotations(map[string]string{topology.AnnotationClusterID: m.config.ClusterID}).
		WithSpec(applyv1.CertificateSigningRequestSpec().WithSignerName(topology.MemberSigner).WithRequest(data...).
			WithExpirationSeconds(wantedSeconds).
			WithUsages(certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth))
	if _, err := hub.Apply(ctx, csr, metav1.ApplyOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("make the request %s on the hub: %w", name, err)
	}
	m.asked = m.config.Clock.Now()
	m.config.Log.Info("Asked the hub for a certificate", "request", name, "fingerprint", fingerprint)
	if name == topology.JoinObject(join.Name) {
		m.config.Log.Info("If the hub has not accepted this key, a person has to, there: "+
			"flotilla accept "+join.Name+" --fingerprint "+fingerprint, "cluster", join.Name)
	}
	return nil
}

// discard removes a request that is of no use, so that another one can be made under its name.
func (m *Manager) discard(
	ctx context.Context, hub v1.CertificateSigningRequestInterface, csr *certificatesv1.CertificateSigningRequest,
) error {
	err := hub.Delete(ctx, csr.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &csr.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove the request %s on the hub: %w", csr.Name, err)
	}
	return nil
}
