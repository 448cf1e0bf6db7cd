//go:build e2e

package suites_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

const dbImage, newDBImage = "postgres:17.1", "postgres:17.2"

// database is a UnitedDeployment of StatefulSets whose one subset lies in all members.
func database(namespace string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: db, namespace: %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: db}}
  template:
    statefulSetTemplate:
      metadata: {labels: {app: db}}
      spec:
        serviceName: db
        selector: {matchLabels: {app: db}}
        template:
          metadata: {labels: {app: db}}
          spec:
            containers: [{name: main, image: "%s"}]
  topology:
    subsets: [{name: all}]
`, namespace, replicas, dbImage)
}

// byOrdinal is the cluster of a StatefulSet's pod, and its number there.
func byOrdinal(p judge.PodView) string {
	return p.Cluster + "/" + p.Name[strings.LastIndexByte(p.Name, '-')+1:]
}

var _ = Describe("A UnitedDeployment of StatefulSets", func() {
	It("runs with numbers from 0 in each member, and holds its partition over all of them, also while "+
		"it is scaled", func(ctx SpecContext) {
		ns := federated(ctx, "statefulsets")
		db := harness.UnitedDeployment(ns, "db")
		h.Hub.Apply(ctx, database(ns, 6))
		h.ExpectAtRest(ctx, db, 6)
		h.ExpectPods(ctx, db, byOrdinal, map[string]int{"east/0": 1, "east/1": 1, "south/0": 1, "south/1": 1, "west/0": 1,
			"west/1": 1})
		patch := func(spec string) {
			h.Kubectl(ctx, "-n", ns, "patch", "ud/db", "--type=merge", "-p", `{"spec": `+spec+`}`)
		}
		updated := func() []string {
			var names []string
			for _, pod := range h.PodsOf(db) {
				if pod.Image == newDBImage {
					names = append(names, string(pod.UID)+" "+byOrdinal(pod))
				}
			}
			return names
		}

		By("setting the image with four of six pods held back: two go, the highest of their members, one after the other")
		before := h.Pods.Mark(ctx, ns)
		patch(`{"updateStrategy": {"manualUpdate": {"partitions": {"all": 4}}},
			"template": {"statefulSetTemplate": {"spec": {"template": {"spec": {
				"containers": [{"name": "main", "image": "` + newDBImage + `"}]}}}}}}`)
		h.ExpectAtRest(ctx, db, 6)
		history := h.Pods.Since(ctx, before)
		canary := updated()
		Expect(canary).To(And(HaveLen(2), HaveEach(HaveSuffix("/1"))))
		expectAtMost(history, judge.WithImage(newDBImage), 2, "updated pods")
		expectAtMost(history, judge.Unavailable(6), 1, "unavailable pods")

		By("adding three pods with three more held back: no pod more has the new image")
		before = h.Pods.Mark(ctx, ns)
		patch(`{"replicas": 9, "updateStrategy": {"manualUpdate": {"partitions": {"all": 7}}}}`)
		h.ExpectAtRest(ctx, db, 9)
		history = h.Pods.Since(ctx, before)
		Expect(updated()).To(ConsistOf(canary))
		expectAtMost(history, judge.WithImage(newDBImage), 2, "updated pods")
		Expect(history.Gone()).To(BeEmpty())

		By("letting all go")
		before = h.Pods.Mark(ctx, ns)
		patch(`{"updateStrategy": {"manualUpdate": {"partitions": {"all": 0}}}}`)
		h.ExpectAtRest(ctx, db, 9)
		history = h.Pods.Since(ctx, before)
		Expect(updated()).To(HaveLen(9))
		expectAtMost(history, judge.Unavailable(9), 1, "unavailable pods")

		By("taking away six: the highest of each member go")
		before = h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "scale", "ud/db", "--replicas=3")
		h.ExpectAtRest(ctx, db, 3)
		history = h.Pods.Since(ctx, before)
		Expect(history.Created()).To(BeEmpty())
		h.ExpectPods(ctx, db, byOrdinal, map[string]int{"east/0": 1, "south/0": 1, "west/0": 1})
	})

	It("Case4: goes on after undo of an image that cannot be pulled", func(ctx SpecContext) {
		ns := federated(ctx, "statefulset-undo")
		db := harness.UnitedDeployment(ns, "db")
		h.Hub.Apply(ctx, database(ns, 6))
		h.ExpectAtRest(ctx, db, 6)
		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "patch", "ud/db", "--type=json", "-p", `[{"op": "replace",
			"path": "/spec/template/statefulSetTemplate/spec/template/spec/containers/0/image", "value": "does-not-exist:1"}]`)
		h.ExpectPods(ctx, db, byImage, map[string]int{dbImage: 5, "does-not-exist:1": 1})

		By("taking it back: the pod that never was Ready is replaced, and no other")
		undone := h.Flotilla(ctx, "rollout", "undo", "ud/db", "-n", ns)
		Expect(undone.Code).To(BeZero(), "%s%s", undone.Out, undone.Talk)
		status := h.Flotilla(ctx, "rollout", "status", "ud/db", "-n", ns)
		Expect(status.Code).To(BeZero(), "%s%s", status.Out, status.Talk)
		h.ExpectPods(ctx, db, byImage, map[string]int{dbImage: 6})
		h.ExpectAtRest(ctx, db, 6)
		expectAtMost(h.Pods.Since(ctx, before), judge.Unavailable(6), 1, "unavailable pods")

		By("adding pods")
		h.Kubectl(ctx, "-n", ns, "scale", "ud/db", "--replicas=9")
		h.ExpectAtRest(ctx, db, 9)
	})
})
