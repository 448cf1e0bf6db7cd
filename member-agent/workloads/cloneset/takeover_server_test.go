package cloneset_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// TestTakeOverOnAnAPIServer starts the controller in clusters that a real OpenKruise manager left, each at another
// moment. First it must touch nothing but conditions; then rollouts that stood half-way go on.
func TestTakeOverOnAnAPIServer(t *testing.T) {
	t.Parallel() // most of its time is waiting
	for _, moment := range []struct {
		name string
		then map[string]func(*taken)
	}{
		{name: "default-gates", then: map[string]func(*taken){
			"web goes on in place":           func(c *taken) { c.finishInPlace("web") },
			"recreate goes on with new pods": func(c *taken) { c.finishAnew("recreate") },
		}},
		{name: "all-gates-1-created", then: map[string]func(*taken){
			"web goes where the manager brought it": func(c *taken) { c.goTo("all-gates-2-mid-rollout", "web") },
		}},
		{name: "all-gates-2-mid-rollout", then: map[string]func(*taken){
			"web goes on in place": func(c *taken) {
				c.finishInPlace("web")
				c.grow("web")
			},
		}},
	} {
		t.Run(moment.name, func(t *testing.T) {
			c := takeOver(t, moment.name)
			c.nothingHappens()
			c.startKubelets()
			for name, run := range moment.then {
				t.Run(name, func(t *testing.T) {
					one := *c
					w := *c.world
					w.TB = t
					one.world = &w
					run(&one)
				})
			}
		})
	}
}

// taken is a cluster with recorded objects in it. No kubelet plays their nodes until startKubelets.
type taken struct {
	*world
	recorded  *recorded
	namespace string
}

// takeOver makes a cluster with the objects of the moment. The controller does not run yet.
func takeOver(t *testing.T, moment string) *taken {
	t.Helper()
	cluster := apiserver.Cluster(t, fleet.ClusterSpec{Name: "solo"}, true)
	c := &taken{world: &world{TB: t, cluster: cluster, config: cluster.RESTConfig()}, recorded: readRecorded(t, moment)}
	c.config.QPS = -1
	var err error
	c.Client, err = client.New(c.config, client.Options{Scheme: apiserver.Scheme(t)})
	c.must(err)
	c.namespace = c.recorded.objects[0].GetNamespace()
	ours, err := apiserver.Files("clonesets.apps.kruise.io", "uniteddeployments.apps.kruise.io")
	c.must(err)
	// OpenKruise's definition takes any type of strategy, and CloneSet "old" has one of v1alpha1. So the objects are there
	// before our definition is, as in a cluster that moves.
	c.must(c.cluster.InstallCRDs(t.Context(), withoutStrategyEnum(c, ours)))
	c.load()
	c.must(c.cluster.InstallCRDs(t.Context(), ours))
	refused := newCloneSet("refused", 1, func(cs *v1beta1.CloneSet) { cs.Spec.UpdateStrategy.Type = "InPlaceIfPossible" })
	c.eventually("our definition is in force", func() string {
		if err := c.Create(t.Context(), refused.DeepCopy(), client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Sprint("an old strategy is taken: ", err)
		}
		return ""
	})
	return c
}

func withoutStrategyEnum(c *taken, files fstest.MapFS) fstest.MapFS {
	c.Helper()
	out := fstest.MapFS{}
	for name, file := range files {
		var object map[string]any
		c.must(yaml.Unmarshal(file.Data, &object))
		versions, _, err := unstructured.NestedSlice(object, "spec", "versions")
		c.must(err)
		for _, version := range versions {
			unstructured.RemoveNestedField(version.(map[string]any), "schema", "openAPIV3Schema", "properties", "spec",
				"properties",
				"updateStrategy", "properties", "type", "enum")
		}
		c.must(unstructured.SetNestedSlice(object, versions, "spec", "versions"))
		data, err := yaml.Marshal(object)
		c.must(err)
		out[name] = &fstest.MapFile{Data: data}
	}
	return out
}

// load writes the recorded objects with their status, owners first. Only the uids of owners change: the server gives
// new ones.
func (c *taken) load() {
	c.Helper()
	c.must(c.Create(c.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}))
	c.eventually("the namespace's service account", func() string {
		if err := c.Get(c.Context(), client.ObjectKey{Namespace: c.namespace, Name: "default"},
			&corev1.ServiceAccount{}); err != nil {
			return err.Error()
		}
		return ""
	})
	uids := map[types.UID]types.UID{}
	for _, kind := range []string{"UnitedDeployment", "CloneSet", "ControllerRevision", "PersistentVolumeClaim", "Pod"} {
		for _, object := range c.recorded.of(kind) {
			refs := slices.Clone(object.GetOwnerReferences())
			for i := range refs {
				uid, ok := uids[refs[i].UID]
				if !ok {
					c.Fatalf("the owner of %s %s is not recorded", kind, object.GetName())
				}
				refs[i].UID = uid
			}
			made := object.DeepCopy()
			made.SetResourceVersion("")
			if len(refs) > 0 {
				made.SetOwnerReferences(refs)
			}
			if kind == "Pod" {
				c.node(made)
			}
			c.create(made, object.GetGeneration() > 1)
			uids[object.GetUID()] = made.GetUID()
		}
	}
}

