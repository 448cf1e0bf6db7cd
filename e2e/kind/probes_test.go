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

// probes has probes mark the leader of a StatefulSet over both members, and holds that a wave waits for it. The node
// daemon must run in the first member; the pods of the other one are not probed.
func (s *site) probes() {
	s.run("kubectl apply -f e2e/kind/testdata/probed.yaml")
	s.settled("probed", map[string]int{"app:1": 3}, "east", "west")
	s.run("kubectl --namespace shop patch statefulsets.apps.kruise.io/probed --type=json --patch " +
		`'[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"app:2"}]'`)
	s.eventually("the first wave waits for a leader", func(ctx context.Context) string {
		set := &apps.StatefulSet{}
		key := types.NamespacedName{Namespace: "shop", Name: "probed"}
		if err := s.clusters[hub].objects.Get(ctx, key, set); err != nil {
			return err.Error()
		}
		for _, c := range set.Status.Conditions {
			if strings.Contains(c.Message, "pods in role=leader: 0") {
				return ""
			}
		}
		return fmt.Sprintf("%+v", set.Status.Conditions)
	})
	s.run("kubectl --context east apply -f e2e/kind/testdata/probes.yaml")
	s.eventually("the marks of the pods", func(ctx context.Context) string {
		pods, err := s.clusters["east"].core.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{LabelSelector: "app=probed"})
		if err != nil {
			return err.Error()
		}
		for i := range pods.Items {
			role, leads := "follower", corev1.ConditionFalse
			if strings.HasSuffix(pods.Items[i].Name, "-0") {
				role, leads = "leader", corev1.ConditionTrue
			}
			if pods.Items[i].Labels["role"] != role || statusOf(&pods.Items[i], "example.org/leader") != leads {
				return fmt.Sprintf("%s: %v, %+v", pods.Items[i].Name, pods.Items[i].Labels, pods.Items[i].Status.Conditions)
			}
		}
		return ""
	})
	s.settled("probed", map[string]int{"app:2": 3}, "east", "west")
	if says := s.run("flotilla tree asts/probed --namespace shop"); !strings.Contains(says, "role=leader 1 (east 1)") {
		s.t.Errorf("flotilla tree does not show the leader:\n%s", says)
	}
	s.run("kubectl --context east --namespace shop delete podprobemarker roles")
	s.eventually("the marks are taken back", func(ctx context.Context) string {
		pods, err := s.clusters["east"].core.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{LabelSelector: "role"})
		if err != nil || len(pods.Items) > 0 {
			return fmt.Sprintf("%d (%v)", len(pods.Items), err)
		}
		return ""
	})
	s.run("kubectl --namespace shop delete statefulsets.apps.kruise.io/probed federationpolicy/probed")
}

func statusOf(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// lookInto has an EphemeralJob run in all pods of a workload of a member, and an update in place change what containers
// read of a label: the pods stay, and their containers start again. The node daemon must run.
func (s *site) lookInto() {
	const member, namespace = "east", "looked-into"
	c := s.clusters[member]
	kubectl := "kubectl --context " + member + " --namespace " + namespace + " "
	s.run("kubectl --context " + member + " apply -f e2e/kind/testdata/looked-into.yaml")
	s.run(kubectl + "wait ephemeraljob/look --for=condition=JobSucceeded --timeout=3m")
	list := func(ctx context.Context) ([]corev1.Pod, error) {
		pods, err := c.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return nil, err
		}
		return pods.Items, nil
	}
	before := map[types.UID]int32{}
	s.eventually("the daemon reports the containers", func(ctx context.Context) string {
		pods, err := list(ctx)
		if err != nil {
			return err.Error()
		}
		for _, pod := range pods {
			if pod.Annotations["apps.kruise.io/runtime-containers-meta"] == "" || len(pod.Spec.EphemeralContainers) != 1 {
				return fmt.Sprintf("%s: %v", pod.Name, pod.Annotations)
			}
			before[pod.UID] = pod.Status.ContainerStatuses[0].RestartCount
		}
		return ""
	})
	s.run(kubectl + `patch clonesets.apps.kruise.io/web --type=merge --patch ` +
		`'{"spec":{"template":{"metadata":{"labels":{"tier":"b"}}}}}'`)
	s.eventually("the containers see the label", func(ctx context.Context) string {
		pods, err := list(ctx)
		if err != nil {
			return err.Error()
		}
		for _, pod := range pods {
			restarts, same := before[pod.UID]
			if !same {
				return "pod " + pod.Name + " is another one"
			}
			if pod.Labels["tier"] != "b" || pod.Status.ContainerStatuses[0].RestartCount != restarts+1 {
				return fmt.Sprintf("%s: %v, %+v", pod.Name, pod.Labels, pod.Status.ContainerStatuses)
			}
			tier, err := c.core.CoreV1().Pods(namespace).ProxyGet("http", pod.Name, "8080", "env", nil).DoRaw(ctx)
			if err != nil || string(tier) != "b" {
				return fmt.Sprintf("%s has %q (%v)", pod.Name, tier, err)
			}
		}
		return ""
	})
	s.run("kubectl --context " + member + " delete namespace " + namespace)
}
