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
}

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
}, NodeTimeout(4*time.Minute))

var _ = AfterSuite(func() {
	for _, started := range []*harness.Harness{h, alone} {
		if started != nil {
			Expect(started.Close()).To(Succeed())
		}
	}
})

// federated makes a namespace of the hub for one spec, with a policy that spreads CloneSets and UnitedDeployments evenly
// over the three members.
func federated(ctx context.Context, name string) string {
	ns := bare(ctx, name)
	h.Hub.Apply(ctx, policy(ns, "everywhere", "CloneSet", "UnitedDeployment"))
	return ns
}

// bare makes a federated namespace without a policy.
func bare(ctx context.Context, name string) string {
	ns := h.Namespace(ctx, name)
	explain(h, ns)
	return ns
}

// explain prints what helps to understand the spec if it fails. After one that did not, every number that is placed in the
// namespace must have an answer to the question why.
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
