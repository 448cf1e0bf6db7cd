package workloadspread

import (
	"context"
	"encoding/json"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/cloneset"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/statefulset"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/workloadspread/mutator"
)

// patience is how long anything may take on a busy machine.
const patience = 120 * time.Second

// later is the real clock, and can be put forward.
type later struct {
	clock.RealClock
	mu    sync.Mutex
	ahead time.Duration
}

func (l *later) Now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Add(l.ahead)
}

func (l *later) Since(t time.Time) time.Duration { return l.Now().Sub(t) }

func (l *later) forward(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead += by
}

// requests collects the requests of the controllers that can change something.
type requests struct {
	mu   sync.Mutex
	list []string
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			line := request.Method + " " + request.URL.Path
			r.mu.Lock()
			r.list = append(r.list, line)
			r.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

// counted tells how often pods were patched, and how often the status of WorkloadSpreads was written, in a namespace.
func (r *requests) counted(namespace string) (podPatches, statusWrites int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.list {
		if !strings.Contains(line, "/namespaces/"+namespace+"/") {
			continue
		}
		method, path, _ := strings.Cut(line, " ")
		switch {
		case method == http.MethodPatch && strings.Contains(path, "/pods/") && !strings.HasSuffix(path, "/status"):
			podPatches++
		case strings.Contains(path, "/workloadspreads/"):
			statusWrites++
		}
	}
	return podPatches, statusWrites
}

// world is one cluster with the controllers of CloneSets, StatefulSets and WorkloadSpreads in it.
type world struct {
	client.Client
	cluster *fleet.Cluster
	config  *rest.Config
	time    *later
	written *requests
	hook    *hook // nil without the webhook
	stop    func()
	// cached reads what the controllers know.
	cached client.Reader
}

// newWorld starts a cluster with nodes in the zones a and b, the controllers, and the webhook if hook is not nil.
func newWorld(t *testing.T, hook *hook) *world {
	t.Helper()
	nodes := fleet.Nodes("solo", "eu", []string{"a", "b"}, 1)
	w := &world{time: &later{}, written: &requests{}, hook: hook}
	w.cluster = apiserver.Cluster(t, fleet.ClusterSpec{Name: "solo", Nodes: nodes}, false,
		"clonesets.apps.kruise.io", "statefulsets.apps.kruise.io", "workloadspreads.apps.kruise.io")
	w.config = w.cluster.RESTConfig()
	w.config.QPS = -1
	var err error
	if w.Client, err = client.New(w.config, client.Options{Scheme: apiserver.Scheme(t)}); err != nil {
		t.Fatal(err)
	}
	w.start(t)
	return w
}

// hub is the gate of a cluster that is a hub: it answers for each namespace.
type hub func(ctx context.Context, namespace string) (bool, error)

func (h hub) Federated(ctx context.Context, object client.Object) (bool, error) {
	return h(ctx, object.GetNamespace())
}
func (hub) Budget(context.Context, client.Object) (workload.Budget, error) {
	return workload.Budget{}, nil
}
func (hub) Foreign(client.Object) bool                    { return false }
func (hub) Ordered(schema.GroupVersionKind) source.Source { return nil }

// start runs the controllers until w.stop is called or the test ends.
func (w *world) start(t *testing.T) {
	t.Helper()
	own := rest.CopyConfig(w.config)
	own.Wrap(w.written.wrap)
	mgr, stop := apiserver.Run(t, own, func(ctx context.Context, mgr ctrl.Manager) error {
		federated := func(ctx context.Context, namespace string) (bool, error) {
			ns := metadataOf(corev1.SchemeGroupVersion.WithKind("Namespace"))
			err := mgr.GetClient().Get(ctx, client.ObjectKey{Name: namespace}, ns)
			return ns.Labels[topology.LabelFederated] == "true", err
		}
		err := cloneset.Add(ctx, &workload.Env{Manager: mgr, Gate: hub(federated)})
		if err == nil {
			err = statefulset.Add(ctx, &workload.Env{Manager: mgr, Gate: hub(federated)})
		}
		if err == nil {
			err = Add(ctx, &workload.Env{Manager: mgr, Clock: w.time, Gate: hub(federated)})
		}
		if err == nil && w.hook != nil {
			// A machine that stands still for a while is not under test: pods that nobody answered for start unspread.
			const timeout = 20 * time.Second
			var spreads admission.Mutator
			if spreads, err = mutator.New(ctx, mgr, mutator.Options{Federated: federated}); err == nil {
				err = admission.Setup(mgr, admission.Options{
					Server: w.hook, Timeout: timeout, Mutators: []admission.Mutator{spreads},
				})
			}
		}
		return err
	})
	w.cached, w.stop = mgr.GetCache(), stop
}

// space is a namespace of one story.
type space struct {
	*testing.T
	*world
	namespace string
	touched   int
}

func (w *world) space(t *testing.T, labels map[string]string) *space {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "ws-", Labels: labels}}
	if err := w.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return &space{T: t, world: w, namespace: ns.Name}
}

