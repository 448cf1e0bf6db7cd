package lifecycle_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podready"
)

// Entries as others write them, with spaces, an unknown field, and signs that JSON encoders like to escape.
const (
	foreign    = `{"userAgent":"ContainerRecreateRequest","key":"shop/crr-1"}`
	odd        = `{ "key" : "a<b>&c", "userAgent":"Someone", "since": 1.50 }`
	ourDelete  = `{"userAgent":"Lifecycle","key":"preparingDelete"}`
	ourUpdate  = `{"userAgent":"Lifecycle","key":"preparingUpdate"}`
	oldUpdate  = `{"userAgent":"ContainerRecreateRequest","key":"preparingUpdate"}`
	unreadable = `kept out of traffic by hand`
)

func marking() *v1beta1.Lifecycle {
	l := allHooks()
	l.PreDelete.MarkPodNotReady, l.InPlaceUpdate.MarkPodNotReady = true, true
	return l
}

// gated gives the pod the gate, and the condition if status is not empty.
func gated(pod *corev1.Pod, status corev1.ConditionStatus, message string) *corev1.Pod {
	podready.InjectGate(&pod.Spec)
	if status != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			{Type: lifecycle.KruisePodReady, Status: status, Message: message}}
	}
	return pod
}

func TestMark(t *testing.T) {
	done := lifecycle.Facts{Scheduled: true, InPlaceDone: true}
	keep := func(pod *corev1.Pod, l *v1beta1.Lifecycle) lifecycle.Step { return lifecycle.Keep(pod, l, done) }
	running := func(pod *corev1.Pod, l *v1beta1.Lifecycle) lifecycle.Step {
		return lifecycle.Keep(pod, l, lifecycle.Facts{Scheduled: true})
	}
	yes, no := "True", "False"
	for _, tt := range []struct {
		reason          string
		intent          func(*corev1.Pod, *v1beta1.Lifecycle) lifecycle.Step
		l               *v1beta1.Lifecycle
		pod             *corev1.Pod
		status, message string // afterwards; empty status: the step changes nothing
	}{
		{"held for deletion", lifecycle.Delete, marking(), gated(podIn(normal, "delete"), "True", ""), no,
			"[" + ourDelete + "]"},
		{"held, by a hook that does not mark", lifecycle.Delete, allHooks(), gated(podIn(normal, "delete"), "True", ""), "",
			""},
		{"held, and without the gate", lifecycle.Delete, marking(), podIn(normal, "delete"), "", ""},
		{"held, and marked", lifecycle.Delete, marking(), gated(podIn(preparingDelete, "delete"), "False", "["+ourDelete+"]"),
			"", ""},
		{"the state was written, the mark was not", lifecycle.Delete, marking(),
			gated(podIn(preparingDelete, "delete"), "True", ""), no, "[" + ourDelete + "]"},
		{"held, and the gate was never opened", lifecycle.Delete, marking(), gated(podIn(normal, "delete"), "", ""), no,
			"[" + ourDelete + "]"},
		{"held beside others", lifecycle.Delete, marking(), gated(podIn(normal, "delete"), "False", "[ "+odd+","+foreign+"]"),
			no, "[" + odd + "," + foreign + "," + ourDelete + "]"},
		{"held, and somebody writes what nobody can read", lifecycle.Delete, marking(),
			gated(podIn(normal, "delete"), "False", unreadable), "", ""},
		{"held for an update, now for deletion", lifecycle.Delete, marking(),
			gated(podIn(preparingUpdate, "delete"), "False", "["+ourUpdate+"]"), no, "[" + ourDelete + "]"},
		{"the hook marks no longer", lifecycle.Delete, allHooks(),
			gated(podIn(preparingDelete, "delete"), "False", "["+ourDelete+","+odd+"]"), no, "[" + odd + "]"},
		{"deleted now", lifecycle.Delete, marking(), gated(podIn(preparingDelete), "False", "["+ourDelete+"]"), "", ""},
		{"held for an update", lifecycle.Update, marking(), gated(podIn(normal, "update"), "True", ""), no,
			"[" + ourUpdate + "]"},
		{"let go for the update: the mark stays", lifecycle.Update, marking(),
			gated(podIn(preparingUpdate), "False", "["+ourUpdate+"]"), "", ""},
		{"never held", lifecycle.Update, marking(), gated(podIn(normal), "True", ""), "", ""},
		{"while it is updated", running, marking(), gated(podIn(updating), "False", "["+ourUpdate+"]"), "", ""},
		{"updated", keep, marking(), gated(podIn(updating), "False", "["+ourUpdate+"]"), yes, ""},
		{"updated, marked by OpenKruise under another name", keep, marking(),
			gated(podIn(updating), "False", "["+oldUpdate+","+foreign+"]"), no, "[" + foreign + "]"},
		{"pulled back", keep, marking(), gated(podIn(preparingDelete), "False", "["+ourDelete+"]"), yes, ""},
		{"pulled back, all hooks gone", keep, nil, gated(podIn(preparingDelete), "False", "["+ourDelete+"]"), yes, ""},
		{"Normal with a mark left over", keep, nil, gated(podIn(normal), "False", "["+ourDelete+","+ourUpdate+"]"), yes, ""},
		{"new, and its gate was not opened", keep, nil, gated(podIn(normal), "", ""), yes, ""},
		{"an empty list that nobody opened", keep, nil, gated(podIn(normal), "False", "[]"), yes, ""},
		{"at rest", keep, marking(), gated(podIn(normal), "True", ""), "", ""},
		{"at rest after OpenKruise", keep, marking(), gated(podIn(normal), "True", "[]"), "", ""},
		{"somebody else holds it", keep, marking(), gated(podIn(normal), "False", "["+foreign+"]"), "", ""},
		{"somebody holds it by hand", keep, marking(), gated(podIn(normal), "False", ""), "", ""},
	} {
		step := tt.intent(tt.pod, tt.l)
		if step.NotReady == nil || tt.status == "" {
			if step.NotReady != nil || tt.status != "" {
				t.Errorf("%s: %+v, want status %q", tt.reason, step, tt.status)
			}
			continue
		}
		_, patch, err := lifecycle.Patch(tt.pod, step, now)
		if err != nil {
			t.Errorf("%s: %v", tt.reason, err)
			continue
		}
		got := condition(applied(t, tt.pod, patch))
		if string(got.Status) != tt.status || got.Message != tt.message {
			t.Errorf("%s: %s %s, want %s %s", tt.reason, got.Status, got.Message, tt.status, tt.message)
		}
	}
}

