package disruption_test

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/disruption"
)

var start = time.Unix(1_000_000, 0)

func pod(name string, ready bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(start.Add(-time.Hour))}}},
	}
}

func pods(n int) (out []*corev1.Pod) {
	for i := range n {
		out = append(out, pod(fmt.Sprint("web-", i), true))
	}
	return out
}

// budget returns a budget whose counters are those of the pods.
func budget(limit intstr.IntOrString, members []*corev1.Pod) *v1beta1.PodUnavailableBudget {
	pub := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 1}}
	pub.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	pub.Spec.MaxUnavailable = &limit
	pub.Status = disruption.Observe(pub, disruption.Grant{}, members, int32(len(members)), start).Status
	return pub
}

func TestDesired(t *testing.T) {
	limit := func(text string) *intstr.IntOrString { return new(intstr.Parse(text)) }
	for _, row := range []struct {
		spec  v1beta1.PodUnavailableBudgetSpec
		total int32
		want  int32
	}{
		{v1beta1.PodUnavailableBudgetSpec{MaxUnavailable: limit("1")}, 5, 4},
		{v1beta1.PodUnavailableBudgetSpec{MaxUnavailable: limit("30%")}, 5, 3},
		{v1beta1.PodUnavailableBudgetSpec{MaxUnavailable: limit("9")}, 5, 0},
		{v1beta1.PodUnavailableBudgetSpec{MinAvailable: limit("30%")}, 5, 2},
		{v1beta1.PodUnavailableBudgetSpec{MinAvailable: limit("7")}, 5, 7},
		{v1beta1.PodUnavailableBudgetSpec{MinAvailable: limit("x")}, 5, 5},
		{v1beta1.PodUnavailableBudgetSpec{MaxUnavailable: limit("1")}, 0, 0},
	} {
		if got := disruption.Desired(&row.spec, row.total); got != row.want {
			t.Errorf("%v, %v of %d: %d, want %d", row.spec.MaxUnavailable, row.spec.MinAvailable, row.total, got, row.want)
		}
	}
}

func TestProtects(t *testing.T) {
	for _, row := range []struct {
		fields     []v1beta1.PubOperation
		annotation string
		want       string
	}{
		{nil, "", "DELETE UPDATE EVICT "}, {nil, "delete", "DELETE UPDATE EVICT "}, {nil, "EVICT, RESIZE", "EVICT RESIZE "},
		{[]v1beta1.PubOperation{"RESIZE"}, "DELETE", "RESIZE "},
	} {
		pub := &v1beta1.PodUnavailableBudget{}
		pub.Spec.ProtectOperations = row.fields
		pub.Annotations = map[string]string{v1beta1.AnnotationProtectOperations: row.annotation}
		got := ""
		for _, operation := range v1beta1.PubOperations() {
			if disruption.Protects(pub, operation) {
				got += string(operation) + " "
			}
		}
		if got != row.want {
			t.Errorf("%v %q: %q, want %q", row.fields, row.annotation, got, row.want)
		}
	}
}

func TestDecide(t *testing.T) {
	evict := v1beta1.PubEvictOperation
	for _, row := range []struct {
		name      string
		edit      func(pub *v1beta1.PodUnavailableBudget, members []*corev1.Pod)
		operation v1beta1.PubOperation
		ask       int
		recorded  int
		refused   int
		why       disruption.Why
	}{
		{name: "one", operation: evict, ask: 1, recorded: 1},
		{name: "as many as allowed", operation: evict, ask: 4, recorded: 2, refused: 2, why: disruption.WhyExhausted},
		{name: "an operation that is not protected", operation: v1beta1.PubResizeOperation, ask: 4},
		{name: "pods that are not ready may go", operation: evict, ask: 4,
			edit: func(_ *v1beta1.PodUnavailableBudget, members []*corev1.Pod) {
				for _, p := range members {
					p.Status.Conditions = nil
				}
			}},
		{name: "one is not ready", operation: evict, ask: 4, recorded: 1, refused: 2, why: disruption.WhyExhausted,
			edit: func(_ *v1beta1.PodUnavailableBudget, members []*corev1.Pod) { members[3].Status.Conditions = nil }},
		{name: "a pod without protection", operation: evict, ask: 1,
			edit: func(_ *v1beta1.PodUnavailableBudget, members []*corev1.Pod) {
				members[0].Annotations = map[string]string{v1beta1.AnnotationNoProtect: "true"}
			}},
		{name: "a pod that the budget ignores", operation: evict, ask: 1,
			edit: func(pub *v1beta1.PodUnavailableBudget, _ []*corev1.Pod) {
				pub.Spec.IgnoredPodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
			}},
		{name: "recorded already", operation: evict, ask: 2, recorded: 1,
			edit: func(pub *v1beta1.PodUnavailableBudget, _ []*corev1.Pod) {
				pub.Status.UnavailablePods = map[string]metav1.Time{"web-0": metav1.NewTime(start)}
			}},
		{name: "nothing must stay", operation: evict, ask: 4,
			edit: func(pub *v1beta1.PodUnavailableBudget, _ []*corev1.Pod) { pub.Status.DesiredAvailable = 0 }},
		{name: "the counters are old", operation: evict, ask: 1, refused: 1, why: disruption.WhyNotObserved,
			edit: func(pub *v1beta1.PodUnavailableBudget, _ []*corev1.Pod) { pub.Generation = 2 }},
		{name: "others decided and the cache does not show it", operation: evict, ask: 1, refused: 1,
			why:  disruption.WhyExhausted,
			edit: func(pub *v1beta1.PodUnavailableBudget, _ []*corev1.Pod) { pub.Status.UnavailableAllowed = 0 }},
	} {
		t.Run(row.name, func(t *testing.T) {
			members := pods(5)
			pub := budget(intstr.FromInt32(2), members)
			if row.edit != nil {
				row.edit(pub, members)
			}
			before := len(pub.Status.DisruptedPods)
			status, refusals := disruption.Decide(pub, disruption.Grant{}, members, members[:row.ask], row.operation, start)
			recorded := 0
			if status != nil {
				recorded = len(status.DisruptedPods) - before
			}
			if recorded != row.recorded || len(refusals) != row.refused {
				t.Errorf("%d recorded, refused %v; want %d and %d", recorded, refusals, row.recorded, row.refused)
			}
			for _, refusal := range refusals {
				if refusal.Why != row.why || refusal.Error() == "" {
					t.Errorf("%v, want %s", refusal, row.why)
				}
			}
		})
	}
}

