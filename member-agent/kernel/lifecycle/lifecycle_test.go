package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
)

const (
	none            = v1beta1.LifecycleState("")
	preparingNormal = v1beta1.LifecyclePreparingNormal
	normal          = v1beta1.LifecycleNormal
	preparingUpdate = v1beta1.LifecyclePreparingUpdate
	updating        = v1beta1.LifecycleUpdating
	updated         = v1beta1.LifecycleUpdated
	preparingDelete = v1beta1.LifecyclePreparingDelete
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// hook returns a hook of two parts, a label and a finalizer, both named after it.
func hook(name string) *v1beta1.LifecycleHook {
	return &v1beta1.LifecycleHook{LabelsHandler: map[string]string{name: "held"},
		FinalizersHandler: []string{"example.io/" + name}}
}

func allHooks() *v1beta1.Lifecycle {
	return &v1beta1.Lifecycle{PreDelete: hook("delete"), InPlaceUpdate: hook("update"), PreNormal: hook("normal")}
}

// podIn returns a pod in the state, with the parts of the hooks named by held. The form "update/" is the label only.
func podIn(state v1beta1.LifecycleState, held ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-a",
		Labels: map[string]string{"app": "web"}}}
	if state != "" {
		pod.Labels[v1beta1.LabelLifecycleState] = string(state)
	}
	for _, name := range held {
		label, partial := name, name[len(name)-1] == '/'
		if partial {
			label = name[:len(name)-1]
		}
		pod.Labels[label] = "held"
		if !partial {
			pod.Finalizers = append(pod.Finalizers, "example.io/"+name)
		}
	}
	return pod
}

func TestInitialAndStamp(t *testing.T) {
	if got := lifecycle.Initial(nil); got != normal {
		t.Errorf("without hooks: %s", got)
	}
	if got := lifecycle.Initial(&v1beta1.Lifecycle{PreNormal: &v1beta1.LifecycleHook{},
		PreDelete: hook("delete")}); got != normal {
		t.Errorf("with an empty preNormal hook: %s", got)
	}
	labels, annotations := map[string]string{}, map[string]string{}
	lifecycle.Stamp(labels, annotations, lifecycle.Initial(allHooks()), now)
	if labels[v1beta1.LabelLifecycleState] != "PreparingNormal" ||
		annotations[v1beta1.AnnotationLifecycleTimestamp] != "2026-01-02T03:04:05Z" {
		t.Errorf("stamped %v %v", labels, annotations)
	}
}

func TestAvailable(t *testing.T) {
	for state, want := range map[v1beta1.LifecycleState]bool{
		none: true, normal: true, "Dancing": true,
		preparingNormal: false, preparingUpdate: false, updating: false, updated: false, preparingDelete: false,
	} {
		pod := podIn(state)
		if got := lifecycle.Available(pod); got != want {
			t.Errorf("state %q: Available = %v", state, got)
		}
		if n := testing.AllocsPerRun(10, func() { lifecycle.Available(pod) }); n != 0 {
			t.Errorf("state %q: %v allocations", state, n)
		}
	}
}

const (
	waitDelete   = "lifecycle.preDelete: finalizer example.io/delete is still on the pod"
	waitUpdate   = "lifecycle.inPlaceUpdate: finalizer example.io/update is still on the pod"
	waitUpdateL  = "lifecycle.inPlaceUpdate: label update=held is still on the pod"
	waitRestore  = "lifecycle.inPlaceUpdate: finalizer example.io/update is not on the pod yet"
	waitNormal   = "lifecycle.preNormal: finalizer example.io/normal is not on the pod yet"
	waitSchedule = "the pod is not scheduled yet"
	waitArrive   = "the update in place has not arrived in all containers"
	waitPull     = "the pod is pulled back from its deletion first"
)

// cell is what one intent answers in one state: with its hook on the pod whole, in part, gone, and removed from the
// spec.
type cell struct {
	state                       v1beta1.LifecycleState
	held, partly, gone, nothook lifecycle.Step
}

func step(state v1beta1.LifecycleState, wait string) lifecycle.Step {
	return lifecycle.Step{State: state, Wait: wait, ForHook: strings.HasPrefix(wait, "lifecycle.")}
}

func proceed(state v1beta1.LifecycleState) lifecycle.Step {
	return lifecycle.Step{State: state, Proceed: true}
}

