package uniteddeployment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// patience is how long a test waits for something that a healthy machine does in milliseconds.
const patience = 2 * time.Minute

// requests collects the requests of the controller that can change something.
type requests struct {
	mu   sync.Mutex
	list []string
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			r.mu.Lock()
			r.list = append(r.list, request.Method+" "+request.URL.Path)
			r.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

// in returns the requests on objects of a namespace.
func (r *requests) in(namespace string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, line := range r.list {
		if strings.Contains(line, "/namespaces/"+namespace+"/") {
			out = append(out, line)
		}
	}
	return out
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// cluster is a real API server with the controller on it. Nothing in it runs CloneSets and Deployments: the tests play
// their controllers.
type cluster struct {
	client  client.Client
	manager ctrl.Manager
	written *requests
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	// The rules of other kinds are not under test here.
	config := apiserver.ForTest(t, "clonesets.apps.kruise.io", "statefulsets.apps.kruise.io",
		"uniteddeployments.apps.kruise.io")
	scheme := apiserver.Scheme(t)
	var err error
	c := &cluster{written: &requests{}}
	if c.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	counted := rest.CopyConfig(config)
	counted.QPS = -1
	counted.Wrap(c.written.wrap)
	if c.manager, err = ctrl.NewManager(counted, ctrl.Options{Scheme: scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)}}); err != nil {
		t.Fatal(err)
	}
	federated := hub(func(ctx context.Context, namespace string) (bool, error) {
		ns := &metav1.PartialObjectMetadata{}
		ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		err := c.manager.GetClient().Get(ctx, client.ObjectKey{Name: namespace}, ns)
		return ns.Labels[topology.LabelFederated] == "true", err
	})
	ctx, stop := context.WithCancel(t.Context())
	if err := Add(ctx, &workload.Env{Manager: c.manager, ClusterName: "east", Gate: federated}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.manager.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	if !c.manager.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache does not sync")
	}
	return c
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

// space is a namespace of one test.
type space struct {
	*testing.T
	*cluster
	namespace string
}

func (c *cluster) space(t *testing.T, labels map[string]string) *space {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "ud-", Labels: labels}}
	if err := c.client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return &space{t, c, ns.Name}
}

// create writes the fixture into the space.
func (s *space) create(ud *kruise.UnitedDeployment) {
	s.Helper()
	ud.ObjectMeta = metav1.ObjectMeta{Name: ud.Name, Namespace: s.namespace, Annotations: ud.Annotations}
	if err := s.client.Create(s.Context(), ud); err != nil {
		s.Fatal(err)
	}
}

func (s *space) get(name string) *kruise.UnitedDeployment {
	s.Helper()
	ud := &kruise.UnitedDeployment{}
	if err := s.client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, ud); err != nil {
		s.Fatal(err)
	}
	return ud
}

