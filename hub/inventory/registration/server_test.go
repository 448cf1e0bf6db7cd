package registration_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/link/credential"
)

// patience is how long a test waits for what takes milliseconds on a quiet machine.
const patience = 2 * time.Minute

// hub is a real control plane with the approver, as the user that it has everywhere.
type hub struct {
	t      *testing.T
	ctx    context.Context
	admin  *rest.Config
	client client.Client
}

func newHub(t *testing.T) *hub {
	t.Helper()
	f := fleet.ForTest(t, fleet.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	if err := f.Hub().InstallCRDs(ctx, crds.FS); err != nil {
		t.Fatal(err)
	}
	scheme, err := registration.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{t: t, ctx: ctx, admin: f.Hub().RESTConfig()}
	if h.client, err = client.New(h.admin, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := f.ApproverIdentity(ctx)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := registration.NewManager(config, registration.Options{MetricsBindAddress: "0", HealthProbeBindAddress: "0",
		SkipNameValidation: true, Logger: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the approver ended: %v", err)
		}
	})
	return h
}

// eventually waits until look says nothing.
func (h *hub) eventually(what string, look func() string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.ctx, patience)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		says := look()
		if says == "" {
			return
		}
		select {
		case <-ctx.Done():
			h.t.Fatalf("%s: %s", what, says)
		case <-ticker.C:
		}
	}
}

func (h *hub) token(name string) *registration.Token {
	h.t.Helper()
	token, err := registration.CreateToken(h.ctx, h.client, name, registration.DefaultTokenLife)
	if err != nil {
		h.t.Fatal(err)
	}
	return token
}

func (h *hub) member(name string) *topology.MemberCluster {
	h.t.Helper()
	m := &topology.MemberCluster{}
	if err := h.client.Get(h.ctx, types.NamespacedName{Name: name}, m); err != nil {
		h.t.Fatal(err)
	}
	return m
}

// agent is what keeps the certificate of a member, with its Secrets in a namespace of the same cluster, which is no
// matter to it.
type agent struct {
	*hub
	namespace string
	join      *credential.Join
	config    *rest.Config
	client    client.Client
}

// agentFor starts the keeper of a member's certificate.
func (h *hub) agentFor(token *registration.Token, clk clock.WithTicker) *agent {
	h.t.Helper()
	return h.agentNamed(token.Member, token, clk)
}

// start starts another process, so to say.
func (a *agent) start(clk clock.WithTicker) {
	keeper := credential.New(credential.Config{
		Member: a.hub.client, Namespace: a.namespace, JoinSecret: topology.JoinSecret, ClusterID: "cluster-" + a.join.Name,
		Clock: clk, Log: testr.New(a.t),
	})
	a.config = keeper.RESTConfig(a.join)
	var err error
	if a.client, err = client.New(a.config, client.Options{Scheme: a.hub.client.Scheme(),
		Mapper: a.hub.client.RESTMapper()}); err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(a.ctx)
	done := make(chan struct{})
	go func() { defer close(done); _ = keeper.Start(ctx) }()
	a.t.Cleanup(func() { cancel(); <-done })
}

func (a *agent) secret() *corev1.Secret {
	a.t.Helper()
	secret := &corev1.Secret{}
	if err := a.hub.client.Get(a.ctx, types.NamespacedName{Namespace: a.namespace, Name: topology.CredentialSecret},
		secret); err != nil {
		a.t.Fatal(err)
	}
	return secret
}

// accept accepts the member as soon as its request is there.
func (h *hub) accept(name string) *registration.Acceptance {
	h.t.Helper()
	var done *registration.Acceptance
	h.eventually("accept "+name, func() string {
		var err error
		if done, err = registration.Accept(h.ctx, h.client, name, ""); errors.Is(err, registration.ErrNoRequest) {
			return err.Error()
		} else if err != nil {
			h.t.Fatal(err)
		}
		return ""
	})
	return done
}

// reads waits until the agent reads its MemberCluster and its Works with its certificate: the authorizer learns of the
// rights to each by a watch of its own.
func (a *agent) reads() {
	a.t.Helper()
	a.eventually("the agent reads its MemberCluster and its Works", func() string {
		ctx, cancel := context.WithTimeout(a.ctx, 10*time.Second)
		defer cancel()
		if err := a.client.Get(ctx, types.NamespacedName{Name: a.join.Name}, &topology.MemberCluster{}); err != nil {
			return err.Error()
		}
		if err := a.client.List(ctx, &work.WorkList{}, client.InNamespace(wire.MemberNamespace(a.join.Name))); err != nil {
			return err.Error()
		}
		return ""
	})
}

