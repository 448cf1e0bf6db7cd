package completions_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/completions"
)

var start = time.Unix(1_000_000, 0)

// nodes reads nodes: the name, and what it is ordered by after a slash. A name with an exclamation mark does not fit.
func nodes(text string) []completions.Node {
	var out []completions.Node
	for _, word := range strings.Fields(text) {
		name, order, _ := strings.Cut(word, "/")
		bare := strings.TrimSuffix(name, "!")
		out = append(out, completions.Node{Name: bare, Fits: bare == name, Order: order})
	}
	return out
}

// pods reads pods: the node, and a letter for the state: p(ending), r(unning), s(ucceeded), f(ailed), t(erminating). A
// digit is the number of the batch.
func pods(text string) []completions.Pod {
	states := map[rune]completions.State{'p': completions.Pending, 'r': completions.Running, 's': completions.Succeeded,
		'f': completions.Failed, 't': completions.Terminating}
	var out []completions.Pod
	for i, word := range strings.Fields(text) {
		node, is, _ := strings.Cut(word, ":")
		pod := completions.Pod{Name: fmt.Sprintf("%s-%d", node, i), Node: node, Created: start}
		for _, letter := range is {
			if state, known := states[letter]; known {
				pod.State = state
			} else {
				pod.Batch = int(letter - '0')
			}
		}
		out = append(out, pod)
	}
	return out
}

// show writes what a plan does: +node creates, -pod deletes, !pod stops, and the phase.
func show(p completions.Plan) string {
	var words []string
	for _, c := range p.Create {
		word := "+" + c.Node
		if c.Batch > 0 {
			word += fmt.Sprintf(":%d", c.Batch)
		}
		words = append(words, word)
	}
	for _, pod := range p.Delete {
		words = append(words, "-"+pod)
	}
	for _, pod := range p.Stop {
		words = append(words, "!"+pod)
	}
	return strings.TrimSpace(strings.Join(words, " ") + " " + string(p.Phase))
}

func TestDecide(t *testing.T) {
	policy := func(change func(*completions.Policy)) completions.Policy {
		p := completions.Policy{Parallelism: math.MaxInt32}
		change(&p)
		return p
	}
	all := policy(func(*completions.Policy) {})
	tests := []struct {
		why         string
		nodes, pods string
		policy      completions.Policy
		want        string
	}{
		{"a pod on each node that fits", "a b! c", "", all, "+a +c running"},
		{"no node: not complete", "", "", all, "running"},
		{"running", "a b", "a:s b:r", all, "running"},
		{"complete", "a b", "a:s b:s", all, "completed"},
		{"parallelism", "a b c", "", policy(func(p *completions.Policy) { p.Parallelism = 2 }), "+a +b running"},
		{"terminating pods count for parallelism", "a b", "a:t", policy(func(p *completions.Policy) { p.Parallelism = 1 }),
			"running"},
		{"no parallelism", "a", "", policy(func(p *completions.Policy) { p.Parallelism = 0 }), "running"},
		{"paused by the user", "a b", "a:r", policy(func(p *completions.Policy) { p.Paused = true }), "paused"},
		{"a paused job whose pods have ended is complete only later", "a", "a:s",
			policy(func(p *completions.Policy) { p.Paused = true }), "paused"},
		{"endless", "a", "a:s", policy(func(p *completions.Policy) { p.Endless = true }), "running"},
		{"a node that stops fitting keeps a running pod", "a!", "a:r", all, "running"},
		{"and loses one that has not started", "a! b", "a:p b:s", all, "-a-0 running"},
		{"and keeps the result of one that has ended", "a! b", "a:s b:s", all, "completed"},
		{"a pod of a node that is gone", "b", "a:r b:s", all, "-a-0 running"},
		{"the result of a node that is gone", "b", "a:f b:s", all, "-a-0 completed"},
		{"two pods on a node", "a", "a:r a:r", all, "-a-1 running"},
		{"a running pod beside one that has ended", "a", "a:s a:r", all, "-a-1 running"},

		{"FailFast", "a b c", "a:f b:r", all, "-b-1 failed"},
		{"Continue", "a b c", "a:f b:r", policy(func(p *completions.Policy) { p.Failure = completions.Continue }),
			"+c running"},
		{"complete with failed pods", "a b", "a:f b:s",
			policy(func(p *completions.Policy) { p.Failure = completions.Continue }), "completed"},
		{"Pause", "a b c", "a:f b:r", policy(func(p *completions.Policy) { p.Failure = completions.Pause }), "paused"},
		{"the deadline", "a b", "a:s b:r", policy(func(p *completions.Policy) { p.Deadline = new(time.Duration) }),
			"-b-1 failed"},

		{"nodes by their order", "a/2 b c/1", "", policy(func(p *completions.Policy) { p.Parallelism = 2 }), "+c +a running"},
		{"a batch", "a b c", "", policy(func(p *completions.Policy) { p.Batches = &completions.Batches{Size: 2} }),
			"+a:1 +b:1 running"},
		{"parallelism in a batch", "a b c", "a:r1",
			policy(func(p *completions.Policy) { p.Batches, p.Parallelism = &completions.Batches{Size: 2}, 1 }), "running"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			plan := completions.Decide(completions.Facts{Now: start, Nodes: nodes(tt.nodes), Pods: pods(tt.pods),
				Policy: tt.policy})
			if got := show(plan); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			isOver := plan.Phase == completions.PhaseFailed || plan.Phase == completions.PhaseCompleted
			if isOver == plan.Progress.Ended.IsZero() {
				t.Errorf("phase %s, ended %v", plan.Phase, plan.Progress.Ended)
			}
		})
	}
}

