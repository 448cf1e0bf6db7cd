package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/faultproxy"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/e2e/kinds"
)

// An episode of faults takes between these times.
const (
	shortestEpisode = 20 * time.Second
	longestEpisode  = 40 * time.Second
)

// quiet is how long nothing may be written after everything came to rest. Events of the last writes follow within a
// second, and on a machine that stands still later: what writes at rest does so again and again.
const (
	quiet     = 3 * time.Second
	aftermath = time.Second
	looks     = 5
)

// polling of what is to come to rest.
const polling = 100 * time.Millisecond

// runner is one run.
type runner struct {
	options
	client   client.WithWatch
	proxy    *faultproxy.Proxy
	traffic  *traffic
	child    *child
	recorder *recorder
	checker  *judge.Checker
	users    []*user
	draw     *rand.Rand
	// known are the paths that the child watches at rest.
	known   map[string]bool
	summary *summary
	out     io.Writer
}

// run plays episodes on a cluster until the time is up, and always returns a summary.
func run(ctx context.Context, o options, cluster *fleet.Cluster, out io.Writer) (*summary, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &runner{options: o, draw: rand.New(rand.NewPCG(o.seed, 0)), summary: &summary{seed: o.seed}, out: out}
	fmt.Fprintf(out, "seed %d\n", o.seed)
	err := r.prepare(ctx, cluster)
	for began := time.Now(); err == nil && time.Since(began) < o.length; {
		err = r.episode(ctx)
	}
	if r.child != nil {
		err = errors.Join(err, r.child.kill())
		r.summary.kills, r.summary.ends = max(0, r.child.kills-1), r.child.ends // the last kill is the end
	}
	if r.proxy != nil {
		r.summary.faults = r.proxy.Made()
		err = errors.Join(err, r.proxy.Close())
		r.summary.writes, _, _ = r.traffic.wrote()
	}
	if r.checker != nil {
		r.summary.disruptions, r.summary.creations = r.checker.Disruptions, r.checker.Creations
	}
	for _, u := range r.users {
		r.summary.changes += u.changes
	}
	return r.summary, err
}

// prepare makes the workloads, the recorder, the proxy and the child, and waits until all is at rest for the first
// time.
func (r *runner) prepare(ctx context.Context, cluster *fleet.Cluster) error {
	var definitions []string
	for _, kind := range kinds.WithControllers() {
		definitions = append(definitions, kind.Controller.Definition)
	}
	files, err := apiserver.Files(definitions...)
	if err != nil {
		return err
	}
	if err := cluster.InstallCRDs(ctx, files); err != nil {
		return err
	}
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	config := cluster.RESTConfig()
	if r.client, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := r.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	r.recorder = newRecorder(r.client)
	if err := r.recorder.start(ctx); err != nil {
		return err
	}
	r.traffic = newTraffic()
	r.proxy, err = faultproxy.New(ctx, "the child", config, faultproxy.Options{Seed: r.seed, Chances: chances(),
		Observer: r.traffic.observer()})
	if err != nil {
		return err
	}
	r.checker = judge.NewChecker(func(version uint64, by time.Time) bool {
		return r.traffic.delivered.informed(version, by.Add(-r.late))
	})
	r.child = &child{server: r.proxy.URL(), broken: r.broken, log: &tail{}}
	for i, s := range scenes() {
		if err := s.create(ctx, r.client, fewest+r.draw.IntN(r.most-fewest+1)); err != nil {
			return err
		}
		r.users = append(r.users, &user{client: r.client, recorder: r.recorder, scene: s, most: r.most,
			draw: rand.New(rand.NewPCG(r.seed, uint64(2+i)))})
	}
	if err := r.child.start(); err != nil {
		return err
	}
	_, err = r.settle(ctx, patience)
	return err
}

// patience is how long the first pods may take on a busy machine; it is no promise of the controller.
const patience = 3 * time.Minute

// episode makes faults, kills and changes for a while, then wants rest.
func (r *runner) episode(ctx context.Context) error {
	length := shortestEpisode + time.Duration(r.draw.Int64N(int64(longestEpisode-shortestEpisode)))
	length = min(length, max(r.length, time.Second))
	stormy, stop := context.WithTimeout(ctx, length)
	defer stop()
	r.setFaulty(true)
	group, life := errgroup.WithContext(ctx)
	// An error of one ends the others.
	context.AfterFunc(life, stop)
	for _, u := range r.users {
		group.Go(func() error { return u.play(stormy, ctx) })
	}
	storm, killer := rand.New(rand.NewPCG(r.draw.Uint64(), 0)), rand.New(rand.NewPCG(r.draw.Uint64(), 0))
	group.Go(func() error { r.storm(stormy, storm); return nil })
	group.Go(func() error { return r.kill(stormy, killer) })
	err := group.Wait()
	r.setFaulty(false)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	took, err := r.settle(ctx, r.deadline)
	r.summary.worst = max(r.summary.worst, took)
	r.summary.episodes++
	idle := r.traffic.paused()
	r.summary.idle = max(r.summary.idle, idle)
	fmt.Fprintf(r.out, "episode %d: %.0f s of faults, at rest %.1f s after the watches (longest pause between writes "+
		"%.1f s), %d kills so far, %d violations so far\n",
		r.summary.episodes, length.Seconds(), took.Seconds(), idle.Seconds(), r.child.kills, len(r.summary.violations))
	return err
}

// setFaulty turns faults on or off, and begins to measure pauses between writes.
func (r *runner) setFaulty(on bool) {
	r.proxy.SetFaulty(on)
	r.traffic.restart()
}

