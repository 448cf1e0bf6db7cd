package waves

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func TestStepsOfAWorkloadAreThoseOfAPolicy(t *testing.T) {
	spec := &apps.FlotillaSpec{Steps: []apps.UpdateStep{{Partition: intstr.FromString("50%"), Soak: "10m", Timeout: "1h",
		Approval: apps.StepRequired}, {Partition: intstr.FromInt32(1)}}}
	want := []topology.RolloutStep{{Partition: intstr.FromString("50%"), Soak: "10m", Timeout: "1h",
		Approval: topology.ApprovalRequired}, {Partition: intstr.FromInt32(1)}}
	if diff := cmp.Diff(want, StepsOf(spec)); diff != "" {
		t.Error(diff)
	}
	if got := StepsOf(nil); got != nil {
		t.Errorf("%v without steps", got)
	}
}

func TestProgressIsReadAsItWasWritten(t *testing.T) {
	at := func(minutes int) metav1.Time { return metav1.NewTime(start.Add(time.Duration(minutes) * time.Minute)) }
	settled, watched := at(2), at(3)
	p := &topology.WaveProgress{Number: 2, Of: 3, Name: "50%", Since: at(1), Steps: true, From: "db-1", Settled: &settled,
		Watched: &watched, Held: true, Failed: &topology.WaveFailed{At: at(4), Message: "too late"}}
	status := WriteProgress(p, "db-2", &apps.UpdateProgress{Revision: "db-2", Began: at(0)})
	got, sequence := ReadProgress(status)
	if diff := cmp.Diff(p, got); diff != "" || sequence != start.Unix() {
		t.Errorf("sequence %d: %s", sequence, diff)
	}
	if next := WriteProgress(p, "db-3", status); next.Began != p.Since {
		t.Errorf("the next update began at %s", next.Began)
	}
	if got, _ := ReadProgress(nil); got != nil || WriteProgress(nil, "db-2", status) != nil {
		t.Errorf("%v without progress", got)
	}
}