func TestRestartsFailAPod(t *testing.T) {
	facts := completions.Facts{Now: start, Nodes: nodes("a b"), Pods: pods("a:r b:r"),
		Policy: completions.Policy{Parallelism: 9, Failure: completions.Continue, RestartLimit: 2}}
	facts.Pods[0].Restarts, facts.Pods[1].Restarts = 3, 2
	plan := completions.Decide(facts)
	want := completions.Counts{Desired: 2, Active: 1, Failed: 1}
	if show(plan) != "!a-0 running" || plan.Counts != want {
		t.Errorf("%s, %+v; want pod a stopped, and %+v", show(plan), plan.Counts, want)
	}
}

func TestDeadlineCountsFromTheStart(t *testing.T) {
	facts := completions.Facts{Now: start, Nodes: nodes("a"), Pods: pods("a:r"),
		Policy: completions.Policy{Parallelism: 1, Deadline: new(time.Minute)}}
	facts.Progress.Started = start.Add(-40 * time.Second)
	if plan := completions.Decide(facts); plan.LookIn != 20*time.Second || plan.Phase != completions.PhaseRunning {
		t.Errorf("%s, again in %v; want it running, and again in 20s", show(plan), plan.LookIn)
	}
	facts.Now = start.Add(20 * time.Second)
	plan := completions.Decide(facts)
	if plan.Cause != completions.DeadlineExceeded || !strings.Contains(plan.Message, "1m0s") {
		t.Errorf("%s: %s", plan.Cause, plan.Message)
	}
	if want := (completions.Counts{Desired: 1, Failed: 1}); plan.Counts != want {
		t.Errorf("counts %+v, want %+v", plan.Counts, want)
	}
}

func TestEndedJobsExpire(t *testing.T) {
	facts := completions.Facts{Now: start, Nodes: nodes("a b"), Pods: pods("a:s b:r"),
		Policy: completions.Policy{TimeToLive: new(time.Minute)}}
	facts.Progress.Ended = start.Add(-time.Second)
	if plan := completions.Decide(facts); show(plan) != "-b-1" || plan.Expired || plan.LookIn != 59*time.Second {
		t.Errorf("%+v, want pod b deleted, and a look in 59s", plan)
	}
	facts.Now = start.Add(time.Minute)
	if !completions.Decide(facts).Expired {
		t.Error("the job is kept after its time")
	}
}

// story makes decisions in turn; each line changes the facts.
type story struct {
	t     *testing.T
	facts completions.Facts
}

