package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/rollout"
)

// owned gives the pod a controller: "group/version Kind name".
func owned(pod *corev1.Pod, owner string) {
	if owner == "" {
		return
	}
	parts := strings.Fields(owner)
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: parts[0], Kind: parts[1], Name: parts[2],
		UID: types.UID(parts[2]), Controller: new(true)}}
}

func TestOwner(t *testing.T) {
	for owner, want := range map[string]bool{
		"": false, "apps/v1 ReplicaSet a": true, "apps/v1 StatefulSet a": true, "apps/v1 DaemonSet a": true,
		"apps.kruise.io/v1alpha1 CloneSet a": true, "apps.kruise.io/v1beta1 StatefulSet a": true,
		"apps.kruise.io/v1beta1 DaemonSet a": true, "batch/v1 Job a": false, "apps.kruise.io/v1beta1 BroadcastJob a": false,
		"v1 Node a": false, "example.com/v1 StatefulSet a": false,
	} {
		pod := &corev1.Pod{}
		owned(pod, owner)
		if got := rollout.Owner(pod) != nil; got != want {
			t.Errorf("%q creates its pods again: %t", owner, got)
		}
	}
}

// restart gives the pods the current revision, and they are not ready yet.
func restart(w *world, set *rollout.Set, pods ...*corev1.Pod) {
	for _, pod := range pods {
		like := w.pod(set, pod.Name, pod.Labels)
		pod.Annotations, pod.Spec = like.Annotations, like.Spec
		w.pods = w.pods[:len(w.pods)-1]
		w.ready(pod, corev1.ConditionFalse)
	}
}

