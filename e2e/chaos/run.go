package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/daemons"
	"github.com/flotilla-dev/flotilla/e2e/faultproxy"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/e2e/kinds"
)

// stage is the fleet with everything that stands between its parts.
type stage struct {
	h        *harness.Harness
	recorder *recorder
	proxies  map[string]*faultproxy.Proxy
	daemons  map[string]*daemons.Member
	nodework *nodework // of the run
	deadline time.Duration
	out      io.Writer
	keep     string         // folder for what helps to understand a violation
	clocks   string         // folder of the programs' clocks
	cleared  string         // namespace of the run before that is being deleted
	said     map[string]int // bytes of the programs' logs when the run began
}

// result is what one run was.
type result struct {
	seed    uint64
	report  judge.Report
	changes int
	faults  map[string]int
	rest    time.Duration // how long it took to come to rest
	took    time.Duration // all of it
	lap     laps
	verdict judge.Outcome
	// length is that of the storm. stood is how much of it the machine stood still, slow how much of it any program did.
	length, stood, slow time.Duration
}

// longFault is what a run has beside the faults of all runs.
type longFault int

const (
	// clockFast: the clock of an agent is fast by minutes, for most of the storm.
	clockFast longFault = iota
	// memberCutOff: a member is cut off for longer than its lease.
	memberCutOff
	// memberLost: a member is lost and fenced, and returns.
	memberLost
)

// longFaultOf returns that of a seed: of three seeds in a row each has another one.
func longFaultOf(seed uint64) longFault {
	return [...]longFault{memberCutOff, memberLost, clockFast}[seed%3]
}

const polling = 200 * time.Millisecond

// laps are the parts of a run, with how long each took.
type laps struct {
	last time.Time
	text []string
}

func (l *laps) end(part string) {
	now := time.Now()
	l.text = append(l.text, fmt.Sprintf("%s %.0f s", part, now.Sub(l.last).Seconds()))
	l.last = now
}

// play is one run: a storm of this length, then rest.
func (s *stage) play(ctx context.Context, seed uint64, length time.Duration) (result, error) {
	res := result{seed: seed, faults: map[string]int{}, verdict: judge.Unjudged}
	draw := rand.New(rand.NewPCG(seed, 0))
	long := longFaultOf(seed)
	began := time.Now()
	res.lap.last = began
	namespace, users, err := s.prepare(ctx, seed, long, draw)
	if err != nil {
		return res, err
	}
	f := &faults{h: s.h, recorder: s.recorder, proxies: s.proxies, clocks: s.clocks, namespace: namespace,
		daemons: s.daemons, nodework: s.nodework,
		draw: rand.New(rand.NewPCG(seed, 1)), busy: map[string]bool{}, made: res.faults}
	res.lap.end("beginning")
	stormy := time.Now()
	storm, stop := context.WithTimeout(ctx, length)
	var group sync.WaitGroup
	for _, u := range users {
		group.Go(func() { u.play(storm) })
	}
	group.Go(func() { s.nodework.play(storm) })
	group.Go(func() { f.play(storm, ctx, long) })
	group.Wait()
	stop()
	if err := ctx.Err(); err != nil {
		return res, err
	}
	calm := time.Now()
	res.length = calm.Sub(stormy)
	res.lap.end("storm")
	res.report.Violations = append(res.report.Violations, s.settle(ctx, f, users)...)
	res.rest = time.Since(calm)
	res.lap.end("rest")
	if len(res.report.Violations) == 0 {
		res.report.Violations = append(res.report.Violations, s.steady(ctx)...)
		res.lap.end("quiet")
	}
	if len(res.report.Violations) == 0 && draw.IntN(2) == 0 {
		res.report.Violations = append(res.report.Violations, s.restart(ctx, users)...)
		res.lap.end("restarts")
	}
	if err := ctx.Err(); err != nil {
		return res, err // what was not so before the run was interrupted is no violation
	}
	res.report.Violations = append(res.report.Violations, s.programLogs().crashes(s.said)...)
	asked, err := s.deletions(began, namespace)
	if err != nil {
		return res, err
	}
	judged := judge.Check(s.recorder.taken(), asked)
	judged.Violations = append(res.report.Violations, judged.Violations...)
	res.report = judged
	for _, u := range users {
		res.changes += u.changes
	}
	res.changes += s.nodework.changes
	res.stood, res.slow = s.recorder.stood(stormy, calm)
	res.verdict = judge.Decide(judged.Violations, res.stood, res.length)
	if len(judged.Violations) > 0 {
		s.preserve(ctx, fmt.Sprintf("seed-%d", seed), namespace, judged.Violations)
	}
	res.lap.end("judgement")
	err = errors.Join(ctx.Err(), s.clear(ctx, namespace))
	res.lap.end("clearing")
	res.took = time.Since(began)
	return res, err
}

