package uniteddeployment_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/cloneset"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/statefulset"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/uniteddeployment"
)

// limit is how long anything may take on a busy machine.
const limit = 120 * time.Second

// world is one cluster with real schedulers and controllers, simulated nodes, and the controllers of CloneSets and
// UnitedDeployments. Each story has a namespace and nodes of its own.
type world struct {
	testing.TB
	client.WithWatch
	config  *rest.Config
	cluster *fleet.Cluster
	writes  *writes
	name    string      // of the story: namespace, label of its nodes
	root    *world      // of all stories
	stop    func()      // of root: ends the controller of UnitedDeployments
	clock   *laterClock // of the controller of UnitedDeployments
}

func newWorld(t testing.TB) *world {
	t.Helper()
	c := apiserver.Cluster(t, fleet.ClusterSpec{Name: "solo", Nodes: fleet.Nodes("solo", "eu", []string{"x"}, 1)}, false,
		"clonesets.apps.kruise.io", "statefulsets.apps.kruise.io", "uniteddeployments.apps.kruise.io")
	w := &world{TB: t, cluster: c, config: c.RESTConfig(), writes: &writes{}, clock: &laterClock{}}
	w.root = w
	w.config.QPS = -1
	var err error
	w.WithWatch, err = client.NewWithWatch(w.config, client.Options{Scheme: apiserver.Scheme(t)})
	w.must(err)
	apiserver.Run(t, w.config, func(ctx context.Context, mgr ctrl.Manager) error {
		env := &workload.Env{Manager: mgr}
		return errors.Join(cloneset.Add(ctx, env), statefulset.Add(ctx, env))
	})
	w.start()
	return w
}

// start runs the controller of UnitedDeployments until w.stop is called or the test ends.
func (w *world) start() {
	w.Helper()
	own := rest.CopyConfig(w.config)
	own.Wrap(w.writes.wrap)
	_, w.stop = apiserver.Run(w, own, func(ctx context.Context, mgr ctrl.Manager) error {
		return uniteddeployment.Add(ctx, &workload.Env{Manager: mgr, Clock: w.clock})
	})
}

// writes are the mutating requests of the controller of UnitedDeployments.
type writes struct {
	mu   sync.Mutex
	list []string
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (r *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			r.mu.Lock()
			r.list = append(r.list, request.Method+" "+request.URL.Path)
			r.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

// written returns the writes to objects of the story.
func (w *world) written() []string {
	w.writes.mu.Lock()
	defer w.writes.mu.Unlock()
	var out []string
	for _, line := range w.writes.list {
		if strings.Contains(line, "/namespaces/"+w.name+"/") {
			out = append(out, line)
		}
	}
	return out
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// eventually polls until check returns "", and fails with what it said last.
func (w *world) eventually(what string, check func() string) {
	w.Helper()
	apiserver.Eventually(w, limit, what, check)
}

func (w *world) pause(d time.Duration) {
	w.Helper()
	select {
	case <-w.Context().Done():
		w.Fatal(w.Context().Err())
	case <-time.After(d):
	}
}

// tell runs a story in a namespace of its own, with one node in each of its zones.
func (w *world) tell(t *testing.T, name string, story func(*world), zones ...string) {
	t.Run(name, func(t *testing.T) {
		one := *w
		one.TB, one.name = t, strings.ToLower(strings.ReplaceAll(name, " ", "-"))
		one.must(one.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: one.name}}))
		one.eventually("the namespace has its account", func() string {
			if err := one.Get(t.Context(), client.ObjectKey{Namespace: one.name, Name: "default"},
				&corev1.ServiceAccount{}); err != nil {
				return err.Error()
			}
			return ""
		})
		for _, zone := range zones {
			one.addNode(zone, 0)
		}
		story(&one)
	})
}

// addNode adds a node for this many pods to a zone of the story; 0 is for many.
func (w *world) addNode(zone string, pods int64) {
	w.Helper()
	var nodes corev1.NodeList
	w.must(w.List(w.Context(), &nodes, client.MatchingLabels{"story": w.name}))
	w.must(w.cluster.AddNodes(w.Context(), fleet.NodeSpec{
		Name: fmt.Sprintf("%s-%s-%d", w.name, zone, len(nodes.Items)), Pods: pods,
		Labels: map[string]string{"story": w.name, "place": zone},
	}))
}

