package cloneset

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

var update = flag.Bool("update", false, "write the golden stories anew")

// simulation is a CloneSet with pods and a kubelet in memory: plans are carried out on it as apply.go does.
type simulation struct {
	t         testing.TB
	cs        *v1beta1.CloneSet
	pods      []*corev1.Pod
	revisions []*appsv1.ControllerRevision
	now       time.Time
	random    *rand.Rand
	made      int
	badImage  string
	log       strings.Builder
	// ws rules the CloneSet, unless it is nil.
	ws *v1beta1.WorkloadSpread
	// ofHub: ws comes from a hub.
	ofHub bool
	// lent and over are Facts.Budget.Granted and Facts.Budget.Expired.
	lent, over bool
	// zones are what a hub gave, and nodes the zone of each node; nil for neither.
	zones map[string]int32
	nodes map[string]string
}

func newSimulation(t testing.TB, replicas int32) *simulation {
	app := map[string]string{"app": "web"}
	return &simulation{t: t, now: time.Unix(1_000_000, 0), random: rand.New(rand.NewPCG(1, 1)), cs: &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"},
		Spec: v1beta1.CloneSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: v1beta1.NewPodTemplate(corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app:1"}}}}),
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateCloneSetStrategy{
				PodUpdatePolicy: v1beta1.InPlaceIfPossiblePodUpdatePolicy, MaxUnavailable: new(intstr.FromInt32(2))}},
		},
	}}
}

func (s *simulation) rolling() *v1beta1.RollingUpdateCloneSetStrategy {
	return s.cs.Spec.UpdateStrategy.RollingUpdate
}

func (s *simulation) image(image string) { s.cs.Spec.Template.Spec.Containers[0].Image = image }

func (s *simulation) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// facts gathers as gather.go does.
func (s *simulation) facts() Facts {
	s.t.Helper()
	limits, err := budget.Resolve(strategy(s.cs), *s.cs.Spec.Replicas)
	s.must(err)
	revision, err := history.Find(s.revisions, s.cs.Spec.Template.PodTemplateSpec)
	s.must(err)
	if revision == nil {
		data, err := history.Encode(s.cs.Spec.Template.PodTemplateSpec)
		s.must(err)
		revision = owner(s.cs).New(data, int64(len(s.revisions)+1), new(int32(0)))
		s.revisions = append(s.revisions, revision)
	}
	newest, err := workload.RevisionOf(revision)
	s.must(err)
	f := Facts{CloneSet: s.cs, Limits: limits, Now: s.now,
		Revisions: workload.Revisions{Update: newest, Current: newest, Stored: s.revisions, Collisions: new(int32(0))},
		Budget:    workload.Budget{Granted: s.lent, Expired: s.over}}
	if current := history.Named(s.revisions, s.cs.Status.CurrentRevision); current != nil {
		f.Current, err = workload.RevisionOf(current)
		s.must(err)
	}
	source, err := podsOf(s.pods...)
	s.must(err)
	f.Pods, err = source.Observe("u", nil)
	s.must(err)
	if s.zones != nil {
		f.Spread = &Spread{Rule: zoneRule(s.zones, limits.Replicas), Node: s.node}
	}
	if s.ws != nil {
		rule, err := spread.Resolve(s.ws, limits.Replicas)
		s.must(err)
		f.Spread = &Spread{Object: s.ws, OfHub: s.ofHub, Rule: rule, Node: s.node, Selector: labels.Everything()}
	}
	return f
}

func (s *simulation) patch(pod *corev1.Pod, patch []byte, err error) {
	s.t.Helper()
	s.must(err)
	before, err := json.Marshal(pod)
	s.must(err)
	after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
	s.must(err)
	*pod = corev1.Pod{}
	s.must(json.Unmarshal(after, pod))
}

