//go:build e2e

package kind

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// restarting is the namespace of the pods whose containers restart.
const restarting = "restarts"

// restarts has the node daemon of a member restart containers, and stop the sidecar of a job. The daemon must run.
func (s *site) restarts() {
	const member = "east"
	c := s.clusters[member]
	kubectl := "kubectl --context " + member + " --namespace " + restarting + " "
	s.run("kubectl --context " + member + " apply -f e2e/kind/testdata/restarts.yaml")
	s.run(kubectl + "wait pod/web --for=condition=Ready --timeout=2m")
	before := s.podOf(c, "web")
	// Two requests at once: one stops the container, the other one finds that it has restarted.
	s.run("kubectl --context " + member + " apply -f e2e/kind/testdata/restart-requests.yaml")
	for _, name := range []string{"first", "second"} {
		s.eventually("the request "+name, func(ctx context.Context) string {
			request := &apps.ContainerRecreateRequest{}
			if err := c.objects.Get(ctx, types.NamespacedName{Namespace: restarting, Name: name}, request); err != nil {
				return err.Error()
			}
			states := request.Status.ContainerRecreateStates
			if request.Status.Phase != apps.CRRCompleted || len(states) != 1 || states[0].Phase != apps.CRRSucceeded {
				return fmt.Sprintf("%+v", request.Status)
			}
			return ""
		})
	}
	now := s.podOf(c, "web")
	if now.UID != before.UID || now.Status.PodIP != before.Status.PodIP ||
		now.Status.ContainerStatuses[0].RestartCount != before.Status.ContainerStatuses[0].RestartCount+1 {
		s.t.Errorf("two requests made of %+v: %+v", before.Status, now.Status)
	}
	s.eventually("the job ends with its sidecar", func(context.Context) string {
		pod := s.podOf(c, "job")
		if pod.Status.Phase != corev1.PodFailed {
			return fmt.Sprintf("%s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return ""
	})
	events := s.run(kubectl + "get events --output jsonpath={.items[*].reason}")
	if strings.Contains(events, "FailedPreStopHook") || !strings.Contains(events, "SidecarTerminator") {
		s.t.Errorf("events: %s", events)
	}
	s.run("kubectl --context " + member + " delete namespace " + restarting)
}

func (s *site) podOf(c *cluster, name string) *corev1.Pod {
	s.t.Helper()
	pod, err := c.core.CoreV1().Pods(restarting).Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return pod
}
