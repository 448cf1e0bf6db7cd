package registration

import (
	"reflect"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// facts are what there is of a member.
type facts struct {
	name string
	// member is nil if there is none.
	member *topology.MemberCluster
	// requests are those of its two names that exist.
	requests []*certificatesv1.CertificateSigningRequest
	// account is that of its tokens for joining, nil if there is none.
	account *corev1.ServiceAccount
	// holder is the ServiceAccount whose tokens the member shows, nil if there is none.
	holder *corev1.ServiceAccount
	// have are the roles and bindings with its label.
	have []client.Object
	now  time.Time
}

// changes are what is to be done.
type changes struct {
	// remove comes first.
	remove []client.Object
	// namespace of the member, nil if nothing is to be made in it.
	namespace *corev1.Namespace
	// make are the rights that are not as they have to be.
	make   []client.Object
	decide []decision
	// holder is the ServiceAccount to be made for tokens, nil for none; seal are the requests to be answered with one.
	holder *corev1.ServiceAccount
	seal   []*certificatesv1.CertificateSigningRequest
	// again is when time alone changes something, 0 for never.
	again time.Duration
}

// decision is what is decided on a request, and why.
type decision struct {
	request *certificatesv1.CertificateSigningRequest
	verdict Verdict
	why     string
}

// plan is pure.
func plan(f facts) changes {
	var c changes
	c.again = c.planTokens(f)
	want := wantedOf(f.member, c.holder != nil || f.holder != nil && !slices.Contains(c.remove, client.Object(f.holder)))
	for _, have := range f.have {
		if find(want, have) == nil && !isJoin(f.name, have) {
			c.remove = append(c.remove, have)
		}
	}
	for _, w := range want {
		if have := find(f.have, w); have == nil || !sameRights(w, have) {
			c.make = append(c.make, w)
		}
	}
	if len(c.make) > 0 {
		c.namespace = memberNamespaceOf(f.name)
	}
	switch {
	case tokenIsOver(f):
		c.remove = append(c.remove, joinObjectsOf(f)...)
	case f.account != nil:
		c.again = sooner(c.again, max(endOf(f.account).Sub(f.now), time.Second))
	}
	for _, csr := range f.requests {
		verdict, why := Judge(csr, f.member)
		if verdict == Approved && wantsToken(csr, f.member) {
			continue // a signer would answer what is approved, too
		}
		if verdict == Approved || verdict == Denied {
			c.decide = append(c.decide, decision{csr, verdict, why})
		}
	}
	return c
}

// wantedOf returns the rights that a member has to have: none unless a person accepted it. One that is accepted no
// longer keeps them until it is deleted: its workloads leave it, which its agent has to carry out.
func wantedOf(m *topology.MemberCluster, tokens bool) []client.Object {
	if m == nil || m.DeletionTimestamp != nil || !m.Spec.Accepted && m.Spec.ClusterID == "" {
		return nil
	}
	return MemberObjects(m, tokens)
}

// tokenIsOver tells whether nothing is to be left of the token for joining: the member is gone, the token has expired,
// or the agent has its certificate and uses it.
func tokenIsOver(f facts) bool {
	switch {
	case f.member == nil || f.account != nil && !f.now.Before(endOf(f.account)):
		return true
	case f.account == nil:
		return false
	}
	return answered(f) && meta.IsStatusConditionTrue(f.member.Status.Conditions, topology.MemberReady)
}

// endOf returns when no token of a ServiceAccount for joining lives any more.
func endOf(account *corev1.ServiceAccount) time.Time {
	if at := expiryOf(account); !at.IsZero() {
		return at
	}
	return account.CreationTimestamp.Add(MostTokenLife) // it is being made, or somebody took the note away
}

// answered tells whether a certificate was signed, or a token sealed, for the holder of a token of this ServiceAccount.
func answered(f facts) bool {
	return slices.ContainsFunc(f.requests, func(csr *certificatesv1.CertificateSigningRequest) bool {
		return csr.Name == topology.JoinObject(f.name) && csr.Spec.UID == string(f.account.UID) &&
			(len(csr.Status.Certificate) > 0 || csr.Annotations[topology.AnnotationSealedToken] != "")
	})
}

// joinObjectsOf returns what there is of the token for joining, the ServiceAccount first: without it the tokens are
// void.
func joinObjectsOf(f facts) []client.Object {
	var found []client.Object
	if f.account != nil {
		found = append(found, f.account)
	}
	for _, o := range f.have {
		if isJoin(f.name, o) {
			found = append(found, o)
		}
	}
	return found
}

// isJoin tells whether an object belongs to the token for joining.
func isJoin(name string, o client.Object) bool { return find(joinThings(name), o) != nil }

// find returns the object of the same kind and name, nil if there is none. Bindings come before roles in what is
// removed, because the reader lists them so.
func find(objects []client.Object, like client.Object) client.Object {
	for _, o := range objects {
		if reflect.TypeOf(o) == reflect.TypeOf(like) && o.GetName() == like.GetName() &&
			o.GetNamespace() == like.GetNamespace() {
			return o
		}
	}
	return nil
}

// kindsOfRights are the kinds of objects that give rights, bindings first: to take one away ends the rights at once.
func kindsOfRights() []client.ObjectList {
	return []client.ObjectList{
		&rbacv1.ClusterRoleBindingList{},
		&rbacv1.RoleBindingList{},
		&rbacv1.ClusterRoleList{},
		&rbacv1.RoleList{},
	}
}