// storm cuts watches and makes outages.
func (r *runner) storm(ctx context.Context, draw *rand.Rand) {
	upTo := func(longest time.Duration) time.Duration { return time.Duration(draw.Int64N(int64(longest))) }
	for pause(ctx, upTo(6*time.Second)) {
		switch n := draw.IntN(10); {
		case n < 4:
			r.proxy.CutWatches(0)
		case n < 8:
			r.proxy.CutWatches(upTo(4 * time.Second))
		default:
			r.proxy.BeginOutage(upTo(5 * time.Second))
		}
	}
}

// kill kills the child again and again, three times of four while it writes.
func (r *runner) kill(ctx context.Context, draw *rand.Rand) error {
	for pause(ctx, 2*time.Second+time.Duration(draw.Int64N(int64(12*time.Second)))) {
		if draw.IntN(4) > 0 {
			r.traffic.writing(ctx)
			// Into the middle of a batch, which takes some 10 ms.
			pause(ctx, time.Duration(draw.Int64N(int64(15*time.Millisecond))))
		}
		if err := r.child.kill(); err != nil {
			return err
		}
		r.traffic.delivered.reset(time.Now())
		pause(ctx, time.Duration(draw.Int64N(int64(restartWithin))))
		if err := r.child.start(); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until everything is at rest, wants that nothing more is written, and checks the history. It returns how
// long that took once the child had its watches back, which is up to client-go.
func (r *runner) settle(ctx context.Context, deadline time.Duration) (time.Duration, error) {
	blind, err := r.watches(ctx)
	if err != nil {
		return 0, err
	}
	before, _, _ := r.traffic.wrote()
	began, why := time.Now(), ""
	err = wait.PollUntilContextTimeout(ctx, polling, deadline, true, func(ctx context.Context) (bool, error) {
		if r.child.log.crashed() {
			return false, fmt.Errorf("the child crashed: %s", r.child.log)
		}
		now, err := r.unrest(ctx)
		if err == nil {
			why = now
		}
		return err == nil && now == "", notEnded(ctx, err)
	})
	took := time.Since(began)
	r.summary.blind = max(r.summary.blind, blind)
	switch {
	case wait.Interrupted(err) && ctx.Err() == nil:
		r.summary.violations = append(r.summary.violations, judge.Violation{At: time.Now(), Rule: judge.RuleRest,
			What: fmt.Sprintf("not at rest %s after the faults ended: %s; %s", deadline, why, r.sinceThen(before))})
		err = errNoRest
	case err == nil:
		r.wantQuiet(ctx)
		r.known = r.proxy.Watched()
	}
	return took, errors.Join(err, r.check(ctx))
}

// sinceThen says what the child wrote since the number of its writes was before: whether it was at work, or waited.
func (r *runner) sinceThen(before int) string {
	now, last, what := r.traffic.wrote()
	return fmt.Sprintf("%d writes since then, the last %.1f s ago (%s)", now-before, time.Since(last).Seconds(), what)
}

// notEnded drops the error of a request that ended because its deadline did.
func notEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// reconnect is how long client-go may take to watch again: its reflectors wait up to twice 30 s after many failures,
// and forget them only after two minutes without one. The rest is for machines that do other things too.
const reconnect = 3 * time.Minute

// watches waits until the child watches again what it watched at rest, and returns how long that took.
func (r *runner) watches(ctx context.Context) (time.Duration, error) {
	began, missing := time.Now(), ""
	err := wait.PollUntilContextTimeout(ctx, polling, reconnect, true, func(context.Context) (bool, error) {
		now := r.proxy.Watched()
		for path := range r.known {
			if !now[path] {
				missing = path
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return 0, fmt.Errorf("the child does not watch %s again: %w\n%s", missing, err, r.child.log)
	}
	return time.Since(began), nil
}

// errNoRest ends a run whose workloads do not come to rest: what follows would tell nothing.
var errNoRest = errors.New("the workloads do not come to rest")

// unrest says which workload is not at rest, and why.
func (r *runner) unrest(ctx context.Context) (string, error) {
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("list the pods: %w", err)
	}
	var workloads []client.Object
	for _, kind := range kinds.WithControllers() {
		list := kind.NewList()
		if err := r.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "", fmt.Errorf("list the objects of kind %s: %w", kind.Kind, err)
		}
		why := ""
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			workloads = append(workloads, object)
			own := slices.DeleteFunc(slices.Clone(pods.Items),
				func(pod corev1.Pod) bool { return !metav1.IsControlledBy(&pod, object) })
			if now := unrest(kind, object, own); why == "" && now != "" {
				why = kind.Kind + " " + object.GetName() + ": " + now
			}
			return nil
		})
		if err != nil || why != "" {
			return why, err
		}
	}
	if why := r.recorder.behind(pods.Items, workloads); why != "" {
		return "the recorder lacks " + why, nil
	}
	return "", nil
}

// wantQuiet wants a while in which the child writes nothing.
func (r *runner) wantQuiet(ctx context.Context) {
	what := ""
	for range looks {
		pause(ctx, aftermath)
		before, _, _ := r.traffic.wrote()
		pause(ctx, quiet)
		after, _, last := r.traffic.wrote()
		if after == before {
			return
		}
		what = fmt.Sprintf("%d writes at rest, the last: %s", after-before, last)
	}
	r.summary.violations = append(r.summary.violations,
		judge.Violation{At: time.Now(), Rule: judge.RuleSteady, What: what})
}

// check gives the new part of the history to the checker.
func (r *runner) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	log, byUser := r.recorder.drain()
	for i := range log {
		if pod := log[i].Pod; pod != nil {
			log[i].Asked = r.traffic.asked.first(pod.Name, log[i].At)
		}
	}
	r.checker.Take(log, byUser)
	r.summary.violations = append(r.summary.violations, r.checker.Violations...)
	r.checker.Violations = nil
	return nil
}
