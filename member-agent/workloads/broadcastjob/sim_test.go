package broadcastjob

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/pernode"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// simulated is a simulated world with the real controller, nodes that come and go, and one BroadcastJob, whose limits
// stay as they are at first.
type simulated struct {
	*simulator.World
	random *rand.Rand
	job    *v1beta1.BroadcastJob // as it was created
	calm   bool                  // pods succeed
	begun  map[types.UID]bool    // pods that run
	// blind makes the controller act on whatever its cache shows, and lie by another spec, to prove that the checks find
	// it; nil for the truth.
	blind bool
	lie   func(*v1beta1.BroadcastJobSpec)
}

var simKey = types.NamespacedName{Namespace: "ops", Name: "repair"}

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
	r := rand.New(rand.NewPCG(seed, 23))
	s := &simulated{random: r, begun: map[types.UID]bool{},
		World: simulator.New(simulator.Options{Seed: seed, Profile: profiles()[r.IntN(4)], Story: story,
			Guard: seed%16 == 0})}
	for _, f := range change {
		f(s)
	}
	s.Check, s.Outside = s.check, s.observe
	s.job = newJob(failure([]v1beta1.FailurePolicyType{"Continue", "Pause"}[r.IntN(2)]), func(job *v1beta1.BroadcastJob) {
		job.Spec.Parallelism = new(intstr.FromInt32(1 + r.Int32N(3)))
		job.Spec.Template.Spec.RestartPolicy = []corev1.RestartPolicy{"Never", "OnFailure"}[r.IntN(2)]
		if r.IntN(3) == 0 {
			never(job)
		}
		if r.IntN(3) > 0 {
			batches(1+r.Int32N(2), func(b *v1beta1.BroadcastJobBatches) {
				b.Soak, b.MaxRestarts = fmt.Sprintf("%ds", r.IntN(4)), new(int32(0))
				if r.IntN(2) == 0 {
					b.Checks = []v1beta1.BatchCheck{podCheck("probe"), {Name: "pool", Patience: "20s",
						Expression: "node.metadata.labels['pool'] == 'on'"}}
				}
			})(job)
		}
	})
	for _, name := range s.Kubelet.Nodes() {
		s.join(name)
	}
	err := s.Create(s.job)
	if err == nil {
		err = s.Start(simulator.Controller{Kind: "BroadcastJob", Gather: gatherEvents, Build: s.build, Also: s.also})
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
	nodeOf := func(object client.Object) []string {
		pod, _ := object.(*corev1.Pod)
		return []string{pod.Spec.NodeName}
	}
	if err := env.Fields.IndexField(context.Background(), &corev1.Pod{}, "spec.nodeName", nodeOf); err != nil {
		return nil, err
	}
	r := &Reconciler{ask: ask, nodeNames: s.nodeNames}
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

// nodeNames returns the nodes that the API server has.
func (s *simulated) nodeNames(context.Context) (out []string, err error) {
	for _, node := range s.List("Node") {
		out = append(out, node.GetName())
	}
	return out, s.LiveDown
}

func (s *simulated) readNodes() (out []*corev1.Node) {
	for _, object := range s.Cached("Node") {
		if node, ok := object.(*corev1.Node); ok {
			out = append(out, node)
		}
	}
	return out
}

// liar shows the controller another spec.
type liar struct {
	client.Client
	lie func(*v1beta1.BroadcastJobSpec)
}

func (l liar) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	err := l.Client.Get(ctx, key, object, opts...)
	if job, ok := object.(*v1beta1.BroadcastJob); ok && err == nil {
		l.lie(&job.Spec)
	}
	return err
}

// unknown knows no namespace.
type unknown struct{ client.Reader }

func (unknown) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Name)
}

// also wakes the job for nodes, as the watch does.
func (s *simulated) also(kind simulator.Kind, before, after client.Object) []types.NamespacedName {
	was, _ := before.(*corev1.Node)
	is, _ := after.(*corev1.Node)
	if kind == "Node" && (was == nil || is == nil || workload.NodeChanged(was, is)) {
		return []types.NamespacedName{simKey}
	}
	return nil
}

// observe lets a pod end some time after it began to run.
func (s *simulated) observe(_ simulator.Kind, _, after client.Object) {
	pod, ok := after.(*corev1.Pod)
	if !ok || pod.Status.Phase != corev1.PodRunning || s.begun[pod.UID] || !metav1.IsControlledBy(pod, s.current()) {
		return
	}
	s.begun[pod.UID] = true
	key := client.ObjectKeyFromObject(pod)
	s.After(time.Duration(s.random.IntN(4000))*time.Millisecond, func() { s.end(key, pod.UID) })
}

// current returns the job as the server has it, an empty one if it is gone.
func (s *simulated) current() *v1beta1.BroadcastJob {
	if job, ok := s.Get("BroadcastJob", simKey).(*v1beta1.BroadcastJob); ok {
		return job
	}
	return &v1beta1.BroadcastJob{}
}

