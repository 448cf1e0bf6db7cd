package statefulset

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podname"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// simulated is a simulated world with the real controller and one StatefulSet. maxUnavailable and podManagementPolicy
// stay as they are at first, everything else changes.
type simulated struct {
	*simulator.World
	random *rand.Rand
	// blind makes the controller act on whatever its cache shows, to prove that the checks find it.
	blind bool
	// lie makes the controller act by another spec, to prove the same; nil for the truth.
	lie func(*v1beta1.StatefulSetSpec)
	// seen is the StatefulSet that the pass has read, ready are the pods that are Ready in the cache as the pass begins.
	seen  *v1beta1.StatefulSet
	ready map[string]types.UID
	// disrupted are the ordinals whose Ready pod the controller took and whose next pod was not Ready yet.
	disrupted map[int32]bool
	// deleted are the ordinals of pods that the controller deleted and that still exist.
	deleted map[types.UID]int32
}

func simKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
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
	s := &simulated{random: r, disrupted: map[int32]bool{}, deleted: map[types.UID]int32{},
		World: simulator.New(simulator.Options{Seed: seed, Profile: profiles()[r.IntN(4)], Story: story,
			Guard: seed%16 == 0})}
	for _, f := range change {
		f(s)
	}
	s.Check, s.Outside, s.Pass = s.check, s.observe, s.begin
	set := newWorld(t, 1+r.Int32N(6), inPlace).set
	set.UID = ""
	if r.IntN(2) == 0 {
		parallel(set)
		maxUnavailable(1 + r.Int32N(3))(set)
	}
	if r.IntN(2) == 0 {
		set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.ReCreatePodUpdatePolicy
	}
	if r.IntN(2) == 0 {
		withClaims(set)
		set.Spec.PersistentVolumeClaimRetentionPolicy = &v1beta1.PersistentVolumeClaimRetentionPolicy{
			WhenScaled: []appsv1.PersistentVolumeClaimRetentionPolicyType{"Retain", "Delete"}[r.IntN(2)]}
	}
	if seed%4 == 3 {
		set.Spec.Flotilla = &v1beta1.FlotillaSpec{Steps: []v1beta1.UpdateStep{
			{Partition: intstr.FromString("50%"), Soak: "2s"}, {Partition: intstr.FromInt32(1)}}}
	}
	err := s.Create(set)
	if err == nil {
		err = s.Start(simulator.Controller{Kind: "StatefulSet", Gather: gatherEvents, Build: s.build, Also: s.also})
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
	claims, err := volumes.FromIndexer(env.Claims)
	if err != nil {
		return nil, err
	}
	if err := history.Index(context.Background(), env.Fields, v1beta1.StatefulSetKind); err != nil {
		return nil, err
	}
	r := &Reconciler{noResize: func(context.Context) (bool, error) { return false, nil },
		ruling: func(context.Context, types.NamespacedName) *v1beta1.WorkloadSpread { return nil }}
	r.Controller = workload.New(workload.Parts{Client: env.Client, Live: env.Live, Events: env.Events, Clock: env.Clock,
		Pods: pods, Claims: claims, Namespaces: unknown{}}, r.kind())
	if s.blind {
		r.Writer.Fresh = freshness.NewStore(env.Clock) // writes are recorded in a store that nothing asks
	}
	if s.lie != nil {
		r.Client = liar{r.Client, s.lie}
	}
	return r, nil
}

// liar shows the controller another spec.
type liar struct {
	client.Client
	lie func(*v1beta1.StatefulSetSpec)
}

func (l liar) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	err := l.Client.Get(ctx, key, object, opts...)
	if set, ok := object.(*v1beta1.StatefulSet); ok && err == nil {
		l.lie(&set.Spec)
	}
	return err
}

// unknown knows no namespace.
type unknown struct{ client.Reader }

func (unknown) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Name)
}

// also wakes the StatefulSet for its claims and revisions, as the watches do.
func (s *simulated) also(kind simulator.Kind, _, after client.Object) []types.NamespacedName {
	if kind == "PersistentVolumeClaim" || kind == "ControllerRevision" && after == nil {
		return []types.NamespacedName{simKey("db")}
	}
	return nil
}

