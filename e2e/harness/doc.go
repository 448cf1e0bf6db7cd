// Package harness is what the suites in e2e/suites speak: a fleet of one hub and members with our programs on it, plain
// kubectl as a user runs it, a watcher that records what happens to every pod of every member, and assertions in the
// words of the domain.
//
//	h, err := harness.Start(ctx, harness.Options{Members: harness.ThreeMembers()})
//	ns := h.Namespace(ctx, "scale")            // federated, gone after the spec
//	web := harness.UnitedDeployment(ns, "web")
//	h.Apply(ctx, samples.Web(ns))
//	h.ExpectAtRest(ctx, web, 12)
//	before := h.Pods.Mark(ctx, ns)
//	h.Kubectl(ctx, "-n", ns, "scale", "ud/web", "--replicas=30")
//	h.ExpectAtRest(ctx, web, 30)
//	Expect(h.Pods.Since(ctx, before).Gone()).To(BeEmpty())
//
// Assertions wait up to Patience and then fail the spec with what they saw last; nothing here sleeps.
package harness
