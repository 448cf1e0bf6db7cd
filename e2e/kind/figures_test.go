//go:build e2e

package kind

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
)

// full is the namespace of the pods that fill a node, and how many pods a kubelet takes.
const (
	full     = "full"
	capacity = 110
)

// figures prints, if FLOTILLA_FIGURES is set, what the node daemon takes on a node with 110 pods and 50 probes beside
// the kubelet there, and how long a restart of the containers of 50 pods takes beside new pods. The daemon must run.
func (s *site) figures() {
	if os.Getenv("FLOTILLA_FIGURES") == "" {
		return
	}
	const member = "east"
	c := s.clusters[member]
	node := workers(c)[0]
	there, err := c.core.CoreV1().Pods("").List(s.t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(s.root, "e2e", "kind", "testdata", "full.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	rest := capacity - 50 - len(there.Items)
	file := filepath.Join(s.home, "full.yaml")
	text = []byte(strings.NewReplacer("NODE", node, "REST", fmt.Sprint(rest)).Replace(string(text)))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.run("kubectl --context " + member + " apply -f " + file)
	s.ready(c, "app=probed", 50, "example.org/answers")
	s.ready(c, "app=plain", rest)
	took := s.run("docker exec --interactive " + node + " bash < e2e/kind/testdata/sample.sh")
	s.t.Logf("%d pods on %s, of one minute:\n%s", capacity, node, took)

	began := time.Now()
	s.run("flotilla restart clone/probed --context " + member + " --namespace " + full)
	s.eventually("all containers have restarted", func(ctx context.Context) string {
		return s.each(ctx, c, "app=probed", func(pod *corev1.Pod) bool {
			return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].RestartCount == 1
		})
	})
	s.ready(c, "app=probed", 50)
	s.t.Logf("%.0f s: flotilla restart of 50 pods, 10 at a time", time.Since(began).Seconds())
	began = time.Now()
	s.run("kubectl --context " + member + " --namespace " + full + " patch clonesets.apps.kruise.io/probed --type merge " +
		`--patch '{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}'`)
	s.eventually("all pods are new", func(ctx context.Context) string {
		return s.each(ctx, c, "app=probed", func(pod *corev1.Pod) bool {
			return pod.Annotations["kubectl.kubernetes.io/restartedAt"] != "" && pod.DeletionTimestamp == nil
		})
	})
	s.ready(c, "app=probed", 50)
	s.t.Logf("%.0f s: what kubectl rollout restart asks for, of the same pods", time.Since(began).Seconds())
	s.run("kubectl --context " + member + " delete namespace " + full)
}

// ready waits until so many pods of the namespace are Ready and have the conditions.
func (s *site) ready(c *cluster, selector string, count int, conditions ...corev1.PodConditionType) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%d pods of %s are Ready", count, selector), func(ctx context.Context) string {
		found := 0
		problem := s.each(ctx, c, selector, func(pod *corev1.Pod) bool {
			found++
			for _, kind := range append(conditions, corev1.PodReady) {
				if statusOf(pod, kind) != corev1.ConditionTrue {
					return false
				}
			}
			return pod.DeletionTimestamp == nil
		})
		if problem == "" && found != count {
			return fmt.Sprintf("%d pods", found)
		}
		return problem
	})
}

// each returns how many pods of the namespace are otherwise, "" for none.
func (s *site) each(ctx context.Context, c *cluster, selector string, holds func(*corev1.Pod) bool) string {
	pods, err := c.core.CoreV1().Pods(full).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err.Error()
	}
	otherwise := 0
	for i := range pods.Items {
		if !holds(&pods.Items[i]) {
			otherwise++
		}
	}
	if otherwise > 0 {
		return fmt.Sprintf("%d of %d pods are not", otherwise, len(pods.Items))
	}
	return ""
}
