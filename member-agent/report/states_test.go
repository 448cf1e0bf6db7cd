package report

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// markedPod returns a pod of the owner with a label that a probe set.
func markedPod(name, owner, role string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name,
		Labels: map[string]string{"app": "db", "role": role},
		Annotations: map[string]string{v1alpha1.AnnotationProbeMarks: fmt.Sprintf(
			`{"roles#leader":{"state":"Succeeded","labels":{"role":{"set":%q}},"condition":"x/leader"}}`, role)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: owner,
			UID: types.UID(owner), Controller: new(true)}}}}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func TestStatesOfProbesAreCounted(t *testing.T) {
	leads := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: "x/leader", Status: "True"}, {Type: "Ready", Status: "True"}}
	}
	pods := fake.NewClientBuilder().WithIndex(&corev1.Pod{}, markedIndex, indexMarked).WithObjects(
		markedPod("db-0", "db", "leader", leads), markedPod("db-1", "db", "follower"), markedPod("db-2", "db", "follower"),
		markedPod("ended", "db", "leader", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }),
		markedPod("other", "other", "leader"),
		markedPod("unmarked", "db", "leader", func(pod *corev1.Pod) { pod.Annotations = nil }),
	).Build()
	r := &Reconciler{Options: Options{Pods: pods, Kinds: kinds()}}
	live := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "shop", "name": "db", "uid": "db"},
		"spec":     map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "db"}}}}}
	live.SetGroupVersionKind(apps.CloneSetKind)
	got, err := r.states(t.Context(), live)
	if err != nil {
		t.Fatal(err)
	}
	if want := "[{role=follower 2} {role=leader 1} {x/leader=True 1}]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	if Same(work.WorkStatus{Report: &work.Report{States: got}}, work.WorkStatus{Report: &work.Report{}}) {
		t.Error("reports with other states are the same")
	}
}

func TestReportsHaveFewStates(t *testing.T) {
	counts := map[string]int32{}
	for i := range work.MostStates + 9 {
		counts[fmt.Sprintf("a=%03d", i)] = int32(i)
	}
	got := statesOf(counts)
	if len(got) != work.MostStates || got[0].State != "a=009" || got[len(got)-1].State != "a=072" {
		t.Errorf("%v", got)
	}
}

func TestChangedStatesAreReported(t *testing.T) {
	leader, follower := markedPod("db-0", "db", "leader"), markedPod("db-0", "db", "follower")
	plain := markedPod("db-0", "db", "leader", func(pod *corev1.Pod) { pod.Annotations = nil })
	ready := markedPod("db-0", "db", "leader", func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "True"}}
	})
	var got strings.Builder
	for _, pair := range [][2]*corev1.Pod{{leader, follower}, {leader, ready}, {plain, leader}, {leader, plain},
		{plain, plain}} {
		fmt.Fprint(&got, statesChanged().Update(event.UpdateEvent{ObjectOld: pair[0], ObjectNew: pair[1]}), " ")
	}
	if want := "true false true true false "; got.String() != want {
		t.Errorf("%s, want %s", got.String(), want)
	}
}
