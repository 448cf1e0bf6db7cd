package registration

import (
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestTokens holds when a request is answered with a token in place of a certificate, and what becomes of the
// ServiceAccount.
func TestTokens(t *testing.T) {
	k := newKeys(t)
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	approved := func(ago time.Duration) func(w *world) {
		return func(w *world) {
			w.csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
				LastUpdateTime: metav1.NewTime(now.Add(-ago)),
			}}
		}
	}
	both := func(all ...func(w *world)) func(w *world) {
		return func(w *world) {
			for _, do := range all {
				do(w)
			}
		}
	}
	tokens := func(w *world) { w.member.Spec.Credential = topology.CredentialIsToken }
	for _, tc := range []struct {
		name  string
		build func(testing.TB, keys) *world
		do    func(w *world)
		// seals: the answer is a token; decides: the request is approved or denied; again: when to look again.
		seals, decides bool
		again          time.Duration
	}{
		{"a new request", firstRequest, func(*world) {}, false, true, 0},
		{"the signer has a while yet", firstRequest, approved(20 * time.Second), false, false, 40 * time.Second},
		{"the signer did not answer", firstRequest, approved(time.Minute), true, false, 0},
		{"nor at the renewal", nextRequest, approved(time.Hour), true, false, 0},
		{"the signer answered late", firstRequest, both(approved(time.Hour),
			func(w *world) { w.csr.Status.Certificate = []byte("x") }), false, false, 0},
		{"the signer failed", firstRequest, both(approved(time.Hour), func(w *world) {
			w.csr.Status.Conditions = append(w.csr.Status.Conditions,
				certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateFailed,
					Status: corev1.ConditionTrue})
		}), false, false, 0},
		{"it was answered with a token", firstRequest, both(approved(time.Hour),
			func(w *world) { w.csr.Annotations[topology.AnnotationSealedToken] = "x" }), false, false, 0},
		{"the member is told to show tokens", firstRequest, tokens, true, false, 0},
		{"it is, and nobody accepted it", firstRequest, both(tokens, func(w *world) { w.member.Spec.Accepted = false }),
			false, false, 0},
		{"it is, and the key is another", firstRequest, both(tokens, func(w *world) { w.request(nil, w.keys.other) }), false,
			false, 0},
		{"it is, and somebody else asks", firstRequest, both(tokens, func(w *world) { w.csr.Spec.Username = "mallory" }),
			false, true, 0},
		{"somebody else's request that an administrator approved", firstRequest,
			both(approved(time.Hour), func(w *world) { w.csr.Spec.Username = "mallory" }), false, false, 0},
		{"one for another key that an administrator approved", firstRequest,
			both(approved(time.Hour), func(w *world) { w.request(nil, w.keys.other) }), false, false, 0},
		{"a member that shows a token asks for the next", accountRequest, func(*world) {}, true, false, 0},
		{"it does, and is being deleted", accountRequest, func(w *world) { w.member.DeletionTimestamp = new(metav1.Now()) },
			false, true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := tc.build(t, k)
			tc.do(w)
			c := plan(facts{name: "east", member: w.member, requests: []*certificatesv1.CertificateSigningRequest{w.csr},
				now: now})
			if seals := len(c.seal) == 1; seals != tc.seals || (c.holder != nil) != tc.seals ||
				(len(c.decide) == 1) != tc.decides || c.again != tc.again {
				t.Errorf("it seals %v with account %v, decides %v, looks again after %s", seals, c.holder, c.decide, c.again)
			}
			if got := subjectsOf(c.make); tc.seals && !slices.Equal(got,
				[]string{"User", "ServiceAccount", "User", "ServiceAccount"}) {
				t.Errorf("rights are for %v", got)
			}
		})
	}
}

// subjectsOf returns the kinds of the subjects of all bindings.
func subjectsOf(objects []client.Object) []string {
	var kinds []string
	for _, o := range objects {
		var subjects []rbacv1.Subject
		switch b := o.(type) {
		case *rbacv1.ClusterRoleBinding:
			subjects = b.Subjects
		case *rbacv1.RoleBinding:
			subjects = b.Subjects
		}
		for _, s := range subjects {
			kinds = append(kinds, s.Kind)
		}
	}
	return kinds
}

// TestHolderGoesWithItsMember holds that the ServiceAccount of a member goes, before anything else, when its member
// does.
func TestHolderGoesWithItsMember(t *testing.T) {
	w := firstRequest(t, newKeys(t))
	holder := holderOf(w.member)
	for name, tc := range map[string]struct {
		do    func()
		stays bool
	}{
		"the member is there":            {func() {}, true},
		"it is accepted no longer":       {func() { w.member.Spec.Accepted = false }, true}, // its workloads leave it first
		"it was never accepted":          {func() { w.member.Spec.Accepted, w.member.Spec.ClusterID = false, "" }, false},
		"it is being deleted":            {func() { w.member.DeletionTimestamp = new(metav1.Now()) }, false},
		"it is another one of that name": {func() { w.member.UID = "another" }, false},
		"there is none":                  {func() { w.member = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.member.DeepCopy()
			defer func() { w.member = before }()
			tc.do()
			c := plan(facts{name: "east", member: w.member, holder: holder, now: time.Now()})
			if goes := len(c.remove) > 0 && c.remove[0] == client.Object(holder); goes == tc.stays {
				t.Errorf("removed is %v", c.remove)
			}
			if got := slices.Contains(subjectsOf(c.make), "ServiceAccount"); got != tc.stays {
				t.Errorf("it has rights: %v", got)
			}
		})
	}
}
