//go:build e2e

package suites_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	answers "github.com/flotilla-dev/flotilla/hub/explain"
)

// trees is what `flotilla tree -o json` prints, as far as it is looked at.
type trees struct {
	Workloads []struct {
		Kind, Name string
		Pods       struct{ Desired, Ready, Updated, NotReady, Missing int }
		Zones      []struct {
			Name     string
			Clusters []struct {
				Name string
				Pods struct{ Ready int }
			}
		}
	}
}

var _ = Describe("The command line", func() {
	It("says what runs where, why, and what would be; and then the hub does just that", func(ctx SpecContext) {
		ns := federated(ctx, "reasons")
		api, web := harness.CloneSet(ns, "api"), harness.UnitedDeployment(ns, "web")
		h.Hub.Apply(ctx, apiSample(ns), webSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectAtRest(ctx, web, 12)

		By("tree: the counts are those of the pods")
		var tree trees
		h.Flotilla(ctx, "tree", "-n", ns, "-o", "json").Into(&tree)
		Expect(tree.Workloads).To(HaveLen(2))
		for _, w := range tree.Workloads {
			pods := h.PodsOf(harness.Workload{Namespace: ns, Name: w.Name})
			Expect(w.Pods.Ready).To(Equal(len(pods)), "ready pods of %s", w.Name)
			Expect([]int{w.Pods.Desired - w.Pods.Ready, w.Pods.NotReady, w.Pods.Missing}).To(HaveEach(0), w.Name)
			if w.Name == "web" {
				have := map[string]int{}
				for _, zone := range w.Zones {
					for _, cluster := range zone.Clusters {
						have[cluster.Name+"/"+zone.Name] = cluster.Pods.Ready
					}
				}
				Expect(have).To(Equal(harness.Count(pods, func(p judge.PodView) string { return p.Cluster + "/" + p.Zone })))
			}
		}
		text := h.Flotilla(ctx, "tree", "ud/web", "-n", ns)
		Expect(text.Out).To(ContainSubstring("UnitedDeployment " + ns + "/web"))
		Expect(text.Out).NotTo(ContainSubstring("\x1b"), "colours off a terminal")

		By("why: an answer for every cell")
		for _, w := range []harness.Workload{api, web} {
			var answer answers.Answer
			h.Flotilla(ctx, "why", w.String(), "-n", ns, "-o", "json").Into(&answer)
			Expect(answer.Cells).To(HaveLen(len(h.MustPlacement(ctx, w).Spec.Cells)))
			for _, cell := range answer.Cells {
				Expect(cell.Why).NotTo(ContainSubstring("does not know"), "%+v", cell)
			}
		}
		Expect(h.FlotillaPlugin(ctx, GinkgoT().TempDir(), "why", "cs/api", "-n", ns, "-C", "east").Out).To(And(
			ContainSubstring("placed by FederationPolicy everywhere"), ContainSubstring("east has 3: "),
			ContainSubstring("[Even]")))

		By("get pods and describe: the pods of all members, read from their own API servers")
		var rows []struct{ Member, Status string }
		everywhere := []string{"east", "west", "south"}
		h.FlotillaWith(ctx, everywhere, "get", "pods", api.String(), "-n", ns, "-o", "json").Into(&rows)
		Expect(rows).To(HaveLen(9))
		page := h.FlotillaWith(ctx, everywhere, "describe", api.String(), "-n", ns)
		Expect(page.Code).To(Equal(0), page.Talk)
		Expect(page.Out).To(And(ContainSubstring("CloneSet "+ns+"/api"), ContainSubstring("east: 3 of 3 Ready")))

		By("exit codes: 1 for what is not there, 2 for a wrong command line")
		missing := h.Flotilla(ctx, "why", "ud/nope", "-n", ns)
		Expect(missing.Code).To(Equal(1), missing.Talk)
		Expect(missing.Talk).To(ContainSubstring("there is no UnitedDeployment " + ns + "/nope"))
		Expect(h.Flotilla(ctx, "why", "nope").Code).To(Equal(2))

		By("plan: with the hub, and from a snapshot without it, says the same")
		folder := GinkgoT().TempDir()
		wider, fleet := filepath.Join(folder, "api.yaml"), filepath.Join(folder, "fleet.yaml")
		// 12 divides evenly by three members and by two: who gets an odd replica is decided by room, which other stories
		// change between the plan and the apply.
		manifest := strings.Replace(apiSample(ns), "replicas: 9", "replicas: 12", 1)
		Expect(os.WriteFile(wider, []byte(manifest), 0o600)).To(Succeed())
		recorded := h.Flotilla(ctx, "snapshot", "-n", ns)
		Expect(recorded.Code).To(Equal(0), recorded.Talk)
		Expect(os.WriteFile(fleet, []byte(recorded.Out), 0o600)).To(Succeed())
		var plan, again, ofFolder struct{ Workloads []answers.Planned }
		h.Flotilla(ctx, "plan", "-f", wider, "-n", ns, "-o", "json").Into(&plan)
		h.FlotillaAlone(ctx, "plan", "-f", wider, "--members", fleet, "-o", "json").Into(&again)
		Expect(again).To(Equal(plan))
		Expect(plan.Workloads).To(HaveLen(1))
		want := map[string]int{}
		for _, cell := range plan.Workloads[0].Cells {
			want[cell.Cluster] += int(cell.Replicas)
		}
		Expect(plan.Workloads[0].Placed).To(BeEquivalentTo(12))

		By("case 16: of a folder, files of other tools are left out with a note, and each mistake is named")
		mixed := GinkgoT().TempDir()
		write := func(name, text string) {
			Expect(os.WriteFile(filepath.Join(mixed, name), []byte(text), 0o600)).To(Succeed())
		}
		write("api.yaml", manifest)
		write("kustomization.yaml", "resources: [api.yaml]\n")
		write("Chart.yaml", "apiVersion: v2\nname: api\nversion: 1.0.0\n")
		write("values.yaml", "replicas: 3\n")
		left := h.Flotilla(ctx, "plan", "-f", mixed, "-n", ns, "-o", "json")
		left.Into(&ofFolder)
		Expect(ofFolder).To(Equal(plan))
		Expect(left.Talk).To(And(ContainSubstring("kubectl kustomize "+mixed+" | flotilla plan -f -"),
			ContainSubstring("helm template "+mixed+" | flotilla plan -f -"), ContainSubstring("values.yaml, line 1: left out")))
		write("b.yaml", strings.Replace(manifest, "replicas:", "replica:", 1))
		write("c.yaml", strings.Replace(manifest, "replicas: 12", "replicas: -1", 1))
		mistaken := h.Flotilla(ctx, "plan", "-f", mixed, "-n", ns)
		Expect(mistaken.Code).To(Equal(1))
		Expect(mistaken.Out).To(ContainSubstring("CloneSet " + ns + "/api: 12 replicas, 12 placed"))
		Expect(mistaken.Talk).To(And(MatchRegexp(`b\.yaml, line \d+: CloneSet .*"spec\.replica"`),
			MatchRegexp(`c\.yaml, line \d+: CloneSet .*spec\.replicas.*-1`)))

		By("applying it")
		h.Hub.Apply(ctx, manifest)
		h.ExpectAtRest(ctx, api, 12)
		h.ExpectPlaced(ctx, api, want)

		By("why a member has nothing")
		h.Hub.Apply(ctx, policyOn(ns, "everywhere", "east, south", "CloneSet", "UnitedDeployment"))
		h.ExpectPlaced(ctx, api, map[string]int{"east": 6, "south": 6})
		Eventually(ctx, func() string { return h.Flotilla(ctx, "why", "cs/api", "-n", ns, "-C", "west").Out }).
			WithTimeout(harness.Patience).Should(ContainSubstring(fmt.Sprintf("FederationPolicy everywhere selects the "+
			"members %s alone", "east, south")))
	})

	It("plans without any cluster, and names each mistake of a file", func(ctx SpecContext) {
		folder := GinkgoT().TempDir()
		file := filepath.Join(folder, "web.yaml")
		Expect(os.WriteFile(file, []byte(strings.Replace(apiSample("shop"), "replicas:", "replica:", 1)),
			0o600)).To(Succeed())
		wrong := h.FlotillaAlone(ctx, "plan", "-f", file, "--members", file)
		Expect(wrong.Code).To(Equal(1))
		Expect(wrong.Out).To(BeEmpty())
		Expect(slices.Collect(strings.Lines(wrong.Talk))).To(ContainElement(And(
			ContainSubstring(file),
			ContainSubstring(`CloneSet shop/api has an unknown field "spec.replica"; correct its name, or remove it`))))
	})
})