// begin is told that a pass begins.
func (s *simulated) begin(types.NamespacedName) {
	s.seen = nil
	for _, object := range s.Cached("StatefulSet") {
		s.seen, _ = object.(*v1beta1.StatefulSet)
	}
	s.ready = map[string]types.UID{}
	for _, object := range s.Cached("Pod") {
		if pod, ok := object.(*corev1.Pod); ok && podstate.Ready(pod) {
			s.ready[pod.Name] = pod.UID
		}
	}
}

func ordinalsOf(set *v1beta1.StatefulSet) ordinals.Set {
	out, _ := ordinals.NewSet(ptr.Deref(set.Spec.Ordinals, v1beta1.StatefulSetOrdinals{}).Start, *set.Spec.Replicas,
		set.Spec.ReserveOrdinals)
	return out
}

// observe is told of every change of the truth.
func (s *simulated) observe(_ simulator.Kind, before, after client.Object) {
	pod, ok := after.(*corev1.Pod)
	if ok && podstate.Active(pod) && podstate.Ready(pod) {
		ordinal, _ := podname.Ordinal("db", pod.Name)
		delete(s.disrupted, ordinal)
	}
	if gone, ok := before.(*corev1.Pod); ok && after == nil {
		delete(s.deleted, gone.UID)
	}
}

// check is asked after every write of the controller.
func (s *simulated) check(w simulator.Write) error {
	set := s.seen
	before, _ := w.Before.(*corev1.Pod)
	after, _ := w.After.(*corev1.Pod)
	if set == nil || w.Kind != "Pod" {
		return nil
	}
	have := ordinalsOf(set)
	ordinal, _ := podname.Ordinal("db", w.Key.Name)
	position, in := have.Position(ordinal)
	inOrder := set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	if updated := before != nil && podstate.Active(before) && !podset.SpecifiedDelete(before) && (w.Verb == "delete" ||
		after != nil && before.Spec.Containers[0].Image != after.Spec.Containers[0].Image); updated && in &&
		position < int(ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate.Partition, 0)) {
		return fmt.Errorf("%s at position %d is updated, and the partition keeps it", w.Key.Name, position)
	}
	switch {
	case w.Verb == "create" && before == nil && after != nil:
		if !in {
			return fmt.Errorf("%s is created, and is not asked for", w.Key.Name)
		}
		for _, lower := range have.All() {
			if inOrder && lower < ordinal && s.ready[podname.New("db", lower)] == "" {
				return fmt.Errorf("%s is created before ordinal %d is ready", w.Key.Name, lower)
			}
		}
	case before == nil || before.DeletionTimestamp != nil:
	case w.Verb == "delete" && (after == nil || after.DeletionTimestamp != nil):
		for _, other := range s.deleted {
			if inOrder && (in || other > ordinal) && !podset.SpecifiedDelete(before) && !podstate.Ended(before) {
				return fmt.Errorf("%s is deleted while the pod of ordinal %d is terminating", w.Key.Name, other)
			}
		}
		if after != nil && !podset.SpecifiedDelete(before) {
			s.deleted[before.UID] = ordinal
		}
		return s.disrupt(set, have, ordinal, in && s.ready[before.Name] == before.UID)
	case after != nil && podstate.Ready(before) && !podstate.Ready(after):
		return s.disrupt(set, have, ordinal, in && s.ready[before.Name] == before.UID)
	}
	return nil
}

// disrupt notes that a Ready pod was taken, and checks how many are.
func (s *simulated) disrupt(set *v1beta1.StatefulSet, have ordinals.Set, ordinal int32, ready bool) error {
	if !ready {
		return nil
	}
	s.disrupted[ordinal] = true
	for other := range s.disrupted {
		if _, in := have.Position(other); !in {
			delete(s.disrupted, other)
		}
	}
	limits, err := budget.Resolve(strategy(set), *set.Spec.Replicas)
	if err == nil && len(s.disrupted) > int(limits.MaxUnavailable) {
		err = fmt.Errorf("the pods of %d ordinals are disrupted, maxUnavailable is %d: %v", len(s.disrupted),
			limits.MaxUnavailable, s.disrupted)
	}
	return err
}

