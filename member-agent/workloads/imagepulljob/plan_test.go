package imagepulljob

import (
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(-d))) }

func newJob() *v1beta1.ImagePullJob {
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Name: "pull", Namespace: "default", UID: "job"}}
	job.Spec.Image = "web:1"
	job.Spec.Parallelism = new(intstr.FromInt32(2))
	job.Status.StartTime = ago(time.Minute)
	return job
}

// node returns a node that jobs asked for the image some time ago, with a phase; "" for none.
func node(name string, asked time.Duration, phase v1beta1.ImagePullPhase, owners ...types.UID) Node {
	n := Node{Name: name, Tag: &v1beta1.ImageTagSpec{Tag: "1", CreatedAt: ago(asked)}}
	for _, uid := range owners {
		n.Tag.OwnerReferences = append(n.Tag.OwnerReferences, v1beta1.JobReference{UID: uid})
	}
	if phase != "" {
		n.Status = &v1beta1.ImageTagStatus{Tag: "1", Phase: phase}
		if phase == v1beta1.ImagePhasePulling {
			n.Status.StartTime = ago(asked)
		}
	}
	return n
}

// timeless returns a node whose entry does not say since when.
func timeless(name string, phase v1beta1.ImagePullPhase, owners ...types.UID) Node {
	n := node(name, time.Minute, phase, owners...)
	n.Tag.CreatedAt = nil
	return n
}

// limited gives the request of a node these limits.
func limited(n Node, timeout, backoff int32) Node {
	n.Tag.PullPolicy = &v1beta1.ImageTagPullPolicy{TimeoutSeconds: &timeout, BackoffLimit: &backoff}
	return n
}

// checkRequest fails the test unless the entry has the job once, and a time.
func checkRequest(t *testing.T, r Request) {
	t.Helper()
	own := slices.DeleteFunc(slices.Clone(r.Tag.OwnerReferences), func(o v1beta1.JobReference) bool {
		return o.UID != "job"
	})
	if len(own) != 1 || r.Tag.CreatedAt == nil {
		t.Errorf("the entry on %s has the job %d times, and the time %v", r.Node, len(own), r.Tag.CreatedAt)
	}
}

