package registration

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Reasons of the conditions of CertificateSigningRequests.
const (
	// ReasonMemberAccepted: a person accepted the member with the request's key.
	ReasonMemberAccepted = "MemberAccepted"
	// ReasonNotInOrder: the request can never be approved.
	ReasonNotInOrder = "NotInOrder"
)

// Reconciler gives members their rights and approves their certificates, one member at a time. It alone writes the
// roles and bindings of members.
type Reconciler struct {
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock
}

// Reconcile gathers what there is of a member, and makes its rights and its requests as they have to be.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	f, err := r.gather(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := plan(f)
	if err := r.apply(ctx, p); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.answer(ctx, f.member, p); err != nil {
		return ctrl.Result{}, err
	}
	for _, d := range p.decide {
		if err := r.decide(ctx, d); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: p.again}, nil
}

// gather reads the member past the cache: what is decided on a request is decided on what a person wrote last. It is
// read last, too: what is made for a name comes after its MemberCluster, so that nothing that is seen counts as left
// over from one that is gone.
func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	f := facts{name: name, now: r.clock.Now()}
	for _, request := range []string{topology.JoinObject(name), topology.MemberObject(name)} {
		csr := &certificatesv1.CertificateSigningRequest{}
		err := r.client.Get(ctx, types.NamespacedName{Name: request}, csr)
		if client.IgnoreNotFound(err) != nil {
			return f, fmt.Errorf("read CertificateSigningRequest %s: %w", request, err)
		}
		if err == nil {
			f.requests = append(f.requests, csr)
		}
	}
	var err error
	if f.account, err = r.account(ctx, topology.SystemNamespace, topology.JoinObject(name)); err != nil {
		return f, err
	}
	if f.holder, err = r.account(ctx, topology.MembersNamespace, topology.MemberObject(name)); err != nil {
		return f, err
	}
	if f.have, err = r.rightsOf(ctx, name); err != nil {
		return f, err
	}
	member := &topology.MemberCluster{}
	switch err := r.live.Get(ctx, types.NamespacedName{Name: name}, member); {
	case err == nil:
		f.member = member
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("read MemberCluster %s: %w", name, err)
	}
	return f, nil
}

// apply takes rights away first, and only the objects that were looked at: one that was changed since is planned again.
func (r *Reconciler) apply(ctx context.Context, p changes) error {
	for _, object := range p.remove {
		uid, version := object.GetUID(), object.GetResourceVersion()
		err := r.client.Delete(ctx, object, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %T %s: %w", object, client.ObjectKeyFromObject(object), err)
		}
		log.FromContext(ctx).Info("Removed", "object", fmt.Sprintf("%T %s", object, client.ObjectKeyFromObject(object)))
	}
	if p.namespace != nil {
		err := r.client.Create(ctx, p.namespace)
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", p.namespace.Name, err)
		}
	}
	for _, object := range p.make {
		if err := ensure(ctx, r.client, r.live, object); err != nil {
			return err
		}
	}
	return nil
}

// decide approves or denies a request.
func (r *Reconciler) decide(ctx context.Context, d decision) error {
	csr := d.request.DeepCopy()
	condition := certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: ReasonMemberAccepted, Message: d.why,
		LastUpdateTime: metav1.NewTime(r.clock.Now()),
	}
	if d.verdict == Denied {
		condition.Type, condition.Reason = certificatesv1.CertificateDenied, ReasonNotInOrder
	}
	csr.Status.Conditions = append(csr.Status.Conditions, condition)
	err := r.client.SubResource("approval").Update(ctx, csr)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("write %s to CertificateSigningRequest %s: %w", condition.Type, csr.Name, err)
	}
	log.FromContext(ctx).Info("Decided on a request", "request", csr.Name, "as", condition.Type, "because", d.why)
	return nil
}