// create writes the object and then its status. Its generation becomes 2 if changed: then it was something else before.
func (c *taken) create(object *unstructured.Unstructured, changed bool) {
	c.Helper()
	status, spec := object.Object["status"], object.DeepCopy().Object["spec"]
	if changed && object.GetKind() == "CloneSet" {
		c.must(unstructured.SetNestedField(object.Object, int64(1), "spec", "minReadySeconds"))
	}
	if changed && object.GetKind() == "Pod" {
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "containers")
		c.must(err)
		containers[0].(map[string]any)["image"] = "nginx:before"
		c.must(unstructured.SetNestedSlice(object.Object, containers, "spec", "containers"))
	}
	c.must(c.Create(c.Context(), object))
	if changed {
		object.Object["spec"] = spec
		c.must(c.Update(c.Context(), object))
	}
	if status == nil || object.GetKind() == "PersistentVolumeClaim" {
		return // a claim is pending by itself
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	c.must(err)
	c.must(c.Status().Patch(c.Context(), object, client.RawPatch(types.MergePatchType, patch)))
}

// node makes the node of a pod, ready and with no kubelet behind it.
func (c *taken) node(pod *unstructured.Unstructured) {
	c.Helper()
	name, _, err := unstructured.NestedString(pod.Object, "spec", "nodeName")
	c.must(err)
	if name == "" {
		return
	}
	now, room := metav1.Now(), corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(110, resource.DecimalSI)}
	err = c.Create(c.Context(), &corev1.Node{
		// The UnitedDeployment asks for the label.
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, "type": "kwok"},
			Annotations: map[string]string{fleet.AnnotationKubelet: fleet.KubeletNone}},
		Status: corev1.NodeStatus{
			Allocatable: room, Capacity: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now,
				LastTransitionTime: now}},
		},
	})
	if !apierrors.IsAlreadyExists(err) {
		c.must(err)
	}
}

// startKubelets lets the simulation play the kubelets of all nodes from now on, for pods that change. The kubelets of
// the recordings told images by short names; ours would take those for others and restart the containers.
func (c *taken) startKubelets() {
	c.Helper()
	var pods corev1.PodList
	c.must(c.List(c.Context(), &pods))
	for i := range pods.Items {
		changed := pods.Items[i].DeepCopy()
		for j := range changed.Status.ContainerStatuses {
			changed.Status.ContainerStatuses[j].Image = "docker.io/library/" + changed.Status.ContainerStatuses[j].Image
		}
		c.must(c.Status().Patch(c.Context(), changed, client.MergeFrom(&pods.Items[i])))
	}
	var nodes corev1.NodeList
	c.must(c.List(c.Context(), &nodes))
	for i := range nodes.Items {
		patch := []byte(`{"metadata":{"annotations":{"` + fleet.AnnotationKubelet + `":null}}}`)
		c.must(c.Patch(c.Context(), &nodes.Items[i], client.RawPatch(types.MergePatchType, patch)))
	}
}

// state is everything that the manager left, as it is now.
type state struct {
	cloneSets map[string]v1beta1.CloneSet
	pods      map[string]corev1.Pod
	claims    map[string]corev1.PersistentVolumeClaim
	revisions map[string]appsv1.ControllerRevision
}

func (c *taken) state() state {
	c.Helper()
	s := state{map[string]v1beta1.CloneSet{}, map[string]corev1.Pod{}, map[string]corev1.PersistentVolumeClaim{},
		map[string]appsv1.ControllerRevision{}}
	var cloneSets v1beta1.CloneSetList
	c.must(c.List(c.Context(), &cloneSets, client.InNamespace(c.namespace)))
	for _, cs := range cloneSets.Items {
		s.cloneSets[cs.Name] = cs
	}
	var pods corev1.PodList
	c.must(c.List(c.Context(), &pods, client.InNamespace(c.namespace)))
	for _, pod := range pods.Items {
		s.pods[pod.Name] = pod
	}
	var claims corev1.PersistentVolumeClaimList
	c.must(c.List(c.Context(), &claims, client.InNamespace(c.namespace)))
	for _, claim := range claims.Items {
		s.claims[claim.Name] = claim
	}
	var revisions appsv1.ControllerRevisionList
	c.must(c.List(c.Context(), &revisions, client.InNamespace(c.namespace)))
	for _, revision := range revisions.Items {
		s.revisions[revision.Name] = revision
	}
	return s
}