// edit changes the UnitedDeployment "web" as a user does.
func (s *space) edit(change func(*kruise.UnitedDeployment)) {
	s.Helper()
	before := s.get("web")
	after := before.DeepCopy()
	change(after)
	if err := s.client.Patch(s.Context(), after, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
}

// children returns the children by subset.
func (s *space) children() map[string]child {
	s.Helper()
	out := map[string]child{}
	var sets kruise.CloneSetList
	var deployments appsv1.DeploymentList
	var advanced kruise.StatefulSetList
	for _, list := range []client.ObjectList{&sets, &deployments, &advanced} {
		if err := s.client.List(s.Context(), list, client.InNamespace(s.namespace)); err != nil {
			s.Fatal(err)
		}
	}
	add := func(c child) {
		if _, double := out[c.subset]; double {
			s.Fatalf("subset %s has two children", c.subset)
		}
		out[c.subset] = c
	}
	for i := range sets.Items {
		add(fromCloneSet(&sets.Items[i]))
	}
	for i := range deployments.Items {
		add(fromDeployment(&deployments.Items[i]))
	}
	for i := range advanced.Items {
		add(fromAdvanced(&advanced.Items[i]))
	}
	return out
}

// eventually waits until check returns "".
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

// eventuallyReplicas waits until the children ask for these numbers, written "a=1 b=2".
func (s *space) eventuallyReplicas(want string) {
	s.Helper()
	s.eventually("replicas of the children", func() string {
		var parts []string
		children := s.children()
		for _, name := range slices.Sorted(maps.Keys(children)) {
			parts = append(parts, fmt.Sprintf("%s=%d", name, children[name].replicas))
		}
		if got := strings.Join(parts, " "); got != want {
			return fmt.Sprintf("got %q, want %q", got, want)
		}
		return ""
	})
}

// carryOut plays the controllers of the children: every child has what it asks for, of its newest template except its
// partition, and its newest generation is seen.
func (s *space) carryOut() {
	s.Helper()
	for _, c := range s.children() {
		n := c.replicas
		before, _ := c.object.DeepCopyObject().(client.Object)
		switch live := c.object.(type) {
		case *kruise.CloneSet:
			updated := n - int32(live.Spec.UpdateStrategy.RollingUpdate.Partition.IntValue())
			live.Status = kruise.CloneSetStatus{ObservedGeneration: live.Generation, Replicas: n, ReadyReplicas: n,
				AvailableReplicas: n,
				UpdatedReplicas:   updated, UpdatedReadyReplicas: updated, UpdatedAvailableReplicas: updated}
		case *appsv1.Deployment:
			live.Status = appsv1.DeploymentStatus{ObservedGeneration: live.Generation, Replicas: n, ReadyReplicas: n,
				AvailableReplicas: n, UpdatedReplicas: n}
		case *kruise.StatefulSet:
			updated := n - *live.Spec.UpdateStrategy.RollingUpdate.Partition
			live.Status = kruise.StatefulSetStatus{ObservedGeneration: live.Generation, Replicas: n, ReadyReplicas: n,
				AvailableReplicas: n, UpdatedReplicas: updated, UpdatedReadyReplicas: updated, UpdatedAvailableReplicas: updated}
		}
		if err := s.client.Status().Patch(s.Context(), c.object,
			client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			s.Fatal(err)
		}
	}
}

// settle plays the children's controllers until the UnitedDeployment is at rest.
func (s *space) settle() *kruise.UnitedDeployment {
	s.Helper()
	var ud *kruise.UnitedDeployment
	s.eventually("the UnitedDeployment comes to rest", func() string {
		s.carryOut()
		ud = s.get("web")
		if ud.Status.ObservedGeneration != ud.Generation ||
			conditionOf(ud, kruise.ConditionReady).Status != corev1.ConditionTrue {
			text, _ := json.Marshal(ud.Status)
			return string(text)
		}
		return ""
	})
	return ud
}

// quiet checks that a pass at rest writes nothing: by the controller that knows what it wrote, and by one that was just
// started. A write that was under way when the status came to rest may still arrive; what writes at rest does so in
// every pass.
func (s *space) quiet() {
	s.Helper()
	key := client.ObjectKey{Namespace: s.namespace, Name: "web"}
	s.eventually("passes at rest write nothing", func() string {
		if old := s.oldInCache(key); old != "" {
			return old
		}
		before := len(s.written.in(s.namespace))
		started := &reconciler{cluster: "east"}
		started.Controller = workload.New(workload.Parts{
			Client: s.manager.GetClient(), Live: s.manager.GetAPIReader(), Clock: clock.RealClock{},
		}, started.kind())
		for range 3 {
			if _, err := started.Reconcile(s.Context(), reconcile.Request{NamespacedName: key}); err != nil {
				return fmt.Sprintf("reconcile at rest: %v", err)
			}
		}
		if after := s.written.in(s.namespace); len(after) != before {
			return fmt.Sprintf("a pass at rest writes: %v", after[before:])
		}
		return ""
	})
}

// oldInCache says what the controller's cache does not show as the API server has it, "" if nothing.
func (s *space) oldInCache(key client.ObjectKey) string {
	s.Helper()
	cached := &kruise.UnitedDeployment{}
	if err := s.manager.GetClient().Get(s.Context(), key, cached); err != nil {
		return err.Error()
	}
	if live := s.get("web"); cached.ResourceVersion != live.ResourceVersion {
		return cached.ResourceVersion + " is not " + live.ResourceVersion
	}
	for _, c := range s.children() {
		cached := emptyOf(c.kind)
		if err := s.manager.GetClient().Get(s.Context(), client.ObjectKeyFromObject(c.object), cached); err != nil {
			return err.Error()
		}
		if cached.GetResourceVersion() != c.object.GetResourceVersion() {
			return c.name() + " is old"
		}
	}
	return ""
}

func conditionOf(ud *kruise.UnitedDeployment, name string) kruise.UnitedDeploymentCondition {
	for _, c := range ud.Status.Conditions {
		if string(c.Type) == name {
			return c
		}
	}
	return kruise.UnitedDeploymentCondition{}
}

// TestInCluster runs the stories against one real API server, each in a namespace of its own.
func TestInCluster(t *testing.T) {
	c := newCluster(t)
	for name, story := range map[string]func(*space){
		"create and scale":             createAndScale,
		"image with partitions":        imageWithPartitions,
		"subset removed":               subsetRemoved,
		"drift":                        driftRepaired,
		"limits":                       limitsOfTheHub,
		"deployments":                  deploymentChildren,
		"advanced children":            advancedChildren,
		"refused child":                refusedChild,
		"taken over":                   takenOver,
		"deleted child comes new":      deletedChild,
		"Case3 held by a finalizer":    case3Held,
		"Case14 terminating namespace": case14Terminating,
	} {
		t.Run(name, func(t *testing.T) { story(c.space(t, nil)) })
	}
	t.Run("federated namespace", func(t *testing.T) {
		federatedNamespace(c.space(t, map[string]string{topology.LabelFederated: "true"}))
	})
}

func createAndScale(s *space) {
	s.create(fixture(s.T, cloneSets, 6, "a=25%", "b", "c"))
	s.eventuallyReplicas("a=2 b=2 c=2")
	ud := s.settle()
	if ud.Status.Replicas != 6 || ud.Status.UpdatedReadyReplicas != 6 || ud.Status.LabelSelector != "app=web" ||
		ud.Status.CurrentRevision != ud.Status.UpdatedRevision || len(ud.Status.SubsetStatuses) != 3 {
		s.Errorf("status at rest: %+v", ud.Status)
	}
	for _, want := range []kruise.UnitedDeploymentConditionType{kruise.SubsetProvisioned, kruise.SubsetUpdated,
		kruise.UnitedDeploymentUpdated} {
		if conditionOf(ud, string(want)).Status != corev1.ConditionTrue {
			s.Errorf("condition %s is not True: %+v", want, ud.Status.Conditions)
		}
	}
	s.quiet()
	for _, step := range []struct {
		n    int32
		want string
	}{{11, "a=3 b=4 c=4"}, {1, "a=0 b=0 c=1"}, {0, "a=0 b=0 c=0"}, {5, "a=1 b=2 c=2"}} {
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: step.n}}
		if err := s.client.SubResource("scale").Update(s.Context(), s.get("web"),
			client.WithSubResourceBody(scale)); err != nil {
			s.Fatal(err)
		}
		s.eventuallyReplicas(step.want)
		s.settle()
	}
	s.quiet()
	for name, c := range s.children() {
		if !strings.HasPrefix(c.object.GetName(), "web-"+name+"-") || !metav1.IsControlledBy(c.object, s.get("web")) {
			s.Errorf("child of %s is named %s, owned by %v", name, c.object.GetName(), c.object.GetOwnerReferences())
		}
	}
}