// pass plans once and carries the plan out. It returns the plan.
func (s *simulation) pass() Plan {
	s.t.Helper()
	f := s.facts()
	plan, err := Compute(f)
	s.must(err)
	s.check(f, plan)
	for _, removal := range plan.Delete {
		s.pods = slices.DeleteFunc(s.pods, func(p *corev1.Pod) bool { return p.Name == removal.Pod.Name })
	}
	for _, u := range plan.Update {
		writes, err := inplace.Begin(u.Pod, u.Change, u.To, inplace.Options{}, s.now)
		for _, patch := range [][]byte{writes.Status, writes.Pod} {
			if patch != nil {
				s.patch(u.Pod, patch, err)
			}
		}
	}
	open, err := workload.Opened(s.now)
	for _, pod := range plan.Open {
		s.patch(pod, open, err)
	}
	for _, revision := range toCreate(plan.Create, f.Spread) {
		pod := newPod(s.cs, revision, newInstanceID(), f.Form, volumes.Provision{}, s.now)
		s.made++
		pod.Name = fmt.Sprintf("web-%03d", s.made)
		pod.UID = types.UID(pod.Name)
		pod.CreationTimestamp = metav1.NewTime(s.now)
		pod.Status.Phase = corev1.PodPending
		s.patch(pod, open, err)
		s.pods = append(s.pods, pod)
	}
	r := &Reconciler{}
	s.cs.Status = r.status(&scope{pass: &pass{}, cs: s.cs, facts: f, plan: plan})
	return plan
}

// check holds the limits: what a plan takes away leaves enough, and what it adds is not too much.
func (s *simulation) check(f Facts, plan Plan) {
	s.t.Helper()
	taken := int32(0)
	take := func(pod *corev1.Pod) {
		if ok, _ := podstate.Available(pod, s.cs.Spec.MinReadySeconds, s.now); ok {
			taken++
		}
	}
	removed := map[string]bool{}
	for _, removal := range plan.Delete {
		if removed[removal.Pod.Name] {
			s.t.Fatalf("%s is removed twice", removal.Pod.Name)
		}
		removed[removal.Pod.Name] = true
		take(removal.Pod)
	}
	for _, u := range plan.Update {
		if removed[u.Pod.Name] {
			s.t.Fatalf("%s is removed and updated", u.Pod.Name)
		}
		if len(u.Change.Images) > 0 {
			take(u.Pod)
		}
	}
	if left := plan.Counters.Available - taken; taken > 0 && left < f.Limits.Replicas-f.Limits.MaxUnavailable {
		s.t.Fatalf("%d pods stay available of %d, with maxUnavailable %d: %v", left, f.Limits.Replicas,
			f.Limits.MaxUnavailable, plan.Notes)
	}
	created := int32(0)
	for _, creation := range plan.Create {
		created += creation.Count
	}
	if total := plan.Counters.Replicas - int32(len(removed)-len(f.Pods.Ended)) + created; created > 0 &&
		total > f.Limits.Replicas+f.Limits.MaxSurge {
		s.t.Fatalf("%d pods for %d replicas and %d surge: %v", total, f.Limits.Replicas, f.Limits.MaxSurge, plan.Notes)
	}
	s.checkSpread(f, plan, removed)
}

// kubelet brings each pod one step on, unless lazy says that it is not its turn.
func (s *simulation) kubelet(lazy func() bool) {
	for _, pod := range s.pods {
		if lazy() || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		image := pod.Spec.Containers[0].Image
		if !s.schedule(pod) {
			continue
		}
		if image != s.badImage {
			pod.Status.Phase = corev1.PodRunning
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: image, ImageID: "id-" + image}}
		} else if len(pod.Status.ContainerStatuses) > 0 {
			pod.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}
		}
		gate := podstate.Condition(pod, v1beta1.InPlaceUpdateReady)
		ready := corev1.ConditionFalse
		if gate != nil && gate.Status == corev1.ConditionTrue && image != s.badImage {
			ready = corev1.ConditionTrue
		}
		if have := podstate.Condition(pod, corev1.PodReady); have == nil {
			pod.Status.Conditions = append(pod.Status.Conditions,
				corev1.PodCondition{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(s.now)})
		} else if have.Status != ready {
			have.Status, have.LastTransitionTime = ready, metav1.NewTime(s.now)
		}
	}
}

