package daemonset

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/pernode"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// simulated is a simulated world with the real controller, nodes that come and go, and one DaemonSet. The limits and
// the type of the update stay as they are at first, everything else changes.
type simulated struct {
	*simulator.World
	random *rand.Rand
	// blind makes the controller act on whatever its cache shows, to prove that the checks find it.
	blind bool
	// lie makes the controller act by another spec, to prove the same; nil for the truth.
	lie func(*v1beta1.DaemonSetSpec)

	// What the pass has read: the DaemonSet, its pods, the nodes of those that are available, and how nodes fit.
	seen      *v1beta1.DaemonSet
	on        []pernode.Pod
	available map[types.UID]string
	nodes     map[string]pernode.Node
	desired   int
	// disrupted are the nodes whose available pod the controller took and that have had no Ready pod since.
	disrupted map[string]bool
}

func simKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

// nodeNames are the nodes that a world may have; it begins with those of the simulator.
func nodeNames() []string {
	return []string{"node-a", "node-b", "node-c", "node-d", "node-e", "node-f"}
}

func profiles() []simulator.Profile {
	return []simulator.Profile{
		simulator.Calm(),
		{Lag: 50 * time.Millisecond, SlowLag: 3 * time.Second, SlowEvery: 20, Latency: 20 * time.Millisecond,
			Kubelet: time.Second, SlowPods: 10},
		{Lag: 500 * time.Millisecond, SlowLag: 8 * time.Second, SlowEvery: 10, Latency: 200 * time.Millisecond, FailEvery: 20,
			Kubelet: time.Second, SlowPods: 5},
		{Lag: 2 * time.Second, SlowLag: 12 * time.Second, SlowEvery: 5, Latency: 100 * time.Millisecond, FailEvery: 8,
			Kubelet: 300 * time.Millisecond},
	}
}

// simulate makes one random run to its end.
func simulate(t testing.TB, seed uint64, story bool, change ...func(*simulated)) (string, error) {
	r := rand.New(rand.NewPCG(seed, 17))
	s := &simulated{random: r, disrupted: map[string]bool{},
		World: simulator.New(simulator.Options{Seed: seed, Profile: profiles()[r.IntN(4)], Story: story,
			Guard: seed%16 == 0})}
	for _, f := range change {
		f(s)
	}
	s.Check, s.Outside, s.Pass = s.check, s.observe, s.begin
	set := newSet()
	rolling := &v1beta1.RollingUpdateDaemonSet{}
	switch r.IntN(3) {
	case 0:
		rolling.MaxSurge = new(intstr.FromInt32(1 + r.Int32N(2)))
	case 1:
		rolling.Type = v1beta1.InPlaceIfPossibleDaemonSetRollingUpdateType
		fallthrough
	default:
		rolling.MaxUnavailable = new(intstr.FromInt32(1 + r.Int32N(2)))
	}
	set.Spec.UpdateStrategy.RollingUpdate, set.Spec.MinReadySeconds = rolling, r.Int32N(3)
	set.Spec.BurstReplicas = new(intstr.FromInt32(1 + r.Int32N(5)))
	for _, name := range s.Kubelet.Nodes() {
		s.join(name)
	}
	err := s.Create(set)
	if err == nil {
		err = s.Start(simulator.Controller{Kind: "DaemonSet", Gather: gatherEvents, Build: s.build, Also: s.also})
	}
	if err == nil {
		err = s.live()
	}
	s.Stop()
	return s.Story(), err
}

// build makes the reconciler as Add does.
func (s *simulated) build(env simulator.Env) (reconcile.Reconciler, error) {
	pods, err := podset.FromIndexer(env.Pods)
	if err != nil {
		return nil, err
	}
	if err := history.Index(context.Background(), env.Fields, v1beta1.DaemonSetKind); err != nil {
		return nil, err
	}
	r := &Reconciler{noResize: func(context.Context) (bool, error) { return false, nil }}
	r.Controller = workload.New(workload.Parts{Client: env.Client, Live: env.Live, Events: env.Events, Clock: env.Clock,
		Pods: pods, Nodes: s.readNodes, Namespaces: unknown{}}, r.kind())
	if s.blind {
		r.Writer.Fresh = freshness.NewStore(env.Clock) // writes are recorded in a store that nothing asks
	}
	if s.lie != nil {
		r.Client = liar{r.Client, s.lie}
	}
	return r, nil
}