func imageWithPartitions(s *space) {
	s.create(fixture(s.T, cloneSets, 6, "a", "b"))
	s.eventuallyReplicas("a=3 b=3")
	first := s.settle().Status.UpdatedRevision
	s.edit(func(ud *kruise.UnitedDeployment) {
		ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = "web:2"
		ud.Spec.UpdateStrategy.ManualUpdate = &kruise.ManualUpdate{Partitions: map[string]int32{"a": 2, "b": 9}}
	})
	s.eventually("both children have the template and their partitions", func() string {
		for name, want := range map[string]int{"a": 2, "b": 3} {
			set, _ := s.children()[name].object.(*kruise.CloneSet)
			if got := set.Spec.UpdateStrategy.RollingUpdate.Partition.IntValue(); got != want ||
				set.Spec.Template.Spec.Containers[0].Image != "web:2" {
				return fmt.Sprintf("%s: partition %d, image %s", name, got, set.Spec.Template.Spec.Containers[0].Image)
			}
		}
		return ""
	})
	// The children's controllers have not seen it: nothing counts as updated, and the generation is not answered.
	s.eventually("the status knows the new revision", func() string {
		ud := s.get("web")
		if ud.Status.UpdatedRevision == first {
			return "still " + first
		}
		if ud.Status.UpdatedReplicas != 0 || ud.Status.ObservedGeneration == ud.Generation || ud.Status.Replicas != 6 {
			s.Fatalf("before the children's controllers saw the change: %+v", ud.Status)
		}
		return ""
	})
	ud := s.settle()
	if ud.Status.UpdatedReplicas != 1 || ud.Status.CurrentRevision != first {
		s.Errorf("at the partitions: %+v", ud.Status)
	}
	if row := ud.Status.SubsetStatuses[1]; row.Name != "b" || row.Partition != 3 || row.UpdatedReplicas != 0 ||
		row.DesiredReplicas != 3 {
		s.Errorf("subset b: %+v", row)
	}
	s.quiet()
	s.edit(func(ud *kruise.UnitedDeployment) { ud.Spec.UpdateStrategy.ManualUpdate = nil })
	s.eventually("all updated", func() string {
		s.carryOut()
		if ud := s.get("web"); ud.Status.UpdatedReplicas != 6 || ud.Status.CurrentRevision == first {
			return fmt.Sprintf("%+v", ud.Status)
		}
		return ""
	})
	s.edit(func(ud *kruise.UnitedDeployment) {
		ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = "web:1"
	})
	s.eventually("going back finds the first revision", func() string {
		if got := s.get("web").Status.UpdatedRevision; got != first {
			return got + " is not " + first
		}
		return ""
	})
}

