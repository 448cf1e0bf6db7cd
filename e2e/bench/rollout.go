package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const (
	rolloutSectionName = "rollout"
	rolloutResources   = "rollout, resources until no deleted pod is left"
	namespace          = "bench"
)

// rollout measures workloads of many pods in one cluster with simulated nodes.
type rollout struct {
	*bench
	*connection
	fleet *fleet.Fleet
	// meters of the controllers under test, and of what they share.
	meters meters
	// floors are what Deployments took for each phase: what a CloneSet is held against.
	floors []floor
	// bare holds the seconds that the bare client took to create, patch and delete as many pods.
	bare map[string]float64
	// bareGated holds the seconds until as many pods with the readiness gate of updates in place were Ready.
	bareGated map[string]float64
}

// floor is what a kind of Deployment took, by phase.
type floor struct {
	kind   kind
	phases map[string]measured
}

// measured is what one phase took.
type measured struct {
	seconds float64
	// cpu are the seconds of each meter until the last pod that was deleted was gone.
	cpu map[string]float64
}

// controllerManager is the meter of who runs Deployments.
const controllerManager = "kube-controller-manager"

// The phases, as they are called in the report.
const (
	phaseOut      = "scale-out"
	phaseInPlace  = "in-place update"
	phaseRecreate = "recreate"
	phaseIn       = "scale-in"
)

// The floors of the section rollout, as its flag names them: a bare client that sends the same requests, the native
// Deployment, and a Deployment whose pods have the readiness gate of updates in place.
const (
	floorBare       = "bare"
	floorDeployment = "deployment"
	floorGated      = "gated"
)

func floorNames() []string { return []string{floorBare, floorDeployment, floorGated} }