// live lets users and trouble do their worst, and then waits for rest.
func (s *simulated) live() error {
	r := s.random
	for range 6 + r.IntN(12) {
		if r.IntN(2) == 0 {
			s.user()
		} else {
			s.trouble()
		}
		if err := s.RunFor(time.Duration(r.IntN(8000)) * time.Millisecond); err != nil {
			return err
		}
	}
	s.Profile, s.LiveDown, s.Kubelet.Bad = simulator.Calm(), nil, map[string]bool{}
	for _, node := range s.Kubelet.Nodes() {
		s.Kubelet.Recover(node)
	}
	s.Kubelet.Retry()
	for _, kind := range []simulator.Kind{"Pod", "StatefulSet", "ControllerRevision", "PersistentVolumeClaim"} {
		s.Resume(kind)
	}
	s.change("go on", func(spec *v1beta1.StatefulSetSpec) { spec.UpdateStrategy.RollingUpdate.Paused = false })
	for range 1 + len(waves.StepsOf(s.spec().Flotilla)) {
		if err := s.Rest(10 * time.Minute); err != nil {
			return err
		}
		s.promote()
	}
	if err := s.Rest(10 * time.Minute); err != nil {
		return err
	}
	return s.atRest()
}

func (s *simulated) spec() *v1beta1.StatefulSetSpec {
	set, _ := s.Get("StatefulSet", simKey("db")).(*v1beta1.StatefulSet)
	return &set.Spec
}

// promote promotes the step in progress.
func (s *simulated) promote() {
	set, _ := s.Get("StatefulSet", simKey("db")).(*v1beta1.StatefulSet)
	if p := set.Status.UpdateProgress; p != nil && p.Number <= p.Of {
		s.Tell("user: promotes step %d", p.Number)
		s.Fail(s.Change("StatefulSet", simKey("db"), func(object client.Object) {
			if set, ok := object.(*v1beta1.StatefulSet); ok {
				promote(set)
			}
		}))
	}
}

