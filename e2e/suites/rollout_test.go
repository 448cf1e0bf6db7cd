//go:build e2e

package suites_test

import (
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

var _ = Describe("A new image", func() {
	It("on a CloneSet with partition 50% updates pods in place up to the partition, over all "+
		"clusters together", func(ctx SpecContext) {
		ns := federated(ctx, "rollout")
		api := harness.CloneSet(ns, "api")
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)

		By("setting the image with half of the nine pods held back: five stay, four go")
		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "patch", "clone/api", "--type=json", "-p", `[
			{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "`+newAPIImage+`"},
			{"op": "replace", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": "50%"}]`)
		h.ExpectAtRest(ctx, api, 9)
		history := h.Pods.Since(ctx, before)
		Expect(harness.Count(h.PodsOf(api), byImage)).To(Equal(map[string]int{apiImage: 5, newAPIImage: 4}))
		expectInPlace(history, 4)
		expectAtMost(history, judge.WithImage(newAPIImage), 4, "updated pods")
		expectAtMost(history, judge.Unavailable(9), 2, "unavailable pods")
		row := harness.Tables(h.Kubectl(ctx, "-n", ns, "get", "clone"))["api"]
		Expect(row).To(And(HaveKeyWithValue("UPDATED", "4"), HaveKeyWithValue("UPDATED_READY", "4"),
			HaveKeyWithValue("READY", "9"), HaveKeyWithValue("TOTAL", "9")))

		By("letting the rest go")
		before = h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "patch", "clone/api", "--type=merge", "-p",
			`{"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}`)
		h.ExpectAtRest(ctx, api, 9)
		history = h.Pods.Since(ctx, before)
		Expect(harness.Count(h.PodsOf(api), byImage)).To(Equal(map[string]int{newAPIImage: 9}))
		expectInPlace(history, 5)
		expectAtMost(history, judge.Unavailable(9), 2, "unavailable pods")
		for _, pod := range h.PodsOf(api) {
			Expect(pod.Restarts).To(BeEquivalentTo(1), pod.String())
		}
	})

	It("on a UnitedDeployment holds the limits of each subset over all clusters that it spans", func(ctx SpecContext) {
		ns := federated(ctx, "rollout-ud")
		web := harness.UnitedDeployment(ns, "web")
		h.Hub.Apply(ctx, webSample(ns))
		h.ExpectAtRest(ctx, web, 12)

		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "patch", "ud/web", "--type=json", "-p", `[
			{"op": "replace", "path": "/spec/template/cloneSetTemplate/spec/template/spec/containers/0/image",
				"value": "`+newWebImage+`"},
			{"op": "add", "path": "/spec/updateStrategy",
				"value": {"type": "Manual", "manualUpdate": {"partitions": {"zone-b": 2, "zone-c": 1}}}}]`)
		h.ExpectAtRest(ctx, web, 12)
		history := h.Pods.Since(ctx, before)
		updated := map[string]int{}
		for _, pod := range h.PodsOf(web) {
			if pod.Image == newWebImage {
				updated[pod.Subset]++
			}
		}
		Expect(updated).To(Equal(map[string]int{"zone-a": 3, "zone-b": 1, "zone-c": 2, "zone-d": 3}))
		expectInPlace(history, 9)
		for _, subset := range []string{"zone-a", "zone-b", "zone-c", "zone-d"} {
			// maxUnavailable is 25 % of three pods, rounded up where nothing surges.
			expectAtMost(history, ofSubset(subset, judge.Unavailable(3)), 1, "unavailable pods of "+subset)
		}
		row := harness.Tables(h.Kubectl(ctx, "-n", ns, "get", "ud"))["web"]
		Expect(row).To(And(HaveKeyWithValue("UPDATED", "9"), HaveKeyWithValue("READY", "12")))
	})
})

func byImage(p judge.PodView) string { return p.Image }

// expectInPlace expects that pods restarted exactly once each, count of them, and that none came or went.
func expectInPlace(history judge.History, count int) {
	ExpectWithOffset(1, history.Created()).To(BeEmpty(), "pods were created")
	ExpectWithOffset(1, history.Gone()).To(BeEmpty(), "pods were deleted")
	restarted := history.Restarted()
	ExpectWithOffset(1, restarted).To(HaveLen(count), "restarted pods")
	for _, pod := range restarted {
		ExpectWithOffset(1, pod.Restarts-history.Start[pod.UID].Restarts).To(BeEquivalentTo(1), pod.String())
	}
}

func expectAtMost(history judge.History, count func(map[types.UID]judge.PodView) int, most int, what string) {
	have, when := history.Most(count)
	ExpectWithOffset(1, have).To(BeNumerically("<=", most), "%s: %s", what, when)
}

// ofSubset counts the pods of one subset only.
func ofSubset(subset string, count func(map[types.UID]judge.PodView) int) func(map[types.UID]judge.PodView) int {
	return func(pods map[types.UID]judge.PodView) int {
		part := maps.Clone(pods)
		maps.DeleteFunc(part, func(_ types.UID, pod judge.PodView) bool { return pod.Subset != subset })
		return count(part)
	}
}

// ofName counts the pods whose names begin with prefix only.
func ofName(prefix string, count func(map[types.UID]judge.PodView) int) func(map[types.UID]judge.PodView) int {
	return func(pods map[types.UID]judge.PodView) int {
		part := maps.Clone(pods)
		maps.DeleteFunc(part, func(_ types.UID, pod judge.PodView) bool { return !strings.HasPrefix(pod.Name, prefix) })
		return count(part)
	}
}