// applied returns the pod with the patch applied as an API server does.
func applied(t *testing.T, pod *corev1.Pod, patch []byte) *corev1.Pod {
	t.Helper()
	if patch == nil {
		return pod
	}
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, &corev1.Pod{})
	if err != nil {
		t.Fatalf("apply %s: %v", patch, err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(after, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func condition(pod *corev1.Pod) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == lifecycle.KruisePodReady {
			return c
		}
	}
	return corev1.PodCondition{}
}

func TestPatchGolden(t *testing.T) {
	versioned := gated(podIn(normal, "delete"), "True", "")
	versioned.ResourceVersion = "7"
	for _, tt := range []struct {
		reason           string
		pod              *corev1.Pod
		step             lifecycle.Step
		metadata, status string
	}{
		{"nothing", podIn(normal), lifecycle.Step{Proceed: true}, "", ""},
		{"a state", podIn(normal), lifecycle.Step{State: updating, Proceed: true},
			`{"metadata":{"annotations":{"lifecycle.apps.kruise.io/timestamp":"2026-01-02T03:04:05Z"},"labels":{"lifecycle.apps.kruise.io/state":"Updating"}}}`, ""},
		{"a state with which an update begins", versioned, lifecycle.Step{State: updating, Proceed: true},
			`{"metadata":{"annotations":{"lifecycle.apps.kruise.io/timestamp":"2026-01-02T03:04:05Z"},"labels":{"lifecycle.apps.kruise.io/state":"Updating"},"resourceVersion":"7"}}`, ""},
		{"a state and the mark", versioned, lifecycle.Delete(versioned, marking()),
			`{"metadata":{"annotations":{"lifecycle.apps.kruise.io/timestamp":"2026-01-02T03:04:05Z"},"labels":{"lifecycle.apps.kruise.io/state":"PreparingDelete"}}}`,
			`{"metadata":{"resourceVersion":"7"},"status":{"conditions":[{"lastTransitionTime":"2026-01-02T03:04:05Z","message":"[{\"userAgent\":\"Lifecycle\",\"key\":\"preparingDelete\"}]","status":"False","type":"KruisePodReady"}]}}`},
		{"the mark taken away", gated(podIn(normal), "False", "["+ourDelete+"]"), lifecycle.Step{NotReady: new(false)}, "",
			`{"status":{"conditions":[{"lastTransitionTime":"2026-01-02T03:04:05Z","message":null,"reason":null,"status":"True","type":"KruisePodReady"}]}}`},
		{"the mark taken away, another one stays", gated(podIn(normal), "False", "["+ourDelete+","+foreign+"]"),
			lifecycle.Step{NotReady: new(false)}, "",
			`{"status":{"conditions":[{"message":"[{\"userAgent\":\"ContainerRecreateRequest\",\"key\":\"shop/crr-1\"}]","status":"False","type":"KruisePodReady"}]}}`},
	} {
		metadata, status, err := lifecycle.Patch(tt.pod, tt.step, now)
		if err != nil || string(metadata) != tt.metadata || string(status) != tt.status {
			t.Errorf("%s: %v\n%s\n%s", tt.reason, err, metadata, status)
		}
	}
}

func TestPatchErrs(t *testing.T) {
	for _, tt := range []struct {
		reason string
		pod    *corev1.Pod
		want   string
	}{
		{"no gate", podIn(preparingDelete), "mark pod shop/web-a: it has no readiness gate KruisePodReady"},
		{"nothing to mark for", gated(podIn(normal), "True", ""), `mark pod shop/web-a: nothing holds it in state "Normal"`},
		{"a message of no list", gated(podIn(preparingDelete), "False", unreadable),
			"mark pod shop/web-a: read the message of condition KruisePodReady: invalid character 'k' looking for beginning " +
				"of value"},
	} {
		if _, _, err := lifecycle.Patch(tt.pod, lifecycle.Step{NotReady: new(true)}, now); err == nil ||
			err.Error() != tt.want {
			t.Errorf("%s: %v", tt.reason, err)
		}
	}
}

func TestInjectGateOnce(t *testing.T) {
	spec := corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1beta1.InPlaceUpdateReady}}}
	podready.InjectGate(&spec)
	podready.InjectGate(&spec)
	if len(spec.ReadinessGates) != 2 || spec.ReadinessGates[1].ConditionType != "KruisePodReady" {
		t.Errorf("gates %v", spec.ReadinessGates)
	}
}