func (s *story) expect(want string) completions.Plan {
	s.t.Helper()
	plan := completions.Decide(s.facts)
	s.facts.Progress = plan.Progress
	if got := show(plan); got != want {
		s.t.Errorf("%s, want %s", got, want)
	}
	return plan
}

func (s *story) after(d time.Duration) { s.facts.Now = s.facts.Now.Add(d) }

func TestABatchSoaksBeforeTheNext(t *testing.T) {
	s := &story{t, completions.Facts{Now: start, Nodes: nodes("a b c"), Policy: completions.Policy{Parallelism: 9,
		Batches: &completions.Batches{Size: 2, Soak: time.Minute}}}}
	s.expect("+a:1 +b:1 running")
	s.facts.Pods = pods("a:s1 b:r1")
	s.expect("running")
	s.facts.Pods = pods("a:s1 b:s1")
	if plan := s.expect("running"); plan.LookIn != time.Minute {
		t.Errorf("looks in %v, want 1m", plan.LookIn)
	}
	s.after(time.Minute)
	s.facts.Unchecked = true
	s.expect("running")
	s.facts.Unchecked = false
	s.expect("+c:2 running")
	s.facts.Pods = pods("a:s1 b:s1 c:s2")
	s.expect("running")
	s.after(time.Minute)
	s.expect("completed")
}

func TestAFindingHaltsUntilResumed(t *testing.T) {
	s := &story{t, completions.Facts{Now: start, Nodes: nodes("a b"), Pods: pods("a:s1"),
		Policy: completions.Policy{Parallelism: 9, Batches: &completions.Batches{Size: 1, Soak: time.Minute}}}}
	s.facts.Progress = completions.Progress{Started: start, Batch: 1, BatchStarted: start}
	s.expect("running")
	s.facts.Findings = []completions.Finding{{Cause: "Restarted", Message: "pod x on node a restarted"}}
	if plan := s.expect("paused"); plan.Cause != "Restarted" || plan.Message != "pod x on node a restarted" {
		t.Errorf("%s: %s", plan.Cause, plan.Message)
	}
	s.after(time.Hour)
	s.facts.Findings = nil
	s.expect("paused")
	s.facts.Resumed = start.Add(-time.Second)
	s.expect("paused")
	s.facts.Resumed = s.facts.Now
	s.facts.Findings = []completions.Finding{{Cause: "Restarted", Message: "again"}}
	s.expect("+b:2 running")
	s.facts.Pods = pods("a:s1 b:r2")
	s.expect("paused")
}

func TestAPromotedBatchDoesNotSoak(t *testing.T) {
	s := &story{t, completions.Facts{Now: start, Nodes: nodes("a b c"), Pods: pods("a:r1"), Unchecked: true,
		Policy: completions.Policy{Parallelism: 9, Batches: &completions.Batches{Size: 1, Soak: time.Hour}}}}
	s.facts.Progress = completions.Progress{Started: start, Batch: 1, BatchStarted: start}
	s.facts.Promoted = 1
	s.expect("running")
	s.facts.Pods = pods("a:s1")
	s.expect("+b:2 running")
	s.facts.Pods = pods("a:s1 b:s2")
	s.expect("running")
}

func TestDesired(t *testing.T) {
	if got := completions.Desired(nodes("a b! c! d"), pods("a:r b:s c:p")); got != 3 {
		t.Errorf("%d, want a, b and d", got)
	}
}

func TestAFailureIsExcusedWhenResumed(t *testing.T) {
	s := &story{t, completions.Facts{Now: start, Nodes: nodes("a b c"), Pods: pods("a:f"),
		Policy: completions.Policy{Parallelism: 1, Failure: completions.Pause}}}
	if plan := s.expect("paused"); plan.Message != "1 pods failed: a-0 on node a" {
		t.Error(plan.Message)
	}
	s.after(time.Minute)
	s.facts.Resumed = s.facts.Now
	s.expect("+b running")
	s.facts.Pods = pods("a:f b:f")
	s.expect("paused")
}