// end ends a pod.
func (s *simulated) end(key types.NamespacedName, uid types.UID) {
	pod, ok := s.Get("Pod", key).(*corev1.Pod)
	if !ok || pod.UID != uid || pod.DeletionTimestamp != nil || podstate.Ended(pod) {
		return
	}
	switch n := s.random.IntN(12); {
	case s.calm || n > 2:
		s.Fail(s.ChangeStatus("Pod", key, func(object client.Object) {
			if pod, ok := object.(*corev1.Pod); ok {
				pod.Status.Phase = corev1.PodSucceeded
			}
		}))
	case n == 0 && pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure:
		s.Kubelet.Crash(key)
		s.After(time.Second, func() { s.end(key, uid) })
	default:
		s.Kubelet.Evict(key)
	}
}

// check is asked after every write of the controller.
func (s *simulated) check(w simulator.Write) error {
	pod, _ := w.After.(*corev1.Pod)
	if w.Kind != "Pod" || w.Verb != "create" || w.Before != nil || pod == nil {
		return nil
	}
	if _, isCheck := pod.Labels[v1beta1.LabelBatchCheck]; isCheck {
		return s.checkProbe(pod)
	}
	at, active, batch := podset.NodeOf(pod), 0, map[string]bool{}
	for _, object := range s.List("Pod") {
		other, _ := object.(*corev1.Pod)
		if _, isCheck := other.Labels[v1beta1.LabelBatchCheck]; isCheck {
			continue
		}
		if other.Name != pod.Name && podset.NodeOf(other) == at {
			return fmt.Errorf("%s is created on %s beside %s", s.Name(pod.Name), at, s.Name(other.Name))
		}
		if !podstate.Ended(other) {
			active++
		}
		if batchOf(other) == batchOf(pod) {
			batch[podset.NodeOf(other)] = true
		}
	}
	if most := int(s.job.Spec.Parallelism.IntVal); active > most {
		return fmt.Errorf("%d pods are active, parallelism is %d", active, most)
	}
	if b := batchesOf(s.job); b != nil && len(batch) > int(b.Size.IntVal) {
		return fmt.Errorf("batch %d has %d nodes, size is %d", batchOf(pod), len(batch), b.Size.IntVal)
	}
	status := s.current().Status
	switch {
	case status.StartTime == nil, status.CompletionTime != nil:
		return fmt.Errorf("a pod is created before the job began or after its end: %+v", status)
	case status.Flotilla != nil && status.Flotilla.Halted != nil:
		return fmt.Errorf("a pod is created on %s though the job has halted", at)
	case status.Flotilla != nil && int(status.Flotilla.Batch) != batchOf(pod):
		return fmt.Errorf("a pod of batch %d is created in batch %d", batchOf(pod), status.Flotilla.Batch)
	}
	return nil
}

// checkProbe checks a new pod of a check: it is the only one, and the pods of its batch have ended.
func (s *simulated) checkProbe(pod *corev1.Pod) error {
	for _, object := range s.List("Pod") {
		other, _ := object.(*corev1.Pod)
		_, isCheck := other.Labels[v1beta1.LabelBatchCheck]
		switch {
		case batchOf(other) != batchOf(pod) || other.Name == pod.Name:
		case isCheck && podset.NodeOf(other) == podset.NodeOf(pod):
			return fmt.Errorf("%s is created beside %s", s.Name(pod.Name), s.Name(other.Name))
		case !isCheck && !podstate.Ended(other):
			return fmt.Errorf("%s is created while %s runs", s.Name(pod.Name), s.Name(other.Name))
		}
	}
	return nil
}

// live lets users and trouble do their worst, and then waits for the end of the job.
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
	s.Profile, s.LiveDown, s.calm = simulator.Calm(), nil, true
	s.Kubelet.Retry()
	for _, kind := range []simulator.Kind{"Pod", "BroadcastJob", "Node"} {
		s.Resume(kind)
	}
	s.change("go on", func(job *v1beta1.BroadcastJob) { job.Spec.Paused = false })
	for range 20 {
		if err := s.Rest(2 * time.Hour); err != nil {
			return err
		}
		if !s.resume() {
			break
		}
	}
	return s.atRest()
}

func (s *simulated) change(what string, edit func(*v1beta1.BroadcastJob)) {
	s.Tell("user: %s", what)
	s.Fail(s.Change("BroadcastJob", simKey, func(object client.Object) {
		if job, ok := object.(*v1beta1.BroadcastJob); ok {
			edit(job)
		}
	}))
}