func TestRecordsAreRenewed(t *testing.T) {
	at := func(age time.Duration) map[string]metav1.Time {
		return map[string]metav1.Time{"web-0": metav1.NewTime(start.Add(-age))}
	}
	for _, row := range []struct {
		name               string
		disrupted, updated time.Duration // the ages of records; 0 is none
		generation         int64
		allowed, renewed   bool
	}{
		{"new", time.Second, 0, 1, true, false},
		{"it may have been dropped", 2 * time.Second, 0, 1, true, true},
		{"an update that may have been dropped", 0, 3 * time.Second, 1, true, true},
		{"about to end", 19 * time.Second, 0, 1, true, true},
		{"over", 20 * time.Second, 0, 1, false, false},
		{"an update about to end", 0, 8 * time.Second, 1, true, true},
		{"the longer one of two", time.Second, 9 * time.Second, 1, true, false},
		{"about to end, and the counters are old", 19 * time.Second, 0, 2, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			members := pods(3)
			pub := budget(intstr.FromInt32(1), members)
			if row.disrupted > 0 {
				pub.Status.DisruptedPods = at(row.disrupted)
			}
			if row.updated > 0 {
				pub.Status.UnavailablePods = at(row.updated)
			}
			pub.Status.UnavailableAllowed, pub.Generation = 0, row.generation
			status, refusals := disruption.Decide(pub, disruption.Grant{}, members, members[:1],
				v1beta1.PubEvictOperation, start)
			if allowed := len(refusals) == 0; allowed != row.allowed || (status != nil) != row.renewed {
				t.Fatalf("allowed %t, status %v", allowed, status)
			}
			if !row.renewed {
				return
			}
			if len(status.DisruptedPods)+len(status.UnavailablePods) != 1 ||
				status.DisruptedPods["web-0"].Time != start && status.UnavailablePods["web-0"].Time != start {
				t.Errorf("records %v %v", status.DisruptedPods, status.UnavailablePods)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	at := func(age time.Duration) metav1.Time { return metav1.NewTime(start.Add(-age)) }
	leaving := pod("leaving", true)
	leaving.DeletionTimestamp = new(metav1.NewTime(start))
	members := append(pods(4), leaving, pod("updated", false))
	done := pod("done", true)
	done.Annotations = map[string]string{apps.AnnotationInPlaceUpdateState: fmt.Sprintf(
		`{"revision":"a","updateTimestamp":%q}`, start.Add(-3*time.Second).UTC().Format(time.RFC3339))}
	members = append(members, done)
	pub := budget(intstr.FromInt32(3), members)
	pub.Status.DisruptedPods = map[string]metav1.Time{
		"leaving": at(0), "gone": at(5 * time.Second), "gone-now": at(0), "web-0": at(5 * time.Second),
		"web-1": at(20 * time.Second),
	}
	pub.Status.UnavailablePods = map[string]metav1.Time{
		"updated": at(3 * time.Second), "done": at(3 * time.Second), "web-2": at(9 * time.Second),
	}
	got := disruption.Observe(pub, disruption.Grant{}, members, 7, start)
	if d := got.Status.DisruptedPods; len(d) != 2 || d["web-0"] != at(5*time.Second) || d["gone-now"] != at(0) {
		t.Errorf("disrupted %v", d)
	}
	if u := got.Status.UnavailablePods; len(u) != 1 || u["web-2"] != at(9*time.Second) {
		t.Errorf("unavailable %v", u)
	}
	if len(got.Expired) != 1 || got.Expired[0] != "web-1" || got.Wake != time.Second {
		t.Errorf("expired %v, wake %v", got.Expired, got.Wake)
	}
	// web-1, web-3 and done are available; 4 must stay.
	if s := got.Status; s.CurrentAvailable != 3 || s.DesiredAvailable != 4 || s.UnavailableAllowed != 0 {
		t.Errorf("status %+v", s)
	}
	// More pods than there are to be do not raise what is allowed.
	pub = budget(intstr.FromInt32(1), pods(9))
	if s := disruption.Observe(pub, disruption.Grant{}, pods(9), 4, start).Status; s.UnavailableAllowed != 1 {
		t.Errorf("allowed %d with surge", s.UnavailableAllowed)
	}
	// One of those above may go, also where all others must stay.
	pub = budget(intstr.FromInt32(0), pods(5))
	for n, want := range map[int]int32{4: 0, 5: 1, 9: 1} {
		if s := disruption.Observe(pub, disruption.Grant{}, pods(n), 4, start).Status; s.UnavailableAllowed != want {
			t.Errorf("allowed %d of %d pods with total 4, want %d", s.UnavailableAllowed, n, want)
		}
	}
}

// replica is one agent: what its cache shows of the pods, which is up to mostLag older than the world.
type replica struct {
	cache []*corev1.Pod
	seen  time.Time
}

const mostLag = 1500 * time.Millisecond

// world is pods and a budget on an API server, agents that decide, and operations on their way.
type world struct {
	*rand.Rand
	now      time.Time
	pods     []*corev1.Pod
	pub      *v1beta1.PodUnavailableBudget
	version  int
	replicas [3]replica // the first one leads
	next     int
	pending  []string
}

func (w *world) see(r *replica) {
	r.cache, r.seen = nil, w.now
	for _, p := range w.pods {
		r.cache = append(r.cache, p.DeepCopy())
	}
}

func (w *world) unavailable() (n int) {
	for _, p := range w.pods {
		if !disruption.Available(p, w.now) {
			n++
		}
	}
	return n
}

// step makes one random step.
func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.Intn(400)) * time.Millisecond)
	for i := range w.replicas {
		if w.now.Sub(w.replicas[i].seen) > mostLag {
			w.see(&w.replicas[i])
		}
	}
	r := &w.replicas[w.Intn(len(w.replicas))]
	switch w.Intn(6) {
	case 0:
		w.see(r)
	case 1: // the leader counts
		w.pub.Status = disruption.Observe(w.pub, disruption.Grant{}, w.replicas[0].cache, int32(len(w.pods)), w.now).Status
	case 2: // a request; some answers and some operations are lost
		p := r.cache[w.Intn(len(r.cache))]
		read, version := w.pub.DeepCopy(), w.version
		if w.Intn(8) == 0 {
			version-- // the budget has changed since it was read
		}
		status, refusals := disruption.Decide(read, disruption.Grant{}, r.cache, []*corev1.Pod{p},
			v1beta1.PubDeleteOperation, w.now)
		if refusals[p.Name] != nil || status != nil && version != w.version {
			return
		}
		if status != nil {
			w.pub.Status = *status
			w.version++
		}
		if w.Intn(3) > 0 && (status != nil || w.recorded(p.Name)) {
			w.pending = append(w.pending, p.Name)
		}
	case 3, 4: // the operation is carried out
		if len(w.pending) > 0 {
			name := w.pending[0]
			w.pending = w.pending[1:]
			for _, p := range w.pods {
				if p.Name == name && w.recorded(name) {
					p.Status.Conditions[0].Status = corev1.ConditionFalse
				}
			}
		}
	case 5: // a pod is ready again, under a new name
		for i, p := range w.pods {
			if !disruption.Available(p, w.now) && w.Intn(2) == 0 {
				w.next++
				w.pods[i] = pod(fmt.Sprint("new-", w.next), true)
			}
		}
	}
}

func (w *world) recorded(name string) bool {
	at, ok := w.pub.Status.DisruptedPods[name]
	return ok && w.now.Sub(at.Time) < 20*time.Second
}

// TestNeverTooMany holds over random histories that no more pods are unavailable than the budget allows.
func TestNeverTooMany(t *testing.T) {
	const seeds = 1000
	idle := 0 // histories in which each operation that was allowed got lost
	for seed := range int64(seeds) {
		w := &world{Rand: rand.New(rand.NewSource(seed)), now: start, pods: pods(6)}
		most := 1 + w.Intn(3)
		w.pub = budget(intstr.FromInt(most), w.pods)
		for i := range w.replicas {
			w.see(&w.replicas[i])
		}
		reached := 0
		for range 300 {
			w.step()
			reached = max(reached, w.unavailable())
			if reached > most {
				t.Fatalf("seed %d: %d pods are unavailable, at most %d may be; status %+v", seed, reached, most, w.pub.Status)
			}
		}
		if reached == 0 {
			idle++
		}
	}
	if idle > seeds/100 {
		t.Errorf("no operation was carried out in %d of %d histories", idle, seeds)
	}
}