// readNodes returns the nodes to the controller, and keeps how they fit.
func (s *simulated) readNodes() (out []*corev1.Node) {
	for _, object := range s.Cached("Node") {
		if node, ok := object.(*corev1.Node); ok {
			out = append(out, node)
		}
	}
	f := Facts{Set: s.seen, Now: s.Now()}
	f.Update.Template = &s.seen.Spec.Template.PodTemplateSpec
	f.Canary, _ = canaryOf(s.seen)
	f.fit(out)
	s.nodes = map[string]pernode.Node{}
	for _, node := range f.Nodes {
		s.nodes[node.Name] = node
	}
	s.desired = pernode.Desired(f.Nodes, s.on)
	return out
}

// liar shows the controller another spec.
type liar struct {
	client.Client
	lie func(*v1beta1.DaemonSetSpec)
}

func (l liar) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	err := l.Client.Get(ctx, key, object, opts...)
	if set, ok := object.(*v1beta1.DaemonSet); ok && err == nil {
		l.lie(&set.Spec)
	}
	return err
}

// unknown knows no namespace.
type unknown struct{ client.Reader }

func (unknown) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Name)
}

// also wakes the DaemonSet for nodes and revisions, as the watches do.
func (s *simulated) also(kind simulator.Kind, before, after client.Object) []types.NamespacedName {
	was, _ := before.(*corev1.Node)
	is, _ := after.(*corev1.Node)
	if kind == "Node" && (was == nil || is == nil || workload.NodeChanged(was, is)) ||
		kind == "ControllerRevision" && after == nil {
		return []types.NamespacedName{simKey("log")}
	}
	return nil
}

// begin is told that a pass begins.
func (s *simulated) begin(types.NamespacedName) {
	s.seen, s.on, s.available = nil, nil, map[types.UID]string{}
	for _, object := range s.Cached("DaemonSet") {
		s.seen, _ = object.(*v1beta1.DaemonSet)
	}
	for _, object := range s.Cached("Pod") {
		pod, _ := object.(*corev1.Pod)
		node := podset.NodeOf(pod)
		s.on = append(s.on, pernode.Pod{Node: node})
		if ok, _ := podstate.Available(pod, s.seen.Spec.MinReadySeconds, s.Now()); ok && podstate.Active(pod) {
			s.available[pod.UID] = node
		}
	}
}

// observe is told of every change of the truth.
func (s *simulated) observe(_ simulator.Kind, _, after client.Object) {
	if pod, ok := after.(*corev1.Pod); ok && podstate.Active(pod) && podstate.Ready(pod) {
		delete(s.disrupted, pod.Spec.NodeName)
	}
}

func image(pod *corev1.Pod) string { return pod.Spec.Containers[0].Image }

// check is asked after every write of the controller.
func (s *simulated) check(w simulator.Write) error {
	before, _ := w.Before.(*corev1.Pod)
	after, _ := w.After.(*corev1.Pod)
	if s.seen == nil || w.Kind != "Pod" {
		return nil
	}
	switch {
	case w.Verb == "create" && before == nil && after != nil:
		return s.created(after)
	case before == nil || before.DeletionTimestamp != nil:
	case w.Verb == "delete" && (after == nil || after.DeletionTimestamp != nil),
		after != nil && podstate.Ready(before) && !podstate.Ready(after):
		return s.disrupt(before)
	}
	if before != nil && after != nil && image(before) != image(after) {
		return s.updated(after)
	}
	return nil
}

// created checks a new pod: its node wants it, and has no other one but, with surge, one of another revision.
func (s *simulated) created(pod *corev1.Pod) error {
	node := s.nodes[podset.NodeOf(pod)]
	if !node.ShouldRun {
		return fmt.Errorf("a pod is created on %s, which does not fit", podset.NodeOf(pod))
	}
	for _, object := range s.List("Pod") {
		other, _ := object.(*corev1.Pod)
		if other.Name != pod.Name && podset.NodeOf(other) == node.Name && podstate.Active(other) &&
			(s.surge() == 0 || image(other) == image(pod)) {
			return fmt.Errorf("%s is created on %s beside %s", s.Name(pod.Name), node.Name, s.Name(other.Name))
		}
	}
	return s.updated(pod)
}

func (s *simulated) surge() int32 {
	if surge := rollingOf(s.seen).MaxSurge; surge != nil {
		return surge.IntVal
	}
	return 0
}

