package cloneset

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// simKey is the CloneSet of a simulated world.
func simKey() types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: "web"} }

func podKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: simKey().Namespace, Name: name}
}

// simulated is a world with the real controller of CloneSets and one CloneSet.
type simulated struct {
	*simulator.World
	check *checker
	// blind makes the controller act on whatever its cache shows, to prove that the checks find it.
	blind bool
	// lie changes the specs that the controller sees, to prove the same.
	lie func(*v1beta1.CloneSetSpec)
	// lieSpread changes the WorkloadSpreads that the controller sees.
	lieSpread func(*v1beta1.WorkloadSpreadSpec)
	// wrap stands between the controller and its client, unless it is nil.
	wrap func(client.Client) client.Client
	// noResize tells whether the API server cannot resize pods; nil means that it can.
	noResize func(context.Context) (bool, error)
	features
	party *party
	// letGo ends what holds pods that are to be gone.
	letGo []func()
	// quota is how many pods may be made at most, 0 for any number; injects says that a webhook adds a container to new
	// pods.
	quota   int
	injects bool
}

func newSimulated(o simulator.Options, change ...func(*simulated)) *simulated {
	s := &simulated{World: simulator.New(o)}
	s.check = newChecker(s.World)
	s.World.Check, s.World.Pass = s.check.write, s.check.pass
	s.party = newParty(s)
	s.Outside = func(kind simulator.Kind, before, after client.Object) {
		if err := s.check.outside(kind, before, after); err != nil {
			s.Fail(err)
		}
		if s.hooks {
			s.party.changed(kind, after)
		}
	}
	for _, c := range change {
		c(s)
	}
	return s
}

// begin creates the CloneSet and starts the controller.
func (s *simulated) begin(cs *v1beta1.CloneSet) error {
	if err := s.Create(cs); err != nil {
		return err
	}
	if s.spread {
		if err := s.Create(s.firstSpread()); err != nil {
			return err
		}
	}
	return s.Start(simulator.Controller{Kind: "CloneSet", Gather: gatherEvents, Build: s.build, Also: claimOwners})
}

// claimOwners returns the CloneSets that control a claim, or a revision that goes, before or after its change, as
// Setup's watch does.
func claimOwners(kind simulator.Kind, before, after client.Object) []types.NamespacedName {
	var out []types.NamespacedName
	for _, obj := range []client.Object{before, after} {
		gone := kind == "ControllerRevision" && after == nil // others come and change with a pass
		if obj == nil || kind != "PersistentVolumeClaim" && !gone {
			continue
		}
		if ref := metav1.GetControllerOf(obj); ref != nil && ref.Kind == v1beta1.CloneSetKind.Kind {
			out = append(out, types.NamespacedName{Namespace: obj.GetNamespace(), Name: ref.Name})
		}
	}
	return out
}

// build makes the reconciler as Setup does.
func (s *simulated) build(env simulator.Env) (reconcile.Reconciler, error) {
	source, err := podset.FromIndexer(env.Pods)
	if err != nil {
		return nil, err
	}
	if err := history.Index(context.Background(), env.Fields, v1beta1.CloneSetKind); err != nil {
		return nil, err
	}
	claims, err := volumes.FromIndexer(env.Claims)
	if err != nil {
		return nil, err
	}
	if s.wrap != nil {
		env.Client = s.wrap(env.Client)
	}
	r := &Reconciler{ruling: s.rulingIn(env.Client), noResize: s.noResize}
	r.Controller = workload.New(workload.Parts{
		Client: env.Client, Live: env.Live, Events: env.Events, Clock: env.Clock, Pods: source, Claims: claims,
		Namespaces: namespacesUnknown{},
	}, r.kind())
	if s.blind {
		// Writes are recorded in a store that nobody asks.
		r.Writer.Fresh = freshness.NewStore(env.Clock)
	}
	if s.lie != nil {
		r.Client = liar{env.Client, s.lie}
	}
	return r, nil
}

// liar shows the controller other specs than there are.
type liar struct {
	client.Client
	lie func(*v1beta1.CloneSetSpec)
}

