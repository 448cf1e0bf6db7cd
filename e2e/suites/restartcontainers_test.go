//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

var _ = Describe("A restart of containers on a hub", func() {
	It("goes from member to member, one pod at a time, also when hub and agent restart", func(ctx SpecContext) {
		ns := federated(ctx, "restart")
		web := harness.CloneSet(ns, "web")
		h.Hub.Apply(ctx, cloneSet(ns, "web", 6, webImage, "maxUnavailable: 1"))
		h.ExpectAtRest(ctx, web, 6)
		h.ExpectPods(ctx, web, harness.ByCluster, map[string]int{"east": 2, "south": 2, "west": 2})

		By("restarting with a maxUnavailable below the number of members")
		start := h.Pods.Mark(ctx, ns)
		answer := h.Flotilla(ctx, "restart", "clone/web", "-n", ns)
		Expect(answer.Code).To(BeZero(), answer.Talk)
		expectRestarted(ctx, ns, 2)
		kill(ctx, fleet.HubProgram, fleet.AgentName("south"))
		restart(ctx, fleet.HubProgram, fleet.AgentName("south"))
		expectRestarted(ctx, ns, 6)
		h.ExpectAtRest(ctx, web, 6)
		history := h.Pods.Since(ctx, start)
		expectAtMost(history, judge.Unavailable(6), 1, "unavailable pods")
		Expect(history.Gone()).To(BeEmpty(), "pods stay")
		Expect(history.Restarted()).To(HaveLen(6))
	})
})

// expectRestarted plays the daemons of all nodes until so many pods of the namespace say that they have restarted.
func expectRestarted(ctx context.Context, namespace string, want int) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (int, error) {
		restarted := 0
		for _, member := range h.Members {
			if err := playDaemons(ctx, member, namespace); err != nil {
				return 0, err
			}
			var pods corev1.PodList
			if err := member.Client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
				return 0, err
			}
			for i := range pods.Items {
				if pods.Items[i].Annotations[apps.AnnotationRestarted] != "" {
					restarted++
				}
			}
		}
		return restarted, nil
	}).WithTimeout(harness.Patience).WithPolling(50*time.Millisecond).Should(BeNumerically(">=", want),
		"pods that have restarted")
}

// playDaemons does what flotilla-node does with the ContainerRecreateRequests of a namespace.
func playDaemons(ctx context.Context, member *harness.Cluster, namespace string) error {
	var list apps.ContainerRecreateRequestList
	if err := member.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		err := playDaemon(ctx, member, &list.Items[i])
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("serve request %s in %s: %w", list.Items[i].Name, member.Name, err)
		}
	}
	return nil
}

// playDaemon takes one request a step on: it begins, the container stops, the kubelet starts it again, and it ends.
func playDaemon(ctx context.Context, member *harness.Cluster, request *apps.ContainerRecreateRequest) error {
	name := request.Spec.Containers[0].Name
	begun := meta.IsStatusConditionTrue(request.Status.Conditions, apps.ConditionPreRecreateGrace)
	switch {
	case request.Status.Phase == "":
		request.Status.Phase = apps.CRRRecreating
		request.Status.ContainerRecreateStates = []apps.ContainerRecreateState{{Name: name, Phase: apps.CRRPending}}
		return member.Client.Status().Update(ctx, request)
	case request.Status.Phase == apps.CRRCompleted || !begun:
		return nil
	}
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: request.Namespace, Name: request.Spec.PodName}
	if err := member.Client.Get(ctx, key, pod); err != nil {
		return err
	}
	at := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if at < 0 {
		return nil
	}
	switch status := &pod.Status.ContainerStatuses[at]; {
	case status.ContainerID == request.Spec.Containers[0].StatusContext.ContainerID && status.State.Running != nil:
		status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: status.ContainerID,
			StartedAt: status.State.Running.StartedAt, FinishedAt: metav1.Now()}}
		status.Ready = false
		return member.Client.Status().Update(ctx, pod)
	case status.Ready && len(request.Status.ContainerStatusSnapshot) > 0:
		request.Status.Phase, request.Status.CompletionTime = apps.CRRCompleted, new(metav1.Now())
		request.Status.ContainerRecreateStates[0].Phase = apps.CRRSucceeded
		return member.Client.Status().Update(ctx, request)
	}
	return nil
}