func (s *space) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// make creates an object in the space.
func (s *space) make(object client.Object) {
	s.Helper()
	object.SetNamespace(s.namespace)
	s.must(s.Create(s.Context(), object))
}

// spread creates the WorkloadSpread "web" of the target "web", and waits until the controllers know it: pods that were
// made before would be spread by nobody.
func (s *space) spread(ws *v1beta1.WorkloadSpread) *v1beta1.WorkloadSpread {
	s.Helper()
	ws.ObjectMeta = metav1.ObjectMeta{Name: ws.Name, Annotations: ws.Annotations}
	s.make(ws)
	s.eventually("the controllers know WorkloadSpread "+ws.Name, func() string {
		if err := s.cached.Get(s.Context(), client.ObjectKeyFromObject(ws), &v1beta1.WorkloadSpread{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return ws
}

// unspread deletes the WorkloadSpread, and waits until the controllers know that.
func (s *space) unspread(ws *v1beta1.WorkloadSpread) {
	s.Helper()
	s.must(s.Delete(s.Context(), ws))
	s.eventually("the controllers know that WorkloadSpread "+ws.Name+" is gone", func() string {
		if err := s.cached.Get(s.Context(), client.ObjectKeyFromObject(ws),
			&v1beta1.WorkloadSpread{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint("they do not: ", err)
		}
		return ""
	})
}

// known waits until the controllers know the pods as they are.
func (s *space) known() {
	s.Helper()
	s.eventually("the controllers know the pods", func() string {
		var list corev1.PodList
		s.must(s.cached.List(s.Context(), &list, client.InNamespace(s.namespace)))
		versions := map[string]string{}
		for i := range list.Items {
			versions[list.Items[i].Name] = list.Items[i].ResourceVersion
		}
		for _, pod := range s.pods() {
			if versions[pod.Name] != pod.ResourceVersion {
				return "not " + pod.Name
			}
		}
		return ""
	})
}

// addNode adds a node, and waits until the scheduler places pods there: a pod that it sees before would count as one
// that finds no place.
func (s *space) addNode(node fleet.NodeSpec) {
	s.Helper()
	s.must(s.cluster.AddNodes(s.Context(), node))
	// It asks for no CPU: the scheduler may learn late that it is gone.
	probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe-" + node.Name}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{corev1.LabelHostname: node.Name},
		Containers:   []corev1.Container{{Name: "main", Image: "nginx:1"}},
	}}
	s.make(probe)
	s.eventually("the scheduler knows node "+node.Name, func() string {
		s.must(s.Get(s.Context(), client.ObjectKeyFromObject(probe), probe))
		if probe.Spec.NodeName == "" {
			return fmt.Sprintf("%+v", probe.Status.Conditions)
		}
		return ""
	})
	s.must(s.Delete(s.Context(), probe, client.GracePeriodSeconds(0)))
}

// filter gives the WorkloadSpread "web" another filter of its target.
func (s *space) filter(text string) {
	s.Helper()
	ws := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
	s.must(s.Patch(s.Context(), ws, client.RawPatch(types.JSONPatchType,
		fmt.Appendf(nil, `[{"op":"replace","path":"/spec/targetFilter","value":%s}]`, text))))
}

// subsets gives the WorkloadSpread "web" other subsets, written as for aSpread, and waits until the controllers know
// them.
func (s *space) subsets(subsets ...string) {
	s.Helper()
	patch, err := json.Marshal([]workload.Operation{{Op: "replace", Path: "/spec/subsets",
		Value: aSpread("CloneSet", subsets...).Spec.Subsets}})
	s.must(err)
	ws := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
	s.must(s.Patch(s.Context(), ws, client.RawPatch(types.JSONPatchType, patch)))
	s.eventually("the controllers know the subsets", func() string {
		cached := &v1beta1.WorkloadSpread{}
		s.must(s.cached.Get(s.Context(), client.ObjectKeyFromObject(ws), cached))
		if cached.Generation != ws.Generation {
			return fmt.Sprintf("generation %d, want %d", cached.Generation, ws.Generation)
		}
		return ""
	})
}

// eventually polls until check returns "", and fails with what it said last.
func (s *space) eventually(what string, check func() string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		why := check()
		if why == "" {
			return
		}
		select {
		case <-ctx.Done():
			s.Fatalf("%s: %s", what, why)
		case <-tick.C:
		}
	}
}

// template is of pods that ask for one CPU, so that the CPUs of nodes are places for pods.
func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx:1",
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			}}}},
	}
}

func selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
}

func (s *space) cloneSet(replicas int32) {
	s.Helper()
	s.make(&v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1beta1.CloneSetSpec{
		Replicas: &replicas, Selector: selector(), Template: v1beta1.NewPodTemplate(template()),
	}})
}

func (s *space) deployment(replicas int32) {
	s.Helper()
	s.make(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(), Template: template()}})
}

// scale sets the replicas of the target "web".
func (s *space) scale(object client.Object, replicas int32) {
	s.Helper()
	object.SetNamespace(s.namespace)
	object.SetName("web")
	s.must(s.Patch(s.Context(), object, client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))))
}

// pods returns the active pods.
func (s *space) pods() []corev1.Pod {
	s.Helper()
	var list corev1.PodList
	s.must(s.List(s.Context(), &list, client.InNamespace(s.namespace)))
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	})
}

// zoneOf returns the zone of a node; nodes are named "<cluster>-<zone>-<n>".
func zoneOf(node string) string {
	parts := strings.Split(node, "-")
	if len(parts) < 3 {
		return "-"
	}
	return parts[len(parts)-2]
}

// subsetOf returns the subset that the annotation of a pod says, "-" for none.
func subsetOf(pod *corev1.Pod) string {
	var matched v1beta1.MatchedWorkloadSpread
	if err := json.Unmarshal([]byte(pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread]), &matched); err != nil ||
		matched.Subset == "" {
		return "-"
	}
	return matched.Subset
}

// tally counts pods by what of tells of each, "a=2 b=3".
func tally(pods []corev1.Pod, of func(*corev1.Pod) string) string {
	count := map[string]int{}
	for i := range pods {
		count[of(&pods[i])]++
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%s=%d", key, count[key]))
	}
	return strings.Join(parts, " ")
}

// where tells of a pod its subset, the zone in which it runs, and its cost.
func where(pod *corev1.Pod) string {
	zone := "?"
	if pod.Spec.NodeName != "" {
		zone = zoneOf(pod.Spec.NodeName)
	}
	text := subsetOf(pod) + "/" + zone
	if cost, ok := pod.Annotations[corev1.PodDeletionCost]; ok {
		text += "/" + cost
	}
	return text
}