func subsetRemoved(s *space) {
	s.create(fixture(s.T, cloneSets, 6, "a", "b", "c"))
	s.eventuallyReplicas("a=2 b=2 c=2")
	s.settle()
	s.edit(func(ud *kruise.UnitedDeployment) { ud.Spec.Topology.Subsets = ud.Spec.Topology.Subsets[:2] })
	s.eventuallyReplicas("a=3 b=3 c=2") // nothing of a and b is there in its place yet
	s.eventually("the removed subset stays in the status while it has pods", func() string {
		ud := s.get("web")
		if len(ud.Status.SubsetStatuses) != 3 || ud.Status.SubsetStatuses[2].Name != "c" || ud.Status.Replicas != 6 {
			return fmt.Sprintf("%+v", ud.Status)
		}
		return ""
	})
	s.eventually("the removed subset is drained and gone", func() string {
		s.carryOut()
		if n := len(s.children()); n != 2 {
			return fmt.Sprint(n, " children")
		}
		return ""
	})
	s.eventuallyReplicas("a=3 b=3")
	if ud := s.settle(); len(ud.Status.SubsetStatuses) != 2 {
		s.Errorf("status: %+v", ud.Status)
	}
	s.quiet()
}

func driftRepaired(s *space) {
	s.create(fixture(s.T, cloneSets, 4, "a", "b"))
	s.eventuallyReplicas("a=2 b=2")
	s.settle()
	set, _ := s.children()["a"].object.(*kruise.CloneSet)
	before := set.DeepCopy()
	set.Spec.Replicas = new(int32(9))
	set.Spec.Template.Spec.Containers[0].Image = "by-hand:1"
	set.Labels[kruise.LabelSubset] = "elsewhere"
	if err := s.client.Patch(s.Context(), set, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
	s.eventually("the child is as planned again", func() string {
		set, _ := s.children()["a"].object.(*kruise.CloneSet)
		if *set.Spec.Replicas != 2 || set.Spec.Template.Spec.Containers[0].Image != "web:1" ||
			set.Labels[kruise.LabelSubset] != "a" {
			return fmt.Sprintf("%v %v", set.Labels, set.Spec)
		}
		return ""
	})
	s.settle()
	s.quiet()
}

func limitsOfTheHub(s *space) {
	ud := fixture(s.T, cloneSets, 4, "a", "b")
	ud.Annotations = map[string]string{
		topology.AnnotationSequence:     "7",
		topology.AnnotationSubsetLimits: `{"a":{"maxUnavailable":2,"maxSurge":1},"b":{"maxUnavailable":0,"maxSurge":0,"paused":true}}`,
	}
	s.create(ud)
	s.eventuallyReplicas("a=2 b=2")
	if ud := s.settle(); ud.Status.ObservedSequence != 7 {
		s.Errorf("observedSequence %d, want 7", ud.Status.ObservedSequence)
	}
	limits := func(subset string, unavailable, surge int32, paused bool) {
		s.Helper()
		s.eventually("limits of subset "+subset, func() string {
			set, _ := s.children()[subset].object.(*kruise.CloneSet)
			rolling := set.Spec.UpdateStrategy.RollingUpdate
			if *rolling.MaxUnavailable != intstr.FromInt32(unavailable) || *rolling.MaxSurge != intstr.FromInt32(surge) ||
				rolling.Paused != paused {
				return fmt.Sprintf("%+v", rolling)
			}
			return ""
		})
	}
	limits("a", 2, 1, false)
	limits("b", 1, 0, true)
	s.quiet()
	s.edit(func(ud *kruise.UnitedDeployment) {
		ud.Annotations[topology.AnnotationSequence] = "8"
		ud.Annotations[topology.AnnotationSubsetLimits] = `{"a":{"maxUnavailable":1,"maxSurge":0},"b":{"maxUnavailable":1,"maxSurge":0}}`
	})
	limits("a", 1, 0, false)
	limits("b", 1, 0, false)
	if ud := s.get("web"); ud.Status.ObservedSequence != 7 {
		s.Errorf("order 8 is answered before the children's controllers saw it: %+v", ud.Status)
	}
	s.eventually("order 8 is answered", func() string {
		s.carryOut()
		if got := s.get("web").Status.ObservedSequence; got != 8 {
			return fmt.Sprint(got)
		}
		return ""
	})
	s.edit(func(ud *kruise.UnitedDeployment) { ud.Annotations = nil })
	s.eventually("without a hub the template's limits hold, which are the defaults", func() string {
		set, _ := s.children()["a"].object.(*kruise.CloneSet)
		if rolling := set.Spec.UpdateStrategy.RollingUpdate; *rolling.MaxUnavailable != intstr.FromString("20%") ||
			*rolling.MaxSurge != intstr.FromInt32(0) {
			return fmt.Sprintf("%+v", rolling)
		}
		return ""
	})
}

func deploymentChildren(s *space) {
	ud := fixture(s.T, deployments, 4, "a", "b")
	container := &ud.Spec.Template.DeploymentTemplate.Spec.Template.Spec.Containers[0]
	container.Ports = []corev1.ContainerPort{{ContainerPort: 80}}
	container.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
	container.Env = []corev1.EnvVar{{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
	ud.Spec.Template.DeploymentTemplate.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "c",
		VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}}
	ud.Spec.Template.DeploymentTemplate.Spec.Template.Spec.Volumes[0].ConfigMap.Name = "c"
	ud.Spec.Topology.Subsets[0].NodeSelectorTerm.MatchExpressions = []corev1.NodeSelectorRequirement{{Key: "disk",
		Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}}}
	ud.Spec.UpdateStrategy.ManualUpdate = &kruise.ManualUpdate{Partitions: map[string]int32{"a": 1}}
	s.create(ud)
	s.eventuallyReplicas("a=2 b=2")
	if got := s.settle(); got.Status.UpdatedReadyReplicas != 4 || got.Status.SubsetStatuses[0].Partition != 0 {
		s.Errorf("status: %+v", got.Status)
	}
	s.quiet()
	s.edit(func(ud *kruise.UnitedDeployment) {
		ud.Spec.Template.DeploymentTemplate.Spec.Template.Spec.Containers[0].Image = "web:2"
		ud.Spec.Template.DeploymentTemplate.Spec.Template.Spec.Containers[0].Env = nil
	})
	s.eventually("both children have the image, and what the template lost is gone", func() string {
		for name, c := range s.children() {
			d, _ := c.object.(*appsv1.Deployment)
			if own := d.Spec.Template.Spec.Containers[0]; own.Image != "web:2" || len(own.Env) > 0 {
				return fmt.Sprintf("%s: %+v", name, own)
			}
		}
		return ""
	})
	s.settle()
	s.quiet()
}