// patiently polls until something is so, and returns whether it was so in time: the time that the machine stands still
// does not count, up to twice as much.
func (s *stage) patiently(ctx context.Context, every time.Duration, is wait.ConditionWithContextFunc) error {
	const most = 3
	began := time.Now()
	limited, stop := context.WithTimeout(ctx, most*s.deadline)
	defer stop()
	return wait.PollUntilContextCancel(limited, every, true, func(ctx context.Context) (bool, error) {
		done, err := is(ctx)
		if done || err != nil {
			return done, err
		}
		now := time.Now()
		if _, slow := s.recorder.stood(began, now); now.Sub(began)-slow > s.deadline {
			return false, fmt.Errorf("it took more than %s", s.deadline)
		}
		return false, nil
	})
}

// prepare makes the namespace of a run with its workloads, and waits until they are at rest.
func (s *stage) prepare(ctx context.Context, seed uint64, long longFault, draw *rand.Rand) (string, []*user, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: fmt.Sprintf("chaos-%d-", seed%1_000_000),
		Labels: map[string]string{topology.LabelFederated: "true"}}}
	if err := s.h.Hub.Client.Create(ctx, ns); err != nil {
		return "", nil, fmt.Errorf("create the namespace of seed %d: %w", seed, err)
	}
	s.recorder.begin(ns.Name)
	s.said = s.programLogs().sizes()
	for _, kind := range kinds.All() {
		if err := s.h.Hub.Client.Create(ctx, policyOf(ns.Name, &kind)); err != nil {
			return "", nil, fmt.Errorf("create the policy of seed %d for %s: %w", seed, kind.Kind, err)
		}
	}
	var users []*user
	injected, err := s.inject(ctx, ns.Name, rand.New(rand.NewPCG(seed, 2)))
	if err != nil {
		return "", nil, err
	}
	for _, scene := range scenes() {
		u := &user{scene: scene, client: s.h.Hub.Client, namespace: ns.Name, draw: rand.New(rand.NewPCG(draw.Uint64(), 0)),
			long: long == memberCutOff}
		if scene.name == injectedScene {
			u.sidecars = injected
		}
		if err := u.create(ctx); err != nil {
			return "", nil, err
		}
		users = append(users, u)
	}
	if s.nodework, err = s.workNodes(ctx, ns.Name, rand.New(rand.NewPCG(seed, 3))); err != nil {
		return "", nil, err
	}
	if err := s.protect(ctx, ns.Name, users); err != nil {
		return "", nil, fmt.Errorf("protect the pods of seed %d: %w", seed, err)
	}
	if err := s.awaitCleared(ctx); err != nil {
		return "", nil, err
	}
	if why := s.atRest(ctx, users); why != "" {
		return "", nil, fmt.Errorf("before anything was done to them, the workloads of seed %d do not come to rest within "+
			"%s: %s", seed, s.deadline, why)
	}
	return ns.Name, users, nil
}

// policyOf returns the policy of a kind: a member runs what it has until it returns, but what has identities is placed
// elsewhere once a person confirms that none of it is left.
func policyOf(namespace string, kind *kinds.Kind) *unstructured.Unstructured {
	failover := map[string]any{"mode": string(topology.FailoverNever)}
	if kind.Unique {
		failover = map[string]any{"mode": string(topology.FailoverFence), "after": "1h"}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": topology.GroupVersion.String(), "kind": "FederationPolicy",
		"metadata": map[string]any{"name": strings.ToLower(kind.Kind), "namespace": namespace},
		"spec": map[string]any{
			"workloads": []any{map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind}},
			"failover":  failover,
		},
	}}
}

