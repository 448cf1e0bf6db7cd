//go:build e2e

package kind

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// pod is what the story holds about one: that it is the same, and whether its containers were started again.
type pod struct {
	uid      types.UID
	ip       string
	restarts int32
	image    string
	zone     string
	ready    bool
	member   string
}

// pods returns those of an app in members, by name, without those that are being removed.
func (s *site) pods(ctx context.Context, app string, members ...string) (map[string]pod, error) {
	all := map[string]pod{}
	for _, member := range members {
		core := s.clusters[member].core
		nodes, err := core.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list nodes of %s: %w", member, err)
		}
		zone := map[string]string{}
		for i := range nodes.Items {
			zone[nodes.Items[i].Name] = nodes.Items[i].Labels[corev1.LabelTopologyZone]
		}
		list, err := core.CoreV1().Pods(shop).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return nil, fmt.Errorf("list pods of %s: %w", member, err)
		}
		for i := range list.Items {
			if p := &list.Items[i]; p.DeletionTimestamp == nil {
				all[p.Name] = read(p, zone[p.Spec.NodeName], member)
			}
		}
	}
	return all, nil
}

func read(p *corev1.Pod, zone, member string) pod {
	out := pod{uid: p.UID, ip: p.Status.PodIP, zone: zone, member: member}
	for _, c := range p.Status.Conditions {
		out.ready = out.ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	for i := range p.Status.ContainerStatuses {
		// The image that runs, not the one that is asked for: that is what a kubelet says once the container is the new one.
		c := &p.Status.ContainerStatuses[i]
		out.restarts += c.RestartCount
		out.image = c.Image[strings.LastIndex(c.Image, "/")+1:]
	}
	return out
}

// settled waits until an app has as many ready pods in all members as are wanted, and so many of each image, and
// returns them.
func (s *site) settled(app string, images map[string]int, members ...string) map[string]pod {
	s.t.Helper()
	var found map[string]pod
	s.eventually(fmt.Sprintf("%s has %v in %v, all ready", app, images, members), func(ctx context.Context) string {
		var err error
		if found, err = s.pods(ctx, app, members...); err != nil {
			return err.Error()
		}
		have := map[string]int{}
		for _, p := range found {
			if p.ready {
				have[p.image]++
			} else {
				have["not ready"]++
			}
		}
		if !maps.Equal(have, images) {
			return fmt.Sprintf("it has %v", have)
		}
		return ""
	})
	return found
}

// summed waits until the hub's object of the CloneSet says what the members have.
func (s *site) summed(name string, ready, updated int32) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("the hub says that %s has %d ready pods, %d of "+
		"them updated", name, ready, updated), func(ctx context.Context) string {
		c := &apps.CloneSet{}
		if err := s.clusters[hub].objects.Get(ctx, client.ObjectKey{Namespace: shop, Name: name}, c); err != nil {
			return err.Error()
		}
		if c.Status.ObservedGeneration != c.Generation || c.Status.ReadyReplicas != ready ||
			c.Status.UpdatedReadyReplicas != updated {
			return fmt.Sprintf("it says %d of generation %d, %d ready, %d updated and ready", c.Status.ObservedGeneration,
				c.Generation, c.Status.ReadyReplicas, c.Status.UpdatedReadyReplicas)
		}
		return ""
	})
}

// expectSame holds that the pods of before are there as they were, and no others.
func (s *site) expectSame(after string, before, now map[string]pod) {
	s.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if p, ok := now[name]; !ok || p != before[name] {
			s.t.Errorf("after %s %s is %+v, and was %+v", after, name, p, before[name])
		}
	}
	if len(now) != len(before) {
		s.t.Errorf("after %s there are %d pods, and were %d", after, len(now), len(before))
	}
}

// expectServed holds that each pod answers at its address with the version of its image.
func (s *site) expectServed(pods map[string]pod) {
	s.t.Helper()
	for name, p := range pods {
		s.eventually(name+" answers with its version", func(ctx context.Context) string {
			answer, err := s.clusters[p.member].core.CoreV1().Pods(shop).ProxyGet("http", name, "8080", "/", nil).DoRaw(ctx)
			if err != nil {
				return err.Error()
			}
			if "app:"+string(answer) != p.image {
				return fmt.Sprintf("it answers %s and its image is %s", answer, p.image)
			}
			return ""
		})
	}
}

// heard waits until the hub hears of a member, or does not.
func (s *site) heard(member string, ready metav1.ConditionStatus) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%s is Ready=%s on the hub", member, ready), func(ctx context.Context) string {
		m := &topology.MemberCluster{}
		if err := s.clusters[hub].objects.Get(ctx, client.ObjectKey{Name: member}, m); err != nil {
			return err.Error()
		}
		for _, c := range m.Status.Conditions {
			if c.Type == "Ready" {
				if c.Status == ready || ready == metav1.ConditionFalse && c.Status == metav1.ConditionUnknown {
					return ""
				}
				return fmt.Sprintf("it is %s: %s", c.Status, c.Message)
			}
		}
		return "it has no such condition"
	})
}
