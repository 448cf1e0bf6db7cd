//go:build e2e

package suites_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

var _ = Describe("A steady fleet", func() {
	It("sends no mutating request but Leases for a minute, to the hub or to any member", func(ctx SpecContext) {
		ns := federated(ctx, "steady")
		api, web := harness.CloneSet(ns, "api"), harness.UnitedDeployment(ns, "web")
		h.Hub.Apply(ctx, apiSample(ns), webSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)
		// A rollout that stands in its middle is a steady state too.
		h.Kubectl(ctx, "-n", ns, "patch", "clone/api", "--type=json", "-p", `[
			{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "`+newAPIImage+`"},
			{"op": "replace", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": "50%"}]`)
		h.ExpectAtRest(ctx, api, 9)

		Eventually(ctx, func(ctx SpecContext) map[string]string {
			return harness.Tables(h.Kubectl(ctx, "-n", ns, "get", "fp"))["everywhere"]
		}).WithTimeout(harness.Patience).Should(HaveKeyWithValue("WORKLOADS", "2"))

		By("waiting for a minute without a write: the room that other specs left is reported within 33 s")
		before := h.Pods.Mark(ctx, ns)
		var start time.Time
		Eventually(ctx, func() []audit.Event {
			start = time.Now().Add(-time.Minute)
			return writes(start)
		}).WithTimeout(6*time.Minute).WithPolling(5*time.Second).Should(BeEmpty(), "mutating requests of our identities")
		leases := count(start, func(e *audit.Event) bool { return e.Lease() && ours(e.User) })
		Expect(leases).To(And(BeNumerically(">=", 3*4), BeNumerically("<=", 3*8)),
			"Leases: one in about 10 s for each of three agents")
		history := h.Pods.Since(ctx, before)
		harness.ExpectUntouched(history)
	})
})

// ours tells whether a user is a program of ours.
func ours(user string) bool {
	return user == fleet.HubUser || user == fleet.AgentUser || strings.HasPrefix(user, fleet.MemberUser(""))
}

// writes returns the mutating requests of our programs since a time, Leases apart, to the hub and every member.
func writes(since time.Time) []audit.Event {
	var all []audit.Event
	for _, c := range h.Fleet.Clusters() {
		events, err := audit.ReadFile(c.AuditLog(), audit.Between(since, time.Time{}), audit.Writes(), audit.ByUser(ours))
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		all = append(all, events...)
	}
	return all
}

func count(since time.Time, want audit.Filter) int {
	total := 0
	for _, c := range h.Fleet.Clusters() {
		events, err := audit.ReadFile(c.AuditLog(), audit.Between(since, time.Time{}), want)
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		total += len(events)
	}
	return total
}
