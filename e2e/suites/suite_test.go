//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

// The fleets of the suite, started once: the hub with its three members, and a cluster that no hub knows.
var (
	h     *harness.Harness
	alone *harness.Harness
)

// north is the member of alone.
const north = "north"

func TestFlotilla(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Flotilla")
	for _, failure := range failures {
		t.Log(failure)
	}
}

// failures are the specs that failed and why, in the order in which they ran. They are printed once more at the end:
// a log that is cut off at its beginning still says what came first.
var failures []string

var _ = ReportAfterEach(func(r SpecReport) {
	if r.Failed() {
		const most = 1000
		failures = append(failures, fmt.Sprintf("%s: %.*s", r.FullText(), most, r.FailureMessage()))
	}
})

var _ = BeforeSuite(func(ctx SpecContext) {
	progress := func(step string) { GinkgoWriter.Println("fleet:", step) }
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		h, err = harness.Start(groupCtx, harness.Options{Members: harness.ThreeMembers(), Progress: progress})
		return err
	})
	group.Go(func() (err error) {
		members := []fleet.ClusterSpec{{Name: north, Nodes: fleet.Nodes(north, "eu", []string{"n1", "n2"}, 2)}}
		alone, err = harness.Start(groupCtx, harness.Options{Members: members, Alone: true, Progress: progress})
		return err
	})
	Expect(group.Wait()).To(Succeed())
}, NodeTimeout(10*time.Minute))

// What a spec leaves is not the next one's: it begins on a fleet that is as it was when it started. A fleet that does
// not come to rest once never does, so the suite ends there.
var _ = BeforeEach(func(ctx SpecContext) {
	if err := InterceptGomegaFailure(func() { h.ExpectFleetAtRest(ctx) }); err != nil {
		AbortSuite(err.Error())
	}
})

// Whatever a spec does, every number that the hub places has an answer to the question why, however short it stands.
var _ = AfterEach(func() {
	without, _ := h.EverUnexplained()
	Expect(without).To(BeEmpty(), "numbers without an answer")
})

var _ = AfterSuite(func() {
	if h != nil {
		_, looked := h.EverUnexplained()
		GinkgoWriter.Println("numbers that the hub placed, each with an answer to why:", looked)
	}
	for _, started := range []*harness.Harness{h, alone} {
		if started != nil {
			Expect(started.Close()).To(Succeed())
		}
	}
})

// federated makes a namespace of the hub for one spec, with a policy that spreads CloneSets and UnitedDeployments
// evenly over the three members.
func federated(ctx context.Context, name string) string {
	ns := bare(ctx, name)
	enforce(ctx, ns, policy(ns, "everywhere", "CloneSet", "UnitedDeployment"))
	return ns
}

// enforce applies policies in a namespace, and waits until the hub has seen them.
func enforce(ctx context.Context, ns string, policies ...string) {
	h.Hub.Apply(ctx, policies...)
	EventuallyWithOffset(1, ctx, func(ctx context.Context) (string, error) {
		list := &topology.FederationPolicyList{}
		if err := h.Hub.Client.List(ctx, list, client.InNamespace(ns)); err != nil {
			return "", err
		}
		for i := range list.Items {
			if p := &list.Items[i]; p.Status.ObservedGeneration != p.Generation {
				return fmt.Sprintf("generation %d of FederationPolicy %s, the hub has seen %d", p.Generation, p.Name,
					p.Status.ObservedGeneration), nil
			}
		}
		return "", nil
	}).WithTimeout(harness.Patience).Should(BeEmpty())
}

// bare makes a federated namespace without a policy.
func bare(ctx context.Context, name string) string {
	ns := h.Namespace(ctx, name)
	explain(h, ns)
	return ns
}

// explain prints what helps to understand the spec if it fails. After one that did not, every number that is placed in
// the namespace must have an answer to the question why.
func explain(of *harness.Harness, ns string) {
	DeferCleanup(func(ctx SpecContext) {
		switch {
		case CurrentSpecReport().Failed():
			fmt.Fprintln(GinkgoWriter, of.Describe(ctx, ns))
		case of.Hub != nil:
			Expect(of.Unexplained(ctx, ns)).To(BeEmpty(), "numbers without an answer")
		}
	})
}

// mend brings back whatever the spec stopped, also after a failure.
func mend() {
	DeferCleanup(func(ctx SpecContext) { Expect(h.Mend(ctx)).To(Succeed()) })
}