// empty tells whether a plan does nothing.
func empty(p Plan) bool {
	return len(p.Delete)+len(p.Update)+len(p.Carry)+len(p.Open)+len(p.Prepare)+len(p.Release)+len(p.Create)+len(p.Claims.Own)+len(p.Claims.Delete) == 0
}

// run goes on until a plan does nothing and no pod changes, and writes the story.
func (s *simulation) run(title string) {
	s.t.Helper()
	fmt.Fprintf(&s.log, "== %s\n", title)
	quiet := 0
	for range 200 {
		plan := s.pass()
		if !empty(plan) {
			fmt.Fprintf(&s.log, "%-28s %s\n", s.state(), describe(plan))
		}
		before := s.state()
		s.kubelet(func() bool { return false })
		s.now = s.now.Add(time.Second)
		if quiet++; !empty(plan) || before != s.state() {
			quiet = 0
		}
		// The kubelet needs a round to run an image, and another to find the pod ready.
		if quiet == 2 {
			fmt.Fprintf(&s.log, "%-28s at rest\n", s.state())
			return
		}
	}
	s.t.Fatalf("%s: no rest\n%s", title, s.log.String())
}

// state prints pods and ready pods by image.
func (s *simulation) state() string {
	total, ready := map[string]int{}, map[string]int{}
	for _, pod := range s.pods {
		image := pod.Spec.Containers[0].Image
		total[image]++
		if podstate.Ready(pod) {
			ready[image]++
		}
	}
	var out []string
	for _, image := range slices.Sorted(maps.Keys(total)) {
		out = append(out, fmt.Sprintf("%s %d/%d", image, ready[image], total[image]))
	}
	return strings.Join(out, "  ")
}

func describe(p Plan) string {
	var out []string
	for _, part := range []struct {
		name string
		n    int
	}{{"delete", len(p.Delete)}, {"update", len(p.Update)}, {"open", len(p.Open)}} {
		if part.n > 0 {
			out = append(out, fmt.Sprintf("%s %d", part.name, part.n))
		}
	}
	for _, c := range p.Create {
		out = append(out, fmt.Sprintf("create %d %s", c.Count, c.Revision.Template.Spec.Containers[0].Image))
	}
	return fmt.Sprintf("%s; %v", strings.Join(out, ", "), p.Notes)
}

func TestStoriesOfPlans(t *testing.T) {
	stories := map[string]func(*simulation){
		"in-place": func(s *simulation) {
			s.run("create 5")
			s.image("app:2")
			s.run("app:2")
			s.cs.Spec.Replicas = new(int32(3))
			s.run("scale in to 3")
		},
		"partition": func(s *simulation) {
			s.run("create 5")
			s.image("app:2")
			s.rolling().Partition = new(intstr.FromString("60%"))
			s.run("app:2 with partition 60%")
			s.rolling().Partition = new(intstr.FromString("80%"))
			s.run("partition 80%: one goes back")
			s.cs.Spec.Replicas = new(int32(10))
			s.run("scale out to 10")
			s.rolling().Partition = nil
			s.run("no partition")
		},
		"recreate": func(s *simulation) {
			s.rolling().PodUpdatePolicy = v1beta1.ReCreatePodUpdatePolicy
			s.run("create 5")
			s.image("app:2")
			s.run("app:2")
		},
		"surge": func(s *simulation) {
			s.cs.Spec.Replicas = new(int32(10))
			s.rolling().PodUpdatePolicy = v1beta1.ReCreatePodUpdatePolicy
			s.rolling().MaxUnavailable, s.rolling().MaxSurge = new(intstr.FromInt32(0)), new(intstr.FromInt32(3))
			s.run("create 10")
			s.image("app:2")
			s.run("app:2 with maxSurge 3, maxUnavailable 0")
		},
		"surge-in-place": func(s *simulation) {
			s.rolling().MaxUnavailable, s.rolling().MaxSurge = new(intstr.FromInt32(0)), new(intstr.FromInt32(2))
			s.run("create 5")
			s.image("app:2")
			s.run("app:2 with maxSurge 2, maxUnavailable 0")
		},
		"bad-image": func(s *simulation) {
			s.run("create 5")
			s.badImage = "app:2"
			s.image("app:2")
			s.run("an image that does not exist")
			s.image("app:1")
			s.run("back")
		},
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			s := newSimulation(t, 5)
			story(s)
			file := filepath.Join("testdata", name+".story")
			if *update {
				s.must(os.MkdirAll("testdata", 0o755))
				s.must(os.WriteFile(file, []byte(s.log.String()), 0o644))
			}
			want, err := os.ReadFile(file)
			s.must(err)
			if got := s.log.String(); got != string(want) {
				t.Errorf("the story is another one now (run with -update if it is better):\n%s", got)
			}
		})
	}
}