// eventuallyPods waits until the active pods are these, as tally and where tell them.
func (s *space) eventuallyPods(want string) {
	s.Helper()
	s.eventually("pods by subset, zone and cost", func() string {
		if got := tally(s.pods(), where); got != want {
			return fmt.Sprintf("%s, want %s", got, want)
		}
		return ""
	})
}

// eventuallyCosts waits until the active pods have these subsets and costs, such as "a/200=2 b/100=3".
func (s *space) eventuallyCosts(want string) {
	s.Helper()
	s.eventually("pods by subset and cost", func() string {
		got := tally(s.pods(), func(pod *corev1.Pod) string {
			return subsetOf(pod) + "/" + pod.Annotations[corev1.PodDeletionCost]
		})
		if got != want {
			return fmt.Sprintf("%s, want %s", got, want)
		}
		return ""
	})
}

func (s *space) get(name string) *v1beta1.WorkloadSpread {
	s.Helper()
	ws := &v1beta1.WorkloadSpread{}
	s.must(s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, ws))
	return ws
}

// eventuallyRows waits until the status tells these subsets, as rows tells them.
func (s *space) eventuallyRows(want string) *v1beta1.WorkloadSpread {
	s.Helper()
	var ws *v1beta1.WorkloadSpread
	s.eventually("subsets of the status", func() string {
		ws = s.get("web")
		if got := rows(ws.Status.SubsetStatuses); got != want || ws.Status.ObservedGeneration != ws.Generation {
			return fmt.Sprintf("%s, want %s; %+v", got, want, ws.Status.Conditions)
		}
		return ""
	})
	return ws
}

// eventuallyTold waits until a condition of the WorkloadSpread has the status and the reason.
func (s *space) eventuallyTold(name, condition string, status metav1.ConditionStatus, reason string) {
	s.Helper()
	s.eventually("condition "+condition+" of "+name, func() string {
		c := meta.FindStatusCondition(s.get(name).Status.Conditions, condition)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
}

// eventuallySchedulable waits until the condition of a subset has the status.
func (s *space) eventuallySchedulable(subset string, status metav1.ConditionStatus) {
	s.Helper()
	s.eventually("condition Schedulable of "+subset, func() string {
		if c := schedulableOf(s.get("web"), subset); c == nil || c.Status != status {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
}

// quiet checks that passes at rest write nothing: an event of the WorkloadSpread brings one, and its observedGeneration
// shows it. What was on its way may come with one of the passes; what writes at rest does so in each of them.
func (s *space) quiet() {
	s.Helper()
	s.eventually("passes at rest write nothing", func() string {
		for _, pod := range s.pods() {
			if pod.Status.Phase != corev1.PodRunning {
				return pod.Name + " is " + string(pod.Status.Phase)
			}
		}
		s.pass()
		pods, status := s.written.counted(s.namespace)
		s.pass()
		podsNow, statusNow := s.written.counted(s.namespace)
		// The one write of the status that answers the new generation.
		if podsNow != pods || statusNow > status+1 {
			return fmt.Sprintf("a pass at rest patches %d pods and writes %d statuses", podsNow-pods, statusNow-status)
		}
		return ""
	})
}

// pass changes a field without effect, and waits for the pass that answers it.
func (s *space) pass() {
	s.Helper()
	s.touched++
	ws := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
	patch := fmt.Appendf(nil, `{"spec":{"scheduleStrategy":{"adaptive":{"disableSimulationSchedule":%t}}}}`,
		s.touched%2 == 1)
	s.must(s.Patch(s.Context(), ws, client.RawPatch(types.MergePatchType, patch)))
	s.eventually("the pass after a change", func() string {
		if ws := s.get("web"); ws.Status.ObservedGeneration != ws.Generation {
			return "it did not come yet"
		}
		return ""
	})
}