func (l liar) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := l.Client.Get(ctx, key, obj, opts...)
	if cs, ok := obj.(*v1beta1.CloneSet); ok && err == nil && cs.Spec.UpdateStrategy.RollingUpdate != nil {
		l.lie(&cs.Spec)
	}
	return err
}

// simCloneSet is the CloneSet that worlds begin with.
func simCloneSet(replicas int32, policy v1beta1.PodUpdatePolicyType) *v1beta1.CloneSet {
	app := map[string]string{"app": "web"}
	return &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: simKey().Namespace, Name: simKey().Name},
		Spec: v1beta1.CloneSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: maps.Clone(app)},
			Template: v1beta1.NewPodTemplate(corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app:1"}}}}),
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateCloneSetStrategy{
				PodUpdatePolicy: policy, MaxUnavailable: new(intstr.FromInt32(1))}},
		},
	}
}

// spec lets the user change the CloneSet.
func (s *simulated) spec(what string, edit func(*v1beta1.CloneSetSpec)) {
	s.Tell("user: %s", what)
	err := s.Change("CloneSet", simKey(), func(obj client.Object) {
		if cs, ok := obj.(*v1beta1.CloneSet); ok {
			if cs.Spec.UpdateStrategy.RollingUpdate == nil {
				cs.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSetStrategy{}
			}
			edit(&cs.Spec)
		}
	})
	if err != nil {
		s.Fail(fmt.Errorf("the user: %w", err))
	}
}

func (s *simulated) cloneSet() *v1beta1.CloneSet {
	cs, _ := s.Get("CloneSet", simKey()).(*v1beta1.CloneSet)
	return cs
}

// pods returns the pods as they are.
func (s *simulated) pods() []*corev1.Pod {
	var out []*corev1.Pod
	for _, obj := range s.List("Pod") {
		if pod, ok := obj.(*corev1.Pod); ok {
			out = append(out, pod)
		}
	}
	return out
}

// anyPod returns the name of a pod, or "".
func (s *simulated) anyPod(r *rand.Rand) string {
	pods := s.pods()
	if len(pods) == 0 {
		return ""
	}
	return pods[r.IntN(len(pods))].Name
}

// user is somebody who changes the CloneSet and its pods at random.
type user struct {
	*simulated
	random *rand.Rand
}

// act does one thing. Actions in a row are what people and their tools do to a workload.
func (u *user) act() {
	r := u.random
	actions := []func(){
		func() {
			n := r.Int32N(9)
			u.spec(fmt.Sprintf("replicas %d", n), func(s *v1beta1.CloneSetSpec) { s.Replicas = &n })
		},
		u.image, u.image, u.image,
		func() {
			n := r.IntN(3)
			u.spec(fmt.Sprintf("environment %d", n), func(s *v1beta1.CloneSetSpec) {
				c := &s.Template.Spec.Containers[0]
				c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == "LEVEL" })
				c.Env = append(c.Env, corev1.EnvVar{Name: "LEVEL", Value: fmt.Sprint(n)})
			})
		},
		u.partition, u.partition,
		func() {
			n := intstr.FromInt32(r.Int32N(3))
			u.spec("maxUnavailable "+n.String(), func(s *v1beta1.CloneSetSpec) {
				s.UpdateStrategy.RollingUpdate.MaxUnavailable = &n
			})
		},
		func() {
			n := []intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(2),
				intstr.FromString("50%")}[r.IntN(4)]
			u.spec("maxSurge "+n.String(), func(s *v1beta1.CloneSetSpec) { s.UpdateStrategy.RollingUpdate.MaxSurge = &n })
		},
		func() {
			paused := r.IntN(2) == 0
			u.spec(fmt.Sprintf("paused %v", paused), func(s *v1beta1.CloneSetSpec) {
				s.UpdateStrategy.RollingUpdate.Paused = paused
			})
		},
		func() {
			policy := []v1beta1.PodUpdatePolicyType{v1beta1.ReCreatePodUpdatePolicy, v1beta1.InPlaceIfPossiblePodUpdatePolicy,
				v1beta1.InPlaceOnlyPodUpdatePolicy}[r.IntN(3)]
			u.spec("podUpdatePolicy "+string(policy), func(s *v1beta1.CloneSetSpec) {
				s.UpdateStrategy.RollingUpdate.PodUpdatePolicy = policy
			})
		},
		func() {
			n := r.Int32N(6)
			u.spec(fmt.Sprintf("minReadySeconds %d", n), func(s *v1beta1.CloneSetSpec) { s.MinReadySeconds = n })
		},
		u.specifiedDelete,
		func() {
			if name := u.anyPod(r); name != "" {
				u.spec("podsToDelete "+name, func(s *v1beta1.CloneSetSpec) {
					s.ScaleStrategy.PodsToDelete = append(s.ScaleStrategy.PodsToDelete, name)
				})
			}
		},
		func() {
			n := []*intstr.IntOrString{nil, new(intstr.FromInt32(1)), new(intstr.FromInt32(3))}[r.IntN(3)]
			u.spec(fmt.Sprintf("scaleStrategy.maxUnavailable %v", n), func(s *v1beta1.CloneSetSpec) {
				s.ScaleStrategy.MaxUnavailable = n
			})
		},
	}
	if more := u.actions(); len(more) > 0 && r.IntN(2) == 0 {
		actions = more
	}
	actions[r.IntN(len(actions))]()
}