func TestRandomWorkloadsComeToRestWithinTheirLimits(t *testing.T) {
	for seed := range uint64(400) {
		s := newSimulation(t, int32(seed%12))
		s.random = rand.New(rand.NewPCG(seed, 3))
		for range 60 {
			if s.random.IntN(4) == 0 {
				s.disturb()
			}
			s.pass()
			s.kubelet(func() bool { return s.random.IntN(2) == 0 })
			s.now = s.now.Add(time.Second)
		}
		s.rolling().Paused = false
		s.now = s.now.Add(podstate.LivesAtLeast) // pods that have just failed wait for that
		s.run("rest")
		f := s.facts()
		updated, available := int32(0), int32(0)
		for _, pod := range s.pods {
			if podset.HasRevision(pod, f.Update.Hash) {
				updated++
			}
			if podstate.Ready(pod) {
				available++
			}
		}
		if n := *s.cs.Spec.Replicas; int32(len(s.pods)) != n || available != n || updated < n-f.Limits.Partition {
			t.Fatalf("seed %d: %d pods, %d ready, %d updated, of %d with partition %d", seed, len(s.pods), available, updated, n,
				f.Limits.Partition)
		}
	}
}

// disturb changes the spec or a pod at random.
func (s *simulation) disturb() {
	r := s.random
	switch r.IntN(8) {
	case 0:
		s.cs.Spec.Replicas = new(r.Int32N(12))
	case 1:
		s.image(fmt.Sprintf("app:%d", r.IntN(4)))
	case 2:
		s.rolling().Partition = new(intstr.FromInt32(r.Int32N(6)))
	case 3:
		s.rolling().Paused = !s.rolling().Paused
	case 4:
		s.rolling().PodUpdatePolicy = []v1beta1.PodUpdatePolicyType{v1beta1.ReCreatePodUpdatePolicy,
			v1beta1.InPlaceIfPossiblePodUpdatePolicy}[r.IntN(2)]
	case 5:
		s.rolling().MaxUnavailable, s.rolling().MaxSurge = new(intstr.FromInt32(r.Int32N(3))),
			new(intstr.FromInt32(r.Int32N(3)))
	case 6:
		if len(s.pods) > 0 {
			s.pods[r.IntN(len(s.pods))].Labels[v1beta1.LabelSpecifiedDelete] = "true"
		}
	case 7:
		if len(s.pods) > 0 {
			s.pods[r.IntN(len(s.pods))].Status.Phase = corev1.PodFailed
		}
	}
}

// podsOf returns a source over these pods.
func podsOf(pods ...*corev1.Pod) (*podset.Source, error) {
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	for _, object := range pods {
		if err := indexer.Add(object); err != nil {
			return nil, err
		}
	}
	return podset.FromIndexer(indexer)
}
