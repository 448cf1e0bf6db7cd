package pods

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// Pod is a row of `flotilla get pods`.
type Pod struct {
	Member    string `json:"member"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ready of Containers are ready.
	Ready      int `json:"ready"`
	Containers int `json:"containers"`
	// Status is what kubectl shows as STATUS.
	Status   string `json:"status"`
	Restarts int32  `json:"restarts"`
	// RestartedSeconds is how long ago a container last ended and was started again; absent for never.
	RestartedSeconds *int64   `json:"restartedSeconds,omitempty"`
	AgeSeconds       int64    `json:"ageSeconds"`
	Node             string   `json:"node,omitempty"`
	IP               string   `json:"ip,omitempty"`
	Images           []string `json:"images,omitempty"`
}

// rowOf makes the row of a pod. It is pure.
func rowOf(member string, pod *corev1.Pod, now time.Time) Pod {
	p := Pod{
		Member: member, Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, IP: pod.Status.PodIP,
		AgeSeconds: int64(now.Sub(pod.CreationTimestamp.Time) / time.Second), Containers: len(pod.Spec.Containers),
	}
	for i := range pod.Spec.Containers {
		p.Images = append(p.Images, pod.Spec.Containers[i].Image)
	}
	p.Status = string(pod.Status.Phase)
	if pod.Status.Reason != "" {
		p.Status = pod.Status.Reason
	}
	if c := podstate.Condition(pod, corev1.PodScheduled); c != nil && c.Reason == corev1.PodReasonSchedulingGated {
		p.Status = c.Reason
	}
	last, waiting := p.initContainers(pod)
	if !waiting {
		last = p.regularContainers(pod, last)
	}
	if !last.IsZero() {
		p.RestartedSeconds = new(int64(now.Sub(last) / time.Second))
	}
	if pod.DeletionTimestamp != nil {
		switch {
		case pod.Status.Reason == "NodeLost":
			p.Status = "Unknown"
		case !podstate.Ended(pod):
			p.Status = "Terminating"
		}
	}
	return p
}

// initContainers counts the containers that run beside the regular ones, and reports whether the pod still waits for
// its init containers. last is when a container that counts last ended.
func (p *Pod) initContainers(pod *corev1.Pod) (last time.Time, waiting bool) {
	beside := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			beside[c.Name] = true
			p.Containers++
		}
	}
	var all, counted int32
	var newest, newestBeside time.Time
	found := ""
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		all += c.RestartCount
		newest = later(newest, endedAt(c))
		if beside[c.Name] {
			counted += c.RestartCount
			newestBeside = later(newestBeside, endedAt(c))
		}
		if found == "" {
			found = p.initStatus(pod, c, i, beside[c.Name])
		}
	}
	initialized := podstate.Condition(pod, corev1.PodInitialized)
	if found == "" || initialized != nil && initialized.Status == corev1.ConditionTrue {
		p.Restarts = counted
		return newestBeside, false
	}
	p.Status, p.Restarts = found, all
	return newest, true
}

// initStatus returns what the status says of an init container that has not done its part, "" for one that has.
func (p *Pod) initStatus(pod *corev1.Pod, c *corev1.ContainerStatus, number int, beside bool) string {
	ended, waits := c.State.Terminated, c.State.Waiting
	switch {
	case ended != nil && ended.ExitCode == 0:
		return ""
	case beside && c.Started != nil && *c.Started:
		if c.Ready {
			p.Ready++
		}
		return ""
	case ended != nil:
		return "Init:" + endText(ended)
	case waits != nil && waits.Reason != "" && waits.Reason != "PodInitializing":
		return "Init:" + waits.Reason
	}
	return fmt.Sprintf("Init:%d/%d", number, len(pod.Spec.InitContainers))
}

// regularContainers adds what the regular containers say. The first one that does not run gives the status.
func (p *Pod) regularContainers(pod *corev1.Pod, last time.Time) time.Time {
	running := false
	for i := range slices.Backward(pod.Status.ContainerStatuses) {
		c := &pod.Status.ContainerStatuses[i]
		p.Restarts += c.RestartCount
		last = later(last, endedAt(c))
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			p.Status = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			p.Status = endText(c.State.Terminated)
		case c.Ready && c.State.Running != nil:
			running = true
			p.Ready++
		}
	}
	if p.Status == "Completed" && running { // others of its containers run
		p.Status = "NotReady"
		if podstate.Ready(pod) {
			p.Status = string(corev1.PodRunning)
		}
	}
	return last
}

// endText says why a container ended.
func endText(ended *corev1.ContainerStateTerminated) string {
	switch {
	case ended.Reason != "":
		return ended.Reason
	case ended.Signal != 0:
		return fmt.Sprintf("Signal:%d", ended.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", ended.ExitCode)
}

func endedAt(c *corev1.ContainerStatus) time.Time {
	if c.LastTerminationState.Terminated == nil {
		return time.Time{}
	}
	return c.LastTerminationState.Terminated.FinishedAt.Time
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// podsText writes the table, with the namespaces where it has several.
func podsText(rows []Pod, namespaces, wide bool) string {
	var text strings.Builder
	column := func(on bool, name string) string {
		if on {
			return name + "\t"
		}
		return ""
	}
	text.WriteString("MEMBER\t" + column(namespaces, "NAMESPACE") + "NAME\tREADY\tSTATUS\tRESTARTS\tAGE\tNODE\t" +
		column(wide, "IP") + column(wide, "IMAGES") + "\n")
	for i := range rows {
		p := &rows[i]
		restarts := fmt.Sprint(p.Restarts)
		if p.Restarts > 0 && p.RestartedSeconds != nil {
			restarts += fmt.Sprintf(" (%s ago)", age(*p.RestartedSeconds))
		}
		fmt.Fprintf(&text, "%s\t%s%s\t%d/%d\t%s\t%s\t%s\t%s\t%s%s\n", p.Member, column(namespaces, p.Namespace), p.Name,
			p.Ready, p.Containers, p.Status, restarts, age(p.AgeSeconds), dash(p.Node), column(wide, dash(p.IP)),
			column(wide, dash(strings.Join(p.Images, ","))))
	}
	return text.String()
}

func age(seconds int64) string { return duration.HumanDuration(time.Duration(seconds) * time.Second) }

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