// advancedChildren also compares children with claims at rest: what their definition fills in is no drift.
func advancedChildren(s *space) {
	s.create(parse[kruise.UnitedDeployment](s.T, `
metadata: {name: web}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  topology: {subsets: [{name: a}, {name: b, replicas: 2}]}
  template:
    advancedStatefulSetTemplate:
      metadata: {labels: {app: web}}
      spec:
        selector: {matchLabels: {app: web}}
        serviceName: web
        podManagementPolicy: Parallel
        updateStrategy: {rollingUpdate: {maxUnavailable: 2, podUpdatePolicy: InPlaceIfPossible}}
        volumeClaimTemplates:
        - metadata: {name: data}
          spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
        template:
          metadata: {labels: {app: web}}
          spec: {containers: [{name: main, image: "web:1"}]}
`))
	s.eventuallyReplicas("a=3 b=2")
	if got := s.settle(); got.Status.UpdatedReadyReplicas != 5 {
		s.Errorf("status: %+v", got.Status)
	}
	s.quiet()
	s.edit(func(ud *kruise.UnitedDeployment) {
		ud.Spec.Template.AdvancedStatefulSetTemplate.Spec.Template.Spec.Containers[0].Image = "web:2"
		ud.Spec.UpdateStrategy.ManualUpdate = &kruise.ManualUpdate{Partitions: map[string]int32{"a": 1}}
	})
	s.eventually("both children have the image and their partitions", func() string {
		for name, c := range s.children() {
			set, ok := c.object.(*kruise.StatefulSet)
			if !ok {
				return fmt.Sprintf("%s is a %T", name, c.object)
			}
			rolling := set.Spec.UpdateStrategy.RollingUpdate
			want := map[string]int32{"a": 1}[name]
			if set.Spec.Template.Spec.Containers[0].Image != "web:2" || *rolling.Partition != want ||
				rolling.MaxUnavailable.IntVal != 2 {
				return fmt.Sprintf("%s: %+v", name, set.Spec)
			}
		}
		return ""
	})
	if got := s.settle(); got.Status.UpdatedReplicas != 4 || got.Status.SubsetStatuses[0].Partition != 1 {
		s.Errorf("status: %+v", got.Status)
	}
	s.quiet()
}