func TestRecreate(t *testing.T) {
	const command = "containers: [{name: log, image: 'log:1', command: [a]}]"
	for _, tt := range []struct {
		name, spec string
		owners     []string
		change     func(w *world, set *rollout.Set)
		want       string
	}{
		{name: "one of each workload", spec: "{" + command + ", updateStrategy: {maxUnavailable: 9}}",
			owners: []string{"a", "a", "b", "b"}, want: "web-0 web-2"},
		{name: "as many as may be unavailable", spec: "{" + command + "}", owners: []string{"a", "b", "c"}, want: "web-0"},
		{name: "without being asked to", spec: "{" + command + "}", owners: []string{"a"},
			change: func(_ *world, set *rollout.Set) { set.Recreate = false }},
		{name: "bare pods stay", spec: "{" + command + "}", owners: []string{"", "a"}, want: "web-1"},
		{name: "a partition", spec: "{" + command + ", updateStrategy: {partition: 2, maxUnavailable: 9}}",
			owners: []string{"a", "b", "c"}, want: "web-0"},
		{name: "all are kept", spec: "{" + command + ", updateStrategy: {partition: 100%}}", owners: []string{"a", "b"}},
		{name: "some are selected", spec: "{" + command + ", updateStrategy: {selector: {matchLabels: {i: '1'}}}}",
			owners: []string{"a", "b"}, want: "web-1"},
		{name: "paused", spec: "{" + command + ", updateStrategy: {paused: true}}", owners: []string{"a"}},
		{name: "not updated", spec: "{" + command + ", updateStrategy: {type: NotUpdate}}", owners: []string{"a"}},
		{name: "a workload that has not replaced one", spec: "{" + command + ", updateStrategy: {maxUnavailable: 2}}",
			owners: []string{"a", "a", "b", "c"}, want: "web-2",
			change: func(_ *world, set *rollout.Set) { set.InFlight = map[types.UID]bool{"a": true} }},
		{name: "none may be unavailable any more", spec: "{" + command + "}", owners: []string{"a", "b"},
			change: func(_ *world, set *rollout.Set) { set.InFlight = map[types.UID]bool{"z": true} }},
		{name: "others of it restart beside the one that it replaces",
			spec: "{" + command + ", updateStrategy: {maxUnavailable: 3}}", owners: []string{"a", "a", "a", "b", "c"},
			change: func(w *world, set *rollout.Set) {
				set.InFlight = map[types.UID]bool{"a": true}
				restart(w, set, w.pods[:3]...)
			}},
		{name: "the new pod of it is not ready", spec: "{" + command + ", updateStrategy: {maxUnavailable: 3}}",
			owners: []string{"a", "a", "a", "b", "c"}, want: "web-3",
			change: func(w *world, set *rollout.Set) {
				set.InFlight = map[types.UID]bool{"a": true}
				restart(w, set, w.pods[:2]...)
			}},
		{name: "one that an agent before evicted is on its way out",
			spec: "{" + command + ", flotilla: {recreate: IfNeeded}}", owners: []string{"a", "b"},
			change: func(w *world, _ *rollout.Set) { w.pods[0].DeletionTimestamp = new(metav1.NewTime(w.now)) }},
		{name: "it is the one in flight", want: "web-1", owners: []string{"a", "b"},
			spec: "{" + command + ", flotilla: {recreate: IfNeeded}, updateStrategy: {maxUnavailable: 2}}",
			change: func(w *world, set *rollout.Set) {
				w.pods[0].DeletionTimestamp = new(metav1.NewTime(w.now))
				set.InFlight = map[types.UID]bool{"a": true}
			}},
		{name: "its node is away", spec: "{" + command + ", flotilla: {recreate: IfNeeded}}",
			owners: []string{"a", "b"}, want: "web-1",
			change: func(w *world, _ *rollout.Set) {
				w.pods[0].DeletionTimestamp = new(metav1.NewTime(w.now.Add(-time.Hour)))
			}},
		{name: "a held one", spec: "{" + command + "}", owners: []string{"a", "b"}, want: "web-1",
			change: func(_ *world, set *rollout.Set) { set.Held = map[types.UID]bool{"web-0": true} }},
		{name: "one that was refused comes last", spec: "{" + command + "}", owners: []string{"a", "b"}, want: "web-1",
			change: func(w *world, set *rollout.Set) { set.Refused = map[types.UID]time.Time{"web-0": w.now} }},
		{name: "all pods of a workload that was refused do", spec: "{" + command + "}", owners: []string{"a", "a", "b"},
			want: "web-2", change: func(w *world, set *rollout.Set) { set.Refused = map[types.UID]time.Time{"a": w.now} }},
		{name: "the one that was refused first goes first", spec: "{" + command + "}", owners: []string{"a", "b"},
			want: "web-1", change: func(w *world, set *rollout.Set) {
				set.Refused = map[types.UID]time.Time{"web-0": w.now, "web-1": w.now.Add(-time.Second)}
			}},
		{name: "one that was refused goes alone", spec: "{" + command + "}", owners: []string{"a"}, want: "web-0",
			change: func(w *world, set *rollout.Set) { set.Refused = map[types.UID]time.Time{"web-0": w.now} }},
		{name: "one that is not ready is free", spec: "{" + command + "}", owners: []string{"a", "b"}, want: "web-1 web-0",
			change: func(w *world, _ *rollout.Set) { w.ready(w.pods[1], corev1.ConditionFalse) }},
		{name: "images go in place", spec: "{" + two + "}", owners: []string{"a", "b"}},
		{name: "a pod without the sidecars", spec: "{" + one + "}", owners: []string{"a", "b"}, want: "web-1",
			change: func(w *world, set *rollout.Set) {
				w.pods[1].Annotations = nil
				set.Missing = w.pods[1:]
			}},
		{name: "it is in no partition", owners: []string{"a", "b", "c"}, want: "web-2",
			spec: "{" + command + ", updateStrategy: {partition: 2, maxUnavailable: 9}}",
			change: func(w *world, set *rollout.Set) {
				w.pods[2].Annotations = nil
				set.Missing = w.pods[2:]
			}},
		{name: "it goes where all are kept, within room", owners: []string{"a", "b", "c"}, want: "web-1",
			spec: "{" + command + ", updateStrategy: {partition: 100%}}",
			change: func(w *world, set *rollout.Set) {
				w.pods[1].Annotations, w.pods[2].Annotations = nil, nil
				set.Missing = w.pods[1:]
			}},
		{name: "a share of pods of which none has the sidecars", owners: []string{"a", "b"}, want: "web-0",
			spec: "{" + command + ", updateStrategy: {maxUnavailable: 10%}}",
			change: func(w *world, set *rollout.Set) {
				w.pods[0].Annotations, w.pods[1].Annotations = nil, nil
				set.Missing = w.pods
			}},
		{name: "a share is of the pods with those that are away", owners: []string{"a", "b", "c"}, want: "web-0",
			spec: "{" + command + ", updateStrategy: {partition: 50%, maxUnavailable: 9}}",
			change: func(_ *world, set *rollout.Set) {
				set.InFlight, set.Absent = map[types.UID]bool{"z": true}, 1
			}},
		{name: "a share is kept while many are away", owners: []string{"a", "b", "c"},
			spec: "{" + command + ", updateStrategy: {partition: 50%, maxUnavailable: 9}}",
			change: func(_ *world, set *rollout.Set) {
				set.InFlight, set.Absent = map[types.UID]bool{"x": true, "y": true, "z": true}, 3
			}},
		{name: "a bare pod without the sidecars", spec: "{" + one + "}", owners: []string{""},
			change: func(w *world, set *rollout.Set) {
				w.pods[0].Annotations = nil
				set.Missing = w.pods
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			for i, owner := range tt.owners {
				pod := w.pod(setOf(t, 1, "{"+one+"}"), fmt.Sprint("web-", i), map[string]string{"i": fmt.Sprint(i)})
				pod.CreationTimestamp = metav1.NewTime(w.now.Add(time.Duration(-i) * time.Second))
				if owner != "" {
					owned(pod, "apps/v1 ReplicaSet "+owner)
				}
			}
			set := setOf(t, 2, tt.spec)
			set.Recreate = true
			if tt.change != nil {
				tt.change(w, set)
			}
			var got []string
			for _, pod := range w.pass(set).Recreate {
				got = append(got, pod.Name)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("evicted %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWorkload(t *testing.T) {
	const steady = "metadata: {generation: 2, name: a}, status: {observedGeneration: 2, replicas: 2, readyReplicas: 2, " +
		"updatedReplicas: 2}, spec: {replicas: 2"
	for _, tt := range []struct {
		name, object string
		unready      []int
		pods         int
		want         string
	}{
		{name: "all are ready", object: "{kind: CloneSet, " + steady + "}}", pods: 2},
		{name: "another one is not ready", object: "{kind: CloneSet, " + steady + "}}", pods: 2, unready: []int{1},
			want: "CloneSet a: 0 of 1 other pods are ready, all must be"},
		{name: "the status is older than an eviction", object: "{kind: CloneSet, " + steady + "}}", pods: 1,
			want: "CloneSet a: 0 of 1 other pods are ready"},
		{name: "the status is behind", object: "{kind: CloneSet, metadata: {name: a}, spec: {replicas: 2}, " +
			"status: {replicas: 2, readyReplicas: 1, updatedReplicas: 2}}", pods: 2,
			want: "CloneSet a: 0 of 1 other pods are ready"},
		{name: "the pod serves nobody", object: "{kind: CloneSet, metadata: {name: a}, spec: {replicas: 2}, " +
			"status: {replicas: 2, readyReplicas: 1, updatedReplicas: 2}}", pods: 2, unready: []int{0}},
		{name: "a change is not seen yet", object: "{kind: CloneSet, metadata: {name: a, generation: 3}, " +
			"spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 2, readyReplicas: 2}}", pods: 2,
			want: "has not acted on its latest change"},
		{name: "it scales", object: "{kind: StatefulSet, metadata: {name: a}, spec: {replicas: 3}, " +
			"status: {replicas: 2, readyReplicas: 2}}", pods: 2, want: "it has 2 pods and is to have 3"},
		{name: "a rollout", object: "{kind: Deployment, metadata: {name: a}, spec: {replicas: 2}, " +
			"status: {replicas: 2, readyReplicas: 2, updatedReplicas: 1}}", pods: 2, want: "Deployment a: it is being updated"},
		{name: "none may be unavailable", object: "{kind: Deployment, " + steady +
			", strategy: {rollingUpdate: {maxUnavailable: 0}}}}", pods: 2, want: "its maxUnavailable is 0"},
		{name: "few pods of which a share may be", object: "{kind: Deployment, " + steady +
			", strategy: {rollingUpdate: {maxUnavailable: 25%}}}}", pods: 2},
		{name: "no percent", object: "{kind: CloneSet, " + steady + ", updateStrategy: {maxUnavailable: 0%}}}", pods: 2,
			want: "its maxUnavailable is 0"},
		{name: "a hook", object: "{kind: CloneSet, " + steady + ", lifecycle: {preDelete: {labelsHandler: {a: b}}}}}",
			pods: 2, want: "it has a preDelete hook"},
		{name: "a DaemonSet", object: "{kind: DaemonSet, metadata: {name: a}, status: {desiredNumberScheduled: 2, " +
			"currentNumberScheduled: 2, numberReady: 2, updatedNumberScheduled: 2}}", pods: 2},
		{name: "a rollout of a DaemonSet", object: "{kind: DaemonSet, metadata: {name: a}, status: " +
			"{desiredNumberScheduled: 2, currentNumberScheduled: 2, numberReady: 2, updatedNumberScheduled: 1}}", pods: 2,
			want: "DaemonSet a: it is being updated"},
		{name: "a rollout of a StatefulSet", object: "{kind: StatefulSet, metadata: {name: a}, spec: {replicas: 2}, " +
			"status: {replicas: 2, readyReplicas: 2, updatedReplicas: 1}}", pods: 2,
			want: "StatefulSet a: it is being updated"},
		{name: "a partition of a CloneSet", object: "{kind: CloneSet, metadata: {name: a}, spec: {replicas: 2}, " +
			"status: {replicas: 2, readyReplicas: 2, updatedReplicas: 1}}", pods: 2,
			want: "or keeps pods of an older revision"},
		{name: "one replica", object: "{kind: ReplicaSet, metadata: {name: a}, status: {replicas: 1, readyReplicas: 1}}",
			pods: 1},
		{name: "values of other types", object: "{kind: CloneSet, metadata: {name: a}, spec: {replicas: many}, status: 1}",
			pods: 1, want: "it has 0 pods"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			data, err := yaml.YAMLToJSON([]byte(tt.object))
			if err == nil {
				err = object.UnmarshalJSON(data)
			}
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t)
			for i := range tt.pods {
				w.pod(setOf(t, 1, "{"+one+"}"), fmt.Sprint("web-", i), nil)
				if slices.Contains(tt.unready, i) {
					w.ready(w.pods[i], corev1.ConditionFalse)
				}
			}
			got := rollout.WorkloadOf(object).Refuses(w.pods[0], w.pods)
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestComplete: a workload whose pod is merely gone has not replaced it.
func TestComplete(t *testing.T) {
	for _, tt := range []struct {
		name          string
		desired, said int64
		pods          int
		want          bool
	}{
		{name: "the only pod is gone", desired: 1, said: 1},
		{name: "it is to have none", want: true},
		{name: "the new pod is ready", desired: 1, said: 1, pods: 1, want: true},
		{name: "its controller has not seen that", desired: 1, pods: 1},
	} {
		w := newWorld(t)
		for i := range tt.pods {
			w.pod(setOf(t, 1, "{"+one+"}"), fmt.Sprint("web-", i), nil)
		}
		if got := (rollout.Workload{Desired: tt.desired, Ready: tt.said}).Complete(w.pods); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

// TestLike: a new pod like one that runs has the labels of the template, and nothing of a SidecarSet, of the scheduler,
// or of what the API server sets.
func TestLike(t *testing.T) {
	w := newWorld(t)
	set := setOf(t, 1, "{"+one+", initContainers: [{name: net, image: i, restartPolicy: Always}]}")
	pod := w.pod(set, "web", map[string]string{"app": "web", "role": "master", "pod-template-hash": "5"})
	pod.Annotations["mine"] = "kept"
	pod.Spec.Priority = new(int32(5))
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}}
	object := &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(`{kind: Deployment, spec: {template: {metadata: {labels: {app: web},
		annotations: {of: template}}}}}`), &object.Object)
	if err != nil {
		t.Fatal(err)
	}
	workload := rollout.WorkloadOf(object)
	like := rollout.Like(pod, &workload)
	if len(like.Spec.Containers) != 1 || like.Spec.Containers[0].Name != "app" || len(like.Spec.InitContainers) != 0 ||
		like.Spec.NodeName != "" || like.Spec.Priority != nil || like.Spec.EphemeralContainers != nil ||
		like.Name != "" || like.UID != "" || like.GenerateName != "web-" || marks.Injected(like, "logs") ||
		fmt.Sprint(like.Annotations) != "map[of:template]" ||
		fmt.Sprint(like.Labels) != "map[app:web pod-template-hash:5]" {
		t.Errorf("%+v", like)
	}
	if len(pod.Spec.Containers) != 2 || !marks.Injected(pod, "logs") {
		t.Error("the pod itself has changed")
	}
	if len(workload.Labels) != 1 || len(workload.Annotations) != 1 {
		t.Error("the template has changed")
	}
	if err := inject.Pod(like, nil, inject.Allowed{}, w.now); err != nil {
		t.Error(err)
	}
}

// TestCurrent: a pod is current with all sidecars of the revision, whatever it says.
func TestCurrent(t *testing.T) {
	w, set := newWorld(t), setOf(t, 1, "{"+one+", initContainers: [{name: net, image: i, restartPolicy: Always}]}")
	for name, tt := range map[string]struct {
		edit func(*corev1.Pod)
		want bool
	}{
		"all of it":        {func(*corev1.Pod) {}, true},
		"a container less": {func(p *corev1.Pod) { p.Spec.InitContainers = nil }, false},
		"without marks":    {func(p *corev1.Pod) { p.Annotations = nil }, false},
	} {
		pod := w.pod(set, "web", nil)
		tt.edit(pod)
		if got := rollout.Current(pod, set.Name, set.Spec, set.Hashes); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
		if rollout.Current(pod, set.Name, set.Spec, setOf(t, 2, "{"+two+"}").Hashes) {
			t.Errorf("%s: it has another revision", name)
		}
	}
}
