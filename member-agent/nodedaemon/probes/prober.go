package probes

import (
	"context"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
)

// atOnce is how many probes run at the same time: a node with many slow probes is not to start as many commands.
// One that takes longer than slow makes room for the next: a probe waits for no pod that never answers.
const (
	atOnce = 16
	slow   = 3 * time.Second
)

// id names a probe of a pod.
type id struct {
	pod   types.UID
	probe string
}

// prober runs the probes of a node.
type prober struct {
	env        nodedaemon.Env
	checker    *checker
	containers *containers
	// slots is held by each probe while it runs, for slow at most.
	slots chan struct{}
	// changed is signalled when a state changed, or the probes did.
	changed chan struct{}
	// jitter returns a part of a period, so that the probes of a node that start together do not run together.
	jitter func(time.Duration) time.Duration

	mu     sync.Mutex
	probes map[id]*probe
	pods   []v1alpha1.PodProbe
	// begun: the states that the NodePodProbe had were read.
	begun bool
}

// probe is one probe of a pod. The prober's mu guards it.
type probe struct {
	pod   v1alpha1.PodProbe // without its probes
	spec  v1alpha1.ContainerProbe
	track track
	stop  context.CancelFunc
}

func newProber(env nodedaemon.Env) *prober {
	return &prober{
		env: env, checker: newChecker(env.Runtime), containers: &containers{runtime: env.Runtime, clock: env.Clock},
		slots: make(chan struct{}, atOnce), changed: make(chan struct{}, 1), probes: map[id]*probe{},
		jitter: rand.N[time.Duration],
	}
}

// signal says that there may be something to report.
func (p *prober) signal() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// update starts, changes and stops probes as the NodePodProbe says. A probe that changed begins anew. The first call
// takes over the states that were reported before the daemon started. Probes end with ctx.
func (p *prober) update(ctx context.Context, object *v1alpha1.NodePodProbe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reported := map[id]v1alpha1.ContainerProbeState{}
	if !p.begun {
		p.begun = true
		reported = statesOf(&object.Status)
	}
	wanted := map[id]bool{}
	for i := range object.Spec.PodProbes {
		pod := &object.Spec.PodProbes[i]
		for j := range pod.Probes {
			key := id{pod.UID, pod.Probes[j].Name}
			wanted[key] = true
			p.ensure(ctx, key, pod, &pod.Probes[j], reported[key])
		}
	}
	for key, one := range p.probes {
		if !wanted[key] {
			one.stop()
			delete(p.probes, key)
		}
	}
	p.pods = object.DeepCopy().Spec.PodProbes
	p.signal()
}

// ensure has a probe run as the spec says. A changed address is followed by the probe that runs.
func (p *prober) ensure(
	ctx context.Context, key id, pod *v1alpha1.PodProbe, spec *v1alpha1.ContainerProbe,
	reported v1alpha1.ContainerProbeState,
) {
	alone := *pod
	alone.Probes = nil
	have := p.probes[key]
	if have != nil && reflect.DeepEqual(have.spec, *spec) {
		have.pod = alone
		return
	}
	wait := time.Duration(0)
	if have != nil {
		have.stop()
	} else if reported.State != "" {
		wait = p.jitter(timingOf(&spec.Probe).period)
	}
	reported.Name = spec.Name
	ctx, stop := context.WithCancel(ctx)
	one := &probe{pod: alone, spec: *spec.DeepCopy(), track: begin(reported), stop: stop}
	p.probes[key] = one
	go p.run(ctx, one, wait)
}

// statesOf returns the states of a status.
func statesOf(status *v1alpha1.NodePodProbeStatus) map[id]v1alpha1.ContainerProbeState {
	out := map[id]v1alpha1.ContainerProbeState{}
	for i := range status.PodProbeStatuses {
		pod := &status.PodProbeStatuses[i]
		for _, state := range pod.ProbeStates {
			out[id{pod.UID, state.Name}] = state
		}
	}
	return out
}

// run runs one probe until ctx ends, the first time after wait.
func (p *prober) run(ctx context.Context, one *probe, wait time.Duration) {
	limits := timingOf(&one.spec.Probe)
	for {
		if wait > 0 {
			timer := p.env.Clock.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C():
			}
		}
		select {
		case <-ctx.Done():
			return
		case p.slots <- struct{}{}:
		}
		free := sync.OnceFunc(func() { <-p.slots })
		timer := time.AfterFunc(slow, free) // the time of runtimes and connections, which no test sets
		wait = p.once(ctx, one, limits)
		timer.Stop()
		free()
	}
}

// once runs one probe once and returns when the next one is due.
func (p *prober) once(ctx context.Context, one *probe, limits timing) time.Duration {
	p.mu.Lock()
	pod := one.pod
	p.mu.Unlock()
	container, err := p.containers.of(ctx, slot{string(pod.UID), one.spec.ContainerName})
	if err != nil {
		p.take(ctx, one, limits, outcome{unreachable, "the container runtime does not answer"})
		return limits.period
	}
	now := p.env.Clock.Now()
	if container.id == "" {
		p.take(ctx, one, limits, p.gone(one))
		return limits.period
	}
	p.mu.Lock()
	one.track.on(container.id, now)
	p.mu.Unlock()
	p.signal()
	if left := container.created.Add(limits.delay).Sub(now); left > 0 && left <= limits.delay {
		return left
	}
	found := p.checker.run(ctx, &one.spec.Probe, limits, container.id, pod.IP)
	if found.kind == nothing {
		p.containers.forget() // it ended meanwhile: what runs now is asked for the next time
	}
	p.take(ctx, one, limits, found)
	return limits.period
}

// gone is the outcome without a container: nothing is known of one that has not started yet.
func (p *prober) gone(one *probe) outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.track.container == "" && one.track.state.State == v1alpha1.ProbeUnknown {
		return outcome{nothing, ""}
	}
	return outcome{stopped, "container " + one.spec.ContainerName + " does not run"}
}

// take takes an outcome, unless the probe was stopped meanwhile.
func (p *prober) take(ctx context.Context, one *probe, limits timing, found outcome) {
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	before := one.track.state
	one.track.take(found, limits, p.env.Clock.Now())
	changed := !equality.Semantic.DeepEqual(before, one.track.state)
	p.mu.Unlock()
	if changed {
		p.signal()
	}
}

// status returns what is to be reported, and the shortest period of all probes; 0 without any.
func (p *prober) status() (out []v1alpha1.PodProbeStatus, period time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.pods {
		pod := &p.pods[i]
		status := v1alpha1.PodProbeStatus{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID}
		for j := range pod.Probes {
			one := p.probes[id{pod.UID, pod.Probes[j].Name}]
			if one == nil {
				continue
			}
			if every := timingOf(&one.spec.Probe).period; period == 0 || every < period {
				period = every
			}
			if !one.track.state.LastProbeTime.IsZero() { // there was a result
				status.ProbeStates = append(status.ProbeStates, one.track.state)
			}
		}
		if len(status.ProbeStates) > 0 {
			out = append(out, status)
		}
	}
	return out, period
}
