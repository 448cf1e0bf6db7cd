package registration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Bounds of the life of a token; the API server gives none that lives shorter than the least.
const (
	LeastTokenLife   = 10 * time.Minute
	MostTokenLife    = 24 * time.Hour
	DefaultTokenLife = time.Hour
)

// Scheme returns a scheme with the types that joining and accepting need.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, rbacv1.AddToScheme, certificatesv1.AddToScheme, authenticationv1.AddToScheme,
		coordinationv1.AddToScheme,
		topology.AddToScheme, work.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return scheme, nil
}

// Token is what a cluster joins with.
type Token struct {
	// Member is the name of the MemberCluster that the token is for, UID its uid.
	Member string    `json:"member"`
	UID    types.UID `json:"uid"`
	// Token is empty where tokens are listed: the hub keeps none.
	Token string `json:"token,omitempty"`
	// Expires is when it, or the last one of that name, expires.
	Expires time.Time `json:"expires"`
}

// CreateToken reserves the name with a MemberCluster that is not accepted, unless it is reserved, and returns a token
// for joining under it. life is from LeastTokenLife to MostTokenLife. What was made before is kept, so that it can be
// called again.
func CreateToken(ctx context.Context, c client.Client, name string, life time.Duration) (*Token, error) {
	if life < LeastTokenLife || life > MostTokenLife {
		return nil, fmt.Errorf("a token cannot live for %s: choose %s to %s", life, LeastTokenLife, MostTokenLife)
	}
	member, err := reserve(ctx, c, name)
	if err != nil {
		return nil, err
	}
	account, err := ensureAccount(ctx, c, member)
	if err != nil {
		return nil, err
	}
	for _, object := range joinObjects(member) {
		if err := ensure(ctx, c, c, object); err != nil {
			return nil, err
		}
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(life / time.Second))},
	}
	if err := c.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("request a token of ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
	}
	token := &Token{
		Member:  name,
		UID:     member.UID,
		Token:   request.Status.Token,
		Expires: request.Status.ExpirationTimestamp.UTC(),
	}
	if !expiryOf(account).Before(token.Expires) {
		return token, nil
	}
	base := account.DeepCopy()
	account.Annotations = map[string]string{topology.AnnotationExpires: token.Expires.Format(time.RFC3339)}
	if err := c.Patch(ctx, account, client.MergeFrom(base)); err != nil {
		return nil, fmt.Errorf(
			"note on ServiceAccount %s/%s when its token expires: %w",
			account.Namespace,
			account.Name,
			err,
		)
	}
	return token, nil
}

// reserve returns the MemberCluster of the name.
func reserve(ctx context.Context, c client.Client, name string) (*topology.MemberCluster, error) {
	member := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := c.Create(ctx, member)
	if apierrors.IsAlreadyExists(err) {
		err = c.Get(ctx, client.ObjectKeyFromObject(member), member)
	}
	if err != nil {
		return nil, fmt.Errorf("reserve the name %s by a MemberCluster: %w", name, err)
	}
	if member.DeletionTimestamp != nil {
		return nil, fmt.Errorf("MemberCluster %s is being deleted; wait until it is gone", name)
	}
	return member, nil
}

// ensureAccount returns the ServiceAccount for joining. One of an earlier MemberCluster of that name is made anew: its
// tokens are void.
func ensureAccount(
	ctx context.Context,
	c client.Client,
	member *topology.MemberCluster,
) (*corev1.ServiceAccount, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: topology.SystemNamespace}}
	if err := c.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create namespace %s: %w", topology.SystemNamespace, err)
	}
	account := &corev1.ServiceAccount{
		ObjectMeta:                   owned(member, topology.SystemNamespace, topology.JoinObject(member.Name)),
		AutomountServiceAccountToken: new(bool),
	}
	for range 2 {
		have := &corev1.ServiceAccount{}
		err := c.Get(ctx, client.ObjectKeyFromObject(account), have)
		if err == nil && len(have.OwnerReferences) == 1 && have.OwnerReferences[0].UID == member.UID {
			return have, nil
		}
		if err == nil {
			err = c.Delete(ctx, have, client.Preconditions{UID: &have.UID})
		}
		if client.IgnoreNotFound(err) == nil {
			err = c.Create(ctx, account)
		}
		if err == nil {
			return account, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("make ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
		}
	}
	return nil, fmt.Errorf(
		"ServiceAccount %s/%s changes all the time: somebody else makes tokens for %s; try again",
		account.Namespace,
		account.Name,
		member.Name,
	)
}

