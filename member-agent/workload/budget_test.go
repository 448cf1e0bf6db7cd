package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
)

// TestOperationsOf: a controller asks as the guard would about the same request of a user.
func TestOperationsOf(t *testing.T) {
	pod := func(restart corev1.ResourceResizeRestartPolicy) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "web", Image: "web:1", ResizePolicy: []corev1.ContainerResizePolicy{
				{ResourceName: corev1.ResourceCPU, RestartPolicy: restart}}}},
		}}
	}
	cpu := inplace.Change{Resources: map[string]corev1.ResourceRequirements{
		"web": {Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}
	image := inplace.Change{Images: map[string]string{"web": "web:2"}}
	label := inplace.Change{Labels: map[string]*string{"a": new("b")}}
	marks := lifecycle.Step{NotReady: new(true)}
	preparing := lifecycle.Step{NotReady: new(true), State: v1beta1.LifecyclePreparingDelete}
	for name, row := range map[string]struct {
		work Work
		want policy.PubOperation
	}{
		"nothing":       {Work{}, ""},
		"a deletion":    {Work{Actions: Actions{Delete: []Removal{{Pod: pod(corev1.NotRequired)}}}}, "DELETE"},
		"another image": {Work{Actions: Actions{Update: []Update{{Pod: pod(corev1.NotRequired), Change: image}}}}, "UPDATE"},
		"a label":       {Work{Actions: Actions{Update: []Update{{Pod: pod(corev1.NotRequired), Change: label}}}}, ""},
		"a label, and not ready": {Work{Actions: Actions{Update: []Update{
			{Pod: pod(corev1.NotRequired), Change: label, Step: marks}}}}, "UPDATE"},
		"a resize": {Work{Actions: Actions{Update: []Update{{Pod: pod(corev1.NotRequired), Change: cpu}}}}, "RESIZE"},
		"a resize that restarts": {Work{Actions: Actions{Update: []Update{
			{Pod: pod(corev1.RestartContainer), Change: cpu}}}}, "UPDATE"},
		"a preparation": {Work{Actions: Actions{Prepare: []Preparation{{Pod: pod("")}}}}, ""},
		"a preparation for removal": {Work{Actions: Actions{Prepare: []Preparation{
			{Pod: pod(""), Step: preparing}}}}, "DELETE"},
		"a preparation for update": {Work{Actions: Actions{Prepare: []Preparation{
			{Pod: pod(""), Step: marks}}}}, "UPDATE"},
	} {
		got := operationsOf(row.work)
		if row.want == "" && len(got) == 0 || len(got) == 1 && len(got[row.want]) == 1 {
			continue
		}
		t.Errorf("%s: %v, want %s", name, got, row.want)
	}
}

// TestReplacements: a pod that is missing is created though others stay whose replacements are planned for later.
func TestReplacements(t *testing.T) {
	for _, row := range []struct{ n, later, stay, want int }{
		{3, 0, 0, 3}, {3, 0, 2, 1}, {3, 0, 5, 0}, {1, 2, 2, 1}, {1, 2, 3, 0}, {0, 3, 1, 0}, {2, 5, 0, 2},
	} {
		if got := replacements(row.n, row.later, row.stay); got != row.want {
			t.Errorf("%+v: %d", row, got)
		}
	}
}
