package rollout_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/rollout"
)

// setOf makes a Set of the spec.
func setOf(t *testing.T, version int, text string) *rollout.Set {
	t.Helper()
	spec := &v1beta1.SidecarSetSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), spec); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	hashes, err := revision.HashesOf(spec)
	if err != nil {
		t.Fatal(err)
	}
	return &rollout.Set{Name: "logs", Spec: spec, Hashes: hashes, Revision: fmt.Sprint("logs-", version),
		Version: fmt.Sprint(version)}
}

// world is pods, with kubelets that run their images.
type world struct {
	*testing.T
	pods []*corev1.Pod
	now  time.Time
}

// pod creates a pod with the sidecars of the set, which runs and is ready.
func (w *world) pod(set *rollout.Set, name string, podLabels map[string]string) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), Labels: podLabels},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "app", Image: "app:1"}}}}
	err := inject.Pod(pod, []inject.Set{{Name: set.Name, Spec: set.Spec, Hashes: set.Hashes, Revision: set.Revision}},
		inject.Allowed{}, w.now)
	if err != nil {
		w.Fatal(err)
	}
	w.kubelet(pod)
	w.pods = append(w.pods, pod)
	return pod
}

// kubelet has the pod run what it asks for. Images that end in "broken" cannot be pulled.
func (w *world) kubelet(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	ready := corev1.ConditionTrue
	run := func(containers []corev1.Container, statuses *[]corev1.ContainerStatus) {
		for _, c := range containers {
			at := slices.IndexFunc(*statuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
			if at < 0 {
				*statuses, at = append(*statuses, corev1.ContainerStatus{Name: c.Name}), len(*statuses)
			}
			status := &(*statuses)[at]
			if strings.HasSuffix(c.Image, "broken") {
				status.Ready, ready = false, corev1.ConditionFalse
				continue
			}
			status.Image, status.ImageID, status.Ready = c.Image, "id/"+c.Image, true
		}
	}
	run(pod.Spec.Containers, &pod.Status.ContainerStatuses)
	run(pod.Spec.InitContainers, &pod.Status.InitContainerStatuses)
	w.ready(pod, ready)
}

func (w *world) ready(pod *corev1.Pod, is corev1.ConditionStatus) {
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions,
		func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: is})
}

// pass plans and writes, and returns the plan.
func (w *world) pass(set *rollout.Set) rollout.Plan {
	w.Helper()
	plan, err := rollout.PlanOf(set, w.pods, inject.Allowed{}, w.now)
	if err != nil {
		w.Fatal(err)
	}
	for _, write := range plan.Writes {
		before := len(write.Pod.Spec.Containers)
		for _, patch := range [][]byte{write.Patch, write.Condition} {
			if patch != nil {
				w.patch(write.Pod, patch)
			}
		}
		if len(write.Pod.Spec.Containers) != before {
			w.Fatalf("%s added a container", write.Patch)
		}
	}
	return plan
}

func (w *world) patch(pod *corev1.Pod, patch []byte) {
	w.Helper()
	data, err := json.Marshal(pod)
	if err == nil {
		data, err = strategicpatch.StrategicMergePatch(data, patch, corev1.Pod{})
	}
	var out corev1.Pod
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		w.Fatalf("%s: %v", patch, err)
	}
	*pod = out
}

// images are those of a container in each pod.
func (w *world) images(name string) string {
	var out []string
	for _, pod := range w.pods {
		for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			if c.Name == name {
				out = append(out, c.Image)
			}
		}
	}
	return strings.Join(out, " ")
}

func newWorld(t *testing.T) *world { return &world{T: t, now: time.Unix(1000, 0)} }

const (
	one = "containers: [{name: log, image: 'log:1'}]"
	two = "containers: [{name: log, image: 'log:2'}]"
)