// updated checks that a pod which gets the newest revision is on a node that may have it.
func (s *simulated) updated(pod *corev1.Pod) error {
	newest := s.seen.Spec.Template.Spec.Containers[0].Image
	if image(pod) != newest || !s.hasPrevious(newest) {
		return nil
	}
	rolling, at := rollingOf(s.seen), podset.NodeOf(pod)
	if !s.nodes[at].Selected {
		return fmt.Errorf("node %s is updated, and the selector excludes it", at)
	}
	nodes := map[string]bool{}
	for _, object := range s.Cached("Pod") {
		// What the cache does not show yet is not counted here, so it never permits more than the truth does.
		other, _ := object.(*corev1.Pod)
		node := s.nodes[podset.NodeOf(other)]
		if podstate.Active(other) && image(other) == newest && (node.ShouldRun || node.MayStay) {
			nodes[node.Name] = true
		}
	}
	kept := 0
	if rolling.Partition != nil {
		kept = int(rolling.Partition.IntVal)
	}
	if nodes[at] = true; len(nodes) > max(0, s.desired-kept) {
		return fmt.Errorf("node %s is updated: now %d of %d nodes are, and the partition keeps %d", at, len(nodes), s.desired,
			kept)
	}
	return nil
}

// hasPrevious reports whether there is a revision that nodes can keep.
func (s *simulated) hasPrevious(newest string) bool {
	for _, object := range s.List("ControllerRevision") {
		revision, _ := object.(*appsv1.ControllerRevision)
		if history.ShortHash(revision) == s.seen.Status.CurrentRevision {
			known, err := workload.RevisionOf(revision)
			return err == nil && known.Template.Spec.Containers[0].Image != newest
		}
	}
	return false
}

// disrupt notes that an available pod was taken, and checks how many are.
func (s *simulated) disrupt(pod *corev1.Pod) error {
	at := s.nodes[podset.NodeOf(pod)]
	if _, ok := s.available[pod.UID]; !ok || !at.ShouldRun && !at.MayStay || at.Lost {
		return nil
	}
	for uid, node := range s.available {
		if uid != pod.UID && node == at.Name {
			return nil // another one serves
		}
	}
	s.disrupted[at.Name] = true
	for name := range s.disrupted {
		if node := s.nodes[name]; !node.ShouldRun || node.Lost {
			delete(s.disrupted, name)
		}
	}
	most := 0
	if unavailable := rollingOf(s.seen).MaxUnavailable; unavailable != nil {
		most = int(unavailable.IntVal)
	}
	if len(s.disrupted) > most {
		return fmt.Errorf("%d nodes are disrupted, maxUnavailable is %d: %v", len(s.disrupted), most, s.disrupted)
	}
	return nil
}

// live lets users and trouble do their worst, and then waits for rest.
func (s *simulated) live() error {
	r := s.random
	for range 6 + r.IntN(12) {
		switch r.IntN(3) {
		case 0:
			s.user()
		case 1:
			s.cluster()
		default:
			s.trouble()
		}
		if err := s.RunFor(time.Duration(r.IntN(8000)) * time.Millisecond); err != nil {
			return err
		}
	}
	s.Profile, s.LiveDown, s.Kubelet.Bad = simulator.Calm(), nil, map[string]bool{}
	for _, node := range s.Kubelet.Nodes() {
		s.Kubelet.Recover(node)
		s.ready(node, corev1.ConditionTrue)
	}
	s.Kubelet.Retry()
	for _, kind := range []simulator.Kind{"Pod", "DaemonSet", "ControllerRevision", "Node"} {
		s.Resume(kind)
	}
	s.change("go on", func(spec *v1beta1.DaemonSetSpec) { spec.UpdateStrategy.RollingUpdate.Paused = nil })
	if err := s.Rest(2 * time.Hour); err != nil {
		return err
	}
	return s.atRest()
}

func (s *simulated) change(what string, edit func(*v1beta1.DaemonSetSpec)) {
	s.Tell("user: %s", what)
	s.Fail(s.Change("DaemonSet", simKey("log"), func(object client.Object) {
		if set, ok := object.(*v1beta1.DaemonSet); ok {
			edit(&set.Spec)
		}
	}))
}

func (s *simulated) anyPod() types.NamespacedName {
	pods := s.List("Pod")
	if len(pods) == 0 {
		return types.NamespacedName{}
	}
	return client.ObjectKeyFromObject(pods[s.random.IntN(len(pods))])
}