// TestServer runs the parts below against one real API server, signer and authorizer.
func TestServer(t *testing.T) {
	h := newHub(t)
	for _, part := range []struct {
		name string
		run  func(t *testing.T, h *hub)
	}{{"a member from its token to its end", join}, {"denials", denials}, {"forgery", forgery},
		{"forged tokens", forgedTokens}, {"tokens in place of certificates", memberTokens}} {
		t.Run(part.name, func(t *testing.T) {
			mine := *h
			mine.t = t
			part.run(t, &mine)
			for _, name := range []string{"east", "west", "south"} {
				if err := registration.Revoke(h.ctx, h.client, name); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// join is the life of a member from its token to its end.
func join(t *testing.T, h *hub) {
	clk := clocktesting.NewFakeClock(time.Now())
	tick := func() { clk.Step(time.Second) }
	a := h.agentFor(h.token("east"), clk)
	request := &certificatesv1.CertificateSigningRequest{}
	name := types.NamespacedName{Name: topology.JoinObject("east")}
	h.eventually("the request is made", func() string {
		tick()
		if err := h.client.Get(h.ctx, name, request); err != nil {
			return err.Error()
		}
		return ""
	})

	// Accept says what is pinned, and does not do it twice.
	key, err := credential.Fingerprint(a.secret().Data[topology.CredentialKey])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registration.Accept(h.ctx, h.client, "east", "sha256:"+strings.Repeat("0", 64)); err == nil ||
		!strings.Contains(err.Error(), "somebody else may have its token") {
		t.Errorf("a request for another key than the person was told: %v", err)
	}
	if h.member("east").Spec.Accepted {
		t.Error("it was accepted all the same")
	}
	if err := h.client.Get(h.ctx, name, request); err != nil || len(request.Status.Conditions) > 0 {
		t.Errorf("before anybody accepted it the request has %v (%v)", request.Status.Conditions, err)
	}
	done, err := registration.Accept(h.ctx, h.client, "east", key)
	if err != nil || done.Before || done.ClusterID != "cluster-east" || done.Fingerprint != key {
		t.Fatalf("accepted: %+v, %v", done, err)
	}
	if again := h.accept("east"); !again.Before {
		t.Errorf("the second time it was accepted anew: %+v", again)
	}
	if m := h.member("east"); !m.Spec.Accepted || m.Spec.ClusterID != "cluster-east" || m.Spec.KeyFingerprint != key {
		t.Errorf("the MemberCluster says %+v", m.Spec)
	}
	ticking, stop := context.WithCancel(h.ctx)
	defer stop()
	go func() {
		for ticking.Err() == nil {
			tick()
			<-time.After(20 * time.Millisecond)
		}
	}()
	a.reads()

	// Once the member is Ready, its token is good for nothing.
	m := h.member("east")
	base := m.DeepCopy()
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: topology.MemberReady,
		Status: metav1.ConditionTrue, Reason: topology.ReasonLeaseFresh})
	if err := h.client.Status().Patch(h.ctx, m, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
	h.eventually("the token is over", func() string {
		if tokens, err := registration.ListTokens(h.ctx, h.client); err != nil || len(tokens) > 0 {
			return fmt.Sprintf("%v %v", tokens, err)
		}
		return ""
	})
	stolen := h.withToken(a.join.Token)
	h.eventually("the token is void", func() string {
		if _, err := stolen.CertificatesV1().CertificateSigningRequests().Get(h.ctx, name.Name,
			metav1.GetOptions{}); !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
			return fmt.Sprintf("it reads: %v", err)
		}
		return ""
	})

	// After two thirds of its life the certificate is renewed, with itself; the key stays.
	before := a.secret()
	clk.Step(25 * 24 * time.Hour)
	h.eventually("the certificate is renewed", func() string {
		if slices.Equal(a.secret().Data[topology.CredentialCertificate], before.Data[topology.CredentialCertificate]) {
			return "it is the old one"
		}
		return ""
	})
	stop() // by this clock the new one, too, is old
	if !slices.Equal(a.secret().Data[topology.CredentialKey], before.Data[topology.CredentialKey]) {
		t.Error("the key changed")
	}
	a.reads()

	// Its rights are whole again after somebody took one away.
	if err := h.client.Delete(h.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "flotilla:member:east"}}); err != nil {
		t.Fatal(err)
	}
	a.reads()

	// The MemberCluster goes: so do the rights, and the next one of that name is another.
	if err := h.client.Delete(h.ctx, h.member("east")); err != nil {
		t.Fatal(err)
	}
	refused := func() string {
		err := a.client.Get(h.ctx, types.NamespacedName{Name: "east"}, &topology.MemberCluster{})
		if !apierrors.IsForbidden(err) {
			return fmt.Sprintf("it reads: %v", err)
		}
		return ""
	}
	h.eventually("its credentials are void", refused)
	h.eventually("its rights are gone", func() string {
		roles := &rbacv1.ClusterRoleList{}
		if err := h.client.List(h.ctx, roles, client.HasLabels{topology.LabelMember}); err != nil || len(roles.Items) > 0 {
			return fmt.Sprintf("%d roles, %v", len(roles.Items), err)
		}
		return ""
	})
	h.token("east")
	h.member("east")
	if says := refused(); says != "" {
		t.Errorf("the former member under the new MemberCluster: %s", says)
	}
}

func (h *hub) withToken(token string) *kubernetes.Clientset {
	h.t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{
		Host: h.admin.Host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: h.admin.CAData}, QPS: -1,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// allowed is what a user may do of everything that there is: "verb group/resource namespace/name".
type allowed map[string]bool

// denials asks the API server itself for every verb on every resource that it has, in every namespace that could matter
// and for the own name and another one: what is not on the list of the rights is refused, to an agent and to the holder
// of a token.
func denials(t *testing.T, h *hub) {
	east := h.agentFor(h.token("east"), clock.RealClock{})
	h.accept("east")
	east.reads()
	west := h.token("west") // its token is in other hands
	holder := h.withToken(west.Token)
	h.eventually("the token is known, and its rights", func() string {
		path := "/apis/" + topology.GroupVersion.String() + "/memberclusters/west"
		if err := holder.RESTClient().Get().AbsPath(path).Do(h.ctx).Error(); err != nil {
			return err.Error()
		}
		return ""
	})

	agent, err := kubernetes.NewForConfig(east.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		who    string
		client *kubernetes.Clientset
		want   allowed
	}{
		{"an agent", agent, rulesAllow(map[string][]rbacv1.PolicyRule{"": registration.MemberRules("east"),
			"karmada-es-east": registration.NamespaceRules("east")})},
		{"the holder of a token", holder, rulesAllow(map[string][]rbacv1.PolicyRule{"": registration.JoinRules("west")})},
	} {
		t.Run(of.who, func(t *testing.T) { h.expectDenials(t, of.client, of.want) })
	}
}

// expectDenials asks whether a client may do all that there is, and what is on the list alone.
func (h *hub) expectDenials(t *testing.T, as *kubernetes.Clientset, want allowed) {
	questions := h.questions()
	answers, group := make([]bool, len(questions)), errgroup.Group{}
	group.SetLimit(8)
	for i, q := range questions {
		group.Go(func() error {
			review, err := as.AuthorizationV1().SelfSubjectAccessReviews().Create(h.ctx,
				&authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: q},
				}, metav1.CreateOptions{})
			if err == nil {
				answers[i] = review.Status.Allowed
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	asked, refusals := len(questions), 0
	for i, q := range questions {
		if !answers[i] {
			refusals++
		}
		if want := want[textOf(q)] || everybody(q); answers[i] != want {
			t.Errorf("%s: allowed %v, want %v", textOf(q), answers[i], want)
		}
	}
	t.Logf("%d questions, %d refused", asked, refusals)
	if asked < 1000 {
		t.Errorf("only %d questions were asked: discovery has found too little", asked)
	}
}

// questions are every verb on every resource, with and without names, in all namespaces that matter.
func (h *hub) questions() []*authorizationv1.ResourceAttributes {
	h.t.Helper()
	admin, err := kubernetes.NewForConfig(h.admin)
	if err != nil {
		h.t.Fatal(err)
	}
	_, lists, err := admin.Discovery().ServerGroupsAndResources()
	if err != nil {
		h.t.Fatal(err)
	}
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	var all []*authorizationv1.ResourceAttributes
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			h.t.Fatal(err)
		}
		for i := range list.APIResources {
			resource, sub, _ := strings.Cut(list.APIResources[i].Name, "/")
			namespaces, names := []string{""}, []string{"", "east", "west"}
			if list.APIResources[i].Namespaced {
				namespaces = append(namespaces, "karmada-es-east", "karmada-es-west", topology.SystemNamespace,
					topology.MembersNamespace)
			}
			if resource == "certificatesigningrequests" || resource == "serviceaccounts" {
				names = append(names, topology.JoinObject("east"), topology.JoinObject("west"), topology.MemberObject("east"),
					topology.MemberObject("west"))
			}
			for _, namespace := range namespaces {
				for _, verb := range verbs {
					for _, name := range names {
						all = append(all, &authorizationv1.ResourceAttributes{
							Group: version.Group, Version: version.Version, Resource: resource, Subresource: sub, Namespace: namespace,
							Verb: verb, Name: name,
						})
					}
				}
			}
		}
	}
	return append(all, []*authorizationv1.ResourceAttributes{
		{Verb: "escalate", Group: rbacv1.GroupName, Resource: "clusterroles"},
		{Verb: "bind", Group: rbacv1.GroupName, Resource: "clusterroles"},
		{Verb: "impersonate", Resource: "users"}, {Verb: "impersonate", Resource: "groups"},
		{Verb: "impersonate", Resource: "serviceaccounts", Namespace: topology.SystemNamespace},
		{Verb: "approve", Group: "certificates.k8s.io", Resource: "signers", Name: topology.MemberSigner},
		{Verb: "sign", Group: "certificates.k8s.io", Resource: "signers", Name: topology.MemberSigner},
	}...)
}

func textOf(q *authorizationv1.ResourceAttributes) string {
	resource := q.Resource
	if q.Subresource != "" {
		resource += "/" + q.Subresource
	}
	return fmt.Sprintf("%s %s/%s %s/%s", q.Verb, q.Group, resource, q.Namespace, q.Name)
}

// everybody tells what Kubernetes allows every user: to ask what it may do itself.
func everybody(q *authorizationv1.ResourceAttributes) bool {
	return q.Verb == "create" && q.Subresource == "" &&
		(q.Group == "authorization.k8s.io" && slices.Contains([]string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"},
			q.Resource) ||
			q.Group == "authentication.k8s.io" && q.Resource == "selfsubjectreviews")
}

// rulesAllow spells rules out for the names that are asked about.
func rulesAllow(byNamespace map[string][]rbacv1.PolicyRule) allowed {
	all := allowed{}
	anyName := []string{"", "east", "west", topology.JoinObject("east"), topology.JoinObject("west"),
		topology.MemberObject("east"), topology.MemberObject("west")}
	for namespace, rules := range byNamespace {
		for _, rule := range rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = anyName
			}
			for _, name := range names {
				for _, verb := range rule.Verbs {
					all[fmt.Sprintf("%s %s/%s %s/%s", verb, rule.APIGroups[0], rule.Resources[0], namespace, name)] = true
				}
			}
		}
	}
	return all
}