func TestANodeThatComesDuringTheLastSoakIsABatchOfItsOwn(t *testing.T) {
	s := &story{t, completions.Facts{Now: start, Nodes: nodes("a"), Pods: pods("a:s1"),
		Policy: completions.Policy{Parallelism: 9, Batches: &completions.Batches{Size: 2, Soak: time.Minute}}}}
	s.facts.Progress = completions.Progress{Started: start, Batch: 1, BatchStarted: start}
	s.expect("running")
	s.facts.Nodes = nodes("a b")
	s.expect("running")
	s.after(time.Minute)
	s.expect("+b:2 running")
}

func TestANodeThatGoesMakesNoRoomInItsBatch(t *testing.T) {
	batches := &completions.Batches{Size: 2, Soak: time.Minute}
	s := &story{t, completions.Facts{Now: start, Nodes: nodes("a b c d"),
		Policy: completions.Policy{Parallelism: 9, Batches: batches}}}
	s.expect("+a:1 +b:1 running")
	s.after(time.Second)
	s.facts.Nodes, s.facts.Pods = nodes("b c d"), pods("b:r1")
	s.expect("running")
	s.facts.Nodes = append(s.facts.Nodes, completions.Node{Name: "a", Fits: true, Created: s.facts.Now})
	s.expect("running")
	s.facts.Nodes, s.facts.Pods = nodes("c d"), nil
	s.expect("running")
	s.after(time.Minute)
	s.expect("+c:2 +d:2 running")
}

func TestADeletedPodComesAgainInItsBatch(t *testing.T) {
	s := &story{t, completions.Facts{Now: start, Nodes: nodes("a b c"),
		Policy: completions.Policy{Parallelism: 9, Batches: &completions.Batches{Size: 2}}}}
	s.expect("+a:1 +b:1 running")
	s.facts.Pods = pods("b:r1")
	s.expect("+a:1 running")
}

// TestNodesThatComeAreInALaterBatch: also where a size in percent grows with them.
func TestNodesThatComeAreInALaterBatch(t *testing.T) {
	s := &story{t, completions.Facts{Now: start, Nodes: nodes("b"),
		Policy: completions.Policy{Parallelism: 9, Batches: &completions.Batches{Size: 1}}}}
	s.expect("+b:1 running")
	s.after(time.Second)
	s.facts.Nodes, s.facts.Pods = nodes("a b c"), pods("b:r1")
	s.facts.Nodes[0].Created, s.facts.Nodes[2].Created = s.facts.Now, s.facts.Now
	s.facts.Policy.Batches.Size = 2
	s.expect("running")
	s.facts.Pods = pods("b:s1")
	s.expect("+a:2 +c:2 running")
}

func TestNodesThatJoinedByAClockAheadAreInTheFirstBatch(t *testing.T) {
	s := &story{t, completions.Facts{Now: start, Nodes: nodes("a"),
		Policy: completions.Policy{Parallelism: 9, Batches: &completions.Batches{Size: 1}}}}
	s.facts.Nodes[0].Created = start.Add(time.Minute)
	s.expect("+a:1 running")
	s.expect("+a:1 running")
}

// TestAResumedBatchTakesNoMoreNodes: nothing would look at them, because its checks are excused.
func TestAResumedBatchTakesNoMoreNodes(t *testing.T) {
	s := &story{t, completions.Facts{Now: start, Nodes: nodes("a b c d"),
		Policy: completions.Policy{Parallelism: 2, Failure: completions.Pause,
			Batches: &completions.Batches{Size: 3, Soak: time.Minute}}}}
	s.expect("+a:1 +b:1 running")
	s.facts.Pods = pods("a:f1 b:r1")
	s.expect("paused")
	s.after(time.Minute)
	s.facts.Resumed = s.facts.Now
	s.expect("running")
	s.facts.Pods = pods("a:f1 b:s1")
	s.expect("+c:2 +d:2 running")
	s.facts.Pods = pods("a:f1 b:s1 c:s2 d:s2")
	s.expect("running")
}

