package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
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
	// deployment holds the seconds of the Deployment's phases: the floor of the CloneSet's.
	deployment map[string]float64
	// bare holds the seconds that the bare client took to create, patch and delete as many pods.
	bare map[string]float64
	// bareGated holds the seconds until as many pods with the readiness gate of updates in place were Ready.
	bareGated map[string]float64
}

// The phases, as they are called in the report.
const (
	phaseOut      = "scale-out"
	phaseInPlace  = "in-place update"
	phaseRecreate = "recreate"
	phaseIn       = "scale-in"
)

func rolloutSection(ctx context.Context, b *bench) error {
	f, err := fleet.Start(ctx, fleet.Config{
		Bin: b.bin, NoHub: true, Audit: true, Progress: b.step,
		Members: []fleet.ClusterSpec{{Name: "east", Nodes: fleet.Nodes("east", "eu", []string{"a", "b"}, 5)}},
	})
	if err != nil {
		return err
	}
	b.step("the fleet is in " + f.Dir)
	r := &rollout{bench: b, fleet: f, meters: meters{}, deployment: map[string]float64{}, bare: map[string]float64{}, bareGated: map[string]float64{}}
	err = r.run(ctx)
	if err != nil {
		b.keepLogs(f)
	}
	if destroyErr := f.Destroy(); err == nil {
		err = destroyErr
	}
	return err
}

func (r *rollout) run(ctx context.Context) error {
	east := r.fleet.Member("east")
	var err error
	if r.connection, err = connect(east); err != nil {
		return err
	}
	if err := r.createNamespace(ctx, namespace, nil); err != nil {
		return err
	}
	for _, component := range []string{"kube-controller-manager", "kube-apiserver", "kwok-controller", "etcd", "kube-scheduler"} {
		pid, err := componentPid(east, component)
		if err != nil {
			return err
		}
		r.meters[component] = []int{pid}
	}
	if err := r.bareClient(ctx); err != nil {
		return err
	}
	if err := r.gatedClient(ctx); err != nil {
		return err
	}
	if err := r.deploymentPhases(ctx); err != nil {
		return err
	}
	if err := east.InstallCRDs(ctx, crds.FS); err != nil {
		return err
	}
	// Only now, so that its caches cost the Deployment nothing.
	pid, err := r.startAgent(ctx, r.fleet, east)
	if err != nil {
		return err
	}
	r.meters[fleet.AgentProgram] = []int{pid}
	return r.cloneSetPhases(ctx)
}

func (r *rollout) deploymentPhases(ctx context.Context) error {
	k := deploymentKind()
	name := "native"
	if err := r.start(ctx, k, name); err != nil {
		return err
	}
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
		r.deployment[p.name] = took
	}
	r.deployment[phaseInPlace] = r.deployment[phaseRecreate]
	return nil
}

func (r *rollout) cloneSetPhases(ctx context.Context) error {
	k := cloneSetKind()
	name := "clones"
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
		if p.name == "" {
			continue
		}
		title := fmt.Sprintf("CloneSet of %d, %s", r.pods, p.name)
		r.report.addWithFloor(rolloutSectionName, title, "s", took, "Deployment, "+deploymentPhase(p.name), r.deployment[p.name])
		if bare, known := r.bare[p.name]; known {
			r.report.addWithFloor(rolloutSectionName, title, "s", took, "bare client, pods "+bareVerb(p.name), bare)
		}
		if bare, known := r.bareGated[p.name]; known {
			r.report.addWithFloor(rolloutSectionName, title, "s", took, "bare client, pods with the readiness gate Ready", bare)
		}
	}
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
func (r *rollout) phase(ctx context.Context, k kind, name, phase string, spec map[string]any, pods int) (float64, error) {
	shown := phase
	if k.name == deploymentKind().name {
		shown = deploymentPhase(phase)
	}
	title := fmt.Sprintf("%s of %d, %s", k.name, r.pods, shown)
	if phase != "" {
		r.say("%s", title)
	}
	before, err := r.meters.read()
	if err != nil {
		return 0, err
	}
	patch, err := patchOf(spec)
	if err != nil {
		return 0, err
	}
	object := k.build(namespace, name, 0, "")
	storeProfile := r.profile(ctx, r.connection, title)
	began := time.Now()
	if err := r.Patch(ctx, object, patch); err != nil {
		return 0, fmt.Errorf("%s: patch: %w", title, err)
	}
	ended, err := r.await(ctx, k, name, title)
	if err != nil {
		return 0, err
	}
	if err := r.quiet(ctx, name, title, pods); err != nil {
		return 0, err
	}
	if err := storeProfile(); err != nil {
		return 0, err
	}
	took := seconds(ended.Sub(began))
	if phase == "" {
		return took, nil
	}
	if k.name == deploymentKind().name {
		r.report.add(rolloutSectionName, title, "s", took)
	}
	if err := r.used(title, before); err != nil {
		return 0, err
	}
	return took, r.requests(title, began)
}

// used reports what the programs used since before.
func (r *rollout) used(title string, before reading) error {
	after, err := r.meters.read()
	if err != nil {
		return err
	}
	after.since(before, func(what, unit string, value float64) {
		r.report.addCell(rolloutResources, title, what, unit, value)
	})
	return nil
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
	return explain(err, func() string { return fmt.Sprintf("%d pods with those being deleted, want %d", len(there), pods) })
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

func samePods(before, after map[string]*corev1.Pod) error {
	for name, pod := range before {
		if after[name] == nil || after[name].UID != pod.UID {
			return fmt.Errorf("pod %s is gone, it was to be updated in place", name)
		}
	}
	return nil
}

func otherPods(before, after map[string]*corev1.Pod) error {
	for name, pod := range before {
		if after[name] != nil && after[name].UID == pod.UID {
			return fmt.Errorf("pod %s is still there, it was to be replaced", name)
		}
	}
	return nil
}

func podReady(pod *corev1.Pod) bool { return conditionTrue(pod, corev1.PodReady) }

func conditionTrue(pod *corev1.Pod, condition corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue
	})
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
