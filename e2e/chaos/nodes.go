package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/daemons"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/restarts"
)

const (
	// markerName is the PodProbeMarker of a run, which probes the pods of injectedScene and marks them by roleLabel.
	markerName = "roles"
	probeName  = markerName + "#leader"
	roleLabel  = "role"
	leader     = "leader"
	follower   = "follower"
	// pulledImage is pulled by the ImagePullJobs of a run, a tag each.
	pulledImage = "registry.example/pulled"
)

// broken reports whether no pull succeeds on a node: on about one of five.
func broken(member, node string) bool {
	const oneOf = 5
	hash := fnv.New32a()
	_, _ = fmt.Fprint(hash, member, "/", node) // it cannot fail
	return hash.Sum32()%oneOf == 0
}

// startDaemons plays the node daemons of all members until life ends.
func (s *stage) startDaemons(life context.Context, seed uint64) error {
	s.daemons = map[string]*daemons.Member{}
	for i, name := range s.h.MemberNames() {
		m, err := daemons.Start(life, s.h.Members[name].RESTConfig(), daemons.Options{
			Seed:    seed + uint64(i),
			Stopped: func(stop daemons.Stop) { s.recorder.stopped(name, stop) },
			Broken:  func(node string) bool { return broken(name, node) },
		})
		if err != nil {
			return fmt.Errorf("start the node daemons of %s: %w", name, err)
		}
		s.daemons[name] = m
	}
	return nil
}

// stopped records that a daemon stopped a container.
func (r *recorder) stopped(member string, stop daemons.Stop) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stop.Namespace != r.namespace {
		return
	}
	r.log = append(r.log, judge.Entry{At: time.Now(), Cluster: member, Stop: &judge.Stop{Pod: stop.UID, Name: stop.Pod,
		Request: stop.Request, Container: stop.Container, ID: stop.ID, Wanted: stop.Wanted}})
}

// killDaemon kills the daemon of a node, which starts again after a time.
func (f *faults) killDaemon(ctx context.Context, draw *rand.Rand) {
	member := f.member(draw)
	nodes := f.daemons[member].Nodes()
	if len(nodes) == 0 {
		return
	}
	node, length := nodes[draw.IntN(len(nodes))], upTo(draw, 12*time.Second)
	name := member + "/" + node + " daemon"
	if !f.take("node daemon killed", name) {
		return
	}
	defer f.release(name)
	f.note(member, "the daemon of node %s is killed", node)
	f.daemons[member].Kill(node, time.Now().Add(length))
	pause(ctx, length)
}

// nodework is what node daemons do in a run beside restarts: pulls of images, and probes.
type nodework struct {
	h         *harness.Harness
	daemons   map[string]*daemons.Member
	namespace string
	draw      *rand.Rand
	jobs      []string
	changes   int

	mu sync.Mutex
	// left are the nodes that were removed, as <member>/<node>.
	left map[string]bool
}

// workNodes makes the PodProbeMarker of a run, and the policy for it and for ImagePullJobs.
func (s *stage) workNodes(ctx context.Context, namespace string, draw *rand.Rand) (*nodework, error) {
	w := &nodework{h: s.h, daemons: s.daemons, namespace: namespace, draw: draw, left: map[string]bool{}}
	placed := func(kind schema.GroupVersionKind) any {
		return map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind}
	}
	federate := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": topology.GroupVersion.String(), "kind": "FederationPolicy",
		"metadata": map[string]any{"name": "nodes", "namespace": namespace},
		"spec": map[string]any{"workloads": []any{placed(apps.ImagePullJobKind),
			placed(v1alpha1.PodProbeMarkerKind)}},
	}}
	policy := func(state v1alpha1.ProbeState, role string) any {
		return map[string]any{"state": string(state), "labels": map[string]any{roleLabel: role}}
	}
	marker := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.PodProbeMarkerKind.Kind,
		"metadata": map[string]any{"name": markerName, "namespace": namespace},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": injectedScene}},
			"probes": []any{map[string]any{"name": "leader", "containerName": "main",
				"probe": map[string]any{"tcpSocket": map[string]any{"port": int64(80)}},
				"markerPolicy": []any{policy(v1alpha1.ProbeSucceeded, leader),
					policy(v1alpha1.ProbeFailed, follower)}}},
		},
	}}
	for _, object := range []*unstructured.Unstructured{federate, marker} {
		if err := s.h.Hub.Client.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return w, nil
}

// away takes that a node is removed for a while.
func (w *nodework) away(member, node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left[member+"/"+node] = true
}

func (w *nodework) wasAway(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left[node]
}