func TestPlan(t *testing.T) {
	const pulling, done, broken = v1beta1.ImagePhasePulling, v1beta1.ImagePhaseSucceeded, v1beta1.ImagePhaseFailed
	for _, row := range []struct {
		name    string
		job     func(*v1beta1.ImagePullJob)
		nodes   []Node
		gone    []string // nodes that the job does not select
		want    string   // active, succeeded, failed
		asks    string
		leaves  string
		says    string
		next    time.Duration
		deletes bool
		pods    bool
	}{
		{name: "the first nodes", nodes: []Node{{Name: "a"}, {Name: "b"}, {Name: "c"}}, want: "2 0 0", asks: "a/0 b/0",
			says: "no progress", next: 10 * time.Minute},
		{name: "the next node", nodes: []Node{node("a", time.Minute, done, "job"), node("b", time.Minute, pulling, "job"),
			{Name: "c"}}, want: "2 1 0", asks: "c/0", says: "progress 33.3%", next: 10 * time.Minute},
		{name: "no parallelism", job: func(j *v1beta1.ImagePullJob) { j.Spec.Parallelism = new(intstr.FromInt32(0)) },
			nodes: []Node{{Name: "a"}}, want: "0 0 0", says: "no progress"},
		{name: "a percentage", job: func(j *v1beta1.ImagePullJob) { j.Spec.Parallelism = new(intstr.FromString("34%")) },
			nodes: []Node{{Name: "a"}, {Name: "b"}, {Name: "c"}}, want: "2 0 0", asks: "a/0 b/0", next: 10 * time.Minute},
		{name: "a node that still pulls and is no longer selected counts",
			nodes: []Node{node("a", time.Minute, pulling, "job"), {Name: "b"}, {Name: "c"}}, gone: []string{"a"},
			want: "1 0 0", asks: "b/0", next: 10 * time.Minute},
		{name: "a node that has pulled and is no longer selected",
			nodes: []Node{node("a", time.Minute, done, "job"), {Name: "b"}}, gone: []string{"a"}, want: "1 0 0",
			asks: "b/0", leaves: "a", next: 10 * time.Minute},
		{name: "all have ended", nodes: []Node{node("a", time.Minute, done, "job"), node("b", time.Minute, broken, "job")},
			want: "0 1 1", leaves: "a b", says: "job has completed"},
		{name: "no nodes yet", want: "0 0 0", says: "no progress", next: 9 * time.Minute},
		{name: "no nodes for 10 minutes",
			job:  func(j *v1beta1.ImagePullJob) { j.Status.StartTime = ago(10 * time.Minute) },
			want: "0 0 0", says: "job has completed"},
		{name: "all have ended, Never", job: func(j *v1beta1.ImagePullJob) { j.Spec.CompletionPolicy.Type = "Never" },
			nodes: []Node{node("a", time.Minute, done, "job")}, want: "0 1 0", says: "progress 100.0%"},
		{name: "a daemon that is silent for 10 minutes",
			nodes: []Node{node("a", 10*time.Minute, "", "job"), node("b", 9*time.Minute, "", "job")}, want: "1 0 1",
			leaves: "a", says: "progress 50.0%", next: time.Minute},
		{name: "a daemon that died during a pull",
			nodes: []Node{node("a", 52*time.Minute, pulling, "job"), node("b", 51*time.Minute, pulling, "job")},
			want:  "1 0 1", leaves: "a", next: time.Minute},
		{name: "a daemon that comes back after it was given up",
			job:   func(j *v1beta1.ImagePullJob) { j.Status.FailedNodes = []string{"a"} },
			nodes: []Node{node("a", 11*time.Minute, pulling, "job"), {Name: "b"}}, want: "1 0 1", asks: "b/0", leaves: "a",
			next: 10 * time.Minute},
		{name: "another job has pulled it", nodes: []Node{node("a", time.Minute, done, "other")}, want: "1 0 0",
			asks: "a/0", next: 10 * time.Minute},
		{name: "another job failed to pull it", nodes: []Node{node("a", time.Minute, broken, "other")}, want: "1 0 0",
			asks: "a/1", next: 10 * time.Minute},
		{name: "another job has pulled it, and Always",
			job:   func(j *v1beta1.ImagePullJob) { j.Spec.ImagePullPolicy = v1beta1.PullAlways },
			nodes: []Node{node("a", time.Minute, done, "other")}, want: "1 0 0", asks: "a/1", next: 10 * time.Minute},
		{name: "another job's request without a time", nodes: []Node{timeless("a", pulling, "other")}, want: "1 0 0",
			asks: "a/1", next: 10 * time.Minute},
		{name: "an own request without a time", nodes: []Node{timeless("a", "", "job"), timeless("b", done, "job")},
			want: "2 0 0", asks: "a/1 b/1", next: 10 * time.Minute},
		{name: "the longest timeout",
			nodes: []Node{limited(node("a", time.Minute, pulling, "job"), math.MaxInt32, 0)},
			want:  "1 0 0", next: (math.MaxInt32 + 30 + 9*60) * time.Second},
		{name: "the longest timeout, again and again",
			nodes: []Node{limited(node("a", time.Minute, pulling, "job"), math.MaxInt32, math.MaxInt32)},
			want:  "1 0 0", next: longest + 9*time.Minute},
		{name: "a deadline whose nanoseconds do not fit",
			job:   func(j *v1beta1.ImagePullJob) { j.Spec.CompletionPolicy.ActiveDeadlineSeconds = new(int64(9999999999)) },
			nodes: []Node{node("a", time.Minute, "", "job")}, want: "1 0 0", next: 9 * time.Minute},
		{name: "the version goes on after the entry left", nodes: []Node{
			{Name: "a", Status: &v1beta1.ImageTagStatus{Version: 4, Phase: done}}}, want: "1 0 0", asks: "a/5",
			next: 10 * time.Minute},
		{name: "the deadline",
			job:   func(j *v1beta1.ImagePullJob) { j.Spec.CompletionPolicy.ActiveDeadlineSeconds = new(int64(60)) },
			nodes: []Node{node("a", time.Minute, done, "job"), node("b", time.Minute, pulling, "job"), {Name: "c"}},
			want:  "0 1 2", leaves: "a b", says: "job exceeds activeDeadlineSeconds"},
		{name: "before the deadline",
			job:   func(j *v1beta1.ImagePullJob) { j.Spec.CompletionPolicy.ActiveDeadlineSeconds = new(int64(70)) },
			nodes: []Node{node("a", time.Minute, pulling, "job")}, want: "1 0 0", next: 10 * time.Second},
		{name: "ended", job: func(j *v1beta1.ImagePullJob) {
			j.Status.CompletionTime, j.Status.Succeeded = ago(time.Minute), 7
			j.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(90))
		}, nodes: []Node{node("a", time.Minute, done, "job", "other"), {Name: "b"}}, want: "0 7 0", leaves: "a",
			next: 30 * time.Second},
		{name: "ended for longer than its time to live", job: func(j *v1beta1.ImagePullJob) {
			j.Status.CompletionTime = ago(time.Minute)
			j.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(60))
		}, want: "0 0 0", deletes: true},
		{name: "nodes failed to pull another image", job: func(j *v1beta1.ImagePullJob) {
			j.Status.FailedNodes = []string{"a"}
			j.Status.Flotilla = &v1beta1.ImagePullJobProgress{Image: "wbe:1", PullBy: v1beta1.PullByDaemon}
		}, nodes: []Node{{Name: "a"}, {Name: "b"}}, want: "2 0 0", asks: "a/0 b/0", says: "no progress",
			next: 10 * time.Minute},
		{name: "nodes have another image", job: func(j *v1beta1.ImagePullJob) {
			j.Status.Flotilla = &v1beta1.ImagePullJobProgress{Image: "web:0", PullBy: v1beta1.PullByPod,
				PulledNodes: []string{"a", "b"}}
		}, pods: true, nodes: []Node{{Name: "a"}, {Name: "b"}}, want: "2 0 0", asks: "a/0 b/0", next: 10 * time.Minute},
		{name: "nodes have the image", job: func(j *v1beta1.ImagePullJob) {
			j.Status.Flotilla = &v1beta1.ImagePullJobProgress{Image: "web:1", PullBy: v1beta1.PullByPod,
				PulledNodes: []string{"a", "b"}}
		}, pods: true, nodes: []Node{{Name: "a"}, {Name: "b"}}, want: "0 2 0", says: "job has completed"},
		{name: "it ended while its image changed", job: func(j *v1beta1.ImagePullJob) {
			j.Status.CompletionTime, j.Status.Succeeded = ago(time.Minute), 1
			j.Status.Flotilla = &v1beta1.ImagePullJobProgress{Image: "web:0", PullBy: v1beta1.PullByDaemon}
		}, nodes: []Node{{Name: "a"}}, want: "1 0 0", asks: "a/0", says: "no progress", next: 10 * time.Minute},
		{name: "being deleted", job: func(j *v1beta1.ImagePullJob) { j.DeletionTimestamp = ago(0) },
			nodes: []Node{node("a", time.Minute, pulling, "job"), {Name: "b"}}, want: "0 0 0", leaves: "a"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := Facts{Job: newJob(), Nodes: map[string]Node{}, Now: now, Pods: row.pods}
			if row.job != nil {
				row.job(f.Job)
			}
			f.Job = OfItsImage(f.Job)
			for _, n := range row.nodes {
				f.Nodes[n.Name] = n
				if !slices.Contains(row.gone, n.Name) {
					f.Selected = append(f.Selected, n.Name)
				}
			}
			plan, err := Make(f)
			if err != nil {
				t.Fatal(err)
			}
			s := plan.Status
			if got := fmt.Sprint(s.Active, s.Succeeded, s.Failed); got != row.want || !strings.Contains(s.Message, row.says) {
				t.Errorf("%s %q, want %s and %q", got, s.Message, row.want, row.says)
			}
			var asks []string
			for _, r := range plan.Request {
				asks = append(asks, fmt.Sprintf("%s/%d", r.Node, r.Tag.Version))
				checkRequest(t, r)
			}
			if got := strings.Join(asks, " "); got != row.asks {
				t.Errorf("asks %q, want %q", got, row.asks)
			}
			if got := strings.Join(plan.Release, " "); got != row.leaves || plan.Delete != row.deletes {
				t.Errorf("leaves %q, deletes: %t; want %q, %t", got, plan.Delete, row.leaves, row.deletes)
			}
			if row.next == 0 != plan.Next.IsZero() || row.next != 0 && plan.Next.Sub(now) != row.next {
				t.Errorf("next at %s, want in %s", plan.Next, row.next)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	nodes := map[string]map[string]string{"a": {"disk": "ssd"}, "b": {"disk": "hdd"}, "c": nil}
	onNode := func(name, node string, phase corev1.PodPhase) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}}
		pod.Spec.NodeName, pod.Status.Phase = node, phase
		return pod
	}
	pods := []*corev1.Pod{onNode("web", "c", corev1.PodRunning), onNode("web", "a", corev1.PodSucceeded),
		onNode("web", "gone", corev1.PodRunning), onNode("web", "", corev1.PodPending), onNode("db", "b", corev1.PodRunning)}
	matching := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	for _, row := range []struct {
		name string
		edit func(*v1beta1.ImagePullJobTemplate)
		want string
	}{
		{"all", func(*v1beta1.ImagePullJobTemplate) {}, "a b c"},
		{"names", func(s *v1beta1.ImagePullJobTemplate) {
			s.Selector = &v1beta1.ImagePullJobNodeSelector{Names: []string{"c", "x", "a"}}
		}, "a c"},
		{"labels", func(s *v1beta1.ImagePullJobTemplate) {
			s.Selector = &v1beta1.ImagePullJobNodeSelector{LabelSelector: *matching("disk", "ssd")}
		}, "a"},
		{"pods", func(s *v1beta1.ImagePullJobTemplate) { s.PodSelector = matching("app", "web") }, "c"},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := &v1beta1.ImagePullJobSpec{}
			row.edit(&spec.ImagePullJobTemplate)
			got, err := Select(spec, nodes, pods)
			if err != nil || strings.Join(got, " ") != row.want {
				t.Errorf("%q, %v; want %q", got, err, row.want)
			}
		})
	}
}

