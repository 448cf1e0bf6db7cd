package judge

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// SidecarName is the container that a SidecarSet of a log adds to pods.
const SidecarName = "log"

// Sidecars is a version of the SidecarSet on the hub. Its limits are numbers.
type Sidecars struct {
	Name                   string
	Generation             int64
	Image                  string
	Partition, Unavailable int32
}

// ReadSidecars reads a version of a SidecarSet on the hub, which has one sidecar.
func ReadSidecars(object client.Object) *Sidecars {
	set := object.(*apps.SidecarSet)
	if len(set.Spec.Containers) != 1 {
		return nil
	}
	strategy := &set.Spec.UpdateStrategy
	return &Sidecars{Name: set.Name, Generation: set.Generation, Image: set.Spec.Containers[0].Image,
		Partition:   number(strategy.Partition, 0),
		Unavailable: number(strategy.MaxUnavailable, 1)}
}

func number(limit *intstr.IntOrString, absent int32) int32 {
	if limit == nil {
		return absent
	}
	return int32(limit.IntValue())
}

// sidecarOf returns the image of the sidecar that a pod is to run, "" without one.
func sidecarOf(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == SidecarName {
			return pod.Spec.Containers[i].Image
		}
	}
	return ""
}

// injected are the pods with sidecars of a log.
type injected struct {
	newest Sidecars
	// fresh: no pod had the newest image when the user gave it. Pods that have it already count for the partition only
	// once their members have reported that.
	fresh bool
	pods  map[types.UID]sidecarPod
	// most is the largest number of pods that there were.
	most int
	// since is since when more pods are unavailable because of updates than may be, what says so; zero for a time without.
	since time.Time
	what  string
}

type sidecarPod struct {
	image string
	ready bool
	// down: an update made it unavailable. alone: its member was cut off then, and the hub cannot know of it.
	down, alone bool
}

// takeSidecars takes a version of the SidecarSet.
func (c *Checker) takeSidecars(e *Entry) {
	s := &c.injected
	if e.Sidecars.Generation <= s.newest.Generation && e.Sidecars.Name == s.newest.Name {
		return
	}
	if e.Sidecars.Image != s.newest.Image {
		s.fresh = s.count(func(p sidecarPod) bool { return p.image == e.Sidecars.Image }) == 0
	}
	s.newest = *e.Sidecars
	c.record(e.At, e.Cluster, fmt.Sprintf("the user asks: SidecarSet generation %d, %s, partition %d, maxUnavailable %d",
		s.newest.Generation, s.newest.Image, s.newest.Partition, s.newest.Unavailable))
}

func (s *injected) count(is func(sidecarPod) bool) (n int) {
	for _, pod := range s.pods {
		if is(pod) {
			n++
		}
	}
	return n
}

// takeSidecar wants that no more pods get the newest image than the partition lets, and that no more pods are
// unavailable because of updates than may be, over all members.
func (c *Checker) takeSidecar(e *Entry) {
	s, pod := &c.injected, e.Pod
	had, known := s.pods[pod.UID]
	if pod.Sidecar == "" {
		return
	}
	c.ripenSidecars(e.At)
	if !pod.Active {
		delete(s.pods, pod.UID)
		c.settleSidecars(e)
		return
	}
	_, cut := c.cut[e.Cluster]
	now := sidecarPod{image: pod.Sidecar, ready: pod.Ready, down: had.down && !pod.Ready, alone: had.alone}
	updated := known && had.image != now.image
	if updated && had.ready {
		now.down, now.alone = true, cut
	}
	s.pods[pod.UID] = now
	s.most = max(s.most, len(s.pods))
	if updated {
		c.SidecarUpdates++
		c.record(e.At, e.Cluster, fmt.Sprintf("pod %s gets sidecar %s", pod.Name, now.image))
		n := s.count(func(p sidecarPod) bool { return p.image == now.image })
		if most := s.most - int(s.newest.Partition); s.fresh && now.image == s.newest.Image && n > most {
			c.violate(e.At, ruleSidecars, fmt.Sprintf("%d pods have %s: with partition %d at most %d of %d may have it", n,
				now.image, s.newest.Partition, most, s.most))
		}
	}
	c.settleSidecars(e)
}

// settleSidecars looks at how many pods are unavailable because of updates. Events of different members may be seen in
// another order than they happened: what is wrong must be so for a while.
func (c *Checker) settleSidecars(e *Entry) {
	s := &c.injected
	switch n := s.count(func(p sidecarPod) bool { return p.down && !p.alone }); {
	case n <= int(s.newest.Unavailable):
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = e.At
		s.what = fmt.Sprintf("%d pods are unavailable because of updates of their sidecars, at most %d may be", n,
			s.newest.Unavailable)
	}
}

// ripenSidecars makes a violation of what was wrong for long enough.
func (c *Checker) ripenSidecars(now time.Time) {
	s := &c.injected
	if s.since.IsZero() || !now.After(c.stalls.after(s.since, ordering)) {
		return
	}
	c.violate(s.since, ruleSidecars, s.what)
	s.since = time.Time{}
	for uid, pod := range s.pods { // it is said once
		pod.alone = pod.alone || pod.down
		s.pods[uid] = pod
	}
}
