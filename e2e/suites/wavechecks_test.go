//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

var _ = Describe("A wave", func() {
	It("waits for a Job in its members and for what an address answers, stops when either fails, and is taken back in "+
		"the middle", func(ctx SpecContext) {
		ns := bare(ctx, "wave-checks")
		api := harness.CloneSet(ns, "api")
		var errors atomic.Int32
		errors.Store(9)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"errors": %d}`, errors.Load())
		}))
		DeferCleanup(server.Close)
		enforce(ctx, ns, policy(ns, "waves", "CloneSet")+`
  rollout:
    strategy: Waves
    waves:
    - name: canary
      clusters: {names: [east]}
      checks:
      - name: smoke
        job: `+job("0")+`
      - name: errors
        http: {url: "`+server.URL+`/errors?of=api", expression: json.errors < 5, interval: 5s, failureLimit: 0}
    - name: second
      clusters: {names: [south]}
      checks:
      - name: load
        job: `+job("3")+`
`)
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectPlaced(ctx, api, map[string]int{"east": 3, "south": 3, "west": 3})

		By("setting a new image: the wave fails, since the address answers too many errors")
		h.Kubectl(ctx, "-n", ns, "patch", "clone/api", "--type=json", "-p",
			`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "`+newAPIImage+`"}]`)
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
			Reason: "WaveFailed"},
			"wave 1 of 2 (canary)", `check "errors" does not hold`, "answered 200: json.errors < 5 is false",
			"flotilla rollout retry")
		h.ExpectPods(ctx, api, byClusterAndImage, map[string]int{"east " + newAPIImage: 3, "south " + apiImage: 3, "west " +
			apiImage: 3, "east " + probeImage: 1})

		By("mending it and trying again: the Job succeeds, and in the next wave another one fails")
		errors.Store(0)
		answer := h.Flotilla(ctx, "rollout", "retry", "clone/api", "-n", ns)
		Expect(answer.Code).To(BeZero(), "%s%s", answer.Out, answer.Talk)
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
			Reason: "WaveFailed"},
			"wave 2 of 2 (second)", `check "load" does not hold: Job api-load-`, "failed in south")
		// The Job of the wave that is over is gone, that of the wave that failed stays to be looked at.
		h.ExpectPods(ctx, api, byClusterAndImage, map[string]int{"east " + newAPIImage: 3, "south " + newAPIImage: 3,
			"west " + apiImage: 3, "south " + probeImage: 1})
		Expect(jobsIn(ctx, ns)).To(HaveExactElements(HavePrefix("south/api-load-")))

		By("taking it back in the middle of the waves: all members at once, and no Job stays")
		answer = h.Flotilla(ctx, "rollout", "undo", "clone/api", "-n", ns)
		Expect(answer.Code).To(BeZero(), "%s%s", answer.Out, answer.Talk)
		h.ExpectPods(ctx, api, byImage, map[string]int{apiImage: 9})
		h.ExpectAtRest(ctx, api, 9)
		Expect(h.MustPlacement(ctx, api).Spec.Wave).To(BeNil())
		Eventually(jobsIn).WithContext(ctx).WithArguments(ns).WithTimeout(harness.Patience).Should(BeEmpty())
	})

	It("whose address answers that the update is bad is rolled back in all members, and goes out when the answers are "+
		"good and it is tried again", func(ctx SpecContext) {
		ns := bare(ctx, "wave-http-rollback")
		api := harness.CloneSet(ns, "api")
		var errors atomic.Int32
		errors.Store(9)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"errors": %d}`, errors.Load())
		}))
		DeferCleanup(server.Close)
		enforce(ctx, ns, policy(ns, "waves", "CloneSet")+`
  rollout:
    strategy: Waves
    onFailure: Rollback
    waves:
    - name: canary
      clusters: {names: [east]}
      checks:
      - name: errors
        http: {url: "`+server.URL+`/errors", expression: json.errors < 5, interval: 5s, failureLimit: 0}
`)
		h.Hub.Apply(ctx, apiSample(ns))
		h.ExpectAtRest(ctx, api, 9)
		h.ExpectPlaced(ctx, api, map[string]int{"east": 3, "south": 3, "west": 3})
		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "patch", "clone/api", "--type=json", "-p",
			`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "`+newAPIImage+`"}]`)
		h.ExpectTold(ctx, api, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
			Reason: "WaveFailed"},
			"wave 1 of 1 (canary)", "was rolled back", `check "errors" does not hold`, "answered 200: json.errors < 5 is false")
		h.ExpectPods(ctx, api, byImage, map[string]int{apiImage: 9})
		history := h.Pods.Since(ctx, before)
		expectAtMost(history, judge.WithImage(newAPIImage), 3, "updated pods")
		expectAtMost(history, judge.Unavailable(9), 2, "unavailable pods")

		By("the answers are good, and it is tried again")
		errors.Store(0)
		answer := h.Flotilla(ctx, "rollout", "retry", "clone/api", "-n", ns)
		Expect(answer.Code).To(BeZero(), "%s%s", answer.Out, answer.Talk)
		h.ExpectPods(ctx, api, byImage, map[string]int{newAPIImage: 9})
		h.ExpectAtRest(ctx, api, 9)
	})

	It("of a UnitedDeployment whose Job fails is rolled back in all members", func(ctx SpecContext) {
		ns := bare(ctx, "wave-rollback")
		web := harness.UnitedDeployment(ns, "web")
		enforce(ctx, ns, policy(ns, "waves", "UnitedDeployment")+`
  rollout:
    strategy: Waves
    onFailure: Rollback
    waves:
    - name: canary
      subsets: [zone-a]
      checks:
      - name: smoke
        job: `+job("1")+`
`)
		h.Hub.Apply(ctx, webSample(ns))
		h.ExpectAtRest(ctx, web, 12)
		before := h.Pods.Mark(ctx, ns)
		h.Kubectl(ctx, "-n", ns, "patch", "ud/web", "--type=json", "-p",
			`[{"op": "replace", "path": "/spec/template/cloneSetTemplate/spec/template/spec/containers/0/image", "value": "`+
				newWebImage+`"}]`)
		h.ExpectTold(ctx, web, metav1.Condition{Type: apps.ConditionStalled, Status: metav1.ConditionTrue,
			Reason: "WaveFailed"},
			"wave 1 of 1 (canary)", "was rolled back", `check "smoke" does not hold`, "failed in")
		h.ExpectPods(ctx, web, byImage, map[string]int{webImage: 12, probeImage: 1})
		expectAtMost(h.Pods.Since(ctx, before), judge.WithImage(newWebImage), 3, "updated pods")
		Expect(h.Kubectl(ctx, "-n", ns, "get", "ud/web", "-o",
			"jsonpath={.spec.template.cloneSetTemplate.spec.template.spec.containers[0].image}")).
			To(Equal(newWebImage), "the workload is the user's")
	})
})

const probeImage = "probe:1"

// job is the template of a Job whose pod ends with this code, on one line.
func job(code string) string {
	return `{template: {spec: {backoffLimit: 0, template: {metadata: {annotations: {sim.flotilla.dev/exit-code: "` + code +
		`"}}, spec: {restartPolicy: Never, containers: [{name: probe, image: "` + probeImage + `"}]}}}}}`
}

// jobsIn names the Jobs of a namespace in all members.
func jobsIn(ctx context.Context, namespace string) ([]string, error) {
	var names []string
	for _, member := range h.MemberNames() {
		list := &batchv1.JobList{}
		if err := h.Members[member].Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			if list.Items[i].DeletionTimestamp == nil {
				names = append(names, member+"/"+list.Items[i].Name)
			}
		}
	}
	return names, nil
}
