package simulator

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// Kubelet is the scheduler and the kubelets of all nodes. It takes each pod a step on whenever something happened to
// it.
type Kubelet struct {
	// Bad are images that cannot be pulled.
	Bad map[string]bool
	// Refuse keeps pods from being scheduled.
	Refuse bool

	world  *World
	random *rand.Rand
	nodes  []string
	down   map[string]bool
	pods   map[types.UID]*sandbox
	held   map[types.UID]bool
}

// sandbox is what a kubelet knows of a pod of its own.
type sandbox struct {
	due     time.Time
	running map[string]string // images by container
	started map[string]time.Time
	readyAt map[string]time.Time
	sizes   map[string]corev1.ResourceRequirements // what containers were given
	sizeAt  map[string]time.Time                   // when they are given what they do not have yet
	goneAt  time.Time
	made    int // containers started so far
}

func newKubelet(w *World) *Kubelet {
	return &Kubelet{
		Bad: map[string]bool{}, world: w, random: w.Random("kubelet"), down: map[string]bool{},
		nodes: []string{"node-a", "node-b", "node-c"}, pods: map[types.UID]*sandbox{}, held: map[types.UID]bool{},
	}
}

// changed is told of every change of a pod.
func (k *Kubelet) changed(key types.NamespacedName, after client.Object) {
	if after != nil {
		k.sync(key, after.GetUID(), k.moment())
	}
}

// moment is how long a step takes.
func (k *Kubelet) moment() time.Duration { return upTo(k.random, k.world.Profile.Kubelet) }

// sync looks at a pod after d, or earlier if that is planned already.
func (k *Kubelet) sync(key types.NamespacedName, uid types.UID, d time.Duration) {
	box := k.pods[uid]
	if box == nil {
		box = &sandbox{running: map[string]string{}, started: map[string]time.Time{}, readyAt: map[string]time.Time{},
			sizes: map[string]corev1.ResourceRequirements{}, sizeAt: map[string]time.Time{}}
		k.pods[uid] = box
	}
	at := k.world.Now().Add(d)
	if !box.due.IsZero() && !box.due.After(at) {
		return
	}
	box.due = at
	k.world.After(d, func() {
		if !box.due.Equal(at) {
			return
		}
		box.due = time.Time{}
		if pod, ok := k.world.server.get("Pod", key).(*corev1.Pod); ok && pod.UID == uid {
			k.step(key, pod, box)
		}
	})
}

// again looks at a pod when at has come.
func (k *Kubelet) again(key types.NamespacedName, pod *corev1.Pod, at time.Time) {
	k.sync(key, pod.UID, at.Sub(k.world.Now()))
}

// step takes a pod one step on.
func (k *Kubelet) step(key types.NamespacedName, pod *corev1.Pod, box *sandbox) {
	now := k.world.Now()
	switch {
	case pod.Spec.NodeName == "":
		k.schedule(key, pod)
	case k.down[pod.Spec.NodeName]:
		// It goes on when the node comes back.
	case pod.DeletionTimestamp != nil:
		if box.goneAt.IsZero() {
			box.goneAt = now.Add(min(4*k.moment(), time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second))
		}
		if now.Before(box.goneAt) {
			k.again(key, pod, box.goneAt)
			return
		}
		if k.held[pod.UID] {
			return
		}
		k.world.Tell("kubelet: %s is gone", key.Name)
		_ = k.world.server.delete("Pod", key, client.DeleteOptions{GracePeriodSeconds: new(int64(0))}) // it exists
	case podstate.Ended(pod):
	case pod.Spec.ActiveDeadlineSeconds != nil && pod.Status.Phase == corev1.PodRunning:
		end := pod.CreationTimestamp.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
		if now.Before(end) {
			k.again(key, pod, end)
			return
		}
		k.fail(key, "DeadlineExceeded")
	default:
		k.run(key, pod, box)
	}
}

// schedule gives a pod a node. A pod that is made for one node gets it, also if the node is down.
func (k *Kubelet) schedule(key types.NamespacedName, pod *corev1.Pod) {
	var up []string
	if node := podset.NodeOf(pod); node != "" {
		if slices.Contains(k.nodes, node) && !k.Refuse {
			k.bind(key, node)
		}
		return
	}
	for _, node := range k.nodes {
		if !k.down[node] {
			up = append(up, node)
		}
	}
	if len(up) == 0 || k.Refuse || !k.world.storage.ready(pod) {
		return
	}
	k.bind(key, up[k.random.IntN(len(up))])
}