// atRest waits until all workloads are at rest, and says what was not in time.
func (s *stage) atRest(ctx context.Context, users []*user) (why string) {
	err := s.patiently(ctx, polling, func(ctx context.Context) (bool, error) {
		for _, u := range users {
			now, err := s.h.AtRest(ctx, u.workload(), u.replicas)
			if err != nil && ctx.Err() != nil && why != "" {
				return false, nil // the last time is over: what was said before is the reason
			}
			if now == "" && err == nil && u.sidecars != nil {
				now, err = u.sidecars.unrest(ctx)
			}
			if err != nil {
				now = err.Error()
			}
			if now != "" {
				why = u.workload().Sentence() + ": " + now
				return false, nil
			}
		}
		if why = s.apart(ctx); why == "" {
			why = s.behind(ctx, users[0].namespace)
		}
		if why == "" {
			why = s.nodework.unrest(ctx, users)
		}
		return why == "", nil
	})
	if err == nil {
		return ""
	}
	return why
}

// apart says of which member the hub still tells that its clock is wrong.
func (s *stage) apart(ctx context.Context) string {
	list := &topology.MemberClusterList{}
	if err := s.h.Hub.Client.List(ctx, list); err != nil {
		return err.Error()
	}
	for i := range list.Items {
		if meta.IsStatusConditionFalse(list.Items[i].Status.Conditions, topology.MemberClockInSync) {
			return "the hub still tells that the clock of " + list.Items[i].Name + " is wrong"
		}
	}
	return ""
}

// behind says which pod the recorder has not seen as it is now.
func (s *stage) behind(ctx context.Context, namespace string) string {
	lists := map[string]*corev1.PodList{}
	for _, name := range s.h.MemberNames() {
		lists[name] = &corev1.PodList{}
		if err := s.h.Members[name].Client.List(ctx, lists[name], client.InNamespace(namespace)); err != nil {
			return err.Error()
		}
	}
	if pod := s.recorder.behind(lists); pod != "" {
		return "the recorder has not seen " + pod
	}
	return ""
}

// settle ends all faults and wants that the world comes to rest.
func (s *stage) settle(ctx context.Context, f *faults, users []*user) []judge.Violation {
	for _, p := range s.proxies {
		p.SetCut(false)
		p.SetFaulty(false)
		p.SetLag(0)
	}
	s.recorder.note(judge.Entry{Note: "all faults have ended"})
	err := s.h.Mend(ctx)
	if err == nil {
		err = f.heal(ctx)
	}
	if err != nil {
		return []judge.Violation{{At: time.Now(), Rule: judge.RuleRest, What: err.Error()}}
	}
	last, stop := context.WithTimeout(ctx, s.deadline)
	defer stop()
	s.nodework.calm()
	for _, u := range users {
		if err := u.finish(last); err != nil {
			return []judge.Violation{{At: time.Now(), Rule: judge.RuleRest, What: err.Error()}}
		}
	}
	if why := s.atRest(ctx, users); why != "" {
		return []judge.Violation{{At: time.Now(), Rule: judge.RuleRest,
			What: fmt.Sprintf("not at rest %s after the faults ended: %s", s.deadline, why)}}
	}
	s.recorder.note(judge.Entry{Note: "at rest"})
	return nil
}

// steady wants that our programs write nothing but Leases for a while.
func (s *stage) steady(ctx context.Context) []judge.Violation {
	const (
		quiet   = 3 * time.Second // longer than any step of what is still going on
		lasting = 6 * time.Second
	)
	var seen []string
	err := s.patiently(ctx, time.Second, func(context.Context) (bool, error) {
		var err error
		seen, err = s.writes(time.Now().Add(-quiet))
		return len(seen) == 0, err
	})
	if err == nil {
		from := time.Now()
		pause(ctx, lasting)
		seen, err = s.writes(from)
	}
	if err != nil || len(seen) > 0 {
		return []judge.Violation{{At: time.Now(), Rule: judge.RuleSteady,
			What: fmt.Sprintf("at rest, our programs wrote: %s (%v)", strings.Join(seen, "; "), err)}}
	}
	return nil
}

