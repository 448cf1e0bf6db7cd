//go:build e2e

package suites_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

// joins is how long a cluster may take to become Ready on a machine under load.
const joins = 5 * time.Minute

// expectSaid runs the command line, which must succeed.
func expectSaid(ctx context.Context, args ...string) string {
	answer := h.Flotilla(ctx, args...)
	ExpectWithOffset(1, answer.Code).To(BeZero(), "flotilla %s\n%s%s", strings.Join(args, " "), answer.Out, answer.Talk)
	return answer.Out + answer.Talk
}

// expectNo runs the command line, which must fail with the words.
func expectNo(ctx context.Context, args []string, words ...string) {
	answer := h.Flotilla(ctx, args...)
	ExpectWithOffset(1, answer.Code).NotTo(BeZero(), "flotilla %s\n%s%s", strings.Join(args, " "), answer.Out, answer.Talk)
	for _, word := range words {
		ExpectWithOffset(1, answer.Talk).To(ContainSubstring(word))
	}
}

// expectNoMember waits until the hub has no member of this name.
func expectNoMember(ctx context.Context, name string) {
	EventuallyWithOffset(1, ctx, func(ctx context.Context) error {
		return h.Hub.Client.Get(ctx, client.ObjectKey{Name: name}, &topology.MemberCluster{})
	}).WithTimeout(joins).Should(Satisfy(apierrors.IsNotFound))
}