// forgery holds, from the API server's own answers, what the holder of a stolen token and a captured agent get:
// nothing.
func forgery(t *testing.T, h *hub) {
	east := h.agentFor(h.token("east"), clock.RealClock{})
	h.accept("east")
	east.reads()
	stolen := h.token("west")
	thief := h.withToken(stolen.Token)
	thiefClient, err := client.New(&rest.Config{Host: h.admin.Host, BearerToken: stolen.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: h.admin.CAData}},
		client.Options{Scheme: h.client.Scheme(), Mapper: h.client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want Forbidden", what, err)
		}
	}
	h.eventually("the token is known", func() string {
		if err := thiefClient.Get(h.ctx, types.NamespacedName{Name: "west"}, &topology.MemberCluster{}); err != nil {
			return err.Error()
		}
		return ""
	})
	refused("list members", thiefClient.List(h.ctx, &topology.MemberClusterList{}))
	refused("read a member", thiefClient.Get(h.ctx, types.NamespacedName{Name: "east"}, &topology.MemberCluster{}))
	own := h.member("west")
	own.Spec.Accepted = true
	refused("accept itself", thiefClient.Update(h.ctx, own))
	refused("report", thiefClient.Status().Update(h.ctx, h.member("west")))
	refused("make a member", thiefClient.Create(h.ctx,
		&topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "third"}}))
	_, err = thief.CertificatesV1().CertificateSigningRequests().List(h.ctx, metav1.ListOptions{})
	refused("list requests", err)
	_, err = thief.CoreV1().ServiceAccounts(topology.SystemNamespace).List(h.ctx, metav1.ListOptions{})
	refused("list tokens", err)

	// An agent: nothing of another's Works, not even by a status.
	if err := h.client.Create(h.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "karmada-es-west"}}); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	other := &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-west", Name: "web"}}
	if err := h.client.Create(h.ctx, other); err != nil {
		t.Fatal(err)
	}
	refused("read another's Work", east.client.Get(h.ctx, client.ObjectKeyFromObject(other), &work.Work{}))
	refused("write another's status", east.client.Status().Patch(h.ctx, other.DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"report":{"sequence":9}}}`))))
	refused("accept another", east.client.Patch(h.ctx, h.member("west"),
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"accepted":true}}`))))
	// Nor room: what is larger than a status of a member can be is not stored, not even its own.
	large := `{"status":{"zoneNames":"` + strings.Repeat("a", 1<<22) + `"}}`
	err = east.client.Status().Patch(h.ctx, h.member("east"), client.RawPatch(types.MergePatchType, []byte(large)))
	if !apierrors.IsInvalid(err) && !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("report 4 MiB of zones: %.300v, want it refused for its size", err)
	}
	refused("make an order of its own", east.client.Create(h.ctx,
		&work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-east", Name: "x"}}))

	// A request under the name of a member that there is, made with another key by the holder of a token for that name: it
	// waits.
	again := h.token("east")
	forger := h.agentNamed("forger", again, clock.RealClock{})
	name := types.NamespacedName{Name: topology.JoinObject("east")}
	request := &certificatesv1.CertificateSigningRequest{}
	theirs, err := credential.Fingerprint(forger.secret().Data[topology.CredentialKey])
	if err != nil {
		t.Fatal(err)
	}
	h.eventually("the forged request is there", func() string {
		if err := h.client.Get(h.ctx, name, request); err != nil {
			return err.Error()
		}
		if verdict, why := registration.Judge(request, h.member("east")); verdict != registration.Pending ||
			!strings.Contains(why, theirs) {
			return fmt.Sprintf("verdict %d: %s", verdict, why)
		}
		return ""
	})
	if _, err := registration.Accept(h.ctx, h.client, "east", ""); err == nil ||
		!strings.Contains(err.Error(), "another one") {
		t.Errorf("a person accepts it without looking: %v", err)
	}
	// The approver has seen it by the time that it has decided on one that came later.
	south := h.agentFor(h.token("south"), clock.RealClock{})
	h.accept("south")
	south.reads()
	if err := h.client.Get(h.ctx, name, request); err != nil || len(request.Status.Conditions) > 0 ||
		len(request.Status.Certificate) > 0 {
		t.Errorf("the forged request: %+v, %v", request.Status, err)
	}
	east.reads()

	// Anybody may write a request of that name who may write requests at all: it is denied, and says why.
	forged := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: topology.MemberObject("east")},
		Spec: *request.Spec.DeepCopy()}
	if err := h.client.Create(h.ctx, forged); err != nil {
		t.Fatal(err)
	}
	h.eventually("the administrator's request is denied", func() string {
		if err := h.client.Get(h.ctx, client.ObjectKeyFromObject(forged), forged); err != nil {
			return err.Error()
		}
		if c := forged.Status.Conditions; len(c) != 1 || c[0].Type != certificatesv1.CertificateDenied ||
			c[0].Reason != registration.ReasonNotInOrder || !strings.Contains(c[0].Message, "alone") {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})

	// Revoked, the tokens are void and a name that was never accepted is free again.
	for _, member := range []string{"west", "east"} {
		if found, err := registration.RevokeToken(h.ctx, h.client, member); err != nil || !found {
			t.Errorf("revoke %s: %v, %v", member, found, err)
		}
	}
	h.eventually("the stolen token is void", func() string {
		status := 0
		err := thief.RESTClient().Get().AbsPath("/api").Do(h.ctx).StatusCode(&status).Error()
		if status != http.StatusUnauthorized {
			return fmt.Sprintf("status %d, %v", status, err)
		}
		return ""
	})
	if err := h.client.Get(h.ctx, types.NamespacedName{Name: "west"},
		&topology.MemberCluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("the name west is not free: %v", err)
	}
	if !h.member("east").Spec.Accepted {
		t.Error("the member east is none any more")
	}
}

// agentNamed starts a keeper of certificates whose Secrets are in a namespace of that name.
func (h *hub) agentNamed(name string, token *registration.Token, clk clock.WithTicker) *agent {
	h.t.Helper()
	a := &agent{hub: h, namespace: "in-" + name + "-" + string(token.UID), join: &credential.Join{
		Name: token.Member, UID: token.UID, Token: token.Token, Expires: token.Expires, Server: h.admin.Host,
		CA: string(h.admin.CAData),
	}}
	if err := h.client.Create(h.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}); err != nil {
		h.t.Fatal(err)
	}
	if err := h.client.Create(h.ctx, a.join.Secret(a.namespace)); err != nil {
		h.t.Fatal(err)
	}
	if _, err := credential.EnsureKey(h.ctx, h.client, a.namespace); err != nil {
		h.t.Fatal(err)
	}
	a.start(clk)
	return a
}