func TestRollout(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		change     func(w *world)
		passes     int
		want       string
	}{
		{"one by one", "{" + two + "}", nil, 1, "log:1 log:1 log:1 log:2"},
		{"to the end", "{" + two + "}", nil, 4, "log:2 log:2 log:2 log:2"},
		{"half at once", "{" + two + ", updateStrategy: {maxUnavailable: 50%}}", nil, 1, "log:1 log:1 log:2 log:2"},
		{"partition", "{" + two + ", updateStrategy: {partition: 3}}", nil, 5, "log:1 log:1 log:1 log:2"},
		{"partition in percent", "{" + two + ", updateStrategy: {partition: 26%}}", nil, 5, "log:1 log:1 log:2 log:2"},
		{"paused", "{" + two + ", updateStrategy: {paused: true}}", nil, 5, "log:1 log:1 log:1 log:1"},
		{"not updated", "{" + two + ", updateStrategy: {type: NotUpdate}}", nil, 5, "log:1 log:1 log:1 log:1"},
		{"selected", "{" + two + ", updateStrategy: {selector: {matchLabels: {i: '2'}}}}", nil, 5, "log:1 log:1 log:2 log:1"},
		{"more than the image", "{containers: [{name: log, image: 'log:2', command: [a]}]}", nil, 5,
			"log:1 log:1 log:1 log:1"},
		{"priority", "{" + two + ", updateStrategy: {priorityStrategy: {orderPriority: [{orderedKey: i}]}}}", nil, 1,
			"log:1 log:1 log:1 log:2"},
		{"pods that are not ready are free", "{" + two + "}", func(w *world) {
			w.ready(w.pods[0], corev1.ConditionFalse)
			w.ready(w.pods[1], corev1.ConditionFalse)
		}, 1, "log:2 log:2 log:1 log:1"},
		{"the image cannot be pulled", "{containers: [{name: log, image: 'log:broken'}]}", nil, 5,
			"log:1 log:1 log:1 log:broken"},
		{"a pod without the sidecars", "{" + two + "}", func(w *world) { w.pods[3].Annotations = nil }, 5,
			"log:2 log:2 log:2 log:1"},
		{"a pod without its container", "{" + two + "}", func(w *world) { w.pods[3].Spec.Containers = nil }, 5,
			"log:2 log:2 log:2"},
		{"a pod that has ended", "{" + two + "}", func(w *world) { w.pods[3].Status.Phase = corev1.PodSucceeded }, 1,
			"log:1 log:1 log:2 log:1"},
		{"scattered over all values", "{" + two + ", updateStrategy: {maxUnavailable: 2, scatterStrategy: " +
			"[{key: half, value: '*'}]}}", nil, 1, "log:1 log:2 log:1 log:2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			for i := range 4 {
				w.pod(setOf(t, 1, "{"+one+"}"), fmt.Sprint("web-", 9-i),
					map[string]string{"i": fmt.Sprint(i), "half": fmt.Sprint(i / 2)})
			}
			if tt.change != nil {
				tt.change(w)
			}
			for pass := range tt.passes {
				w.pass(setOf(t, 2, tt.spec))
				for _, pod := range w.pods {
					if pass+1 < tt.passes && pod.Status.Phase == corev1.PodRunning {
						w.kubelet(pod)
					}
				}
			}
			if got := w.images("log"); got != tt.want {
				t.Errorf("images %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCounts(t *testing.T) {
	w, old, updated := newWorld(t), setOf(t, 1, "{"+one+"}"), setOf(t, 2, "{"+two+"}")
	for i := range 3 {
		w.pod(old, fmt.Sprint("web-", i), nil)
	}
	if got := w.pass(updated); got.Counts != (rollout.Counts{Matched: 3, Ready: 3}) || got.Pending != 2 {
		t.Errorf("at first %+v", got)
	}
	// The kubelet has not restarted the container yet.
	if got := w.pass(updated); got.Counts != (rollout.Counts{Matched: 3, Updated: 1, Ready: 2}) || len(got.Writes) > 0 {
		t.Errorf("during the restart %+v", got)
	}
	for range 4 {
		for _, pod := range w.pods {
			w.kubelet(pod)
		}
		w.pass(updated)
	}
	got := w.pass(updated)
	if got.Counts != (rollout.Counts{Matched: 3, Updated: 3, Ready: 3, UpdatedReady: 3}) || len(got.Writes) > 0 {
		t.Errorf("at last %+v", got)
	}
	hashes, name := marks.Of(w.pods[0], "logs")
	if hashes != updated.Hashes || name != "logs-2" {
		t.Errorf("the pod says %v of %s", hashes, name)
	}
	if last := marks.States(w.pods[0])["logs"].LastContainerStatuses["log"]; last.ImageID != "id/log:1" {
		t.Errorf("the pod says that it ran %v", last)
	}
}

func TestUpgradableCondition(t *testing.T) {
	w := newWorld(t)
	pod := w.pod(setOf(t, 1, "{"+one+"}"), "web", nil)
	condition := func() string {
		for _, c := range pod.Status.Conditions {
			if c.Type == v1beta1.SidecarSetUpgradable {
				return fmt.Sprint(c.Status, " ", c.Reason, " ", c.Message)
			}
		}
		return ""
	}
	if w.pass(setOf(t, 1, "{"+one+"}")); condition() != "" {
		t.Errorf("before an update %s", condition())
	}
	plan := w.pass(setOf(t, 2, "{containers: [{name: log, image: 'log:2', command: [a]}]}"))
	if got := condition(); got != `False UpdateImmutableField {"logs":false}` ||
		!slices.Equal(plan.NotUpgradable, []string{"shop/web"}) {
		t.Errorf("%s, %q", got, plan.NotUpgradable)
	}
	if plan := w.pass(setOf(t, 2, "{containers: [{name: log, image: 'log:2', command: [a]}]}")); len(plan.Writes) > 0 {
		t.Errorf("written twice: %s", plan.Writes[0].Condition)
	}
	w.pass(setOf(t, 3, "{"+two+"}"))
	if got := condition(); got != `True AllSidecarsetUpgradable {"logs":true}` {
		t.Errorf("after an update %s", got)
	}
}

const hot = "{containers: [{name: log, image: 'log:%d', upgradeStrategy: {upgradeType: HotUpgrade, " +
	"hotUpgradeEmptyImage: empty}}]}"

func TestHotUpgrade(t *testing.T) {
	w := newWorld(t)
	pod := w.pod(setOf(t, 1, fmt.Sprintf(hot, 1)), "web", nil)
	says := func() string {
		return fmt.Sprint(w.images("log-1"), " ", w.images("log-2"), " ", marks.Working(pod)["log"],
			" ", pod.Annotations["version.sidecarset.kruise.io/log-1"], pod.Annotations["versionalt.sidecarset.kruise.io/log-1"],
			" ", pod.Annotations["version.sidecarset.kruise.io/log-2"], pod.Annotations["versionalt.sidecarset.kruise.io/log-2"])
	}
	set := setOf(t, 7, fmt.Sprintf(hot, 2))
	for i, want := range []string{
		"log:1 log:2 log-2 17 71", "empty log:2 log-2 07 70", "empty log:2 log-2 07 70",
	} {
		w.pass(set)
		if got := says(); got != want {
			t.Errorf("pass %d: %s, want %s", i, got, want)
		}
		if i == 0 {
			if w.pass(set); says() != want {
				t.Errorf("emptied before the new container runs: %s", says())
			}
		}
		w.kubelet(pod)
	}
	set = setOf(t, 9, fmt.Sprintf(hot, 3))
	for _, want := range []string{"log:3 log:2 log-1 97 79", "log:3 empty log-1 90 09"} {
		w.pass(set)
		if got := says(); got != want {
			t.Errorf("back: %s, want %s", got, want)
		}
		w.kubelet(pod)
	}
}

func TestNativeSidecar(t *testing.T) {
	w := newWorld(t)
	const native = "{initContainers: [{name: log, image: 'log:%d', restartPolicy: Always}, {name: init, image: 'i:%d'}]}"
	w.pod(setOf(t, 1, fmt.Sprintf(native, 1, 1)), "web", nil)
	w.pass(setOf(t, 2, fmt.Sprintf(native, 2, 2)))
	if got := w.images("log") + " " + w.images("init"); got != "log:2 i:1" {
		t.Errorf("images %s", got)
	}
}

// TestLimits plays updates of random pods: at no time are more pods unavailable because of us than allowed, and at the
// end all have the newest images that can be pulled.
func TestLimits(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		pods, most, partition := 1+random.IntN(12), 1+random.IntN(4), random.IntN(3)
		for i := range pods {
			w.pod(setOf(t, 1, "{"+one+"}"), fmt.Sprint("web-", i), nil)
		}
		var set *rollout.Set
		for step := range 200 {
			if step%30 == 0 && step < 120 {
				image := []string{"log:2", "log:broken", "log:3", "log:4"}[step/30]
				set = setOf(t, step, fmt.Sprintf(
					"{containers: [{name: log, image: '%s'}], updateStrategy: {maxUnavailable: %d, partition: %d}}",
					image, most, partition))
			}
			w.pass(set)
			restarting := 0
			for _, pod := range w.pods {
				if c := pod.Spec.Containers[0]; c.Image != pod.Status.ContainerStatuses[0].Image {
					restarting++
				}
			}
			if restarting > most {
				t.Fatalf("seed %d: %d pods restart at the same time, at most %d may", seed, restarting, most)
			}
			for _, pod := range w.pods {
				if random.IntN(3) == 0 {
					w.kubelet(pod)
				}
			}
		}
		if got, want := strings.Count(w.images("log"), "log:4"), pods-min(pods, partition); got < want {
			t.Fatalf("seed %d: %d of %d pods are updated, want %d: %s", seed, got, pods, want, w.images("log"))
		}
	}
}

// TestImagesAlone: whatever the tag is, a change of images reaches running pods in place.
func TestImagesAlone(t *testing.T) {
	const plain = "{containers: [{name: log, image: '%s'}]}"
	for _, tt := range []struct {
		name, from, to string
		// admitted is the pull policy that a plugin of the API server gives all pods.
		admitted corev1.PullPolicy
		want     bool
	}{
		{"latest becomes a tag", fmt.Sprintf(plain, "log:latest"), fmt.Sprintf(plain, "log:2"), "", true},
		{"a tag becomes latest", fmt.Sprintf(plain, "log:1"), fmt.Sprintf(plain, "log:latest"), "", true},
		{"no tag becomes a digest", fmt.Sprintf(plain, "log"), fmt.Sprintf(plain, "log@sha256:abc"), "", true},
		{"all pods pull always", fmt.Sprintf(plain, "log:1"), fmt.Sprintf(plain, "log:latest"), corev1.PullAlways, true},
		{"a native sidecar", "{initContainers: [{name: log, image: 'log:latest', restartPolicy: Always}]}",
			"{initContainers: [{name: log, image: 'log:2', restartPolicy: Always}]}", "", true},
		{"two containers", "{containers: [{name: log, image: log}, {name: b, image: 'b:1'}]}",
			"{containers: [{name: log, image: 'log:2'}, {name: b, image: b}]}", "", true},
		{"another pull policy", "{containers: [{name: log, image: 'log:1'}]}",
			"{containers: [{name: log, image: 'log:2', imagePullPolicy: Never}]}", "", false},
		{"latest and another command", fmt.Sprintf(plain, "log:latest"),
			"{containers: [{name: log, image: 'log:2', command: [a]}]}", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			pod := w.pod(setOf(t, 1, tt.from), "web", nil)
			for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
				for i := range list { // as the API server does
					list[i].ImagePullPolicy = corev1.PullIfNotPresent
					if strings.HasSuffix(list[i].Image, ":latest") || !strings.Contains(list[i].Image, ":") {
						list[i].ImagePullPolicy = corev1.PullAlways
					}
					list[i].ImagePullPolicy = cmp.Or(tt.admitted, list[i].ImagePullPolicy)
				}
			}
			if _, err := podset.Slim(pod); err != nil { // as in the cache
				t.Fatal(err)
			}
			for range 2 {
				w.pass(setOf(t, 2, tt.to))
				w.kubelet(pod)
			}
			plan := w.pass(setOf(t, 2, tt.to))
			if got := plan.Counts.Updated == 1 && len(plan.NotUpgradable) == 0; got != tt.want {
				t.Errorf("the change reaches the pod: %t, want %t; %+v", got, tt.want, plan)
			}
		})
	}
}