// world is a cluster whose pods follow plans some time later.
type world struct {
	*rand.Rand
	facts completions.Facts
	made  int
	// touched are the nodes that got a pod in each batch. A node that joins again is another one.
	touched map[int]map[string]bool
	// moves: nodes go and join. In other worlds nodes stop fitting, and fit again.
	moves bool
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 3)), touched: map[int]map[string]bool{},
		moves: seed%2 == 0}
	w.facts.Now = start
	for i := range 1 + w.IntN(8) {
		w.facts.Nodes = append(w.facts.Nodes, completions.Node{Name: string(rune('a' + i)), Fits: true,
			Order: []string{"", "x", "y"}[w.IntN(3)]})
	}
	w.facts.Policy = completions.Policy{Parallelism: 1 + w.IntN(4), Failure: completions.FailurePolicy(w.IntN(3)),
		RestartLimit: w.IntN(2)}
	if w.IntN(2) == 0 {
		w.facts.Policy.Batches = &completions.Batches{Size: 1 + w.IntN(3), Soak: time.Duration(w.IntN(3)) * time.Second}
	}
	return w
}

// instance names a node so that one that joins again has another name.
func (w *world) instance(name string) string {
	at := slices.IndexFunc(w.facts.Nodes, func(n completions.Node) bool { return n.Name == name })
	return name + w.facts.Nodes[at].Created.String()
}

func (w *world) apply(p completions.Plan) {
	w.facts.Progress = p.Progress
	for _, c := range p.Create {
		w.made++
		w.facts.Pods = append(w.facts.Pods, completions.Pod{Name: fmt.Sprintf("%s-%d", c.Node, w.made), Node: c.Node,
			Created: w.facts.Now, Batch: c.Batch})
		if w.touched[c.Batch] == nil {
			w.touched[c.Batch] = map[string]bool{}
		}
		w.touched[c.Batch][w.instance(c.Node)] = true
	}
	for i := range w.facts.Pods {
		pod := &w.facts.Pods[i]
		switch {
		case slices.Contains(p.Delete, pod.Name):
			if pod.State == completions.Pending {
				delete(w.touched[pod.Batch], w.instance(pod.Node))
			}
			pod.State = completions.Terminating
		case slices.Contains(p.Stop, pod.Name) && w.IntN(2) == 0:
			pod.State = completions.Failed
		}
	}
}

func (w *world) happen(calm bool) {
	w.facts.Now = w.facts.Now.Add(time.Duration(1+w.IntN(1500)) * time.Millisecond)
	if w.moves && !calm {
		w.replaceNodes()
	}
	w.facts.Pods = slices.DeleteFunc(w.facts.Pods, func(p completions.Pod) bool {
		return p.State == completions.Terminating && (calm || w.IntN(2) == 0)
	})
	for i := range w.facts.Pods {
		pod := &w.facts.Pods[i]
		switch {
		case pod.State == completions.Pending && (calm || w.IntN(2) == 0):
			pod.State = completions.Running
		case pod.State == completions.Running && (calm || w.IntN(3) == 0):
			pod.State = completions.Succeeded
			if !calm && w.IntN(6) == 0 {
				pod.State = completions.Failed
			}
		case pod.State == completions.Running && w.IntN(10) == 0:
			pod.Restarts++
		}
	}
	w.facts.Findings, w.facts.Unchecked = nil, !calm && w.IntN(3) == 0
	if !calm && w.IntN(12) == 0 {
		w.facts.Findings = []completions.Finding{{Cause: "Found", Message: "something"}}
	}
	w.facts.Policy.Paused = !calm && w.IntN(8) == 0
	if w.facts.Progress.Halted != nil && (calm || w.IntN(3) == 0) {
		w.facts.Resumed = w.facts.Now
	}
	for i := range w.facts.Nodes {
		if !w.moves && w.IntN(20) == 0 || calm {
			w.facts.Nodes[i].Fits = calm || w.IntN(2) == 0
		}
	}
	pods, nodes := w.facts.Pods, w.facts.Nodes
	w.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	w.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
}