func (k *Kubelet) bind(key types.NamespacedName, node string) {
	k.must(k.world.Change("Pod", key, func(obj client.Object) {
		if pod, ok := obj.(*corev1.Pod); ok {
			pod.Spec.NodeName = node
		}
	}))
}

// run brings the containers to what the spec says, and tells it in the status.
func (k *Kubelet) run(key types.NamespacedName, pod *corev1.Pod, box *sandbox) {
	now := k.world.Now()
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if box.running[c.Name] == c.Image {
			k.resize(key, pod, c, box)
			continue
		}
		if box.running[c.Name] != "" || box.started[c.Name].IsZero() {
			delete(box.running, c.Name)
			box.started[c.Name] = now.Add(k.startup())
		}
		if at := box.started[c.Name]; now.Before(at) {
			k.again(key, pod, at)
			continue
		}
		if k.Bad[c.Image] {
			continue
		}
		k.world.Tell("kubelet: %s runs %s", key.Name, c.Image)
		box.running[c.Name] = c.Image
		box.made++
		box.readyAt[c.Name] = now.Add(k.moment())
		box.sizes[c.Name] = c.Resources
		delete(box.sizeAt, c.Name)
	}
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		if at := box.readyAt[name]; box.running[name] != "" && now.Before(at) {
			k.again(key, pod, at)
		}
	}
	k.report(key, box)
}

// resize gives a running container other resources, a moment after they were asked for.
func (k *Kubelet) resize(key types.NamespacedName, pod *corev1.Pod, c *corev1.Container, box *sandbox) {
	if equality.Semantic.DeepEqual(box.sizes[c.Name], c.Resources) {
		return
	}
	now := k.world.Now()
	if box.sizeAt[c.Name].IsZero() {
		box.sizeAt[c.Name] = now.Add(k.moment())
	}
	if at := box.sizeAt[c.Name]; now.Before(at) {
		k.again(key, pod, at)
		return
	}
	k.world.Tell("kubelet: %s has cpu %s", key.Name, c.Resources.Requests.Cpu())
	box.sizes[c.Name] = c.Resources
	delete(box.sizeAt, c.Name)
}

// startup is how long a container takes to start.
func (k *Kubelet) startup() time.Duration {
	d := k.moment()
	if n := k.world.Profile.SlowPods; n > 0 && k.random.IntN(n) == 0 {
		d *= 10
	}
	return d
}

// report writes the status of a pod.
func (k *Kubelet) report(key types.NamespacedName, box *sandbox) {
	now := k.world.Now()
	k.must(k.world.ChangeStatus("Pod", key, func(obj client.Object) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return
		}
		if len(box.running) == len(pod.Spec.Containers) {
			pod.Status.Phase = corev1.PodRunning
		}
		ready := true
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			status := containerStatus(pod, c.Name)
			status.Ready = box.running[c.Name] != "" && !now.Before(box.readyAt[c.Name])
			ready = ready && status.Ready
			if box.running[c.Name] == "" {
				reason := "ContainerCreating"
				if k.Bad[c.Image] {
					reason = "ImagePullBackOff"
				}
				status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
				continue
			}
			if status.State.Running == nil {
				status.RestartCount = int32(max(0, (box.made-1)/len(pod.Spec.Containers)))
				status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: k.second()}}
				status.ContainerID = fmt.Sprintf("sim://%s/%s/%d", pod.UID, c.Name, box.made)
			}
			if size := box.sizes[c.Name]; len(size.Requests)+len(size.Limits) > 0 {
				status.Resources = size.DeepCopy()
			}
			status.Image, status.ImageID = box.running[c.Name], "sim-pullable://"+box.running[c.Name]
		}
		gates := true
		for _, gate := range pod.Spec.ReadinessGates {
			c := podstate.Condition(pod, gate.ConditionType)
			gates = gates && c != nil && c.Status == corev1.ConditionTrue
		}
		k.condition(pod, corev1.ContainersReady, ready)
		k.condition(pod, corev1.PodReady, ready && gates)
	}))
}

// second is the time as the API tells it.
func (k *Kubelet) second() metav1.Time { return metav1.NewTime(k.world.Now().Truncate(time.Second)) }

func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == name {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name})
	return &pod.Status.ContainerStatuses[len(pod.Status.ContainerStatuses)-1]
}

func (k *Kubelet) condition(pod *corev1.Pod, kind corev1.PodConditionType, yes bool) {
	status := corev1.ConditionFalse
	if yes {
		status = corev1.ConditionTrue
	}
	c := podstate.Condition(pod, kind)
	if c == nil {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind})
		c = &pod.Status.Conditions[len(pod.Status.Conditions)-1]
	}
	if c.Status != status {
		c.Status, c.Reason, c.LastTransitionTime = status, "", k.second()
	}
}