// nothingHappens starts the controller and fails if it does more than to write conditions.
func (c *taken) nothingHappens() {
	c.Helper()
	before := c.state()
	if len(before.cloneSets) != len(c.recorded.of("CloneSet")) || len(before.pods) != len(c.recorded.of("Pod")) ||
		len(before.revisions) != len(c.recorded.of("ControllerRevision")) ||
		len(before.claims) != len(c.recorded.of("PersistentVolumeClaim")) {
		c.Fatal("not everything was loaded")
	}
	c.start()
	count := func() map[string]int {
		writes := map[string]int{}
		for _, write := range c.writes(0) {
			writes[strings.SplitN(write, "?", 2)[0]]++
		}
		return writes
	}
	statusOf := func(name string) string {
		return "patch /apis/apps.kruise.io/v1beta1/namespaces/" + c.namespace + "/clonesets/" + name + "/status"
	}
	for name := range before.cloneSets {
		c.eventually(name+" is looked at", func() string { return lacksConditions(c.cloneSet(name)) })
		c.eventually("the audit log tells of the status of "+name, func() string { // a line is written after what it tells of
			if count()[statusOf(name)] == 0 {
				return "not yet"
			}
			return ""
		})
	}
	select {
	case <-time.After(quiet):
	case <-c.Context().Done():
	}
	writes := count()
	for name := range before.cloneSets {
		if n := writes[statusOf(name)]; n != 1 {
			c.Errorf("the status of %s was written %d times, want once: what is read afterwards is what was written", name, n)
		}
		delete(writes, statusOf(name))
	}
	if len(writes) > 0 {
		c.Errorf("the controller wrote more than status: %v", writes)
	}
	c.expectSameState(before, c.state())
}

func lacksConditions(cs *v1beta1.CloneSet) string {
	for _, want := range []v1beta1.CloneSetConditionType{v1beta1.ConditionReady, v1beta1.ConditionReconciling,
		v1beta1.ConditionStalled} {
		if !slices.ContainsFunc(cs.Status.Conditions, func(c v1beta1.CloneSetCondition) bool { return c.Type == want }) {
			return fmt.Sprintf("it has no condition %s", want)
		}
	}
	return ""
}

func (c *taken) expectSameState(before, after state) {
	c.Helper()
	for name, cs := range before.cloneSets {
		is := after.cloneSets[name]
		was := c.recorded.cloneSet(name).Status
		status := is.Status
		was.Conditions, status.Conditions = nil, nil
		if !equality.Semantic.DeepEqual(was, status) {
			c.Errorf("the status of %s was recorded as %+v, is %+v", name, was, status)
		}
		if is.Generation != cs.Generation || !equality.Semantic.DeepEqual(is.Labels, cs.Labels) ||
			!equality.Semantic.DeepEqual(is.Annotations, cs.Annotations) {
			c.Errorf("CloneSet %s changed", name)
		}
		for _, condition := range is.Status.Conditions {
			if condition.Type == v1beta1.ConditionStalled && condition.Status != corev1.ConditionFalse {
				c.Errorf("CloneSet %s is stalled: %s", name, condition.Message)
			}
		}
	}
	for name, pod := range before.pods {
		is := after.pods[name]
		if pod.Spec.NodeName == "" {
			is.ResourceVersion = pod.ResourceVersion // the scheduler says again and again why it has no place
		}
		if is.UID != pod.UID || is.ResourceVersion != pod.ResourceVersion {
			c.Errorf("pod %s changed from %+v to %+v", name, pod, is)
		}
	}
	for name, claim := range before.claims {
		if after.claims[name].ResourceVersion != claim.ResourceVersion {
			c.Errorf("claim %s changed", name)
		}
	}
	for name, revision := range before.revisions {
		if after.revisions[name].ResourceVersion != revision.ResourceVersion {
			c.Errorf("revision %s changed", name)
		}
	}
	if len(after.pods) != len(before.pods) || len(after.claims) != len(before.claims) ||
		len(after.revisions) != len(before.revisions) {
		c.Errorf("%d pods, %d claims, %d revisions became %d, %d, %d", len(before.pods), len(before.claims),
			len(before.revisions),
			len(after.pods), len(after.claims), len(after.revisions))
	}
}

func (c *taken) cloneSet(name string) *v1beta1.CloneSet {
	c.Helper()
	cs := &v1beta1.CloneSet{}
	c.must(c.Get(c.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, cs))
	return cs
}