func (s *simulated) change(what string, edit func(*v1beta1.StatefulSetSpec)) {
	s.Tell("user: %s", what)
	s.Fail(s.Change("StatefulSet", simKey("db"), func(object client.Object) {
		if set, ok := object.(*v1beta1.StatefulSet); ok {
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

// user does one thing that people and their tools do.
func (s *simulated) user() {
	r := s.random
	switch r.IntN(8) {
	case 0, 1:
		n := r.Int32N(8)
		s.change(fmt.Sprintf("replicas %d", n), func(spec *v1beta1.StatefulSetSpec) { spec.Replicas = &n })
	case 2, 3, 4:
		image := fmt.Sprintf("app:%d", r.IntN(4))
		s.change("image "+image, func(spec *v1beta1.StatefulSetSpec) { spec.Template.Spec.Containers[0].Image = image })
	case 5:
		n := r.Int32N(6)
		s.change(fmt.Sprintf("partition %d", n), func(spec *v1beta1.StatefulSetSpec) {
			spec.UpdateStrategy.RollingUpdate.Partition = &n
		})
	case 6:
		reserved := []intstr.IntOrString{intstr.FromInt32(r.Int32N(6))}
		s.change(fmt.Sprintf("reserve %v", reserved), func(spec *v1beta1.StatefulSetSpec) { spec.ReserveOrdinals = reserved })
	case 7:
		if pod := s.anyPod(); pod.Name != "" {
			s.Tell("user: specified-delete %s", pod.Name)
			s.Fail(s.Change("Pod", pod, func(object client.Object) {
				object.GetLabels()[v1beta1.LabelSpecifiedDelete] = "true"
			}))
		}
	}
}

// trouble is what goes wrong beside requests and events.
func (s *simulated) trouble() {
	r, pod := s.random, s.anyPod()
	switch r.IntN(9) {
	case 0:
		s.Kubelet.Crash(pod)
	case 1:
		if pod.Name != "" {
			s.Kubelet.Evict(pod)
		}
	case 2, 3:
		s.Fail(s.Delete("Pod", pod))
	case 4:
		node := s.Kubelet.Nodes()[r.IntN(len(s.Kubelet.Nodes()))]
		s.Kubelet.Lose(node, 3*time.Second)
		s.After(time.Duration(r.IntN(20))*time.Second, func() { s.Kubelet.Recover(node) })
	case 5:
		kinds := []simulator.Kind{"Pod", "Pod", "StatefulSet", "ControllerRevision", "PersistentVolumeClaim"}
		kind := kinds[r.IntN(len(kinds))]
		s.Interrupt(kind)
		s.After(time.Duration(1+r.IntN(8000))*time.Millisecond, func() { s.Resume(kind) })
	case 6:
		image := fmt.Sprintf("app:%d", r.IntN(4))
		s.Kubelet.Bad[image] = true
		s.After(time.Duration(r.IntN(20))*time.Second, func() {
			delete(s.Kubelet.Bad, image)
			s.Kubelet.Retry()
		})
	case 7:
		s.Fail(s.Restart())
	case 8:
		s.LiveDown = context.DeadlineExceeded
		s.After(time.Duration(r.IntN(8))*time.Second, func() { s.LiveDown = nil })
	}
}

// atRest checks that everything is as the spec asks.
func (s *simulated) atRest() error {
	set, _ := s.Get("StatefulSet", simKey("db")).(*v1beta1.StatefulSet)
	have, rolling := ordinalsOf(set), rollingOf(set)
	pods := s.List("Pod")
	if len(pods) != have.Len() {
		return fmt.Errorf("%d pods, want %d", len(pods), have.Len())
	}
	old := int32(0)
	image := set.Spec.Template.Spec.Containers[0].Image
	for position, ordinal := range have.All() {
		name := podname.New("db", ordinal)
		pod, ok := s.Get("Pod", simKey(name)).(*corev1.Pod)
		if !ok || !podstate.Ready(pod) {
			return fmt.Errorf("%s does not exist, or is not ready", name)
		}
		if pod.Spec.Containers[0].Image != image {
			old++
			if position >= int(ptr.Deref(rolling.Partition, 0)) {
				return fmt.Errorf("%s at position %d has image %s", name, position, pod.Spec.Containers[0].Image)
			}
		}
		for i := range set.Spec.VolumeClaimTemplates {
			claim := volumes.Name(set.Spec.VolumeClaimTemplates[i].Name, "db", name[len("db-"):])
			if found := s.Get("PersistentVolumeClaim", simKey(claim)); found == nil || found.GetDeletionTimestamp() != nil {
				return fmt.Errorf("%s has no claim %s", name, claim)
			}
		}
	}
	st := set.Status
	all := *set.Spec.Replicas
	if st.Replicas != all || st.AvailableReplicas != all || st.UpdatedReplicas != all-old ||
		st.ObservedGeneration != set.Generation {
		return fmt.Errorf("%d old pods of %d, status %+v", old, all, st)
	}
	for _, c := range st.Conditions {
		if c.Type == v1beta1.ConditionReady && c.Status != corev1.ConditionTrue {
			return fmt.Errorf("not ready: %s", c.Message)
		}
		if c.Type == v1beta1.StatefulSetConditionFailedCreatePod && c.Status != corev1.ConditionFalse {
			return fmt.Errorf("%s is not cleared", c.Type)
		}
	}
	return nil
}

var simSeed = flag.Uint64("seed", 0, "run only this seed of the simulation")

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
			s.lie = func(spec *v1beta1.StatefulSetSpec) {
				spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(9))
			}
		},
		"it creates pods in parallel": func(s *simulated) {
			s.lie = func(spec *v1beta1.StatefulSetSpec) { spec.PodManagementPolicy = appsv1.ParallelPodManagement }
		},
		"it ignores the partition": func(s *simulated) {
			s.lie = func(spec *v1beta1.StatefulSetSpec) { spec.UpdateStrategy.RollingUpdate.Partition = nil }
		},
		"it ignores reservations": func(s *simulated) {
			s.lie = func(spec *v1beta1.StatefulSetSpec) { spec.ReserveOrdinals = nil }
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