// play asks for pulls until ctx ends, and lets probes find something else meanwhile.
func (w *nodework) play(ctx context.Context) {
	const least, most = 5 * time.Second, 20 * time.Second
	for _, m := range w.daemons {
		m.SetChanging(true)
	}
	for tried := 0; pause(ctx, least+time.Duration(w.draw.Int64N(int64(most-least)))); tried++ {
		name := fmt.Sprint("pull-", tried)
		job := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apps.GroupVersion.String(), "kind": apps.ImagePullJobKind.Kind,
			"metadata": map[string]any{"name": name, "namespace": w.namespace},
			"spec": map[string]any{"image": pulledImage + ":" + name, "parallelism": int64(1 + w.draw.IntN(4)),
				"pullPolicy": map[string]any{"backoffLimit": int64(w.draw.IntN(2)), "timeoutSeconds": int64(60)},
				"flotilla":   map[string]any{"pullBy": string(apps.PullByDaemon)}},
		}}
		// The hub may be away: then it is dropped, unless only the answer was lost.
		if err := w.h.Hub.Client.Create(ctx, job); err == nil || apierrors.IsAlreadyExists(err) {
			w.jobs = append(w.jobs, name)
			w.changes++
		}
	}
}

// calm lets probes find the same from now on.
func (w *nodework) calm() {
	for _, m := range w.daemons {
		m.SetChanging(false)
	}
}

// unrest says in what the work of nodes is not at rest, "" if it is.
func (w *nodework) unrest(ctx context.Context, users []*user) string {
	probed := v1alpha1.ProbeCounts{Name: "leader"}
	for _, name := range w.h.MemberNames() {
		pods := &corev1.PodList{}
		if err := w.h.Members[name].Client.List(ctx, pods, client.InNamespace(w.namespace)); err != nil {
			return err.Error()
		}
		if why := w.unmarked(name, pods.Items, &probed); why != "" {
			return why
		}
		for _, u := range users {
			if u.restarts == 0 {
				continue
			}
			if why := u.unrestarted(ctx, w.h.Members[name].Client, pods.Items); why != "" {
				return name + ": " + why
			}
		}
	}
	if why := w.uncounted(ctx, probed); why != "" {
		return why
	}
	return w.unpulled(ctx)
}

// unmarked says which pod of a member does not have the mark of what its probe finds, and counts the states.
func (w *nodework) unmarked(member string, pods []corev1.Pod, probed *v1alpha1.ProbeCounts) string {
	for i := range pods {
		pod := &pods[i]
		if pod.Labels["app"] != injectedScene {
			continue
		}
		want := ""
		switch w.daemons[member].Result(pod.UID, probeName) {
		case v1alpha1.ProbeSucceeded:
			want = leader
			probed.Succeeded++
		case v1alpha1.ProbeFailed:
			want = follower
			probed.Failed++
		}
		if got := pod.Labels[roleLabel]; want == "" || got != want {
			return fmt.Sprintf("pod %s of %s is marked %q, and its probe says %q", pod.Name, member, got, want)
		}
	}
	return ""
}

// uncounted says in what the hub counts other states than those of the pods.
func (w *nodework) uncounted(ctx context.Context, want v1alpha1.ProbeCounts) string {
	marker := &v1alpha1.PodProbeMarker{}
	if err := w.h.Hub.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: markerName}, marker); err != nil {
		return err.Error()
	}
	if own := marker.Status.Flotilla; own == nil || !slices.Equal(own.Probes, []v1alpha1.ProbeCounts{want}) {
		return fmt.Sprintf("PodProbeMarker %s counts %+v, and the pods have %+v", markerName, own, want)
	}
	return ""
}

// unpulled says which ImagePullJob has not ended, or has ended with numbers that cannot be.
func (w *nodework) unpulled(ctx context.Context) string {
	for _, name := range w.jobs {
		job := &apps.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
		if err := w.h.Hub.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err.Error()
		}
		s := &job.Status
		if s.CompletionTime == nil || s.Active != 0 || s.Desired != s.Succeeded+s.Failed ||
			len(s.FailedNodes) != int(s.Failed) {
			return fmt.Sprintf("ImagePullJob %s: %+v", name, *s)
		}
		// A pull of a node that was removed failed with it, or was tried again on the new one.
		wrong := slices.DeleteFunc(slices.Clone(s.FailedNodes), func(node string) bool {
			member, at, _ := strings.Cut(node, "/")
			return broken(member, at) || w.wasAway(node)
		})
		if len(wrong) > 0 {
			return fmt.Sprintf("ImagePullJob %s says that pulls failed on %v, and they have not", name, wrong)
		}
	}
	return ""
}

// unrestarted says which pod of a member has not been through the restart of its workload that was asked for last,
// unless that has failed there.
func (u *user) unrestarted(ctx context.Context, c client.Client, pods []corev1.Pod) string {
	asked, set := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	asked.SetGroupVersionKind(u.kind.GroupVersionKind)
	set.SetGroupVersionKind(u.kind.GroupVersionKind)
	key := client.ObjectKey{Namespace: u.namespace, Name: u.name}
	if err := u.client.Get(ctx, key, asked); err != nil {
		return err.Error()
	}
	if err := c.Get(ctx, key, set); client.IgnoreNotFound(err) != nil {
		return err.Error()
	}
	order, open := restarts.Open(asked)
	open = open && set.GetAnnotations()[apps.AnnotationRestartFailed] != order.At
	for i := range pods {
		pod := &pods[i]
		if pod.Labels["app"] != u.name {
			continue
		}
		if _, marked := pod.Labels[apps.LabelRestarting]; marked || open && !order.Through(pod) {
			return fmt.Sprintf("pod %s has not been through the restart of %s, marked %t", pod.Name, order.At, marked)
		}
	}
	return ""
}