// must notes an error of the simulation itself.
func (k *Kubelet) must(err error) {
	if err != nil {
		k.world.Fail(fmt.Errorf("the simulated kubelet: %w", err))
	}
}

// Nodes returns the names of the nodes.
func (k *Kubelet) Nodes() []string { return k.nodes }

// Crash ends all containers of a pod; they are started again.
func (k *Kubelet) Crash(key types.NamespacedName) {
	pod, ok := k.world.server.get("Pod", key).(*corev1.Pod)
	if !ok || k.pods[pod.UID] == nil || k.down[pod.Spec.NodeName] || pod.DeletionTimestamp != nil {
		return
	}
	k.world.Tell("%s crashes", key.Name)
	box := k.pods[pod.UID]
	box.running = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(box.started)) {
		box.started[name] = k.world.Now().Add(k.moment())
	}
	k.step(key, pod, box)
}

// Hold keeps a pod terminating when it is deleted, as a volume does that cannot be unmounted; it returns what lets go.
func (k *Kubelet) Hold(key types.NamespacedName) (letGo func()) {
	pod := k.world.server.get("Pod", key)
	if pod == nil {
		return func() {}
	}
	uid := pod.GetUID()
	k.held[uid] = true
	return func() {
		delete(k.held, uid)
		k.sync(key, uid, k.moment())
	}
}

// Evict makes a pod fail for good.
func (k *Kubelet) Evict(key types.NamespacedName) {
	k.fail(key, "Evicted")
}

func (k *Kubelet) fail(key types.NamespacedName, reason string) {
	k.world.Tell("%s fails: %s", key.Name, reason)
	k.must(k.world.ChangeStatus("Pod", key, func(obj client.Object) {
		if pod, ok := obj.(*corev1.Pod); ok {
			pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, reason
			k.condition(pod, corev1.PodReady, false)
		}
	}))
}

// Lose takes a node away: its pods turn not ready, and are deleted after a time, but stay until the node comes back.
func (k *Kubelet) Lose(node string, evictAfter time.Duration) {
	if k.down[node] {
		return
	}
	k.world.Tell("%s is lost", node)
	k.down[node] = true
	k.onNode(node, func(key types.NamespacedName) {
		k.must(k.world.ChangeStatus("Pod", key, func(obj client.Object) {
			if pod, ok := obj.(*corev1.Pod); ok {
				k.condition(pod, corev1.PodReady, false)
			}
		}))
	})
	k.world.After(evictAfter, func() {
		if k.down[node] {
			k.onNode(node, func(key types.NamespacedName) {
				k.world.Tell("%s is deleted, as its node is lost", key.Name)
				k.must(k.world.Delete("Pod", key))
			})
		}
	})
}

// Join adds a node.
func (k *Kubelet) Join(node string) {
	if !slices.Contains(k.nodes, node) {
		k.world.Tell("%s joins", node)
		k.nodes = append(k.nodes, node)
		k.Recover(node)
		k.Retry()
	}
}

// Leave takes a node away for good. Its pods are deleted by force after a time, as the garbage collector of pods does.
func (k *Kubelet) Leave(node string, collectAfter time.Duration) {
	k.world.Tell("%s leaves", node)
	k.nodes = slices.DeleteFunc(k.nodes, func(other string) bool { return other == node })
	k.down[node] = true
	k.world.After(collectAfter, func() {
		if slices.Contains(k.nodes, node) {
			return
		}
		k.onNode(node, func(key types.NamespacedName) {
			// It exists.
			_ = k.world.server.delete("Pod", key, client.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		})
	})
}

// Recover brings a node back.
func (k *Kubelet) Recover(node string) {
	if !k.down[node] {
		return
	}
	k.world.Tell("%s is back", node)
	delete(k.down, node)
	k.Retry()
}

// Retry looks at every pod again: after a node is back, an image is there, or pods are scheduled again.
func (k *Kubelet) Retry() {
	for _, obj := range k.world.server.list("Pod") {
		k.sync(client.ObjectKeyFromObject(obj), obj.GetUID(), k.moment())
	}
}

func (k *Kubelet) onNode(node string, do func(types.NamespacedName)) {
	for _, obj := range k.world.server.list("Pod") {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName == node {
			do(client.ObjectKeyFromObject(pod))
		}
	}
}