func (u *user) image() {
	image := fmt.Sprintf("app:%d", u.random.IntN(4))
	u.spec("image "+image, func(s *v1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = image })
}

func (u *user) partition() {
	n := []intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(u.random.Int32N(6)),
		intstr.FromString(fmt.Sprintf("%d%%", u.random.IntN(11)*10))}[u.random.IntN(3)]
	u.spec("partition "+n.String(), func(s *v1beta1.CloneSetSpec) { s.UpdateStrategy.RollingUpdate.Partition = &n })
}

func (u *user) specifiedDelete() {
	name := u.anyPod(u.random)
	if name == "" {
		return
	}
	u.Tell("user: label %s specified-delete", name)
	err := u.Change("Pod", podKey(name), func(obj client.Object) {
		obj.GetLabels()[v1beta1.LabelSpecifiedDelete] = "true"
	})
	if err != nil {
		u.Fail(fmt.Errorf("the user: %w", err))
	}
}

// trouble is what goes wrong beside requests and events: pods, nodes, watches, and the controller itself.
type trouble struct {
	*simulated
	random *rand.Rand
}

func (t *trouble) happen() {
	r := t.random
	pod := t.anyPod(r)
	switch r.IntN(12) {
	case 0, 1:
		t.Kubelet.Crash(podKey(pod))
	case 2:
		if pod != "" {
			t.Kubelet.Evict(podKey(pod))
		}
	case 3, 4:
		t.Tell("somebody deletes %s", pod)
		if err := t.Delete("Pod", podKey(pod)); err != nil {
			t.Fail(err)
		}
	case 5:
		node := t.Kubelet.Nodes()[r.IntN(len(t.Kubelet.Nodes()))]
		t.Kubelet.Lose(node, 3*time.Second)
		t.After(time.Duration(r.IntN(20))*time.Second, func() { t.Kubelet.Recover(node) })
	case 6, 7, 8:
		kinds := []simulator.Kind{"Pod", "Pod", "CloneSet", "ControllerRevision"}
		if t.claims {
			kinds = append(kinds, "PersistentVolumeClaim")
		}
		if t.spread {
			kinds = append(kinds, "WorkloadSpread")
		}
		kind := kinds[r.IntN(len(kinds))]
		t.Interrupt(kind)
		t.After(time.Duration(1+r.IntN(8000))*time.Millisecond, func() { t.Resume(kind) })
	case 9:
		image := fmt.Sprintf("app:%d", r.IntN(4))
		t.Tell("%s cannot be pulled", image)
		t.Kubelet.Bad[image] = true
		t.After(time.Duration(r.IntN(20))*time.Second, func() {
			t.Tell("%s can be pulled", image)
			delete(t.Kubelet.Bad, image)
			t.Kubelet.Retry()
		})
	case 10:
		if err := t.Restart(); err != nil {
			t.Fail(err)
		}
	case 11:
		t.LiveDown = context.DeadlineExceeded
		t.After(time.Duration(r.IntN(8))*time.Second, func() { t.LiveDown = nil })
	}
}