// user does one thing that people and their tools do with a DaemonSet.
func (s *simulated) user() {
	r := s.random
	switch r.IntN(6) {
	case 0, 1, 2:
		image := fmt.Sprintf("app:%d", r.IntN(4))
		s.change("image "+image, func(spec *v1beta1.DaemonSetSpec) { spec.Template.Spec.Containers[0].Image = image })
	case 3:
		n := intstr.FromInt32(r.Int32N(5))
		s.change(fmt.Sprintf("partition %s", n.String()), func(spec *v1beta1.DaemonSetSpec) {
			spec.UpdateStrategy.RollingUpdate.Partition = &n
		})
	case 4:
		var selector *metav1.LabelSelector
		if r.IntN(2) == 0 {
			selector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}
		}
		s.change(fmt.Sprintf("selector %v", selector), func(spec *v1beta1.DaemonSetSpec) {
			spec.UpdateStrategy.RollingUpdate.Selector = selector
		})
	case 5:
		paused := r.IntN(2) == 0
		s.change(fmt.Sprintf("paused %v", paused), func(spec *v1beta1.DaemonSetSpec) {
			spec.UpdateStrategy.RollingUpdate.Paused = &paused
		})
	}
}

// join adds a node, or changes nothing if there is one of this name.
func (s *simulated) join(name string) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "on"}}}
	if s.random.IntN(2) == 0 {
		node.Labels["canary"] = "yes"
	}
	if err := s.Create(node); err == nil {
		s.Kubelet.Join(name)
		s.ready(name, corev1.ConditionTrue)
	}
}

func (s *simulated) ready(name string, status corev1.ConditionStatus) {
	s.Fail(s.ChangeStatus("Node", types.NamespacedName{Name: name}, func(object client.Object) {
		node, ok := object.(*corev1.Node)
		if ok && (len(node.Status.Conditions) == 0 || node.Status.Conditions[0].Status != status) {
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status,
				LastTransitionTime: metav1.NewTime(s.Now().Truncate(time.Second))}}
		}
	}))
}

// cluster does one thing that happens to nodes.
func (s *simulated) cluster() {
	r, name := s.random, nodeNames()[s.random.IntN(len(nodeNames()))]
	edit := func(what string, change func(*corev1.Node)) {
		s.Tell("%s: %s", name, what)
		s.Fail(s.Change("Node", types.NamespacedName{Name: name}, func(object client.Object) {
			if node, ok := object.(*corev1.Node); ok {
				change(node)
			}
		}))
	}
	switch r.IntN(7) {
	case 0, 1:
		s.join(name)
	case 2:
		if slices.Contains(s.Kubelet.Nodes(), name) {
			s.Fail(s.Delete("Node", types.NamespacedName{Name: name}))
			s.Kubelet.Leave(name, time.Duration(r.IntN(20))*time.Second)
		}
	case 3:
		effect := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}[r.IntN(2)]
		edit("taint "+string(effect), func(node *corev1.Node) {
			node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: effect}}
		})
	case 4:
		edit("no taints", func(node *corev1.Node) { node.Spec.Taints = nil })
	case 5:
		edit("other labels", func(node *corev1.Node) {
			node.Labels = map[string]string{"pool": []string{"on", "on", "off"}[r.IntN(3)]}
			if r.IntN(2) == 0 {
				node.Labels["canary"] = "yes"
			}
		})
	case 6:
		s.Kubelet.Lose(name, time.Hour)
		s.ready(name, corev1.ConditionUnknown)
		if r.IntN(2) == 0 {
			s.Fail(s.RunFor(pernode.LostAfter))
		}
		s.After(time.Duration(r.IntN(20))*time.Second, func() {
			s.Kubelet.Recover(name)
			s.ready(name, corev1.ConditionTrue)
		})
	}
}

// trouble is what goes wrong beside requests and events.
func (s *simulated) trouble() {
	r, pod := s.random, s.anyPod()
	switch r.IntN(7) {
	case 0:
		s.Kubelet.Crash(pod)
	case 1:
		if pod.Name != "" {
			s.Kubelet.Evict(pod)
		}
	case 2:
		s.Fail(s.Delete("Pod", pod))
	case 3:
		kinds := []simulator.Kind{"Pod", "Pod", "DaemonSet", "ControllerRevision", "Node"}
		kind := kinds[r.IntN(len(kinds))]
		s.Interrupt(kind)
		s.After(time.Duration(1+r.IntN(8000))*time.Millisecond, func() { s.Resume(kind) })
	case 4:
		image := fmt.Sprintf("app:%d", r.IntN(4))
		s.Kubelet.Bad[image] = true
		s.After(time.Duration(r.IntN(20))*time.Second, func() {
			delete(s.Kubelet.Bad, image)
			s.Kubelet.Retry()
		})
	case 5:
		s.Fail(s.Restart())
	case 6:
		s.LiveDown = context.DeadlineExceeded
		s.After(time.Duration(r.IntN(8))*time.Second, func() { s.LiveDown = nil })
	}
}

