//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

// distribution copies a Secret into the namespaces of all members with the label e2e=pull.
const distribution = `
apiVersion: topology.flotilla.dev/v1alpha1
kind: ClusterFederationPolicy
metadata: {name: pull}
spec:
  workloads: [{apiVersion: apps.kruise.io/v1beta1, kind: ResourceDistribution}]
---
apiVersion: apps.kruise.io/v1beta1
kind: ResourceDistribution
metadata:
  name: pull
  labels: {topology.flotilla.dev/federated: "true"}
spec:
  resource:
    apiVersion: v1
    kind: Secret
    metadata: {name: pull}
    stringData: {key: one}
  targets:
    namespaceSelector: {matchLabels: {e2e: pull}}
`

// expectNoForeignSecrets expects of the agents of all members that since a time they have read the content of no Secret
// but those in their own namespace and the copies: they may read the metadata of others.
func expectNoForeignSecrets(since time.Time, copies ...string) {
	GinkgoHelper()
	reads := 0
	for _, c := range h.Fleet.Clusters() {
		events, err := audit.ReadFile(c.AuditLog(), audit.Between(since, time.Time{}), func(e *audit.Event) bool {
			return e.User == fleet.AgentUser && e.Resource == "secrets" && !e.Mutating()
		})
		Expect(err).NotTo(HaveOccurred())
		for i := range events {
			e := &events[i]
			metadata := strings.HasPrefix(e.AnswerKind, "PartialObjectMetadata")
			// A watch has no answer in the log. That of copies is by their label.
			ofCopies := e.Verb != "get" && e.LabelSelector == apps.LabelDistribution
			ofCopy := e.Verb == "get" && slices.Contains(copies, e.Namespace+"/"+e.Name)
			refused := e.Code >= http.StatusBadRequest
			if reads++; metadata || ofCopies || ofCopy || refused || e.Namespace == topology.SystemNamespace {
				continue
			}
			Fail(fmt.Sprintf("the agent of %s has read the content of Secrets: %+v", c.Name, e))
		}
	}
	Expect(reads).To(BeNumerically(">", 0), "reads of Secrets in the audit logs")
}

// expectDistributed waits until the hub says that so many of the namespaces of all members have the copy.
func expectDistributed(ctx context.Context, name string, desired, succeeded int32, says string) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) error {
		d := &apps.ResourceDistribution{}
		if err := h.Hub.Client.Get(ctx, client.ObjectKey{Name: name}, d); err != nil {
			return err
		}
		s := &d.Status
		said := ""
		for _, c := range s.Conditions {
			said += c.Message + "\n"
		}
		if s.ObservedGeneration != d.Generation || s.Desired != desired || s.Succeeded != succeeded ||
			s.Failed != desired-succeeded || !strings.Contains(said, says) {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	}).WithTimeout(harness.Patience).Should(Succeed(), "%d of %d namespaces have the copy", succeeded, desired)
}

var _ = Describe("A ResourceDistribution on a hub", func() {
	It("copies a Secret into namespaces of three members that come and go, and overwrites nothing of others",
		func(ctx SpecContext) {
			namespaceOf := func(name string) *corev1.Namespace {
				return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"e2e": "pull"}}}
			}
			names := []string{"pull-a", "pull-b", "pull-c"}
			start := time.Now()
			DeferCleanup(func(ctx SpecContext) {
				h.Kubectl(ctx, "delete", "--ignore-not-found", "resourcedistributions.apps.kruise.io/pull")
				h.Kubectl(ctx, "delete", "--ignore-not-found", "clusterfederationpolicies.topology.flotilla.dev/pull")
				for _, member := range h.Members {
					for _, name := range names {
						Expect(client.IgnoreNotFound(member.Client.Delete(ctx, namespaceOf(name)))).To(Succeed())
					}
				}
			})
			value := func(member, namespace string) func(SpecContext) (string, error) {
				return func(ctx SpecContext) (string, error) {
					secret := &corev1.Secret{}
					err := h.Members[member].Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "pull"}, secret)
					return string(secret.Data["key"]), client.IgnoreNotFound(err)
				}
			}
			for _, member := range h.Members {
				Expect(member.Client.Create(ctx, namespaceOf("pull-a"))).To(Succeed())
			}

			By("copying it into one namespace of each member")
			h.Hub.Apply(ctx, distribution)
			expectDistributed(ctx, "pull", 3, 3, "all 3 namespaces of 3 members have the copy")

			By("following namespaces, one of which has a Secret of others with the name")
			east := h.Members["east"].Client
			Expect(east.Create(ctx, namespaceOf("pull-b"))).To(Succeed())
			plain := namespaceOf("pull-c")
			plain.Labels = nil
			Expect(east.Create(ctx, plain)).To(Succeed())
			Expect(east.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "pull-c", Name: "pull"},
				StringData: map[string]string{"key": "foreign"}})).To(Succeed())
			Expect(east.Patch(ctx, plain, client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"labels":{"e2e":"pull"}}}`)))).To(Succeed())
			expectDistributed(ctx, "pull", 5, 4, "east: Secret pull of others is in namespace pull-c, and stays as it is")
			Eventually(value("east", "pull-b")).WithContext(ctx).WithTimeout(harness.Patience).Should(Equal("one"))
			Eventually(value("east", "pull-c")).WithContext(ctx).WithTimeout(harness.Patience).Should(Equal("foreign"))

			By("changing the Secret in all of them")
			h.Kubectl(ctx, "patch", "resourcedistributions.apps.kruise.io/pull", "--type=merge", "-p",
				`{"spec": {"resource": {"stringData": {"key": "two"}}}}`)
			for _, member := range h.MemberNames() {
				Eventually(value(member, "pull-a")).WithContext(ctx).WithTimeout(harness.Patience).Should(Equal("two"), member)
			}
			Eventually(value("east", "pull-c")).WithContext(ctx).WithTimeout(harness.Patience).Should(Equal("foreign"))

			By("deleting the copies with it")
			h.Kubectl(ctx, "delete", "resourcedistributions.apps.kruise.io/pull")
			for _, member := range h.MemberNames() {
				Eventually(value(member, "pull-a")).WithContext(ctx).WithTimeout(harness.Patience).Should(BeEmpty(), member)
			}
			expectNoForeignSecrets(start, "pull-a/pull", "pull-b/pull")
		})
})