// profiles are the worlds of the random runs, from a good one to a bad one.
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

// outcome of a random run.
type ran struct {
	err            error
	story          string
	writes, passes int
}

// runRandom makes one random run to its end.
func runRandom(seed uint64, story bool, change ...func(*simulated)) ran {
	r := rand.New(rand.NewPCG(seed, 17))
	s := newSimulated(simulator.Options{Seed: seed, Profile: profiles()[r.IntN(4)], Story: story, Guard: seed%16 == 0},
		change...)
	policy := []v1beta1.PodUpdatePolicyType{v1beta1.InPlaceIfPossiblePodUpdatePolicy,
		v1beta1.ReCreatePodUpdatePolicy}[r.IntN(2)]
	cs := simCloneSet(1+r.Int32N(8), policy)
	if s.features == (features{}) {
		s.features = featuresOf(seed)
	}
	if s.strange {
		s.Admit(s.admitStrange)
	}
	s.give(cs, rand.New(rand.NewPCG(seed, 31)))
	err := s.begin(cs)
	if err == nil {
		err = s.live(r)
	}
	s.Stop()
	return ran{err: err, story: s.Story(), writes: s.Writes, passes: s.Passes}
}

// live lets users and trouble do their worst, and then waits for rest.
func (s *simulated) live(r *rand.Rand) error {
	u, t := &user{simulated: s, random: rand.New(rand.NewPCG(r.Uint64(), 1))},
		&trouble{simulated: s, random: rand.New(rand.NewPCG(r.Uint64(), 2))}
	if err := s.RunFor(time.Duration(r.IntN(6000)) * time.Millisecond); err != nil {
		return err
	}
	for range 6 + r.IntN(10) {
		if r.IntN(2) == 0 {
			u.act()
		} else {
			t.happen()
		}
		if err := s.RunFor(time.Duration(r.IntN(8000)) * time.Millisecond); err != nil {
			return err
		}
	}
	return s.comeToRest(u)
}

// comeToRest ends all trouble and checks that the world comes to rest where the spec wants it.
func (s *simulated) comeToRest(u *user) error {
	s.Profile = simulator.Calm()
	s.LiveDown = nil
	s.Kubelet.Bad = map[string]bool{}
	for _, node := range s.Kubelet.Nodes() {
		s.Kubelet.Recover(node)
	}
	s.Kubelet.Retry()
	for _, kind := range []simulator.Kind{"Pod", "CloneSet", "ControllerRevision", "PersistentVolumeClaim",
		"WorkloadSpread"} {
		s.Resume(kind)
	}
	for _, letGo := range s.letGo {
		letGo()
	}
	if s.strange {
		s.endStrange()
	}
	if s.hooks {
		s.party.diligent = true
		s.party.all()
	}
	if u != nil {
		u.spec("go on", func(spec *v1beta1.CloneSetSpec) {
			rolling := spec.UpdateStrategy.RollingUpdate
			rolling.Paused = false
			if rolling.PodUpdatePolicy == v1beta1.InPlaceOnlyPodUpdatePolicy {
				rolling.PodUpdatePolicy = v1beta1.InPlaceIfPossiblePodUpdatePolicy
			}
			spec.ScaleStrategy.MaxUnavailable = nil
		})
	}
	return s.rest()
}

// restWithin is what a small workload may need at most: its slowest pods, and a few of the longest waits of the queue.
const restWithin = 10 * time.Minute

// rest waits for rest, and checks what is there then.
func (s *simulated) rest() error {
	if err := s.Rest(restWithin); err != nil {
		return err
	}
	if err := s.check.atRest(); err != nil {
		s.Fail(err)
		return err
	}
	before := s.Writes
	s.Look(simKey())
	if err := s.Rest(restWithin); err != nil {
		return err
	}
	if n := s.Writes - before; n > 0 {
		s.Fail(fmt.Errorf("a pass over a world at rest wrote %d times", n))
		return fmt.Errorf("a pass over a world at rest wrote %d times", n)
	}
	return nil
}