// cordon shuts or opens the nodes of a zone for new pods. It returns when the scheduler knows that they are shut: one
// that learns of the pods of a story first would still place them there.
func (w *world) cordon(zone string, shut bool) {
	w.Helper()
	var nodes corev1.NodeList
	w.must(w.List(w.Context(), &nodes, client.MatchingLabels{"story": w.name, "place": zone}))
	for i := range nodes.Items {
		before := nodes.Items[i].DeepCopy()
		nodes.Items[i].Spec.Unschedulable = shut
		w.must(w.Patch(w.Context(), &nodes.Items[i], client.MergeFrom(before)))
	}
	if !shut {
		return
	}
	w.eventually("the scheduler knows that "+zone+" is shut", func() string {
		probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, GenerateName: "probe-"},
			Spec: podTemplate().Spec}
		probe.Spec.NodeSelector = map[string]string{"story": w.name, "place": zone}
		w.must(w.Create(w.Context(), probe))
		w.eventually("the scheduler has looked for a place for a pod", func() string {
			w.must(w.Get(w.Context(), client.ObjectKeyFromObject(probe), probe))
			if !slices.ContainsFunc(probe.Status.Conditions,
				func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }) {
				return "not yet"
			}
			return ""
		})
		w.must(w.Delete(w.Context(), probe, client.GracePeriodSeconds(0)))
		if probe.Spec.NodeName != "" {
			return "it runs a pod there"
		}
		return ""
	})
}

// newUD is a UnitedDeployment of CloneSets. Subsets are written as "name", "name=4", "name=25%" or "name[min,max]";
// each runs on the story's nodes in the zone of its name.
func (w *world) newUD(replicas int32, subsets ...string) *v1beta1.UnitedDeployment {
	ud := &v1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "web"}}
	ud.Spec.Replicas = &replicas
	ud.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	ud.Spec.Template.CloneSetTemplate = &v1beta1.CloneSetTemplateSpec{Spec: v1beta1.CloneSetSpec{Template: v1beta1.NewPodTemplate(podTemplate())}}
	ud.Spec.Template.CloneSetTemplate.Labels = map[string]string{"app": "web"}
	for _, s := range subsets {
		ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, w.subset(s))
	}
	return ud
}

func podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "nginx:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
		}}},
	}
}

func (w *world) subset(text string) v1beta1.Subset {
	number := func(s string) *intstr.IntOrString {
		if s == "" {
			return nil
		}
		return new(intstr.Parse(s))
	}
	s := v1beta1.Subset{Name: text}
	if name, replicas, ok := strings.Cut(text, "="); ok {
		s = v1beta1.Subset{Name: name, Replicas: number(replicas)}
	}
	if name, bounds, ok := strings.Cut(text, "["); ok {
		low, high, _ := strings.Cut(strings.TrimSuffix(bounds, "]"), ",")
		s = v1beta1.Subset{Name: name, MinReplicas: number(low), MaxReplicas: number(high)}
	}
	s.NodeSelectorTerm.MatchExpressions = []corev1.NodeSelectorRequirement{
		{Key: "story", Operator: corev1.NodeSelectorOpIn, Values: []string{w.name}},
		{Key: "place", Operator: corev1.NodeSelectorOpIn, Values: []string{s.Name}},
	}
	return s
}

// deployments makes the children Deployments.
func deployments(ud *v1beta1.UnitedDeployment) {
	ud.Spec.Template = v1beta1.SubsetTemplate{DeploymentTemplate: &v1beta1.DeploymentTemplateSpec{
		Spec: v1beta1.NativeDeploymentSpec{DeploymentSpec: appsv1.DeploymentSpec{Selector: ud.Spec.Selector,
			Template: podTemplate()}}}}
	ud.Spec.Template.DeploymentTemplate.Labels = map[string]string{"app": "web"}
}

// statefulSets makes the children StatefulSets.
func statefulSets(ud *v1beta1.UnitedDeployment) {
	ud.Spec.Template = v1beta1.SubsetTemplate{StatefulSetTemplate: &v1beta1.StatefulSetTemplateSpec{
		Spec: v1beta1.NativeStatefulSetSpec{StatefulSetSpec: appsv1.StatefulSetSpec{
			Selector: ud.Spec.Selector, ServiceName: "web", Template: podTemplate(),
		}}}}
	ud.Spec.Template.StatefulSetTemplate.Labels = map[string]string{"app": "web"}
}