func rolloutSection(ctx context.Context, b *bench) error {
	return inOneCluster(ctx, b, nodesFor(slices.Max(b.sizes)), func(ctx context.Context, r *rollout) error {
		for i, size := range b.sizes {
			r.bench.pods, r.floors, r.bare, r.bareGated = size, nil, map[string]float64{}, map[string]float64{}
			if err := r.run(ctx, i == 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// nodesFor returns how many nodes have room for twice the pods, since those that go and come overlap.
func nodesFor(pods int) int {
	const perNode, zones = 1000, 2 // fleet's default number of pods
	return zones * max(5, 2*pods/perNode/zones+1)
}

// inOneCluster starts a cluster with so many nodes, rounded down to pairs, in two zones, and calls do.
func inOneCluster(ctx context.Context, b *bench, nodes int, do func(ctx context.Context, r *rollout) error) error {
	zones := []string{"a", "b"}
	f, err := fleet.Start(ctx, fleet.Config{
		Bin: b.bin, NoHub: true, Audit: true, Progress: b.step,
		Members: []fleet.ClusterSpec{{Name: "east", Nodes: fleet.Nodes("east", "eu", zones, nodes/len(zones))}},
	})
	if err != nil {
		return err
	}
	b.step("the fleet is in " + f.Dir)
	r := &rollout{bench: b, fleet: f, meters: meters{}}
	if err = r.connect(ctx); err == nil {
		err = do(ctx, r)
	}
	if err != nil {
		b.keepLogs(f)
	}
	if destroyErr := f.Destroy(); err == nil {
		err = destroyErr
	}
	return err
}

// connect connects to the cluster and finds its processes.
func (r *rollout) connect(ctx context.Context) error {
	east := r.fleet.Member("east")
	var err error
	if r.connection, err = connect(east); err != nil {
		return err
	}
	if err := r.createNamespace(ctx, namespace, nil); err != nil {
		return err
	}
	for _, component := range []string{controllerManager, "kube-apiserver", "kwok-controller", "etcd", "kube-scheduler"} {
		pid, err := componentPid(east, component)
		if err != nil {
			return err
		}
		r.meters[component] = []int{pid}
	}
	return nil
}

// run measures one size. The first one starts the agent after the Deployments, so that its caches cost them nothing;
// later sizes pay its watch of pods.
func (r *rollout) run(ctx context.Context, first bool) error {
	for _, floor := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{floorBare, func(ctx context.Context) error {
			if err := r.bareClient(ctx); err != nil {
				return err
			}
			return r.gatedClient(ctx)
		}},
		{floorDeployment, func(ctx context.Context) error { return r.deploymentPhases(ctx, deploymentKind()) }},
		{floorGated, r.gatedPhases},
	} {
		if !slices.Contains(strings.Split(r.bench.options.floors, ","), floor.name) {
			continue
		}
		if err := floor.measure(ctx); err != nil {
			return err
		}
	}
	if first {
		if err := r.agent(ctx); err != nil {
			return err
		}
	}
	return r.cloneSetPhases(ctx)
}

// agent starts the agent.
func (r *rollout) agent(ctx context.Context) error {
	east := r.fleet.Member("east")
	if err := east.InstallCRDs(ctx, crds.FS); err != nil {
		return err
	}
	pid, err := r.startAgent(ctx, r.fleet, east)
	if err != nil {
		return err
	}
	r.meters[fleet.AgentProgram] = []int{pid}
	return nil
}

// named returns a name for a workload of this size.
func (r *rollout) named(name string) string { return fmt.Sprintf("%s-%d", name, r.bench.pods) }

// deploymentPhases measures a kind of Deployment.
func (r *rollout) deploymentPhases(ctx context.Context, k kind) error {
	name := r.named(nameOf(k))
	if err := r.start(ctx, k, name); err != nil {
		return err
	}
	f := floor{kind: k, phases: map[string]measured{}}
	for _, p := range []struct {
		name string
		spec map[string]any
		pods int
	}{
		{phaseOut, replicasPatch(r.pods), r.pods},
		{phaseRecreate, imagePatch(image(2)), r.pods},
		{phaseIn, replicasPatch(0), 0},
	} {
		took, err := r.phase(ctx, k, name, p.name, p.spec, p.pods)
		if err != nil {
			return err
		}
		f.phases[p.name] = took
	}
	f.phases[phaseInPlace] = f.phases[phaseRecreate]
	r.floors = append(r.floors, f)
	return nil
}

// nameOf is the name of a Deployment of this kind.
func nameOf(k kind) string { return strings.ToLower(strings.ReplaceAll(k.name, " ", "-")) }

func (r *rollout) cloneSetPhases(ctx context.Context) error {
	k := cloneSetKind()
	name := r.named("clones")
	if err := r.start(ctx, k, name); err != nil {
		return err
	}
	var before map[string]*corev1.Pod
	for _, p := range []struct {
		name   string
		spec   map[string]any
		pods   int
		verify func(before, after map[string]*corev1.Pod) error
	}{
		{phaseOut, replicasPatch(r.pods), r.pods, nil},
		{phaseInPlace, imagePatch(image(2)), r.pods, samePods},
		{"", policyPatch(appsv1beta1.ReCreatePodUpdatePolicy), r.pods, samePods},
		{phaseRecreate, imagePatch(image(3)), r.pods, otherPods},
		{phaseIn, replicasPatch(0), 0, nil},
	} {
		took, err := r.phase(ctx, k, name, p.name, p.spec, p.pods)
		if err != nil {
			return err
		}
		after, err := r.podsOf(ctx, name)
		if err != nil {
			return err
		}
		if p.verify != nil {
			if err := p.verify(before, after); err != nil {
				return fmt.Errorf("CloneSet, %s: %w", p.name, err)
			}
		}
		before = after
		if p.name != "" {
			r.compare(p.name, took)
		}
		if p.name == phaseRecreate {
			if err := r.memory(); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare reports a phase of the CloneSet against what it is held against.
func (r *rollout) compare(phase string, took measured) {
	title := fmt.Sprintf("CloneSet of %d, %s", r.pods, phase)
	for _, f := range r.floors {
		r.report.addWithFloor(rolloutSectionName, title, "s", took.seconds, f.kind.name+", "+deploymentPhase(phase),
			f.phases[phase].seconds)
	}
	if bare, known := r.bare[phase]; known {
		r.report.addWithFloor(rolloutSectionName, title, "s", took.seconds, "bare client, pods "+bareVerb(phase), bare)
	}
	if bare, known := r.bareGated[phase]; known {
		r.report.addWithFloor(rolloutSectionName, title, "s", took.seconds, "bare client, pods with the readiness gate Ready",
			bare)
	}
	for _, f := range r.floors {
		r.report.addWithFloor(controllerCPU, title, "ms", r.perPod(took.cpu[fleet.AgentProgram]),
			controllerManager+" for the "+f.kind.name+", "+deploymentPhase(phase),
			r.perPod(f.phases[phase].cpu[controllerManager]))
	}
}

// controllerCPU is the section with the controllers' work.
const controllerCPU = "rollout, CPU of the controller per pod"

// perPod returns seconds of all pods as milliseconds of one.
func (r *rollout) perPod(seconds float64) float64 { return seconds * 1000 / float64(r.pods) }

// memory reports what the agent holds with all pods there, against the aim of 60 MiB + 8 KiB per pod.
func (r *rollout) memory() error {
	now, err := r.meters.read()
	if err != nil {
		return err
	}
	const base, perPod = 60, 8.0 / 1024 // MiB
	r.report.addWithFloor("rollout, memory", fmt.Sprintf("agent with %d pods after all of them were updated twice",
		r.pods), "MiB",
		now[fleet.AgentProgram].rss, "aim: 60 MiB + 8 KiB per pod", base+perPod*float64(r.pods))
	return nil
}

func deploymentPhase(phase string) string {
	if phase == phaseInPlace || phase == phaseRecreate {
		return "all replaced"
	}
	return phase
}

func bareVerb(phase string) string {
	return map[string]string{phaseOut: "created", phaseInPlace: "patched", phaseIn: "deleted"}[phase]
}

// start creates the workload with no replicas and waits until its controller has seen it.
func (r *rollout) start(ctx context.Context, k kind, name string) error {
	if err := r.Create(ctx, k.build(namespace, name, 0, image(1))); err != nil {
		return fmt.Errorf("create %s: %w", k.name, err)
	}
	_, err := r.await(ctx, k, name, k.name+" without replicas")
	return err
}

// phase changes the workload's spec and waits until its status says that all is done. It returns the seconds of that,
// and reports what the controllers used until no deleted pod is left, so that one phase leaves nothing to the next.
func (r *rollout) phase(ctx context.Context, k kind, name, phase string, spec map[string]any, pods int) (measured,
	error) {
	shown := phase
	if k.anew {
		shown = deploymentPhase(phase)
	}
	title := fmt.Sprintf("%s of %d, %s", k.name, r.pods, shown)
	if phase != "" {
		r.say("%s", title)
	}
	before, err := r.meters.read()
	if err != nil {
		return measured{}, err
	}
	patch, err := patchOf(spec)
	if err != nil {
		return measured{}, err
	}
	object := k.build(namespace, name, 0, "")
	storeProfile := r.profile(ctx, r.connection, title)
	began := time.Now()
	if err := r.Patch(ctx, object, patch); err != nil {
		return measured{}, fmt.Errorf("%s: patch: %w", title, err)
	}
	ended, err := r.await(ctx, k, name, title)
	if err != nil {
		return measured{}, err
	}
	if err := r.quiet(ctx, name, title, pods); err != nil {
		return measured{}, err
	}
	if err := storeProfile(); err != nil {
		return measured{}, err
	}
	took := measured{seconds: seconds(ended.Sub(began))}
	if phase == "" {
		return took, nil
	}
	if k.anew {
		r.report.add(rolloutSectionName, title, "s", took.seconds)
	}
	if took.cpu, err = r.used(title, before); err != nil {
		return measured{}, err
	}
	return took, r.requests(title, began)
}

// used reports what the programs used since before, and returns the CPU seconds of each.
func (r *rollout) used(title string, before reading) (map[string]float64, error) {
	after, err := r.meters.read()
	if err != nil {
		return nil, err
	}
	after.since(before, func(what, unit string, value float64) {
		r.report.addCell(rolloutResources, title, what, unit, value)
	})
	cpu := map[string]float64{}
	for name := range after {
		cpu[name] = after[name].cpu - before[name].cpu
	}
	return cpu, nil
}

// requests reports the writes since began, by pod: those of whoever manages the workload, and those of the simulated
// kubelets.
func (r *rollout) requests(title string, began time.Time) error {
	events, err := audit.ReadFile(r.cluster.AuditLog(), audit.Writes(), audit.Between(began, time.Time{}))
	if err != nil {
		return err
	}
	count := audit.Count(events)
	for _, c := range []struct {
		column   string
		programs []string
	}{
		{"writes/pod", []string{fleet.AgentProgram, "kube-controller-manager", benchProgram}},
		{"writes/pod by the agent", []string{fleet.AgentProgram}},
		{"writes/pod by kubelets", []string{"kwok-controller"}},
	} {
		n := count.Total(func(k audit.Key) bool { return slices.Contains(c.programs, k.Program) })
		r.report.addCell(rolloutResources, title, c.column, "", float64(n)/float64(r.bench.pods))
	}
	if r.verbose {
		r.report.table(title+", writes", count.String())
	}
	return nil
}

// await returns the time at which the workload's status said that it has settled.
func (r *rollout) await(ctx context.Context, k kind, name, phase string) (time.Time, error) {
	ctx, cancel, explain := r.bound(ctx, phase)
	defer cancel()
	var last counts
	var ended time.Time
	only := []client.ListOption{client.InNamespace(namespace), client.MatchingFields{"metadata.name": name}}
	err := r.follow(ctx, k.list(), only, func(object client.Object, _ bool) bool {
		last = k.counts(object)
		ended = time.Now()
		return last.settled()
	})
	return ended, explain(err, func() string { return last.String() + r.programLogs(r.fleet) })
}

// quiet waits until exactly pods pods are there, those included that are being deleted.
func (r *rollout) quiet(ctx context.Context, name, phase string, pods int) error {
	ctx, cancel, explain := r.bound(ctx, phase+": rest")
	defer cancel()
	there := map[string]bool{}
	list, err := r.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labelApp + "=" + name})
	if err != nil {
		return fmt.Errorf("%s: list pods: %w", phase, err)
	}
	if len(list.Items) == pods {
		return nil
	}
	for i := range list.Items {
		there[list.Items[i].Name] = true
	}
	err = r.followPods(ctx, name, list.ResourceVersion, func(pod *corev1.Pod, gone bool) bool {
		if gone {
			delete(there, pod.Name)
		} else {
			there[pod.Name] = true
		}
		return len(there) == pods
	})
	return explain(err, func() string {
		return fmt.Sprintf("%d pods with those being deleted, want %d", len(there), pods)
	})
}

// podsOf returns the pods of the workload by name, after it checked that they are as the newest template says.
func (r *rollout) podsOf(ctx context.Context, name string) (map[string]*corev1.Pod, error) {
	list, err := r.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labelApp + "=" + name})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	pods := make(map[string]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pod := &list.Items[i]
		if !podReady(pod) {
			return nil, fmt.Errorf("status says that all is done, but pod %s is not ready", pod.Name)
		}
		pods[pod.Name] = pod
	}
	return pods, nil
}

// step shows the steps of a fleet to those who asked for more.
func (b *bench) step(text string) {
	if b.verbose {
		b.say("   %s", text)
	}
}

// keepLogs tells where the logs of a failed section are.
func (b *bench) keepLogs(f *fleet.Fleet) {
	for _, name := range f.Programs() {
		b.say("-- end of the log of %s (%s):\n%s", name, filepath.Base(f.LogFile(name)), f.LogTail(name, 15))
	}
}