// TestSimulated runs jobs over nodes whose daemons answer at random, or never: the limit holds, a node is asked once,
// and every job ends.
func TestSimulated(t *testing.T) {
	for seed := range int64(500) {
		r := rand.New(rand.NewSource(seed))
		f := Facts{Job: newJob(), Nodes: map[string]Node{}, Now: now}
		limit := 1 + r.Intn(4)
		f.Job.Spec.Parallelism = new(intstr.FromInt32(int32(limit)))
		for i := range r.Intn(20) {
			name := fmt.Sprintf("n%02d", i)
			f.Nodes[name], f.Selected = Node{Name: name}, append(f.Selected, name)
		}
		asked := map[string]int{}
		for step := 0; f.Job.Status.CompletionTime == nil; step++ {
			if step > 10000 {
				t.Fatalf("seed %d: it does not end: %+v", seed, f.Job.Status)
			}
			plan, err := Make(f)
			if err != nil {
				t.Fatal(err)
			}
			f.Job.Status = plan.Status
			for _, name := range plan.Release {
				f.Nodes[name] = Node{Name: name}
			}
			for _, request := range plan.Request {
				asked[request.Node]++
				f.Nodes[request.Node] = Node{Name: request.Node, Tag: &request.Tag}
			}
			if wrong := checkStatus(plan, f, limit, asked); wrong != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, wrong)
			}
			if again, _ := Make(f); !reflect.DeepEqual(again.Status, plan.Status) && plan.Status.CompletionTime == nil {
				t.Fatalf("seed %d: at rest the status changes from\n%+v to\n%+v", seed, plan.Status, again.Status)
			}
			f.Now = f.Now.Add(time.Duration(r.Intn(60)) * time.Second)
			answer(r, f)
			if len(f.Selected) > 0 && r.Intn(40) == 0 { // a node goes
				i := r.Intn(len(f.Selected))
				delete(f.Nodes, f.Selected[i])
				f.Selected = slices.Delete(slices.Clone(f.Selected), i, i+1)
			}
		}
	}
}

