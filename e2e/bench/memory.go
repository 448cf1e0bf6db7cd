package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const (
	memorySectionName = "memory"
	// memoryAim is what the agent may hold with 50 000 pods, in MiB.
	memoryAim = 400
	// selectedPods is how many of the pods SidecarSets and budgets select.
	selectedPods = 1000
)

// memorySection measures what the agent holds in a cluster with many pods, few of which are its own: while they come,
// and after it has started again and listed them.
func memorySection(ctx context.Context, b *bench) error {
	return inPendingCluster(ctx, b, func(ctx context.Context, f *fleet.Fleet, c *connection) error {
		a := &admissions{bench: b, connection: c, fleet: f}
		if err := a.createNamespace(ctx, string(sideChain), nil); err != nil {
			return err
		}
		if err := a.fill(ctx); err != nil {
			return err
		}
		if err := a.eventually(ctx, "pods get their sidecars", func(ctx context.Context) string {
			return a.injected(ctx, sideChain, true)
		}); err != nil {
			return err
		}
		began := time.Now()
		a.say("creating %d pods, %d of which are selected", b.memory, min(selectedPods, b.memory))
		if err := parallel(ctx, b.memory, a.createRunning); err != nil {
			return fmt.Errorf("create pods: %w", err)
		}
		a.say("created them in %s", time.Since(began).Round(time.Second))
		if err := a.holds(ctx, "after they were created"); err != nil {
			return err
		}
		name := fleet.AgentName(c.cluster.Name)
		if err := f.Quit(ctx, name); err != nil {
			return err
		}
		if err := f.Restart(name); err != nil {
			return err
		}
		if err := f.WaitReady(ctx, name); err != nil {
			return err
		}
		return a.holds(ctx, "after a restart")
	})
}

// createRunning makes pod i, which runs on a node.
func (a *admissions) createRunning(ctx context.Context, i int) error {
	app := "plain"
	if i < selectedPods {
		app = appOf(i % sidecarSets)
	}
	pods := a.core.CoreV1().Pods(string(sideChain))
	pod := podFor(fmt.Sprintf("pod-%d", i), app)
	pod.Spec.NodeName = fmt.Sprintf("node-%d", i%100)
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	// A patch, because the agent writes a condition of pods with sidecars.
	patch, err := json.Marshal(map[string]any{"status": runningStatus(pod)})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// runningStatus is what a kubelet writes of a pod that is ready.
func runningStatus(pod *corev1.Pod) corev1.PodStatus {
	now := metav1.Now()
	status := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", HostIP: "10.1.0.1", StartTime: &now,
		PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}, HostIPs: []corev1.HostIP{{IP: "10.1.0.1"}}}
	for _, condition := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized,
		corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue,
			LastTransitionTime: now})
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, Started: new(true), Image: c.Image,
			ImageID: c.Image + "@sha256:" + string(pod.UID), ContainerID: "containerd://" + string(pod.UID),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return status
}

// holds reports the memory of the agent: the most that it had within half a minute, and what it has then.
func (a *admissions) holds(ctx context.Context, when string) error {
	const looks, interval = 60, 500 * time.Millisecond
	most, last := 0.0, 0.0
	for range looks {
		now, err := readUsage(a.fleet.Pid(fleet.AgentName(a.cluster.Name)))
		if err != nil {
			return fmt.Errorf("memory of the agent: %w", err)
		}
		last = now.rss
		most = max(most, last)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(interval):
		}
	}
	title := fmt.Sprintf("agent with %d pods %s", a.bench.memory, when)
	a.report.addWithFloor(memorySectionName, title+", at most", "MiB", most, "aim", memoryAim)
	a.report.addWithFloor(memorySectionName, title+", at last", "MiB", last, "aim", memoryAim)
	return nil
}