// replaceNodes lets a node go with its pods, and one join, which may have the name of one that went.
func (w *world) replaceNodes() {
	if n := len(w.facts.Nodes); n > 1 && w.IntN(15) == 0 {
		i := w.IntN(n)
		gone := w.facts.Nodes[i].Name
		w.facts.Nodes = slices.Delete(w.facts.Nodes, i, i+1)
		w.facts.Pods = slices.DeleteFunc(w.facts.Pods, func(p completions.Pod) bool { return p.Node == gone })
	}
	name := string(rune('a' + w.IntN(12)))
	known := slices.ContainsFunc(w.facts.Nodes, func(n completions.Node) bool { return n.Name == name })
	if w.IntN(15) == 0 && !known {
		w.facts.Nodes = append(w.facts.Nodes, completions.Node{Name: name, Fits: true, Created: w.facts.Now})
	}
}

func active(pods []completions.Pod) (n int) {
	for _, p := range pods {
		if p.State != completions.Succeeded && p.State != completions.Failed {
			n++
		}
	}
	return n
}

// TestPlansStayWithinLimits checks each decision over random worlds.
func TestPlansStayWithinLimits(t *testing.T) {
	for seed := range uint64(1000) {
		w := newWorld(seed)
		for step := range 60 {
			w.happen(false)
			wrong := func(what string, args ...any) {
				t.Fatalf("seed %d, step %d: %s: %+v", seed, step, fmt.Sprintf(what, args...), w.facts)
			}
			before := w.facts.Progress
			plan := completions.Decide(w.facts)
			again := w.facts
			again.Nodes, again.Pods = slices.Clone(w.facts.Nodes), slices.Clone(w.facts.Pods)
			slices.Reverse(again.Nodes)
			slices.Reverse(again.Pods)
			if !reflect.DeepEqual(plan, completions.Decide(again)) {
				wrong("the order of the facts changes the plan")
			}
			if len(plan.Create) > 0 && (plan.Phase != completions.PhaseRunning || !before.Ended.IsZero()) {
				wrong("%s creates pods", show(plan))
			}
			if n := active(w.facts.Pods) + len(plan.Create); n > max(active(w.facts.Pods), w.facts.Policy.Parallelism) {
				wrong("%d active pods", n)
			}
			for _, c := range plan.Create {
				if slices.ContainsFunc(w.facts.Pods, func(p completions.Pod) bool { return p.Node == c.Node }) {
					wrong("a second pod on node %s", c.Node)
				}
			}
			if batches := w.facts.Policy.Batches; batches != nil && before.Batch > 0 && plan.Progress.Batch > before.Batch {
				soaked := !before.Settled.IsZero() && w.facts.Now.Sub(before.Settled) >= batches.Soak
				excused := plan.Progress.Halted == nil && (before.ChecksExcused || before.Halted != nil)
				if !soaked && !excused && batches.Soak > 0 || len(w.facts.Findings) > 0 && !excused {
					wrong("batch %d begins too early", plan.Progress.Batch)
				}
			}
			w.apply(plan)
			if batches := w.facts.Policy.Batches; batches != nil {
				if n := len(w.touched[w.facts.Progress.Batch]); n > batches.Size {
					wrong("batch %d has %d nodes", w.facts.Progress.Batch, n)
				}
			}
		}
	}
}

// TestJobsEnd lets random worlds calm down: each job ends, and no node was touched twice after it had a result.
func TestJobsEnd(t *testing.T) {
	for seed := range uint64(1000) {
		w := newWorld(seed)
		for range w.IntN(40) {
			w.happen(false)
			w.apply(completions.Decide(w.facts))
		}
		for step := 0; w.facts.Progress.Ended.IsZero(); step++ {
			if step > 300 {
				t.Fatalf("seed %d never ends: %+v", seed, w.facts)
			}
			w.happen(true)
			plan := completions.Decide(w.facts)
			w.apply(plan)
			if plan.Phase == completions.PhaseCompleted && plan.Counts.Succeeded+plan.Counts.Failed != len(w.facts.Nodes) {
				t.Fatalf("seed %d is complete with %+v of %d nodes", seed, plan.Counts, len(w.facts.Nodes))
			}
		}
	}
}