// ensure makes an object of rights as it has to be, as live has it. It writes nothing that is.
func ensure(ctx context.Context, c client.Client, live client.Reader, want client.Object) error {
	have := want.DeepCopyObject().(client.Object)
	err := live.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		err = c.Create(ctx, want.DeepCopyObject().(client.Object))
	case err == nil && !sameRights(want, have):
		want = want.DeepCopyObject().(client.Object)
		want.SetResourceVersion(have.GetResourceVersion())
		err = c.Update(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("make %T %s: %w", want, client.ObjectKeyFromObject(want), err)
	}
	return nil
}

// sameRights tells whether an object of rights is as it has to be.
func sameRights(want, have client.Object) bool {
	if want.GetLabels()[topology.LabelMember] != have.GetLabels()[topology.LabelMember] ||
		!equality.Semantic.DeepEqual(want.GetOwnerReferences(), have.GetOwnerReferences()) {
		return false
	}
	switch w := want.(type) {
	case *rbacv1.ClusterRole:
		return equality.Semantic.DeepEqual(w.Rules, have.(*rbacv1.ClusterRole).Rules)
	case *rbacv1.Role:
		return equality.Semantic.DeepEqual(w.Rules, have.(*rbacv1.Role).Rules)
	case *rbacv1.ClusterRoleBinding:
		h := have.(*rbacv1.ClusterRoleBinding)
		return w.RoleRef == h.RoleRef && equality.Semantic.DeepEqual(withGroups(w.Subjects), withGroups(h.Subjects))
	case *rbacv1.RoleBinding:
		h := have.(*rbacv1.RoleBinding)
		return w.RoleRef == h.RoleRef && equality.Semantic.DeepEqual(withGroups(w.Subjects), withGroups(h.Subjects))
	}
	return false
}

// withGroups returns subjects as the API server defaults them.
func withGroups(subjects []rbacv1.Subject) []rbacv1.Subject {
	out := slices.Clone(subjects)
	for i := range out {
		if out[i].APIGroup == "" && out[i].Kind == rbacv1.UserKind {
			out[i].APIGroup = rbacv1.GroupName
		}
	}
	return out
}

// expiryOf returns when the last token of a ServiceAccount for joining expires; a time long ago where nothing says it.
func expiryOf(account *corev1.ServiceAccount) time.Time {
	at, err := time.Parse(time.RFC3339, account.Annotations[topology.AnnotationExpires])
	if err != nil {
		return time.Time{}
	}
	return at
}

// ListTokens returns the names that tokens were made for and that still can have a living one, sorted.
func ListTokens(ctx context.Context, c client.Reader) ([]Token, error) {
	accounts := &corev1.ServiceAccountList{}
	if err := c.List(ctx, accounts, client.InNamespace(topology.SystemNamespace),
		client.HasLabels{topology.LabelMember}); err != nil {
		return nil, fmt.Errorf("list ServiceAccounts of %s: %w", topology.SystemNamespace, err)
	}
	var tokens []Token
	for i := range accounts.Items {
		a := &accounts.Items[i]
		if name := a.Labels[topology.LabelMember]; a.Name == topology.JoinObject(name) && len(a.OwnerReferences) == 1 {
			tokens = append(tokens, Token{Member: name, UID: a.OwnerReferences[0].UID, Expires: expiryOf(a)})
		}
	}
	slices.SortFunc(tokens, func(a, b Token) int { return strings.Compare(a.Member, b.Member) })
	return tokens, nil
}

// RevokeToken makes every token for joining under the name void at once, and gives the name back if it was never
// accepted. It returns whether there was something to revoke.
func RevokeToken(ctx context.Context, c client.Client, name string) (bool, error) {
	found := false
	for _, object := range joinThings(name) {
		err := c.Delete(ctx, object)
		found = found || err == nil
		if client.IgnoreNotFound(err) != nil {
			return found, fmt.Errorf("delete %T %s: %w", object, client.ObjectKeyFromObject(object), err)
		}
	}
	member := &topology.MemberCluster{}
	err := c.Get(ctx, types.NamespacedName{Name: name}, member)
	if err == nil && !member.Spec.Accepted && member.Spec.ClusterID == "" {
		err = c.Delete(ctx, member, client.Preconditions{ResourceVersion: &member.ResourceVersion})
		found = found || err == nil
	}
	if client.IgnoreNotFound(err) != nil {
		return found, errors.Join(fmt.Errorf("give the name %s back", name), err)
	}
	return found, nil
}

// joinThings are the objects of a token for joining, the ServiceAccount first: without it the tokens are void.
func joinThings(name string) []client.Object {
	return []client.Object{
		&corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Namespace: topology.SystemNamespace, Name: topology.JoinObject(name)},
		},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: joinRole(name)}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: joinRole(name)}},
		&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: topology.JoinObject(name)}},
	}
}

// memberNamespaceOf names the namespace of a member, as an object.
func memberNamespaceOf(member string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: wire.MemberNamespace(member)}}
}