// writes returns what our programs wrote since a time, without Leases, and without one report of each member on its
// room: it comes up to 33 s after the last pod came or went.
func (s *stage) writes(since time.Time) ([]string, error) {
	var all []string
	rooms := map[string]bool{}
	for _, c := range s.h.Fleet.Clusters() {
		events, err := audit.ReadFile(c.AuditLog(), audit.Between(since, time.Time{}), audit.Writes(), audit.ByUser(ours))
		if err != nil {
			return nil, err
		}
		for i := range events {
			e := &events[i]
			if room := e.User + " " + e.FullResource(); !rooms[room] &&
				e.FullResource() == "memberclusters.topology.flotilla.dev/status" {
				rooms[room] = true
				continue
			}
			all = append(all, fmt.Sprintf("%s: %s %s %s %s/%s (%d)", c.Name, e.User, e.Verb, e.FullResource(), e.Namespace,
				e.Name, e.Code))
		}
	}
	return all, nil
}

// restart kills and starts every program at rest, and wants that no pod changes.
func (s *stage) restart(ctx context.Context, users []*user) []judge.Violation {
	from := len(s.recorder.taken())
	s.recorder.note(judge.Entry{Note: "every program is killed, at rest"})
	before, err := s.sessions(ctx)
	for _, name := range s.h.Fleet.Programs() {
		err = errors.Join(err, s.h.Fleet.Kill(ctx, name))
	}
	if err = errors.Join(err, s.h.Mend(ctx)); err == nil {
		err = s.awaitSessions(ctx, before)
	}
	if err != nil {
		return []judge.Violation{{At: time.Now(), Rule: judge.RuleRestart, What: err.Error()}}
	}
	if why := s.atRest(ctx, users); why != "" {
		return []judge.Violation{{At: time.Now(), Rule: judge.RuleRestart,
			What: "not at rest after every program was killed: " + why}}
	}
	if found := s.steady(ctx); len(found) > 0 {
		return found
	}
	return judge.Untouched(s.recorder.taken(), from)
}

// sessions returns the session of each member that the hub has answered.
func (s *stage) sessions(ctx context.Context) (map[string]int64, error) {
	list := &topology.MemberClusterList{}
	if err := s.h.Hub.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	answered := map[string]int64{}
	for i := range list.Items {
		if m := &list.Items[i]; m.Status.Session == m.Spec.AcknowledgedSession {
			answered[m.Name] = m.Status.Session
		}
	}
	return answered, nil
}

// awaitSessions waits until every member has a session after the one before, and the hub has answered it.
func (s *stage) awaitSessions(ctx context.Context, before map[string]int64) error {
	err := s.patiently(ctx, polling, func(ctx context.Context) (bool, error) {
		now, err := s.sessions(ctx)
		for _, name := range s.h.MemberNames() {
			if err != nil || now[name] <= before[name] {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the hub answers the sessions of restarted agents: %w", err)
	}
	return nil
}

// clear removes the namespace of a run. It goes while the next run begins.
func (s *stage) clear(ctx context.Context, namespace string) error {
	if err := s.h.Hub.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return fmt.Errorf("delete namespace %s: %w", namespace, err)
	}
	s.cleared = namespace
	return s.withdraw(ctx, namespace)
}

// awaitCleared waits until nothing is left of the run before.
func (s *stage) awaitCleared(ctx context.Context) error {
	if s.cleared == "" {
		return nil
	}
	err := s.patiently(ctx, polling, func(ctx context.Context) (bool, error) {
		err := s.h.Hub.Client.Get(ctx, client.ObjectKey{Name: s.cleared}, &corev1.Namespace{})
		return err != nil && client.IgnoreNotFound(err) == nil && s.h.Pods.Left(s.cleared) == 0, nil
	})
	if err != nil {
		s.preserve(ctx, s.cleared, s.cleared, nil)
		return fmt.Errorf("%d pods of namespace %s are left %s after it was deleted: %w", s.h.Pods.Left(s.cleared), s.cleared,
			s.deadline, err)
	}
	s.cleared = ""
	return nil
}