// TestPodsThatLackAContainer: they are counted, and are to be created anew.
func TestPodsThatLackAContainer(t *testing.T) {
	for name, spec := range map[string]string{
		"a native sidecar": "{" + one + ", initContainers: [{name: net, image: i, restartPolicy: Always}]}",
		"a container":      "{containers: [{name: log, image: 'log:1'}, {name: b, image: b}]}",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.pod(setOf(t, 1, "{"+one+"}"), "web", nil)
			plan := w.pass(setOf(t, 2, spec))
			if plan.Counts != (rollout.Counts{Matched: 1, Ready: 1}) ||
				!slices.Equal(plan.NotUpgradable, []string{"shop/web"}) {
				t.Errorf("%+v", plan)
			}
		})
	}
}

// TestHotUpgradeOfAHostilePod: whoever may change the pod writes which container works. What is written must be valid.
func TestHotUpgradeOfAHostilePod(t *testing.T) {
	for _, value := range []string{"", "{", `{"log":"a b/c!"}`, `{"log":""}`, `{"log":"app"}`, `{"log":"log-1"}`} {
		w := newWorld(t)
		pod := w.pod(setOf(t, 1, fmt.Sprintf(hot, 1)), "web", nil)
		pod.Annotations[v1beta1.AnnotationSidecarSetWorking] = value
		for range 3 {
			w.pass(setOf(t, 7, fmt.Sprintf(hot, 2)))
			w.kubelet(pod)
			for key := range pod.Annotations {
				if problems := validation.IsQualifiedName(key); len(problems) > 0 {
					t.Fatalf("%q: annotation %q: %v", value, key, problems)
				}
			}
		}
		if got := w.images("log-1") + " " + w.images("log-2"); got != "empty log:2" {
			t.Errorf("%q: images %s", value, got)
		}
	}
}

// TestHeldPods: pods that a budget keeps as they are leave their place to others, within the same limits.
func TestHeldPods(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		want       string
	}{
		{"one by one", "{" + two + "}", "log:1 log:1 log:1 log:2 log:1 log:1"},
		{"as many as may be unavailable", "{" + two + ", updateStrategy: {maxUnavailable: 3}}",
			"log:1 log:2 log:2 log:2 log:1 log:1"},
		{"a partition stays", "{" + two + ", updateStrategy: {maxUnavailable: 6, partition: 3}}",
			"log:1 log:1 log:1 log:2 log:1 log:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			for i := range 6 {
				w.pod(setOf(t, 1, "{"+one+"}"), fmt.Sprint("web-", 9-i), nil)
			}
			set := setOf(t, 2, tt.spec)
			set.Held = map[types.UID]bool{"web-4": true, "web-5": true} // the first two in the order
			plan := w.pass(set)
			if got := w.images("log"); got != tt.want || plan.Pending < 2 {
				t.Errorf("images %q, want %q; %d pods are pending", got, tt.want, plan.Pending)
			}
		})
	}
}