func refusedChild(s *space) {
	ud := fixture(s.T, deployments, 2, "a", "b")
	ud.Spec.Topology.Subsets[0].Patch.Raw = []byte(`{"spec":{"containers":[{"name":"main","imagePullPolicy":"Sometimes"}]}}`)
	s.create(ud)
	s.eventually("the refusal is told, and the other subset runs", func() string {
		stalled := conditionOf(s.get("web"), kruise.ConditionStalled)
		if children := s.children(); stalled.Reason != ReasonChildRefused || len(children) != 1 ||
			children["b"].replicas != 1 {
			return fmt.Sprintf("%+v, %d children", stalled, len(children))
		}
		return ""
	})
	s.edit(func(ud *kruise.UnitedDeployment) { ud.Spec.Topology.Subsets[0].Patch.Raw = []byte(`{}`) })
	s.eventuallyReplicas("a=1 b=1")
	s.settle()
	s.quiet()
}

func federatedNamespace(s *space) {
	s.create(fixture(s.T, cloneSets, 2, "a"))
	sentinel := s.cluster.space(s.T, nil)
	sentinel.create(fixture(s.T, cloneSets, 2, "a"))
	sentinel.eventuallyReplicas("a=2") // the controller has worked since
	if got := s.written.in(s.namespace); len(got) > 0 || len(s.children()) > 0 {
		s.Errorf("in a federated namespace it writes %v", got)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if err := s.client.Patch(s.Context(), ns, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+topology.LabelFederated+`":null}}}`))); err != nil {
		s.Fatal(err)
	}
	s.eventuallyReplicas("a=2")
}

func deletedChild(s *space) {
	s.create(fixture(s.T, cloneSets, 2, "a"))
	s.eventuallyReplicas("a=2")
	s.settle()
	old := s.children()["a"].object
	// It stays for a while, as one whose pods are waited for does.
	if err := s.client.Patch(s.Context(), old, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":["flotilla.dev/test"]}}`))); err != nil {
		s.Fatal(err)
	}
	if err := s.client.Delete(s.Context(), old); err != nil {
		s.Fatal(err)
	}
	s.eventually("a new child beside the old one", func() string {
		var sets kruise.CloneSetList
		if err := s.client.List(s.Context(), &sets, client.InNamespace(s.namespace)); err != nil {
			return err.Error()
		}
		if len(sets.Items) != 2 {
			return fmt.Sprintf("%d children", len(sets.Items))
		}
		return ""
	})
	if err := s.client.Patch(s.Context(), old, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		s.Fatal(err)
	}
	s.eventuallyReplicas("a=2")
	s.settle()
	s.quiet()
}