var _ = Describe("A cluster joins", Ordered, func() {
	const name = "norden"
	agent := fleet.AgentName(north)

	BeforeAll(func(ctx SpecContext) {
		Expect(h.RunApprover(ctx)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(alone.Fleet.Kill(ctx, agent)).To(Succeed())
			Expect(os.Remove(alone.Fleet.Dir + "/processes/" + agent + ".json")).To(Or(Succeed(), MatchError(os.ErrNotExist)))
			expectSaid(ctx, "leave", name, "--orphan")
			Expect(h.Fleet.Kill(ctx, fleet.ApproverProgram)).To(Succeed())
			// it is not to come back
			Expect(os.Remove(h.Fleet.Dir + "/processes/" + fleet.ApproverProgram + ".json")).To(Succeed())
		})
	})

	It("by the command line: it is checked, asks, is accepted, has a certificate of the hub's signer, "+
		"and runs a workload", func(ctx SpecContext) {
		By("looking before anything is written")
		hub, member := h.Hub.Kubeconfig(), alone.Members[north].Kubeconfig()
		expectNo(ctx, []string{"join", name, "--hub-kubeconfig", hub, "--kubeconfig", hub}, "nothing was written",
			"the hub cannot be its own member")
		expectNo(ctx, []string{"join", "east", "--hub-kubeconfig", hub, "--kubeconfig", member}, "nothing was written",
			"the name east is taken by the cluster")
		expectNo(ctx, []string{"join", "North!", "--hub-kubeconfig", hub, "--kubeconfig", member}, `"North!"`, "DNS label")
		expectNo(ctx, []string{"accept", name}, "there is no MemberCluster "+name, "flotilla join "+name)

		By("joining, twice")
		first := expectSaid(ctx, "join", name, "--region", "far", "--hub-kubeconfig", hub, "--kubeconfig", member)
		key := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(first)
		Expect(key).NotTo(BeEmpty(), first)
		Expect(expectSaid(ctx, "join", name, "--region", "far", "--hub-kubeconfig", hub, "--kubeconfig",
			member)).To(ContainSubstring(key), "the key stays")
		Expect(expectSaid(ctx, "token", "list")).To(ContainSubstring(name))
		expectNo(ctx, []string{"accept", name}, "the agent has not asked yet")

		By("starting the agent, and accepting it")
		Expect(h.RunJoinedOn(ctx, alone, north)).To(Succeed())
		expectNo(ctx, []string{"accept", name, "--wait", "--fingerprint", "sha256:" + strings.Repeat("0", 64)},
			"somebody else may have its token")
		said := expectSaid(ctx, "accept", name, "--wait", "--timeout", joins.String(), "--fingerprint", key)
		Expect(said).To(ContainSubstring(name + " is Ready"))
		Expect(expectSaid(ctx, "accept", name)).To(ContainSubstring("was accepted before"))

		mc := &topology.MemberCluster{}
		Eventually(ctx, func() (bool, error) {
			err := h.Hub.Client.Get(ctx, client.ObjectKey{Name: name}, mc)
			return mc.Status.Session > 0 && mc.Spec.AcknowledgedSession == mc.Status.Session, err
		}).WithTimeout(joins).Should(BeTrue(), "the hub answers the agent's session, by the spec, which is compared below")
		id, err := alone.Members[north].ID(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(mc.Spec.ClusterID).To(Equal(id))
		Expect(mc.Spec.KeyFingerprint).To(Equal(key))
		Expect(mc.Spec.Region).To(Equal("far"))

		By("placing a workload there")
		ns := bare(ctx, "joined")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, policyOn(ns, "north", name, "CloneSet"), cloneSet(ns, "api", 3, "a:1", ""))
		h.ExpectPlaced(ctx, api, map[string]int{name: 3})
		Eventually(ctx, func() int { return alone.Pods.Left(ns) }).WithTimeout(joins).Should(Equal(3))

		By("joining again, with its agent running: it takes part already, and goes on with what it has")
		shown := func() map[string][]byte {
			secret := &corev1.Secret{}
			Expect(alone.Members[north].Client.Get(ctx, client.ObjectKey{Namespace: topology.SystemNamespace,
				Name: topology.CredentialSecret}, secret)).To(Succeed())
			return secret.Data
		}
		before := shown()
		Eventually(ctx, func() string {
			return expectSaid(ctx, "join", name, "--hub-kubeconfig", hub, "--kubeconfig", member)
		}).WithTimeout(joins).Should(And(ContainSubstring("takes part already"), Not(ContainSubstring("restart it"))))
		Expect(shown()).To(Equal(before))
		again := &topology.MemberCluster{}
		Expect(h.Hub.Client.Get(ctx, client.ObjectKey{Name: name}, again)).To(Succeed())
		Expect(again.UID).To(Equal(mc.UID))
		Expect(again.Spec).To(Equal(mc.Spec))

		By("leaving: the workload goes first, then the credentials are void")
		expectNo(ctx, []string{"leave", name}, "--remove", "--orphan")
		h.Kubectl(ctx, "-n", ns, "delete", "clone/api", "--timeout=240s") // no other member may take it
		Eventually(ctx, func() int { return alone.Pods.Left(ns) }).WithTimeout(joins).Should(BeZero())
		expectSaid(ctx, "leave", name, "--remove", "--timeout", joins.String())
		expectNoMember(ctx, name)
		Eventually(ctx, func() (string, error) {
			return h.Hub.Kubectl(ctx, "get", "clusterroles,clusterrolebindings,roles,rolebindings", "-A", "-l",
				topology.LabelMember+"="+name, "-o", "name")
		}).WithTimeout(joins).Should(BeEmpty())
	})

	It("with tokens in place of certificates: it leaves, what it showed is void, its pods run on, and joined again it "+
		"is Ready only once its agent has come", func(ctx SpecContext) {
		hub, member := h.Hub.Kubeconfig(), alone.Members[north].Kubeconfig()
		home := alone.Members[north]
		join := []string{"join", name, "--credential", "token", "--hub-kubeconfig", hub, "--kubeconfig", member}
		// What the command line says is next after a cluster left.
		end := func(ctx context.Context) {
			Expect(alone.Fleet.Kill(ctx, agent)).To(Succeed())
			home.MustKubectl(ctx, "-n", topology.SystemNamespace, "delete", "secret", topology.JoinSecret,
				topology.CredentialSecret, "--ignore-not-found")
		}

		By("joining")
		end(ctx)
		expectSaid(ctx, join...)
		Expect(h.RunJoinedOn(ctx, alone, north)).To(Succeed())
		Expect(expectSaid(ctx, "accept", name, "--wait", "--timeout", joins.String())).To(ContainSubstring(name +
			" is Ready"))
		shown := &corev1.Secret{}
		Expect(home.Client.Get(ctx, client.ObjectKey{Namespace: topology.SystemNamespace, Name: topology.CredentialSecret},
			shown)).To(Succeed())
		Expect(shown.Data[topology.CredentialToken]).NotTo(BeEmpty(), "it is Ready by this agent, which has its token then")
		Expect(shown.Data[topology.CredentialCertificate]).To(BeEmpty())
		token := &topology.MemberToken{}
		Expect(json.Unmarshal(shown.Data[topology.CredentialToken], token)).To(Succeed())
		admin := h.Hub.RESTConfig()
		holder, err := client.New(&rest.Config{Host: admin.Host, BearerToken: token.Token,
			TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData}},
			client.Options{Scheme: h.Hub.Client.Scheme(), Mapper: h.Hub.Client.RESTMapper()})
		Expect(err).NotTo(HaveOccurred())
		reads := func(ctx context.Context) error {
			return holder.Get(ctx, client.ObjectKey{Name: name}, &topology.MemberCluster{})
		}
		Expect(reads(ctx)).To(Succeed(), "what the agent shows is good")

		By("placing a workload there")
		ns := bare(ctx, "tokens")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, policyOn(ns, "north", name, "CloneSet"), cloneSet(ns, "api", 3, "a:1", ""))
		h.ExpectPlaced(ctx, api, map[string]int{name: 3})
		Eventually(ctx, func() int { return alone.Pods.Left(ns) }).WithTimeout(joins).Should(Equal(3))
		before := alone.Pods.Mark(ctx, ns)

		By("leaving, with the agent still running: what it shows is void")
		first := &topology.MemberCluster{}
		Expect(h.Hub.Client.Get(ctx, client.ObjectKey{Name: name}, first)).To(Succeed())
		expectSaid(ctx, "leave", name, "--orphan")
		Eventually(ctx, reads).WithTimeout(joins).Should(Satisfy(apierrors.IsUnauthorized))
		Eventually(ctx, func(ctx context.Context) error {
			return h.Hub.Client.Get(ctx, client.ObjectKey{Namespace: topology.MembersNamespace,
				Name: topology.MemberObject(name)}, &corev1.ServiceAccount{})
		}).WithTimeout(joins).Should(Satisfy(apierrors.IsNotFound))
		expectNoMember(ctx, name)

		By("joining again: nothing of before makes it Ready")
		end(ctx)
		expectSaid(ctx, join...)
		expectNo(ctx, []string{"accept", name}, "the agent has not asked yet")
		h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", name),
			metav1.Condition{Type: topology.MemberReady, Status: metav1.ConditionFalse,
				Reason: topology.ReasonNeverConnected}, name)
		Expect(h.RunJoinedOn(ctx, alone, north)).To(Succeed())
		Expect(expectSaid(ctx, "accept", name, "--wait", "--timeout", joins.String())).To(ContainSubstring(name +
			" is Ready"))
		second := &topology.MemberCluster{}
		Expect(h.Hub.Client.Get(ctx, client.ObjectKey{Name: name}, second)).To(Succeed())
		Expect(second.UID).NotTo(Equal(first.UID))
		Eventually(ctx, reads).WithTimeout(joins).Should(Satisfy(apierrors.IsUnauthorized), "the former token stays void")

		By("taking over what ran on")
		h.ExpectPlaced(ctx, api, map[string]int{name: 3})
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return h.Hub.Kubectl(ctx, "-n", ns, "get", "clone/api", "-o", "jsonpath={.status.readyReplicas}")
		}).WithTimeout(joins).Should(Equal("3"))
		history := alone.Pods.Since(ctx, before)
		Expect(history.Created()).To(BeEmpty())
		Expect(history.Gone()).To(BeEmpty())
		Expect(history.Restarted()).To(BeEmpty())
		h.Kubectl(ctx, "-n", ns, "delete", "clone/api", "--timeout=240s")
		Eventually(ctx, func() int { return alone.Pods.Left(ns) }).WithTimeout(joins).Should(BeZero())
	})

	It("7.7-13: a stolen token cannot read clusters, cannot take an existing name, and yields nothing but a pending "+
		"request", func(ctx SpecContext) {
		const stolen = "stolen"
		DeferCleanup(func(ctx SpecContext) { expectSaid(ctx, "token", "revoke", stolen) })
		created := h.Flotilla(ctx, "token", "create", stolen, "--ttl", "10m")
		Expect(created.Code).To(BeZero(), created.Talk)
		token := strings.TrimSpace(created.Out)
		admin := h.Hub.RESTConfig()
		thief, err := client.New(&rest.Config{Host: admin.Host, BearerToken: token,
			TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData}},
			client.Options{Scheme: h.Hub.Client.Scheme(), Mapper: h.Hub.Client.RESTMapper()})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() error {
			return thief.Get(ctx, client.ObjectKey{Name: stolen}, &topology.MemberCluster{})
		}).WithTimeout(joins).Should(Succeed(), "the one thing that it may read")

		By("reading clusters")
		forbidden := Satisfy(apierrors.IsForbidden)
		Expect(thief.List(ctx, &topology.MemberClusterList{})).To(forbidden)
		Expect(thief.Get(ctx, client.ObjectKey{Name: "east"}, &topology.MemberCluster{})).To(forbidden)
		Expect(thief.List(ctx, &corev1.SecretList{})).To(forbidden)
		Expect(thief.List(ctx, &corev1.NamespaceList{})).To(forbidden)

		By("taking an existing name")
		east := &topology.MemberCluster{}
		Expect(h.Hub.Client.Get(ctx, client.ObjectKey{Name: "east"}, east)).To(Succeed())
		Expect(thief.Update(ctx, east.DeepCopy())).To(forbidden)
		Expect(thief.Delete(ctx, east.DeepCopy())).To(forbidden)
		requests, err := kubernetes.NewForConfig(&rest.Config{Host: admin.Host, BearerToken: token,
			TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData}})
		Expect(err).NotTo(HaveOccurred())
		request := func(of string) *certificatesv1.CertificateSigningRequest {
			return &certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{Name: topology.JoinObject(of)},
				Spec: certificatesv1.CertificateSigningRequestSpec{
					SignerName: topology.MemberSigner, Request: certificateRequest(of, east.UID),
					Usages:            []certificatesv1.KeyUsage{"client auth", "digital signature"},
					ExpirationSeconds: new(int32(24 * 3600)),
				},
			}
		}
		_, err = requests.CertificatesV1().CertificateSigningRequests().Create(ctx, request("east"), metav1.CreateOptions{})
		Expect(err).To(forbidden)

		By("asking for the name that it is for: the request waits, and nothing comes of it")
		reserved := &topology.MemberCluster{}
		Expect(h.Hub.Client.Get(ctx, client.ObjectKey{Name: stolen}, reserved)).To(Succeed())
		applied := request(stolen)
		applied.Spec.Request = certificateRequest(stolen, reserved.UID)
		applied.APIVersion, applied.Kind = "certificates.k8s.io/v1", "CertificateSigningRequest"
		Expect(applyAs(ctx, requests, applied)).To(Succeed())
		Consistently(ctx, func() (int, error) {
			seen, err := requests.CertificatesV1().CertificateSigningRequests().Get(ctx, applied.Name, metav1.GetOptions{})
			if err != nil {
				return 0, err
			}
			return len(seen.Status.Conditions) + len(seen.Status.Certificate), nil
		}).WithTimeout(5 * time.Second).WithPolling(500 * time.Millisecond).Should(BeZero())
		h.ExpectToldOf(ctx, harness.TopologyObject("MemberCluster", "", stolen),
			metav1.Condition{Type: topology.MemberAccepted, Status: metav1.ConditionFalse, Reason: topology.ReasonNotAccepted},
			stolen)

		By("revoking it")
		expectSaid(ctx, "token", "revoke", stolen)
		Eventually(ctx, func() bool {
			return apierrors.IsUnauthorized(thief.Get(ctx, client.ObjectKey{Name: stolen}, &topology.MemberCluster{}))
		}).WithTimeout(joins).Should(BeTrue())
		expectNoMember(ctx, stolen) // the name is free again
	})
})