// atRest checks that everything is as the spec asks.
func (s *simulated) atRest() error {
	set, _ := s.Get("DaemonSet", simKey("log")).(*v1beta1.DaemonSet)
	newest, rolling := set.Spec.Template.Spec.Containers[0].Image, rollingOf(set)
	canary, _ := canaryOf(set)
	on := map[string][]*corev1.Pod{}
	for _, object := range s.List("Pod") {
		if pod, ok := object.(*corev1.Pod); ok {
			on[podset.NodeOf(pod)] = append(on[podset.NodeOf(pod)], pod)
		}
	}
	fit := pernode.FitOf(&set.Spec.Template.Spec)
	desired, updated, updatable := 0, 0, 0
	for _, object := range s.List("Node") {
		node, _ := object.(*corev1.Node)
		fitness, _ := fit.Of(node)
		pods := on[node.Name]
		delete(on, node.Name)
		switch {
		case len(pods) > 1, fitness == pernode.Fits && len(pods) == 0, fitness > pernode.Tainted && len(pods) > 0:
			return fmt.Errorf("%d pods on %s, whose fitness is %d", len(pods), node.Name, fitness)
		case len(pods) == 0:
			continue
		case !podstate.Ready(pods[0]):
			return fmt.Errorf("the pod on %s is not ready", node.Name)
		}
		desired++
		switch {
		case image(pods[0]) == newest:
			updated++
		case fitness == pernode.Fits && canary.Matches(labels.Set(node.Labels)):
			updatable++
		}
	}
	kept := 0
	if rolling.Partition != nil {
		kept = int(rolling.Partition.IntVal)
	}
	st := set.Status
	switch {
	case len(on) > 0:
		return fmt.Errorf("pods on %d nodes that do not exist", len(on))
	case updatable > 0 && updated < desired-kept:
		return fmt.Errorf("%d of %d nodes are updated, %d more could be, and %d are kept", updated, desired, updatable, kept)
	case int(st.DesiredNumberScheduled) != desired || int(st.NumberAvailable) != desired || st.NumberUnavailable != 0 ||
		int(st.UpdatedNumberScheduled) != updated || st.ObservedGeneration != set.Generation:
		return fmt.Errorf("%d of %d nodes are updated, status %+v", updated, desired, st)
	}
	for _, c := range st.Conditions {
		if c.Type == v1beta1.ConditionReady && c.Status != corev1.ConditionTrue {
			return fmt.Errorf("not ready: %s", c.Message)
		}
		if c.Type == v1beta1.DaemonSetConditionFailedCreatePod && c.Status != corev1.ConditionFalse {
			return fmt.Errorf("%s is not cleared", c.Type)
		}
	}
	return nil
}

var (
	seeds   = flag.Int("seeds", 150, "how many random worlds to run")
	simSeed = flag.Uint64("seed", 0, "run only this seed of the simulation")
)

// TestSimulated runs the controller in worlds where everything goes wrong that can, and holds it to its limits, and to
// an end.
func TestSimulated(t *testing.T) {
	simulator.EachSeed(t, *seeds, *simSeed, func(t *testing.T, seed uint64, tell bool) (string, error) {
		return simulate(t, seed, tell)
	})
}

// TestTheSimulationFindsSabotage shows that a broken controller is found out: one that forgets what it wrote, and ones
// that act by another spec.
func TestTheSimulationFindsSabotage(t *testing.T) {
	for name, sabotage := range map[string]func(*simulated){
		"it forgets what it wrote": func(s *simulated) { s.blind = true },
		"it takes more pods than it may": func(s *simulated) {
			s.lie = func(spec *v1beta1.DaemonSetSpec) {
				if rolling := spec.UpdateStrategy.RollingUpdate; rolling.MaxUnavailable != nil {
					rolling.MaxUnavailable = new(intstr.FromInt32(9))
				}
			}
		},
		"it ignores the partition": func(s *simulated) {
			s.lie = func(spec *v1beta1.DaemonSetSpec) { spec.UpdateStrategy.RollingUpdate.Partition = nil }
		},
		"it ignores the selector": func(s *simulated) {
			s.lie = func(spec *v1beta1.DaemonSetSpec) { spec.UpdateStrategy.RollingUpdate.Selector = nil }
		},
		"it tolerates every taint": func(s *simulated) {
			s.lie = func(spec *v1beta1.DaemonSetSpec) {
				spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				found := 0
				for seed := uint64(1); found < 3 && seed <= 500; seed++ {
					if _, err := simulate(t, seed, false, sabotage); err != nil {
						found++
					}
				}
				if found < 3 {
					t.Errorf("%d of 500 runs found it", found)
				}
			})
		})
	}
}