// resume lets a job that has halted go on, and reports whether it had.
func (s *simulated) resume() bool {
	status := s.current().Status
	if status.Flotilla == nil || status.Flotilla.Halted == nil {
		return false
	}
	s.change("resume", func(job *v1beta1.BroadcastJob) {
		job.Annotations = map[string]string{
			v1beta1.AnnotationResume: status.Flotilla.Halted.Time.UTC().Format(time.RFC3339)}
	})
	return true
}

// user does one thing that people and their tools do with a job.
func (s *simulated) user() {
	r := s.random
	switch r.IntN(4) {
	case 0:
		paused := r.IntN(2) == 0
		s.change(fmt.Sprintf("paused %v", paused), func(job *v1beta1.BroadcastJob) { job.Spec.Paused = paused })
	case 1:
		batch := fmt.Sprint(1 + r.IntN(4))
		s.change("promote "+batch, func(job *v1beta1.BroadcastJob) {
			metav1.SetMetaDataAnnotation(&job.ObjectMeta, v1beta1.AnnotationPromote, batch)
		})
	default:
		s.resume()
	}
}

// join adds a node, or changes nothing if there is one of this name.
func (s *simulated) join(name string) {
	err := s.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "on"}}})
	if err == nil {
		s.Kubelet.Join(name)
	}
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
	switch r.IntN(5) {
	case 0, 1:
		s.join(name)
	case 2:
		if slices.Contains(s.Kubelet.Nodes(), name) {
			s.Fail(s.Delete("Node", types.NamespacedName{Name: name}))
			s.Kubelet.Leave(name, time.Duration(r.IntN(20))*time.Second)
		}
	case 3:
		edit("taint", func(node *corev1.Node) {
			node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
		})
	case 4:
		edit("no taints", func(node *corev1.Node) { node.Spec.Taints = nil })
	}
}

// trouble is what goes wrong beside requests and events.
func (s *simulated) trouble() {
	r := s.random
	pods := s.List("Pod")
	switch r.IntN(5) {
	case 0:
		if len(pods) > 0 {
			s.Fail(s.Delete("Pod", client.ObjectKeyFromObject(pods[r.IntN(len(pods))])))
		}
	case 1:
		kind := []simulator.Kind{"Pod", "Pod", "BroadcastJob", "Node"}[r.IntN(4)]
		s.Interrupt(kind)
		s.After(time.Duration(1+r.IntN(8000))*time.Millisecond, func() { s.Resume(kind) })
	case 2, 3:
		s.Fail(s.Restart())
	case 4:
		s.LiveDown = context.DeadlineExceeded
		s.After(time.Duration(r.IntN(8))*time.Second, func() { s.LiveDown = nil })
	}
}

// atRest checks that each node that fits has a pod that has ended, and that the status counts what there is.
func (s *simulated) atRest() error {
	job := s.current()
	on, counts := map[string]int{}, map[corev1.PodPhase]int32{}
	for _, object := range s.List("Pod") {
		pod, _ := object.(*corev1.Pod)
		if _, isCheck := pod.Labels[v1beta1.LabelBatchCheck]; !isCheck {
			on[podset.NodeOf(pod)]++
			counts[pod.Status.Phase]++
		}
	}
	st := job.Status
	if want := v1beta1.PhaseCompleted; job.Spec.CompletionPolicy.Type != v1beta1.NeverCompletionPolicyType &&
		st.Phase != want && st.Desired > 0 {
		return fmt.Errorf("phase %s, want %s: %+v", st.Phase, want, st)
	}
	if st.CompletionTime != nil {
		return nil // nodes and pods may have gone since
	}
	fit := pernode.FitOfJob(&job.Spec.Template.Spec)
	for _, object := range s.List("Node") {
		node, _ := object.(*corev1.Node)
		if fitness, _ := fit.Of(node); fitness == pernode.Fits && on[node.Name] != 1 {
			return fmt.Errorf("%d pods on %s: %+v", on[node.Name], node.Name, st)
		}
		delete(on, node.Name)
	}
	if len(on) > 0 || st.Succeeded != counts[corev1.PodSucceeded] || st.Failed != counts[corev1.PodFailed] ||
		st.Active != 0 || st.Desired != st.Succeeded+st.Failed {
		return fmt.Errorf("pods %v, on nodes that are gone %v; status %+v", counts, on, st)
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
		"it runs more pods than it may": func(s *simulated) {
			s.lie = func(spec *v1beta1.BroadcastJobSpec) { spec.Parallelism = nil }
		},
		"its batches are too large": func(s *simulated) {
			s.lie = func(spec *v1beta1.BroadcastJobSpec) {
				if spec.Flotilla != nil {
					spec.Flotilla = &v1beta1.BroadcastJobFlotilla{Batches: &v1beta1.BroadcastJobBatches{Size: intstr.FromInt32(4)}}
				}
			}
		},
		"it tolerates no node": func(s *simulated) {
			s.lie = func(spec *v1beta1.BroadcastJobSpec) { spec.Template.Spec.NodeName = "node-a" }
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