// advancedSets makes the children StatefulSets of apps.kruise.io.
func advancedSets(ud *v1beta1.UnitedDeployment) {
	ud.Spec.Template = v1beta1.SubsetTemplate{AdvancedStatefulSetTemplate: &v1beta1.AdvancedStatefulSetTemplateSpec{
		Spec: v1beta1.StatefulSetSpec{
			Selector: ud.Spec.Selector, ServiceName: "web", Template: v1beta1.NewPodTemplate(podTemplate()),
		}}}
	ud.Spec.Template.AdvancedStatefulSetTemplate.Labels = map[string]string{"app": "web"}
}

// adaptive sets the strategy Adaptive with these times.
func adaptive(critical, closed time.Duration) func(*v1beta1.UnitedDeployment) {
	return func(ud *v1beta1.UnitedDeployment) {
		ud.Spec.Topology.ScheduleStrategy = v1beta1.UnitedDeploymentScheduleStrategy{
			Type: v1beta1.AdaptiveUnitedDeploymentScheduleStrategyType,
			Adaptive: &v1beta1.AdaptiveUnitedDeploymentStrategy{
				RescheduleCriticalSeconds: new(int32(critical / time.Second)),
				UnschedulableDuration:     new(int32(closed / time.Second)),
			},
		}
	}
}

func (w *world) create(ud *v1beta1.UnitedDeployment, changes ...func(*v1beta1.UnitedDeployment)) {
	w.Helper()
	for _, change := range changes {
		change(ud)
	}
	w.must(w.Create(w.Context(), ud))
}

func (w *world) get() *v1beta1.UnitedDeployment {
	w.Helper()
	ud := &v1beta1.UnitedDeployment{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: w.name, Name: "web"}, ud))
	return ud
}

// edit changes the UnitedDeployment as a user does.
func (w *world) edit(change func(*v1beta1.UnitedDeployment)) {
	w.Helper()
	ud := w.get()
	before := ud.DeepCopy()
	change(ud)
	w.must(w.Patch(w.Context(), ud, client.MergeFrom(before)))
}