// canonical returns what a pod template means.
func canonical(s *space, template corev1.PodTemplateSpec) string {
	s.Helper()
	data, err := history.Canonical(template)
	if err != nil {
		s.Fatal(err)
	}
	return string(data)
}

// takenOver loads what a running OpenKruise manager left behind. Nothing of the children may be written: a pod template
// that changes restarts pods.
func takenOver(s *space) {
	data, err := os.ReadFile(filepath.Join("testdata", "openkruise.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	uids := map[string]types.UID{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data))
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); err != nil {
			break
		}
		if object.GetKind() == "UnitedDeployment" {
			objects = append([]*unstructured.Unstructured{object}, objects...)
		} else {
			objects = append(objects, object)
		}
	}
	// In a federated namespace nothing happens until all of it is there.
	federate := func(value string) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
		if err := s.client.Patch(s.Context(), ns, client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"`+topology.LabelFederated+`":`+value+`}}}`))); err != nil {
			s.Fatal(err)
		}
	}
	federate(`"true"`)
	s.eventually("the cache knows that the namespace is federated", func() string {
		ns := &metav1.PartialObjectMetadata{}
		ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		if err := s.manager.GetClient().Get(s.Context(), client.ObjectKey{Name: s.namespace}, ns); err != nil {
			return err.Error()
		}
		if ns.Labels[topology.LabelFederated] != "true" {
			return "not yet"
		}
		return ""
	})
	for _, object := range objects {
		old := object.GetUID()
		status, hasStatus := object.Object["status"]
		object.SetNamespace(s.namespace)
		object.SetUID("")
		object.SetResourceVersion("")
		owners := object.GetOwnerReferences()
		for i := range owners {
			owners[i].UID = uids[string(owners[i].UID)]
		}
		object.SetOwnerReferences(owners)
		if err := s.client.Create(s.Context(), object); err != nil {
			s.Fatal(err)
		}
		uids[string(old)] = object.GetUID()
		if hasStatus {
			object.Object["status"] = status
			if err := s.client.Status().Update(s.Context(), object); err != nil {
				s.Fatal(err)
			}
		}
	}
	// The watch of namespaces may be ahead of those of revisions and children: an agent begins with full caches.
	for _, object := range objects {
		s.eventually("the cache knows "+object.GetKind()+" "+object.GetName(), func() string {
			known, err := s.manager.GetScheme().New(object.GroupVersionKind())
			if err != nil {
				return err.Error()
			}
			cached := known.(client.Object)
			if err := s.manager.GetCache().Get(s.Context(), client.ObjectKeyFromObject(object), cached); err != nil {
				return err.Error()
			}
			if cached.GetResourceVersion() != object.GetResourceVersion() {
				return "not in its last version"
			}
			return ""
		})
	}
	federate("null")
	s.eventually("it answers with conditions of its own", func() string {
		ud := s.get("ud")
		if conditionOf(ud, kruise.ConditionReady).Status != corev1.ConditionTrue ||
			ud.Status.UpdatedRevision != "ud-67bbcdf57d" || ud.Status.UpdatedReadyReplicas != 6 {
			return fmt.Sprintf("%+v", ud.Status)
		}
		return ""
	})
	for _, request := range s.written.in(s.namespace) {
		if !strings.HasSuffix(request, "/uniteddeployments/ud/status") {
			s.Errorf("taking over writes %s", request)
		}
	}
	before := s.children()
	if len(before) != 2 {
		s.Fatalf("children: %v", before)
	}
	ud := &kruise.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "ud"}}
	if err := s.client.Patch(s.Context(), ud, client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"replicas":8}}`))); err != nil {
		s.Fatal(err)
	}
	s.eventuallyReplicas("a=4 b=4")
	for name, c := range s.children() {
		was, _ := before[name].object.(*kruise.CloneSet)
		is, _ := c.object.(*kruise.CloneSet)
		if diff := cmp.Diff(canonical(s, was.Spec.Template.PodTemplateSpec),
			canonical(s, is.Spec.Template.PodTemplateSpec)); diff != "" {
			s.Errorf("scaling a child that was taken over changes its pods:\n%s", diff)
		}
	}
}
