package cloneset

import (
	"testing"

	"k8s.io/client-go/tools/events"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Pods that go back to the old revision are told to have gone there.
func TestEventsNameTheRevisionOfThePods(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	s := &scope{pass: &pass{Object: &v1beta1.CloneSet{}}}
	s.facts.Update = workload.Revision{Revision: inplace.Revision{Name: "web-new"}}
	s.plan.Update = []workload.Update{{To: inplace.Revision{Name: "web-old"}}, {To: inplace.Revision{Name: "web-old"}}}
	s.done.Updated = 2
	(&Reconciler{Controller: &workload.Controller[*v1beta1.CloneSet, memory]{Events: recorder}}).Record(s.pass, s.done,
		s.plan.Actions)
	if got, want := <-recorder.Events, "Normal SuccessfulUpdatePodInPlace updated 2 pods in place to web-old"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}