// checkStatus says what is wrong with a plan.
func checkStatus(plan Plan, f Facts, limit int, asked map[string]int) string {
	s := plan.Status
	if int(s.Active) > limit {
		return fmt.Sprintf("%d nodes pull at a time, %d are allowed", s.Active, limit)
	}
	if s.Desired != int32(len(f.Selected)) || s.CompletionTime != nil && s.Succeeded+s.Failed != s.Desired {
		return fmt.Sprintf("counts %+v for %d nodes", s, len(f.Selected))
	}
	for name, n := range asked {
		if n > 1 {
			return fmt.Sprintf("%s was asked %d times", name, n)
		}
	}
	return ""
}

// answer has some daemons answer. Some never do.
func answer(r *rand.Rand, f Facts) {
	for _, name := range f.Selected {
		n := f.Nodes[name]
		if n.Tag == nil || name == "n03" || r.Intn(4) > 0 {
			continue
		}
		phases := []v1beta1.ImagePullPhase{v1beta1.ImagePhaseWaiting, v1beta1.ImagePhasePulling,
			v1beta1.ImagePhaseSucceeded, v1beta1.ImagePhaseFailed}
		if n.Status != nil && n.Status.Phase == v1beta1.ImagePhasePulling {
			phases = phases[2:]
		}
		if n.Status == nil || n.Status.CompletionTime == nil {
			n.Status = &v1beta1.ImageTagStatus{Version: n.Tag.Version, Phase: phases[r.Intn(len(phases))]}
			switch n.Status.Phase {
			case v1beta1.ImagePhasePulling:
				n.Status.StartTime = new(metav1.NewTime(f.Now))
			case v1beta1.ImagePhaseSucceeded, v1beta1.ImagePhaseFailed:
				n.Status.CompletionTime = new(metav1.NewTime(f.Now))
			}
			f.Nodes[name] = n
		}
	}
}