func checkCells(t *testing.T, name string, cells []cell, intent func(*corev1.Pod, *v1beta1.Lifecycle) lifecycle.Step) {
	t.Helper()
	for _, c := range cells {
		for _, tt := range []struct {
			reason string
			held   []string
			l      *v1beta1.Lifecycle
			want   lifecycle.Step
		}{
			{"all hooks held", []string{"delete", "update", "normal"}, allHooks(), c.held},
			{"hooks held in part", []string{"delete/", "update/", "normal/"}, allHooks(), c.partly},
			{"hooks let go", nil, allHooks(), c.gone},
			{"hooks removed from the spec", []string{"delete", "update", "normal"}, nil, c.nothook},
			{"hooks emptied", []string{"delete", "update", "normal"},
				&v1beta1.Lifecycle{PreDelete: &v1beta1.LifecycleHook{}, InPlaceUpdate: &v1beta1.LifecycleHook{},
					PreNormal: &v1beta1.LifecycleHook{}}, c.nothook},
		} {
			if got := intent(podIn(c.state, tt.held...), tt.l); got != tt.want {
				t.Errorf("%s in %q, %s: %+v, want %+v", name, c.state, tt.reason, got, tt.want)
			}
		}
	}
}

func TestDelete(t *testing.T) {
	const label = "lifecycle.preDelete: label delete=held is still on the pod"
	var cells []cell
	for _, state := range []v1beta1.LifecycleState{none, "Dancing", normal, preparingNormal, preparingUpdate, updating,
		updated} {
		cells = append(cells, cell{state, step(preparingDelete, waitDelete), step(preparingDelete, label), proceed(""),
			proceed("")})
	}
	cells = append(cells, cell{preparingDelete, step("", waitDelete), step("", label), proceed(""), proceed("")})
	checkCells(t, "Delete", cells, lifecycle.Delete)
}

func TestUpdate(t *testing.T) {
	blocked, partly := step(preparingUpdate, waitUpdate), step(preparingUpdate, waitUpdateL)
	back := step(preparingNormal, waitPull)
	checkCells(t, "Update", []cell{
		{none, blocked, partly, proceed(updating), proceed("")},
		{"Dancing", blocked, partly, proceed(updating), proceed("")},
		{normal, blocked, partly, proceed(updating), proceed("")},
		{preparingNormal, blocked, partly, proceed(""), proceed(normal)},
		{preparingUpdate, step("", waitUpdate), step("", waitUpdateL), proceed(updating), proceed(normal)},
		{updating, blocked, partly, proceed(""), proceed(normal)},
		{updated, blocked, partly, proceed(updating), proceed(normal)},
		{preparingDelete, back, back, back, step(normal, waitPull)},
	}, lifecycle.Update)
	if got := lifecycle.Update(podIn(preparingNormal, "normal"), allHooks()); got != proceed(updating) {
		t.Errorf("a pod whose preNormal hook holds already: %+v", got)
	}
}

func TestKeep(t *testing.T) {
	stay := lifecycle.Step{}
	quiet := []cell{{none, stay, stay, stay, stay}, {"Dancing", stay, stay, stay, stay}, {normal, stay, stay, stay, stay}}
	for _, tt := range []struct {
		facts lifecycle.Facts
		cells []cell
	}{
		{lifecycle.Facts{Scheduled: true, InPlaceDone: true}, []cell{
			{preparingNormal, step(normal, ""), step("", waitNormal), step("", waitNormal), step(normal, "")},
			{preparingUpdate, step(normal, ""), step(updated, waitRestore), step(updated, waitRestore), step(normal, "")},
			{updating, step(normal, ""), step(updated, waitRestore), step(updated, waitRestore), step(normal, "")},
			{updated, step(normal, ""), step("", waitRestore), step("", waitRestore), step(normal, "")},
			{preparingDelete, step(preparingNormal, ""), step(preparingNormal, ""), step(preparingNormal, ""), step(normal, "")},
		}},
		{lifecycle.Facts{InPlaceDone: true}, []cell{
			{preparingNormal, step(normal, ""), step("", waitNormal), step("", waitNormal), step("", waitSchedule)},
		}},
		{lifecycle.Facts{Scheduled: true}, []cell{
			{preparingNormal, step(updating, ""), step("", waitNormal), step("", waitNormal), step(normal, "")},
			{preparingUpdate, step(updating, waitArrive), step(updating, waitArrive), step(updating, waitArrive),
				step(updating, waitArrive)},
			{updating, step("", waitArrive), step("", waitArrive), step("", waitArrive), step("", waitArrive)},
			{updated, step(normal, ""), step("", waitRestore), step("", waitRestore), step(normal, "")},
		}},
	} {
		checkCells(t, "Keep", append(tt.cells, quiet...), func(pod *corev1.Pod, l *v1beta1.Lifecycle) lifecycle.Step {
			return lifecycle.Keep(pod, l, tt.facts)
		})
	}
	onlyUpdate := &v1beta1.Lifecycle{InPlaceUpdate: hook("update")}
	if got := lifecycle.Keep(podIn(preparingDelete), onlyUpdate, lifecycle.Facts{Scheduled: true}); got != step(updating,
		"") {
		t.Errorf("pulled back in the middle of an update: %+v", got)
	}
}