// pods returns the pods of the story that are not being deleted.
func (w *world) pods() []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.must(w.List(w.Context(), &list, client.InNamespace(w.name), client.MatchingLabels{"app": "web"}))
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// spreadOf says how many pods each subset has, those that are not ready behind a plus: "a=2 b=0+1".
func spreadOf(pods []corev1.Pod) string {
	ready, other := map[string]int{}, map[string]int{}
	names := map[string]bool{}
	for i := range pods {
		subset := pods[i].Labels[v1beta1.LabelSubset]
		names[subset] = true
		if isReady(&pods[i]) {
			ready[subset]++
		} else {
			other[subset]++
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		part := fmt.Sprintf("%s=%d", name, ready[name])
		if other[name] > 0 {
			part += fmt.Sprintf("+%d", other[name])
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// expectPods waits until the pods are spread so, and returns how long that took.
func (w *world) expectPods(want string) time.Duration {
	w.Helper()
	begin := time.Now()
	w.eventually("pods are "+want, func() string {
		if got := spreadOf(w.pods()); got != want {
			return got + ": " + summary(w.get())
		}
		return ""
	})
	return time.Since(begin)
}

// summary is the status in short, for failures.
func summary(ud *v1beta1.UnitedDeployment) string {
	var parts []string
	for _, row := range ud.Status.SubsetStatuses {
		part := fmt.Sprintf("%s %d/%d", row.Name, row.ReadyReplicas, row.DesiredReplicas)
		for _, c := range row.Conditions {
			part += fmt.Sprintf(" %s (%s)", c.Status, c.Message)
		}
		parts = append(parts, part)
	}
	for _, c := range ud.Status.Conditions {
		if c.Type == v1beta1.ConditionReady || c.Type == v1beta1.ConditionStalled {
			parts = append(parts, fmt.Sprintf("%s %s %s %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	return strings.Join(parts, "; ")
}

func condition(ud *v1beta1.UnitedDeployment, name string) v1beta1.UnitedDeploymentCondition {
	for _, c := range ud.Status.Conditions {
		if string(c.Type) == name {
			return c
		}
	}
	return v1beta1.UnitedDeploymentCondition{}
}

// schedulable returns the condition of a subset.
func schedulable(ud *v1beta1.UnitedDeployment, subset string) v1beta1.SubsetCondition {
	for _, row := range ud.Status.SubsetStatuses {
		if row.Name == subset && len(row.Conditions) > 0 {
			return row.Conditions[0]
		}
	}
	return v1beta1.SubsetCondition{}
}

// settle waits until the status answers the newest generation and is Ready.
func (w *world) settle() *v1beta1.UnitedDeployment {
	w.Helper()
	var ud *v1beta1.UnitedDeployment
	w.eventually("it comes to rest", func() string {
		ud = w.get()
		if ud.Status.ObservedGeneration != ud.Generation ||
			condition(ud, v1beta1.ConditionReady).Status != corev1.ConditionTrue {
			return fmt.Sprintf("generation %d of %d; %s", ud.Status.ObservedGeneration, ud.Generation, summary(ud))
		}
		return ""
	})
	return ud
}

// quiet fails if the controller does not come to rest: what writes at rest does so again and again, within seconds.
func (w *world) quiet() {
	w.Helper()
	w.eventually("a time without a write", func() string {
		before := len(w.written())
		w.pause(3 * time.Second)
		if more := w.written()[before:]; len(more) > 0 {
			return fmt.Sprintf("%d writes at rest: %v", len(more), more)
		}
		return ""
	})
}

// film is what the API server told of the pods of the story: what happened in between, not only the end.
type film struct {
	w      *world
	mu     sync.Mutex
	now    map[string]*corev1.Pod
	least  int            // ready pods, from when floor was called
	most   int            // pods that are not being deleted
	gone   map[string]int // ready pods that were taken away, by subset
	onPod  map[string]int // pods that were made, by subset
	fallen string         // why least was reached
}

// film begins now.
func (w *world) film() *film {
	w.Helper()
	var list corev1.PodList
	where := []client.ListOption{client.InNamespace(w.name), client.MatchingLabels{"app": "web"}}
	w.must(w.List(w.Context(), &list, where...))
	f := &film{w: w, now: map[string]*corev1.Pod{}, gone: map[string]int{}, onPod: map[string]int{}}
	for i := range list.Items {
		f.now[list.Items[i].Name] = &list.Items[i]
	}
	f.least = f.ready()
	where = append(where, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	events, err := w.Watch(w.Context(), &corev1.PodList{}, where...)
	w.must(err)
	w.Cleanup(events.Stop)
	go func() {
		for event := range events.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				f.see(event.Type, pod)
			}
		}
	}()
	return f
}

func (f *film) see(kind watch.EventType, pod *corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	subset := pod.Labels[v1beta1.LabelSubset]
	before := f.now[pod.Name]
	switch {
	case kind == watch.Added:
		f.onPod[subset]++
	case before != nil && isReady(before) && !isReady(pod):
		f.gone[subset]++
	}
	if f.now[pod.Name] = pod; kind == watch.Deleted {
		delete(f.now, pod.Name)
	}
	active := 0
	for _, p := range f.now {
		if p.DeletionTimestamp == nil {
			active++
		}
	}
	f.most = max(f.most, active)
	if n := f.ready(); n < f.least {
		f.least, f.fallen = n, fmt.Sprintf("%s of %s", strings.ToLower(string(kind)), pod.Name)
	}
}

func (f *film) ready() int {
	n := 0
	for _, pod := range f.now {
		if isReady(pod) {
			n++
		}
	}
	return n
}

// catchUp waits until the film shows the pods as they are: a watch may come later than a list.
func (f *film) catchUp() {
	f.w.Helper()
	f.w.eventually("the watch tells of the pods as they are", func() string {
		var list corev1.PodList
		f.w.must(f.w.List(f.w.Context(), &list, client.InNamespace(f.w.name), client.MatchingLabels{"app": "web"}))
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(list.Items) != len(f.now) {
			return fmt.Sprintf("%d pods, it tells of %d", len(list.Items), len(f.now))
		}
		for i := range list.Items {
			pod := &list.Items[i]
			if seen := f.now[pod.Name]; seen == nil || seen.UID != pod.UID || seen.ResourceVersion != pod.ResourceVersion {
				return "not of " + pod.Name
			}
		}
		return ""
	})
}

// taken returns how many ready pods were taken away until now, by subset.
func (f *film) taken() map[string]int {
	f.w.Helper()
	f.catchUp()
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.gone)
}

// expect fails unless at least least pods were ready all the time, and at most most existed.
func (f *film) expect(least, most int) {
	f.w.Helper()
	f.catchUp()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.least < least {
		f.w.Errorf("only %d pods were ready after %s, want %d all the time", f.least, f.fallen, least)
	}
	if f.most > most {
		f.w.Errorf("there were %d pods, want at most %d", f.most, most)
	}
}
